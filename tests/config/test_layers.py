"""Layers: defaults < base < file < command line, by one typed reader, each value with its place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgrl_cli.config import Config, ConfigError
from pgrl_cli.config.layers import DEEPEST_BASE, layers_from, layers_of
from pgrl_cli.config.shipped import shipped_folder
from pgrl_cli.resolution import Resolved, resolve

Resolve = Callable[..., Resolved]
Problems = Callable[..., list[str]]


def refused(config: str, overrides: list[str], folder: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(layers_of(config, overrides, folder))
    return [str(problem) for problem in caught.value.problems]


def test_the_command_line_wins_over_the_file_the_file_over_its_base_the_base_over_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("seed: 1\nepochs: 11\nsteps_per_epoch: 21\n")
    (tmp_path / "high.yaml").write_text("base: low.yaml\nepochs: 12\nsteps_per_epoch: 22\n")
    config = resolve(layers_of("high.yaml", ["steps_per_epoch=23"], tmp_path)).config
    default = Config.model_fields["num_responses"].default
    assert (config.num_responses, config.seed, config.epochs, config.steps_per_epoch) == (default, 1, 12, 23)


def test_the_order_of_the_line_base_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("seed: 1\n")
    (tmp_path / "high.yaml").write_text("seed: 2\nbase: low.yaml\n")
    assert resolve(layers_of("high.yaml", [], tmp_path)).config.seed == 2


def test_a_base_is_found_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "low.yaml").write_text("seed: 1\n")  # a decoy: beside nothing that names it
    (tmp_path / "sub" / "low.yaml").write_text("seed: 2\n")
    (tmp_path / "sub" / "deep" / "high.yaml").write_text("base: ../low.yaml\n")
    assert resolve(layers_of("sub/deep/high.yaml", [], tmp_path)).config.seed == 2


@pytest.mark.parametrize("name", ["lecture/two_state", "lecture/two_state.yaml"])
def test_a_base_may_be_a_shipped_name(resolved: Resolve, name: str) -> None:
    config = resolved(f"base: {name}\nseed: 77\n").config
    assert (config.task, config.seed) == ("two_state", 77)


def test_a_base_that_is_missing_is_told_at_its_line_with_the_nearest_name(problems: Problems) -> None:
    (problem,) = problems("seed: 1\nbase: lecture/two_stat\n")
    assert problem.startswith("mine.yaml:2: base: lecture/two_stat: there is no such file")
    assert problem.endswith("Did you mean 'lecture/two_state'?")


@pytest.mark.parametrize("value", ["5", "[a]", "{a: 1}", "null", "true"])
def test_a_base_that_is_no_name_is_told_at_its_line(problems: Problems, value: str) -> None:
    (problem,) = problems(f"seed: 1\nbase: {value}\n")
    assert problem.startswith("mine.yaml:2: base: came ")
    assert problem.endswith("it must name a config")


def test_a_base_that_is_missing_does_not_hide_the_files_other_mistakes(problems: Problems) -> None:
    told = problems("base: nothing_of_that_name\nepohcs: 3\nseed: -1\n")
    assert [line.partition(": ")[0] for line in told] == ["mine.yaml:1", "mine.yaml:2", "mine.yaml:3"]


@pytest.mark.parametrize(
    "files",
    [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}],
    ids=["itself", "a circle of two", "a circle further down"],
)
def test_configs_that_build_on_each_other_in_a_circle_are_refused(tmp_path: Path, files: dict[str, str]) -> None:
    for name, base in files.items():
        (tmp_path / f"{name}.yaml").write_text(f"base: {base}.yaml\nseed: 1\n")
    (problem,) = refused("a.yaml", [], tmp_path)
    assert "builds on itself" in problem


def test_a_circle_by_way_of_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: b.yaml\n")
    (tmp_path / "b.yaml").symlink_to(tmp_path / "a.yaml")
    (problem,) = refused("a.yaml", [], tmp_path)
    assert "builds on itself" in problem


def test_two_files_may_build_on_one_base(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("seed: 1\n")
    (tmp_path / "middle.yaml").write_text("base: low.yaml\nepochs: 3\n")
    (tmp_path / "high.yaml").write_text("base: middle.yaml\nsteps_per_epoch: 4\n")
    config = resolve(layers_of("high.yaml", [], tmp_path)).config
    assert (config.seed, config.epochs, config.steps_per_epoch) == (1, 3, 4)


def test_a_tower_of_bases_ends_and_is_not_called_a_circle(tmp_path: Path) -> None:
    for floor in range(DEEPEST_BASE + 2):
        (tmp_path / f"{floor}.yaml").write_text(f"base: '{floor + 1}.yaml'\n")
    (tmp_path / f"{DEEPEST_BASE + 2}.yaml").write_text("seed: 3\n")
    (problem,) = refused("0.yaml", [], tmp_path)
    assert "itself" not in problem


def test_mistakes_in_a_base_are_told_with_the_bases_name_and_line(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("# low\nepochs: 0\n")
    (tmp_path / "high.yaml").write_text("base: low.yaml\nlr: 1\n")
    told = refused("high.yaml", [], tmp_path)
    assert len(told) == 2
    assert f"{tmp_path / 'low.yaml'}:2: epochs: came 0" in "\n".join(told)
    assert "high.yaml:2: unknown key 'lr': here it is spelled 'learning_rate'" in told


def test_a_value_that_a_higher_layer_replaces_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("epochs: 0\n")
    (tmp_path / "high.yaml").write_text("base: low.yaml\nepochs: 3\n")
    assert resolve(layers_of("high.yaml", [], tmp_path)).config.epochs == 3


def test_a_config_is_named_by_its_file_unless_it_says_otherwise(resolved: Resolve) -> None:
    assert resolved("seed: 1\n").config.name == "mine"
    assert resolved("name: no\n").config.name == "no"
    assert resolved("seed: 1\n", "name=12:30").config.name == "12:30"


def test_yaml_may_be_left_out_of_a_files_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("seed: 3\n")
    assert resolve(layers_of("mine", [], tmp_path)).config.seed == 3


def test_a_file_goes_before_a_shipped_config_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "lecture").mkdir()
    (tmp_path / "lecture" / "two_state.yaml").write_text("seed: 99\n")
    assert resolve(layers_of("lecture/two_state", [], tmp_path)).config.seed == 99
    assert resolve(layers_of("lecture/two_state", [], shipped_folder())).config.seed != 99


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("learning_rate=1e-3", "learning_rate", 1e-3),
        ("learning_rate=.5", "learning_rate", 0.5),
        ("learning_rate=1", "learning_rate", 1.0),
        ("epochs=0x10", "epochs", 16),
        ("name=no", "name", "no"),
        ("name=2026-11-30", "name", "2026-11-30"),
        ("name='5'", "name", "5"),
        ("name='#1'", "name", "#1"),
        ("name=a=b", "name", "a=b"),
        ("name=é→🎉", "name", "é→🎉"),
        ("prompts=[[1, 2], [3, 0]]", "prompts", [[1, 2], [3, 0]]),
        ("prompts_per_epoch=null", "prompts_per_epoch", None),
        ("reward_fn={sort_exact_reward: 2}", "reward_fn", {"sort_exact_reward": 2.0}),
        ("seed=7 # as in the lecture", "seed", 7),
    ],
)
def test_an_override_is_read_as_the_file_is(value_of: Callable[..., Any], override: str, key: str, value: Any) -> None:
    from_override = value_of(key, "steps_per_epoch: 2\n", override)
    name, _, written = override.partition("=")
    assert from_override == value == value_of(key, f"{name}: {written}\n")
    assert type(from_override) is type(value)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("epochs", "command line: epochs: is not KEY=VALUE, such as epochs=50"),
        ("=5", "command line: =5: is not KEY=VALUE, such as epochs=50"),
        ("epochs: 5", "command line: epochs: 5: is not KEY=VALUE, such as epochs=50"),
        ("--epochs=5", "command line: --epochs=5: is not KEY=VALUE, such as epochs=50"),
        ("epochs=", "command line: epochs=: has no value; write null for none"),
        ("name=#1", "command line: name=#1: has no value; write null for none, quotes around text with '#'"),
        ("epohcs=5", "command line: epohcs=5: unknown key 'epohcs'. Did you mean 'epochs'?"),
        ("Epochs=5", "command line: Epochs=5: unknown key 'Epochs'. Did you mean 'epochs'?"),
        ("kl-coefficient=0.1", "Did you mean 'kl_coefficient'?"),
        ("lr=1", "command line: lr=1: unknown key 'lr': here it is spelled 'learning_rate'"),
        ("rollout.n=8", "command line: rollout.n=8: unknown key 'rollout.n': here it is spelled 'num_responses'"),
        ("epochs=2.5", "command line: epochs=2.5: came 2.5; expected a whole number from 1"),
        ("epochs=true", "command line: epochs=true: came true (a boolean); expected a whole number"),
        ("epochs=[1", "command line: epochs=[1: is not valid YAML: "),
        ("epochs=!!int 5", "command line: epochs=!!int 5: the tag 'tag:yaml.org,2002:int' is not read here"),
        ("prompts_per_epoch=None", "command line: prompts_per_epoch=None: came 'None' (text)"),
        ("base=lecture/two_state", "command line: base=lecture/two_state: base belongs in a file"),
        ("epochs.more=5", "command line: epochs.more=5: unknown key 'epochs.more': epochs is not a map"),
        ("reward_fn.sort_exact_reward=1", "command line: reward_fn.sort_exact_reward=1: reward_fn is"),
    ],
)
def test_an_override_that_cannot_be_is_told_as_it_was_typed(problems: Problems, override: str, told: str) -> None:
    (problem,) = problems("steps_per_epoch: 2\n", override)
    assert told in problem
    assert problem.startswith(f"command line: {override}: ")


def test_an_override_given_twice_is_refused(problems: Problems) -> None:
    (problem,) = problems("seed: 1\n", "epochs=3", "epochs=4")
    assert problem == "command line: epochs=4: epochs is given twice"


def test_mistakes_of_the_file_and_of_the_command_line_are_told_together(problems: Problems) -> None:
    told = problems("epochs: 0\nlr: 1\n", "seed=-1", "epochs", "wdith=3")
    assert len(told) == 5


def test_mistakes_of_the_command_line_are_told_beside_a_missing_file(tmp_path: Path) -> None:
    assert len(refused("nothing.yaml", ["epohcs=3"], tmp_path)) == 2


def test_a_dotted_override_turns_one_weight_of_a_reward_map(resolved: Resolve) -> None:
    text = "reward_fn: {sort_exact_reward: 1, sort_distance_reward: 2}\n"
    config = resolved(text, "reward_fn.sort_exact_reward=0.5").config
    assert config.reward_fn == {"sort_exact_reward": 0.5, "sort_distance_reward": 2.0}
    config = resolved(text, "reward_fn.sort_inclusion_ordering_reward=1e-1").config
    assert config.reward_fn == {
        "sort_exact_reward": 1.0,
        "sort_distance_reward": 2.0,
        "sort_inclusion_ordering_reward": 0.1,
    }


def test_a_dotted_override_of_the_map_in_a_base_keeps_the_other_weights(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("reward_fn: {sort_exact_reward: 1, sort_distance_reward: 2}\n")
    (tmp_path / "high.yaml").write_text("base: low.yaml\n")
    config = resolve(layers_of("high.yaml", ["reward_fn.sort_exact_reward=3"], tmp_path)).config
    assert config.weights() == {"sort_exact_reward": 3.0, "sort_distance_reward": 2.0}


def test_a_dotted_override_turns_the_map_of_its_own_command_line_whatever_their_order(resolved: Resolve) -> None:
    words = ["reward_fn.sort_exact_reward=2", "reward_fn={sort_exact_reward: 1, sort_distance_reward: 3}"]
    for overrides in (words, words[::-1]):
        assert resolved("seed: 1\n", *overrides).config.weights() == {
            "sort_exact_reward": 2.0,
            "sort_distance_reward": 3.0,
        }


def test_a_dotted_override_with_a_misspelt_name_is_told_with_the_nearest(problems: Problems) -> None:
    (problem,) = problems("reward_fn: {sort_exact_reward: 1}\n", "reward_fn.sort_distanc_reward=1")
    assert problem.startswith("command line: reward_fn.sort_distanc_reward=1: reward_fn: came 'sort_distanc_reward'")
    assert problem.endswith("Did you mean 'sort_distance_reward'?")


def test_a_misspelt_name_in_the_files_map_is_not_blamed_on_a_dotted_override(problems: Problems) -> None:
    (problem,) = problems("seed: 1\nreward_fn:\n  sort_distanc_reward: 1\n", "reward_fn.sort_exact_reward=1")
    assert problem.startswith("mine.yaml:3: reward_fn: came 'sort_distanc_reward'")


def test_a_dotted_override_does_not_reach_into_a_single_word(problems: Problems) -> None:
    (problem,) = problems("reward_fn: sort_exact_reward\n", "reward_fn.sort_exact_reward=1")
    assert "the single word 'sort_exact_reward'" in problem


def test_a_dotted_key_in_a_file_is_told_how_to_write_it(problems: Problems) -> None:
    (problem,) = problems("seed: 1\nreward_fn.sort_exact_reward: 0.5\n")
    assert problem.startswith("mine.yaml:2: unknown key 'reward_fn.sort_exact_reward': ")
    assert "write reward_fn: {sort_exact_reward: …}" in problem


def test_a_path_in_an_override_is_relative_to_where_one_stands(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "points.py").write_text("def here(prompt, response): return 1\n")
    (tmp_path / "sub" / "points.py").write_text("def there(prompt, response): return 1\n")
    (tmp_path / "sub" / "mine.yaml").write_text("reward_fn: points.py:there\n")
    config = resolve(layers_of("sub/mine.yaml", [], tmp_path)).config
    assert config.sources == {"points.py:there": tmp_path.resolve() / "sub" / "points.py"}
    config = resolve(layers_of("sub/mine.yaml", ["reward_fn=points.py:here"], tmp_path)).config
    assert config.sources == {"points.py:here": tmp_path.resolve() / "points.py"}


def test_a_path_in_a_base_is_relative_to_the_base(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "points.py").write_text("def there(prompt, response): return 1\n")
    (tmp_path / "sub" / "low.yaml").write_text("reward_fn: points.py:there\n")
    (tmp_path / "high.yaml").write_text("base: sub/low.yaml\n")
    config = resolve(layers_of("high.yaml", [], tmp_path)).config
    assert config.sources == {"points.py:there": tmp_path.resolve() / "sub" / "points.py"}


def test_a_mapping_makes_layers_as_a_file_does(tmp_path: Path) -> None:
    config = resolve(layers_from({"epochs": 3, "loss_mode": "clipped", "clip_epsilon": 0.1}, "notebook")).config
    assert (config.name, config.epochs, config.knobs["clip_epsilon"]) == ("notebook", 3, 0.1)
    with pytest.raises(ConfigError, match=r"^notebook: unknown key 'epohcs'\. Did you mean 'epochs'\?$"):
        resolve(layers_from({"epohcs": 3}, "notebook"))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("lecture/two_stat", "lecture/two_stat: there is no such file, nor a shipped config of that name. Did you"),
        ("configs/lecture/two_stat.yaml", "Did you mean 'lecture/two_state'?"),
        ("xyzzy", "xyzzy: there is no such file, nor a shipped config of that name. `pgrl config ls` lists"),
        (".", ".: is a folder, not a config"),
        ("", ": is a folder, not a config"),
        ("a\0b", "there is no such file"),
    ],
)
def test_a_config_that_cannot_be_found_is_told_with_the_nearest(tmp_path: Path, name: str, told: str) -> None:
    (problem,) = refused(name, [], tmp_path)
    assert told in problem


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "mine.yaml: is empty; a config is a map of keys to values, such as epochs: 100"),
        (b"\n# nothing\n", "mine.yaml: is empty; a config is a map"),
        (b"null\n", "mine.yaml: is empty; a config is a map"),
        (b"- epochs\n", "mine.yaml: is a list; a config is a map"),
        (b"epochs 5\n", "mine.yaml: is a single value; a config is a map"),
        (b"5\n", "mine.yaml: is a single value; a config is a map"),
    ],
)
def test_a_file_that_is_no_map_is_told_what_a_config_is(problems: Problems, content: bytes, told: str) -> None:
    (problem,) = problems(content)
    assert problem.startswith(told)


def test_an_empty_map_is_the_default_experiment(resolved: Resolve) -> None:
    assert resolved("{}\n").config.epochs == Config.model_fields["epochs"].default
