"""Seeds as people write them: a range is a list, and a mistake is told by its element."""

import pytest

from pgrl_cli.config import ConfigError
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.seed_words import seeds_written_out, wrong_with_seeds
from pgrl_cli.resolution import resolve
from pgrl_cli.words import written


def test_a_range_is_the_list_of_its_seeds_first_and_last_included() -> None:
    assert seeds_written_out("1000..1003") == [1000, 1001, 1002, 1003]
    assert seeds_written_out(" 7 .. 7 ") == [7]
    assert [seeds_written_out(other) for other in (3, [1], "3..1", "1-3", None)] == [3, [1], "3..1", "1-3", None]


def test_a_range_in_a_config_is_written_out_as_a_list() -> None:
    config = resolve(layers_of("lecture/centered_naive", ["seeds=5..7"])).config
    assert config.run_seeds == (5, 6, 7)
    assert "seeds: [5, 6, 7]" in written(config)


@pytest.mark.parametrize(
    ("seeds", "told"),
    [
        ([-1, 2], "element 1 came -1; a seed is a whole number from 0"),
        ([3, 2**63], f"element 2 came {2**63}; a seed is a whole number up to {2**63 - 1} (2^63 - 1)"),
        ([3, 1.0], "element 2 came 1.0; a seed is a whole number from 0; write 1"),
        ([3, 1.5], "element 2 came 1.5; a seed is a whole number from 0"),
        (["1..3"], "element 1 came '1..3' (text); a seed is a whole number: a range stands alone, without brackets: "),
        ("1000-1127", "came '1000-1127' (text); write 1000..1127 for all from 1000 to 1127"),
        ("0,1,2", "came '0,1,2' (text); write brackets: '[0, 1, 2]'"),
        ("5..3", "came 5..3, which ends before it begins; write 3..5"),
        ("0..100000", "came 0..100000, which are 100001 seeds; 100000 are the most"),
    ],
)
def test_what_is_wrong_is_told_with_how_to_write_it(seeds: object, told: str) -> None:
    assert str(wrong_with_seeds(seeds)).startswith(told)


def test_what_is_wrong_is_told_where_it_was_written() -> None:
    with pytest.raises(ConfigError, match=r"^command line: seeds=\[-1,2\]: element 1 came -1"):
        resolve(layers_of("lecture/centered_naive", ["seeds=[-1,2]"]))
