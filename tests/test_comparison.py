"""Whether B is better than A: hand-worked, over common seeds, in a sentence that claims no more than it can."""

from pathlib import Path

import pytest
from by_hand import rewards, run_folder, sweep_folder

from pgrl_cli.comparison import compared
from pgrl_cli.config import ConfigError
from pgrl_cli.folders import Found
from pgrl_cli.results import read


def answer(folder: Path, a, b, metric="mean_reward", over="last_1_epochs", seeds_a=None, seeds_b=None, **more):
    """A comparison of two stacked runs of one epoch."""
    results = []
    for name, values, seeds in (("a", a, seeds_a), ("b", b, seeds_b)):
        where = folder / name
        run_folder(where, seeds or list(range(len(values))), {metric: [values]}, **more)
        results.append([read(Found(where), metric)])
    return compared(*results, metric, over, ("A", "B"))


def test_the_numbers_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    told = answer(tmp_path, [1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 5.0, 3.0])
    assert told.numbers.difference == 0.5  # of 1, 0, 2, -1
    assert told.numbers.probability_of_improvement == 0.625  # two better, one level
    assert (told.numbers.n, told.numbers.ties, told.mean_a, told.mean_b) == (4, 1, 2.5, 3.0)


def test_a_clear_difference_is_a_plain_sentence(tmp_path: Path) -> None:
    told = answer(tmp_path, [1.0] * 8, [1.4, 1.5, 1.6, 1.5, 1.4, 1.6, 1.5, 0.9])
    assert told.sentence().startswith("B ends 0.42 higher [0.2")
    assert told.sentence().endswith(", better in 88 % of 8 seeds.")


def test_lower_is_told_with_the_interval_turned(tmp_path: Path) -> None:
    sentence = answer(tmp_path, [1.5, 1.6, 1.4, 1.5, 1.6], [1.0] * 5).sentence()
    assert sentence.startswith("B ends 0.52 lower [0.4")
    assert sentence.endswith("better in 0 % of 5 seeds.")


def test_an_interval_around_nothing_is_no_clear_difference(tmp_path: Path) -> None:
    sentence = answer(tmp_path, [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 1.0, 4.0, 3.0, 5.1]).sentence()
    assert sentence.startswith("No clear difference: B ends 0.02 higher [-")


def test_equal_runs_are_level(tmp_path: Path) -> None:
    assert answer(tmp_path, [1.0, 2.0], [1.0, 2.0]).sentence() == "No difference: all 2 seeds are level."


def test_level_seeds_are_counted_by_themselves(tmp_path: Path) -> None:
    sentence = answer(tmp_path, [1.0] * 6, [1.0, 2.0, 2.0, 2.0, 2.0, 2.0]).sentence()
    assert sentence.endswith("better in 5 of 6 seeds, worse in 0, equal to the last bit in 1.")


def test_all_is_said_of_all_alone(tmp_path: Path) -> None:
    almost = [2.0] * 299 + [0.5]
    assert "better in 99 % of 300 seeds" in answer(tmp_path, [1.0] * 300, almost).sentence()


def test_one_seed_says_next_to_nothing_and_a_few_are_few(tmp_path: Path) -> None:
    one = answer(tmp_path / "one", [1.0], [2.0]).sentence()
    assert one == "B ends 1.00 higher, on 1 seed: that says next to nothing."
    assert answer(tmp_path / "three", [1.0] * 3, [2.0, 2.1, 2.2]).sentence().endswith("of 3 seeds. 3 seeds are few.")


def test_a_small_difference_has_the_digits_that_tell(tmp_path: Path) -> None:
    sentence = answer(tmp_path, [0.0] * 5, [0.001, 0.002, 0.003, 0.002, 0.001]).sentence()
    assert sentence.startswith("B ends 0.0018 higher [0.00")


def test_of_a_loss_it_is_said_which_is_higher_and_not_which_is_better(tmp_path: Path) -> None:
    assert "higher in 100 % of 5 seeds" in answer(tmp_path, [0.0] * 5, [1.0, 1.1, 1.2, 1.3, 1.4], "loss").sentence()
    match = answer(tmp_path / "match", [0.0] * 5, [1.0, 1.1, 1.2, 1.3, 1.4], "reward/mine.py:points")
    assert "better in 100 % of 5 seeds" in match.sentence()


def test_the_sentence_says_what_was_compared(tmp_path: Path) -> None:
    assert answer(tmp_path / "x", [1.0] * 2, [2.0] * 2, over="best_epoch").sentence().startswith("B is, at its best, 1")
    assert (
        answer(tmp_path / "y", [1.0] * 2, [2.0] * 2, over="all_epochs").sentence().startswith("B is, over all epochs")
    )


def test_seeds_that_only_one_side_has_are_left_out_and_named(tmp_path: Path) -> None:
    told = answer(tmp_path, [1.0, 9.0], [5.0, 2.0], seeds_a=[0, 1], seeds_b=[7, 0])
    assert (told.common, told.apart) == ((0,), (1, 7))
    assert told.numbers.difference == 1.0


def test_a_failed_seed_is_a_pair_left_out_of_the_means_too(tmp_path: Path) -> None:
    rewards(tmp_path / "a", [0, 1, 2], [[1.0, 1.0, 7.0]])
    rewards(tmp_path / "b", [0, 1, 2], [[2.0, 2.0, None]], failed=[2])
    results = [[read(Found(tmp_path / name), "mean_reward")] for name in ("a", "b")]
    told = compared(*results, "mean_reward", "last_10_epochs", ("A", "B"))
    assert (told.numbers.n, told.numbers.left_out, told.mean_a, told.mean_b) == (2, 1, 1.0, 2.0)


def test_single_runs_of_one_config_are_one_side(tmp_path: Path) -> None:
    for seed in range(3):
        rewards(tmp_path / "a" / str(seed), seed, [1.0])
        rewards(tmp_path / "b" / str(seed), seed, [2.0 + seed], learning_rate=0.1)
    sides = [[read(Found(tmp_path / side / str(seed)), "mean_reward") for seed in range(3)] for side in "ab"]
    assert compared(*sides, "mean_reward", "last_10_epochs", ("A", "B")).numbers.difference == 2.0


def test_no_common_seed_is_an_error_that_says_what_is_possible(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"A has 0, 1; B has 5, 6.*seeds=32.*pgrl plot --kind final A B"):
        answer(tmp_path, [1.0, 2.0], [1.0, 2.0], seeds_a=[0, 1], seeds_b=[5, 6])


def test_a_side_of_two_experiments_is_an_error_that_says_in_what_they_differ(tmp_path: Path) -> None:
    rewards(tmp_path / "a", 0, [1.0], learning_rate=0.1)
    rewards(tmp_path / "b", 0, [1.0], learning_rate=0.2)
    results = [read(Found(tmp_path / name), "mean_reward") for name in ("a", "b")]
    with pytest.raises(ConfigError, match="holds 2 experiments, which differ in learning_rate"):
        compared(results, results, "mean_reward", "last_10_epochs", ("A", "B"))


def test_nothing_to_compare_is_no_number_in_json(tmp_path: Path) -> None:
    rewards(tmp_path / "a", [0, 1], [[1.0, 2.0]], status="failed")
    rewards(tmp_path / "b", [0, 1], [[1.0, 2.0]])
    results = [[read(Found(tmp_path / name), "mean_reward")] for name in ("a", "b")]
    told = compared(*results, "mean_reward", "last_10_epochs", ("A", "B")).as_json()
    assert (told["n"], told["difference"], told["probability_interval"]) == (0, None, [None, None])
    assert told["sentence"].startswith("No seed has a value of mean_reward on both sides")


def test_what_changes_the_measure_is_told_and_all_that_differs_is_in_the_json(tmp_path: Path) -> None:
    rewards(tmp_path / "a", [0, 1], [[1.0, 2.0]], reward_fn="one", epochs=10, clip_epsilon=0.1)
    rewards(tmp_path / "b", [0, 1], [[2.0, 4.0]], reward_fn={"two": 1.0}, epochs=20)
    results = [[read(Found(tmp_path / name), "mean_reward")] for name in ("a", "b")]
    told = compared(*results, "mean_reward", "last_10_epochs", ("A", "B"))
    scale, length = told.notes()
    assert scale == "A and B differ in reward_fn (one and {two:1}): their mean_reward is not on one scale"
    assert length == "A and B differ in epochs (10 and 20): they did not end after equally many steps"
    assert told.as_json()["differ"] == {
        "reward_fn": {"a": "one", "b": {"two": 1.0}},
        "epochs": {"a": 10, "b": 20},
        "clip_epsilon": {"a": 0.1, "b": None},
    }


@pytest.mark.parametrize(
    ("metric", "key", "on_one_scale"),
    [
        ("exact_match", "reward_fn", True),
        ("exact_match", "prompts", False),
        ("mean_reward", "task", False),
        ("mean_reward", "reward_scale", True),
        ("shaped_reward", "reward_scale", False),
        ("kl", "reward_fn", True),
    ],
)
def test_a_metric_is_on_one_scale_where_what_it_measures_is_the_same(
    tmp_path: Path, metric: str, key: str, on_one_scale: bool
) -> None:
    for name in ("a", "b"):
        run_folder(tmp_path / name, [0, 1], {metric: [[1.0, 2.0]]}, **{key: name})
    results = [[read(Found(tmp_path / name), metric)] for name in ("a", "b")]
    told = compared(*results, metric, "last_10_epochs", ("A", "B"))
    assert (list(told.notes()) == []) is on_one_scale


def test_no_zero_has_a_sign(tmp_path: Path) -> None:
    sentence = answer(tmp_path, [0.0] * 6, [-0.015, -0.01, 0.0001, 0.0001, -0.003, -0.001]).sentence()
    assert "-0.000" not in sentence
    assert "[0.000" in sentence


def test_who_is_left_out_is_told_by_why(tmp_path: Path) -> None:
    rewards(tmp_path / "a", [0, 1, 2, 3], [[1.0, 1.0, None, 7.0]])
    rewards(tmp_path / "b", [0, 1, 2, 4], [[2.0, None, 3.0, 7.0]], failed=[1])
    results = [[read(Found(tmp_path / name), "mean_reward")] for name in ("a", "b")]
    assert list(compared(*results, "mean_reward", "last_10_epochs", ("A", "B")).notes()) == [
        "not on both sides, and left out: seed 3, 4",
        "ended early on a side, and left out: seed 1",
        "no finite number of mean_reward on a side, and left out: seed 2",
    ]


def test_a_sweep_as_one_side_is_told_by_its_swept_keys(tmp_path: Path) -> None:
    parameters = [{"loss_mode": "naive"}, {"loss_mode": "clipped"}]
    sides = []
    for cell, values in zip(sweep_folder(tmp_path / "sweep", parameters), parameters, strict=True):
        more = {"clip_epsilon": 0.2} if values["loss_mode"] == "clipped" else {}
        rewards(cell, [0, 1], [[1.0, 2.0]], **values, **more)
        sides.append(read(Found(cell, values), "mean_reward"))
    with pytest.raises(ConfigError, match="holds 2 experiments, which differ in loss_mode; name one"):
        compared(sides, sides, "mean_reward", "last_10_epochs", ("A", "B"))
