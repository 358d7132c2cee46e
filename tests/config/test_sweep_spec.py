"""Sweeps as they are written: cells and their order, draws, the command line, mistakes with their lines, sweep.yaml."""

import math
import re
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrl_cli import draws
from pgrl_cli.config import KEYS, ConfigError, yaml12
from pgrl_cli.config.sweep_cells import MORTAL, NUMBERS, WORDS
from pgrl_cli.config.sweep_spec import Cell, Metric, Spec, differences, folder_name, label_of, read_sweep
from pgrl_cli.config.sweep_texts import sameness
from pgrl_cli.config.sweep_typed import split
from pgrl_cli.config.sweep_words import OTHER_SWEEP_WORDS, OWN_KEYS, meant
from pgrl_cli.dead_keys import DEAD
from pgrl_cli.planning import planned
from pgrl_cli.resolution import Resolved, resolve
from pgrl_cli.words import TABLES, every_knob

Read = Callable[..., Spec]
Problems = Callable[..., list[str]]
CLIPPED = "base: lecture/centered_clipped\n"
NAIVE = "base: lecture/centered_naive\n"


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads sweep.yaml, of which the text is given, under a command line."""

    def read(text: str, *overrides: str) -> Spec:
        (tmp_path / "sweep.yaml").write_text(text, encoding="utf-8")
        return read_sweep("sweep.yaml", overrides, tmp_path)

    return read


@pytest.fixture
def problems(read: Read) -> Problems:
    """What is wrong with sweep.yaml, of which the text is given, under a command line."""

    def problems(text: str, *overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            read(text, *overrides)
        return [str(problem) for problem in caught.value.problems]

    return problems


def parameters(spec: Spec) -> list[dict[str, Any]]:
    return [dict(cell.parameters) for cell in spec.cells()]


def labels(spec: Spec) -> list[str]:
    return [cell.label for cell in spec.cells()]


def resolved(spec: Spec) -> dict[str, Resolved]:
    return {cell.label: resolve(cell.layers) for cell in spec.cells()}


def refused(cell: Cell) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(cell.layers)
    return [str(problem) for problem in caught.value.problems]


def test_a_sweep_says_what_varies_what_holds_for_all_cells_and_what_they_are_judged_by(read: Read) -> None:
    spec = read(
        "base: lecture/centered_clipped.yaml\n"
        "method: grid\n"
        "parameters:\n"
        "  delta_mode: [rewards, max_rewards]\n"
        "  kl_coefficient: [0.0, 1e-1]\n"
        "seeds: 32\n"
        "epochs: 7\n"
        "metric: {name: kl, over: last_5_epochs, goal: minimize}\n"
        "launcher: processes\n"
    )
    assert (spec.name, spec.file, spec.base, spec.seeds) == ("sweep", "sweep.yaml", "lecture/centered_clipped.yaml", 32)
    assert (spec.method, spec.launcher) == ("grid", "processes")
    assert spec.metric == Metric("kl", "last_5_epochs", "minimize")
    assert spec.parameters == {"delta_mode": ["rewards", "max_rewards"], "kl_coefficient": [0.0, 0.1]}
    assert labels(spec) == [
        "delta_mode=rewards,kl_coefficient=0",
        "delta_mode=rewards,kl_coefficient=0.1",
        "delta_mode=max_rewards,kl_coefficient=0",
        "delta_mode=max_rewards,kl_coefficient=0.1",
    ]
    configs = [result.config for result in resolved(spec).values()]
    assert {(config.name, config.epochs, config.seeds, config.clip) for config in map(_Seen, configs)} == {
        ("sweep", 7, 32, 0.01)
    }
    assert [(config.delta_mode, config.kl_coefficient) for config in configs] == [
        ("rewards", 0.0),
        ("rewards", 0.1),
        ("max_rewards", 0.0),
        ("max_rewards", 0.1),
    ]


class _Seen:
    def __init__(self, config: Any):
        self.name, self.epochs, self.seeds = config.name, config.epochs, config.seeds
        self.clip = config.knobs["clip_epsilon"]


def test_what_a_sweep_does_not_say_has_defaults(read: Read) -> None:
    spec = read(NAIVE + "parameters: {epochs: [1, 2]}\n")
    assert (spec.method, spec.samples, spec.sampling_seed, spec.seeds) == ("grid", None, 0, None)
    assert (spec.metric, spec.launcher, spec.notes) == (
        Metric("mean_reward", "last_10_epochs", "maximize"),
        "stacked",
        (),
    )
    assert read(NAIVE + "metric: kl\n").metric == Metric("kl")
    assert read(NAIVE + "name: mine\nmethod: grid\n").name == "mine"


def test_a_base_is_a_path_beside_the_file_a_shipped_name_or_a_map(tmp_path: Path, read: Read) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "low.yaml").write_text("name: low\nepochs: 11\n")
    (tmp_path / "sub" / "s.yaml").write_text(
        "base: low.yaml\nparameters: {seed: []}\n".replace("seed: []", "loss_mode: [naive]")
    )
    (cell,) = read_sweep("sub/s.yaml", beside=tmp_path).cells()
    config = resolve(cell.layers).config
    assert (config.name, config.epochs) == ("s", 11)
    (cell,) = read("base: {base: lecture/two_state, epochs: 12, name: low}\nparameters: {loss_mode: [naive]}\n").cells()
    config = resolve(cell.layers).config
    assert (config.name, config.epochs, config.task) == ("sweep", 12, "two_state")


def test_a_plain_config_is_swept_from_the_command_line_and_without_swept_keys_is_one_cell(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: lecture/centered_naive\nname: called\nepochs: 3\n")
    spec = read_sweep("mine.yaml", ["delta_mode=rewards,max_rewards", "learning_rate=1e-3,3e-3", "seeds=16"], tmp_path)
    assert (spec.name, spec.base, spec.seeds, spec.fixed) == ("called", "mine.yaml", 16, {})
    assert len(spec.cells()) == 4
    assert all(result.config.learning_rate in (1e-3, 3e-3) for result in resolved(spec).values())
    (cell,) = read_sweep("mine.yaml", [], tmp_path).cells()
    assert (cell.label, cell.parameters) == ("all", {})
    assert resolve(cell.layers).config.epochs == 3
    shipped = read_sweep("lecture/centered_naive", ["epochs=1,2"], tmp_path)
    assert (shipped.name, len(shipped.cells())) == ("centered_naive", 2)


def test_a_plain_config_with_mistakes_tells_them_with_its_own_name_and_lines(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("epochs: 3\nepohcs: 3\nepochs: 4\n")
    (cell,) = read_sweep("mine.yaml", [], tmp_path).cells()
    assert refused(cell) == [
        "mine.yaml:2: unknown key 'epohcs'. Did you mean 'epochs'?",
        "mine.yaml:3: the key 'epochs' stands here and on line 1; keep one",
    ]


def test_zip_goes_through_its_lists_side_by_side_and_may_repeat_a_value(read: Read) -> None:
    spec = read(NAIVE + "method: zip\nparameters:\n  epochs: [1, 1, 2]\n  learning_rate: [0.1, 0.2, 0.1]\n")
    assert parameters(spec) == [
        {"epochs": 1, "learning_rate": 0.1},
        {"epochs": 1, "learning_rate": 0.2},
        {"epochs": 2, "learning_rate": 0.1},
    ]


def test_list_has_a_map_for_each_cell_and_cells_may_have_different_keys(read: Read) -> None:
    spec = read(
        CLIPPED + "method: list\nparameters:\n  - {loss_mode: naive}\n  - {clip_epsilon: 0.1, epochs: 2}\nepochs: 9\n"
    )
    assert labels(spec) == ["loss_mode=naive", "clip_epsilon=0.1,epochs=2"]
    assert [result.config.epochs for result in resolved(spec).values()] == [9, 2]


def test_swept_values_may_be_lists_maps_and_parts_of_maps(read: Read) -> None:
    spec = read(
        NAIVE + "parameters:\n  prompts: [[[1, 2]], [[2, 1]]]\n"
        "  reward_fn:\n    - sort_exact_reward\n    - {sort_exact_reward: 1, sort_distance_reward: 0.5}\n"
    )
    assert labels(spec)[:2] == [
        "prompts=[[1,2]],reward_fn=sort_exact_reward",
        "prompts=[[1,2]],reward_fn={sort_exact_reward:1,sort_distance_reward:0.5}",
    ]
    assert [result.config.weights() for result in resolved(spec).values()][1] == {
        "sort_exact_reward": 1.0,
        "sort_distance_reward": 0.5,
    }
    spec = read(
        NAIVE + "reward_fn: {sort_exact_reward: 1, sort_distance_reward: 1}\n"
        "parameters: {reward_fn.sort_exact_reward: [0.5, 0.25]}\n"
    )
    assert [result.config.weights()["sort_exact_reward"] for result in resolved(spec).values()] == [0.5, 0.25]


values = st.integers(-50, 50) | st.floats(-1e3, 1e3) | st.text(max_size=4) | st.booleans() | st.none()
values |= st.lists(st.integers(0, 3), max_size=3) | st.dictionaries(st.text("ab", min_size=1), st.integers(0, 2))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    grid=st.dictionaries(
        st.sampled_from([*KEYS[1:22], "clip_epsilon", "prompts"]),
        st.lists(values, min_size=1, max_size=4, unique_by=lambda value: label_of({"": value})),
        max_size=3,
    )
)
def test_a_grid_is_the_product_of_its_lists_the_last_key_fastest_and_each_label_is_its_own(
    tmp_path_factory: pytest.TempPathFactory, grid: dict[str, list[Any]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "grid.yaml").write_text(NAIVE + yaml12.write({"parameters": grid}), encoding="utf-8")
    spec = read_sweep("grid.yaml", beside=folder)
    cells = spec.cells()
    assert len(cells) == math.prod(map(len, grid.values()))
    assert [tuple(cell.parameters.values()) for cell in cells] == list(product(*grid.values()))
    assert all(list(cell.parameters) == list(grid) for cell in cells)
    assert len({cell.label for cell in cells}) == len(cells)
    assert spec.parameters == grid


RANDOM = (
    NAIVE + "method: random\nsamples: {}\nparameters:\n"
    "  learning_rate: {{distribution: log_uniform, min: 1e-4, max: 1e-1}}\n"
    "  kl_coefficient: {{distribution: uniform, min: 0, max: 0.5}}\n"
    "  epochs: {{distribution: integers, min: 3, max: 6}}\n"
    "  delta_mode: [rewards, max_rewards]\n"
    "  steps_per_epoch: {{distribution: choice, values: [1, 10]}}\n"
)


def test_more_samples_and_more_keys_leave_the_first_draws_as_they_were(read: Read) -> None:
    few, many = parameters(read(RANDOM.format(7))), parameters(read(RANDOM.format(60)))
    assert many[:7] == few
    fewer_keys = parameters(read(RANDOM.format(60).replace("  epochs: {distribution: integers, min: 3, max: 6}\n", "")))
    assert [cell | {"epochs": 0} for cell in many] == [cell | {"epochs": 0} for cell in fewer_keys]
    reseeded = parameters(read(RANDOM.format(7) + "sampling_seed: 1\n"))
    assert all(ours["learning_rate"] != theirs["learning_rate"] for ours, theirs in zip(few, reseeded, strict=True))


def test_a_draw_is_the_stream_of_its_seed_key_and_index(read: Read) -> None:
    spec = read(
        NAIVE
        + "method: random\nsamples: 3\nsampling_seed: 9\nparameters:\n"
        + "  reward_scale: {distribution: uniform, min: 1, max: 2}\n"
    )
    share = draws.generator(9, "sweep reward_scale", 2).random()
    assert parameters(spec)[2] == {"reward_scale": float(f"{1 + share:.6g}")}


def test_draws_keep_their_bounds_have_six_digits_and_reach_every_choice(read: Read) -> None:
    cells = parameters(read(RANDOM.format(300)))
    assert len(cells) == 300
    assert all(1e-4 <= cell["learning_rate"] <= 1e-1 and 0 <= cell["kl_coefficient"] <= 0.5 for cell in cells)
    assert all(float(f"{cell['learning_rate']:.6g}") == cell["learning_rate"] for cell in cells)
    assert {cell["epochs"] for cell in cells} == {3, 4, 5, 6}
    assert all(type(cell["epochs"]) is int for cell in cells)
    assert {cell["delta_mode"] for cell in cells} == {"rewards", "max_rewards"}
    assert {cell["steps_per_epoch"] for cell in cells} == {1, 10}


def test_log_uniform_is_uniform_in_the_logarithm_and_uniform_is_uniform(read: Read) -> None:
    cells = parameters(read(RANDOM.format(1500)))
    shares = sorted(math.log(cell["learning_rate"] / 1e-4) / math.log(1e3) for cell in cells)
    evenly = sorted(cell["kl_coefficient"] / 0.5 for cell in cells)
    for drawn in (shares, evenly):  # Kolmogorov and Smirnov: above 1.95 / sqrt(n) once in a thousand
        assert max(abs(share - rank / len(drawn)) for rank, share in enumerate(drawn)) < 1.95 / math.sqrt(len(drawn))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    bounds=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2, unique=True).map(sorted),
    whole=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2, unique=True).map(sorted),
)
def test_draws_from_any_bounds_stay_within_them(
    tmp_path_factory: pytest.TempPathFactory, bounds: list[float], whole: list[int]
) -> None:
    drawn = {"reward_shift": {"distribution": "uniform", "min": bounds[0], "max": bounds[1]}}
    drawn["seed_of_prompts"] = {"distribution": "integers", "min": whole[0], "max": whole[1]}
    if bounds[0] > 0:
        drawn["learning_rate"] = {"distribution": "log_uniform", "min": bounds[0], "max": bounds[1]}
    folder = tmp_path_factory.getbasetemp()
    text = yaml12.write({"base": "lecture/centered_naive", "method": "random", "samples": 3, "parameters": drawn})
    (folder / "draws.yaml").write_text(text, encoding="utf-8")
    for cell in parameters(read_sweep("draws.yaml", beside=folder)):
        assert all(drawn[key]["min"] <= value <= drawn[key]["max"] for key, value in cell.items())


def test_draws_that_came_before_are_left_out_with_a_note(read: Read) -> None:
    spec = read(NAIVE + "method: random\nsamples: 40\nparameters: {epochs: [1, 2, 3]}\n")
    assert sorted(cell["epochs"] for cell in parameters(spec)) == [1, 2, 3]
    assert spec.notes == ("37 of 40 draws came before and are left out",)


SPLIT = {
    "": [""],
    "1": ["1"],
    "1,2": ["1", "2"],
    " 1 , 2 ": [" 1 ", " 2 "],
    "1,": ["1", ""],
    "[1,2]": ["[1,2]"],
    "[1,2],[3]": ["[1,2]", "[3]"],
    "[[1,2],[3]],[[4]]": ["[[1,2],[3]]", "[[4]]"],
    "{a: 1, b: 2},{a: 3}": ["{a: 1, b: 2}", "{a: 3}"],
    "'a,b',c": ["'a,b'", "c"],
    '"a,b",c': ['"a,b"', "c"],
    "'it''s, so',b": ["'it''s, so'", "b"],
    r'"a\",b",c': [r'"a\",b"', "c"],
    "it's,b's": ["it's", "b's"],
    '5",6"': ['5"', '6"'],
    "['a]',b],c": ["['a]',b]", "c"],
    '{k: "}",l: 1},2': ['{k: "}",l: 1}', "2"],
    " 'a,b' , c": [" 'a,b' ", " c"],
    "'a,b": ["'a", "b"],
    "[1,2": ["[1,2"],
    "1],2": ["1],2"],
}


@pytest.mark.parametrize("text", SPLIT)
def test_a_text_is_split_at_commas_outside_brackets_braces_and_quotes(text: str) -> None:
    assert split(text) == SPLIT[text]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(values | st.text(st.sampled_from("'\",[]{}: #\\a")), min_size=2, max_size=4))
def test_values_joined_by_commas_are_read_back(tmp_path_factory: pytest.TempPathFactory, several: list[Any]) -> None:
    typed = ",".join(yaml12.write({"k": [value]})[4:-2] for value in several)
    assert [yaml12.read(part, "f") for part in split(typed)] == several


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("'\",[]{}: #\\a\n")) | st.text())
def test_splitting_loses_nothing(text: str) -> None:
    assert ",".join(split(text)) == text


GRID = CLIPPED + "parameters:\n  delta_mode: [rewards, max_rewards]\n  epochs: [1, 2]\nseeds: 4\nlearning_rate: 0.1\n"


def test_the_command_line_adds_replaces_and_fixes_swept_keys_and_wins_over_the_file(read: Read) -> None:
    assert labels(read(GRID, "delta_mode=centered_rewards,rewards", "epochs=7")) == [
        "delta_mode=centered_rewards",
        "delta_mode=rewards",
    ]
    assert read(GRID, "epochs=7").notes == (
        "epochs is 7 in all cells, as the command line says; the values of epochs in sweep.yaml are not swept",
    )
    spec = read(GRID, "learning_rate=1e-3,3e-3", "kl_coefficient=0.5")
    assert labels(spec)[0] == "delta_mode=rewards,epochs=1,learning_rate=0.001"
    assert len(spec.cells()) == 8
    configs = [result.config for result in resolved(spec).values()]
    assert {(config.kl_coefficient, config.learning_rate) for config in configs} == {(0.5, 1e-3), (0.5, 3e-3)}
    assert {result.config.learning_rate for result in resolved(read(GRID, "learning_rate=0.3")).values()} == {0.3}
    assert read(GRID, "delta_mode=rewards", "epochs=1").cells()[0].label == "all"


def test_the_command_line_fixes_keys_of_every_method(read: Read) -> None:
    zipped = NAIVE + "method: zip\nparameters: {epochs: [1, 2], learning_rate: [0.1, 0.2]}\n"
    assert labels(read(zipped, "epochs=5")) == ["learning_rate=0.1", "learning_rate=0.2"]
    cells = NAIVE + "method: list\nparameters: [{epochs: 1, seed_of: 1}, {epochs: 2, seed_of: 2}]\n"
    spec = read(cells, "epochs=5")
    assert labels(spec) == ["seed_of=1", "seed_of=2"]
    assert len(spec.notes) == 1
    assert "learning_rate" not in parameters(read(RANDOM.format(3), "learning_rate=0.1"))[0]


def test_the_command_line_sets_the_sweeps_own_keys(read: Read) -> None:
    spec = read(GRID, "metric.over=best_epoch", "metric.goal=minimize", "launcher=ray", "name=other")
    assert (spec.metric, spec.launcher, spec.name) == (Metric("mean_reward", "best_epoch", "minimize"), "ray", "other")
    assert read(GRID + "metric: kl\n", "metric.over=all_epochs").metric == Metric("kl", "all_epochs")
    assert read(GRID + "metric: {name: kl, goal: minimize}\n", "metric=loss").metric == Metric("loss")
    assert read(GRID, "metric.over=all_epochs", "metric={name: kl}").metric == Metric("kl", "all_epochs")
    assert len(parameters(read(GRID, "method=random", "samples=3", "sampling_seed=4"))) <= 3
    assert labels(read(GRID, "method=zip")) == ["delta_mode=rewards,epochs=1", "delta_mode=max_rewards,epochs=2"]
    assert read(GRID, "seeds=[0, 3, 7]").seeds == [0, 3, 7]
    assert read(GRID, "seeds=16").seeds == 16
    assert read(GRID, "seed=3").seeds is None


def test_a_value_that_the_command_line_replaces_is_not_judged(read: Read) -> None:
    assert labels(read(NAIVE + "parameters: {epochs: 5}\n", "epochs=1,2")) == ["epochs=1", "epochs=2"]
    assert labels(read(NAIVE + "parameters: {epochs: []}\n", "epochs=1")) == ["all"]
    assert read(NAIVE + "method: gird\nlauncher: 5\n", "method=grid", "launcher=ray").launcher == "ray"


def test_a_typed_map_replaces_swept_parts_and_a_typed_part_joins_a_fixed_map(read: Read) -> None:
    text = NAIVE + "reward_fn: {sort_exact_reward: 1, sort_distance_reward: 1}\nparameters:\n"
    parts = text + "  reward_fn.sort_exact_reward: [0.5, 0.25]\n"
    spec = read(parts, "reward_fn=sort_exact_reward")
    assert labels(spec) == ["all"]
    spec = read(parts, "reward_fn.sort_distance_reward=3")
    assert [result.config.weights() for result in resolved(spec).values()] == [
        {"sort_exact_reward": weight, "sort_distance_reward": 3.0} for weight in (0.5, 0.25)
    ]


def test_swept_words_leave_knobs_of_some_cells_dead_with_a_note_wherever_those_were_written(read: Read) -> None:
    words = CLIPPED + "parameters:\n  loss_mode: [naive, clipped]\n"
    knobs = [
        words,
        words + "clip_epsilon: 0.2\n",
        words + "  clip_epsilon: [0.1, 0.2]\n",
        words + "  clip_low: [null, 0.1]\n",
    ]
    for text, typed in [(text, ()) for text in knobs] + [(words, ("clip_epsilon=0.2",))]:
        for label, result in resolved(read(text, *typed)).items():
            assert ("clip_epsilon" in result.config.knobs) is ("clipped" in label)
            assert any("turns nothing here and was dropped" in note for note in result.notes) is ("naive" in label)


@pytest.mark.parametrize(
    ("swept", "typed"),
    [
        ("entropy_coefficient: [0, 0.1]\n  entropy_decay: [none, linear]", []),
        ("entropy_coefficient: [0, 0.1]", ["entropy_decay=linear"]),
        ("kl_coefficient: [0, 0.1]", ["kl_placement=reward"]),
        ("prompt_count: [null, 5]", ["prompts_seed=3"]),
        ("clip_low: [null, 0.1]\n  clip_high: [null, 0.1]", ["clip_epsilon=0.2"]),
        ("clip_low: [null, 0.1]\n  clip_high: [null, 0.1]\n  clip_epsilon: [0.1, 0.2]", []),
        ("prompts_per_epoch: [null, 2]\n  prompts_seed: [1, 2]", []),
        ("task: [sorting, two_state]\n  prompts_per_epoch: [null, 2]\n  reward_fn: [null]", []),
        ("optimizer: [adam, sgd]\n  momentum: [0.5, 0.9]", ["adam_beta1=0.8"]),
    ],
)
def test_swept_values_that_decide_are_above_what_they_decide(read: Read, swept: str, typed: list[str]) -> None:
    results = resolved(read(CLIPPED + f"parameters:\n  {swept}\n", *typed))
    assert any("was dropped" in note for result in results.values() for note in result.notes)


def test_cells_that_become_the_same_experiment_are_run_once(read: Read) -> None:
    plan = planned(read(CLIPPED + "parameters:\n  loss_mode: [naive, clipped]\n  clip_epsilon: [0.1, 0.2]\n"), 1)
    assert [cell.label for cell in plan.cells] == [
        "loss_mode=naive,clip_epsilon=0.1",
        "loss_mode=clipped,clip_epsilon=0.1",
        "loss_mode=clipped,clip_epsilon=0.2",
    ]
    assert any(
        note.startswith("the cell loss_mode=naive,clip_epsilon=0.2 is the same experiment") for note in plan.notes
    )


def test_a_knob_that_the_sweep_itself_leaves_dead_in_every_cell_is_an_error_still(read: Read) -> None:
    (cell,) = read(NAIVE + "loss_mode: naive\nclip_epsilon: 0.1\nmethod: grid\n").cells()
    assert refused(cell)[0].startswith("sweep.yaml:3: clip_epsilon turns nothing here")
    cell = read(NAIVE + "loss_mode: naive\nparameters:\n  clip_epsilon: [0.1, 0.2]\n").cells()[0]
    assert refused(cell)[0].startswith("sweep.yaml:4: clip_epsilon turns nothing here")
    (cell,) = read(NAIVE + "method: grid\n", "loss_mode=naive", "clip_epsilon=0.1").cells()
    assert refused(cell)[0].startswith("command line: clip_epsilon=0.1: clip_epsilon turns nothing here")


def test_every_key_that_decides_whether_another_turns_anything_is_known_as_one() -> None:
    killers = {killer for rule in DEAD for killer in rule.killers}
    assert set(TABLES) == WORDS
    assert killers - WORDS - {"seeds"} <= NUMBERS
    assert {*KEYS, *every_knob()} >= NUMBERS
    mortal = {rule.key for rule in DEAD} & {*KEYS} - {"seed", "log_seeds"}
    assert {key: {by for rule in DEAD if rule.key == key for by in rule.killers} for key in mortal} == MORTAL


def test_no_key_of_a_config_looks_like_one_of_a_sweep() -> None:
    assert [key for key in (*KEYS, *every_knob()) if meant(key)] == []
    assert set(OTHER_SWEEP_WORDS.values()) <= set(OWN_KEYS)
    assert not set(OTHER_SWEEP_WORDS) & {*KEYS, *every_knob(), *OWN_KEYS}


def test_a_value_that_no_cell_can_have_is_told_at_the_line_where_it_stands(read: Read) -> None:
    spec = read(
        "base:\n  epochs: 0\nmethod: list\nparameters:\n  - {learning_rate: -1}\n"
        "  - learning_rate: 0.1\n    loss_mode: cliped\n  - {epohcs: 3}\nsteps_per_epoch: 0\n",
        "num_responses=0",
    )
    told = [{problem.partition("; ")[0].partition(" (text)")[0] for problem in refused(cell)} for cell in spec.cells()]
    everywhere = {
        "sweep.yaml:2: epochs: came 0",
        "sweep.yaml:9: steps_per_epoch: came 0",
        "command line: num_responses=0: came 0",
    }
    assert told == [
        everywhere | {"sweep.yaml:5: learning_rate: came -1"},
        everywhere | {"sweep.yaml:7: loss_mode: came 'cliped'"},
        everywhere | {"sweep.yaml:8: unknown key 'epohcs'. Did you mean 'epochs'?"},
    ]


def test_a_map_in_a_list_has_its_own_line(read: Read) -> None:
    spec = read(
        NAIVE + "parameters:\n  reward_fn:\n    - {sort_exact_reward: 1}\n    - sort_exact_reward: 1\n      sorted: 2\n"
    )
    assert refused(spec.cells()[1])[0].startswith("sweep.yaml:6: reward_fn: came 'sorted'")


def test_rewards_of_ones_own_lie_beside_the_file_that_names_them(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / "mine.py").write_text("def points(prompt, response):\n    return 0\n")
    (tmp_path / "sub" / "s.yaml").write_text(NAIVE + "parameters:\n  reward_fn: [mine.py:points]\n")
    (cell,) = read_sweep("sub/s.yaml", beside=tmp_path).cells()
    assert resolve(cell.layers).config.sources == {"mine.py:points": tmp_path / "sub" / "mine.py"}
    (cell,) = read_sweep("sub/s.yaml", ["reward_fn=mine.py:points"], tmp_path).cells()
    assert resolve(cell.layers).config.sources == {"mine.py:points": tmp_path / "mine.py"}


SWEPT = NAIVE + "parameters:\n  {}\n"
DRAWN = NAIVE + "method: random\nsamples: 3\nparameters:\n  {}\n"
BESIDE = "or move it beside parameters, where it holds for all cells"
MISTAKES: dict[str, tuple[str, list[str]]] = {
    "a scalar where a list belongs": (
        SWEPT.format("epochs: 50"),
        [f"sweep.yaml:3: epochs: came 50; parameters takes a list: write [50], {BESIDE}"],
    ),
    "a word where a list belongs": (
        SWEPT.format("loss_mode: naive"),
        [f"sweep.yaml:3: loss_mode: came 'naive' (text); parameters takes a list: write [naive], {BESIDE}"],
    ),
    "a map where a list belongs": (
        SWEPT.format("epochs: {values: [1]}"),
        [
            "sweep.yaml:3: epochs: came {'values': [1]} (a map); parameters takes a list: write [{values:[1]}], "
            + BESIDE
        ],
    ),
    "a scalar among draws": (
        DRAWN.format("epochs: 50"),
        [f"sweep.yaml:5: epochs: came 50; parameters takes a list or {{distribution: …}}: write [50], {BESIDE}"],
    ),
    "an empty list": (
        SWEPT.format("epochs: []"),
        ["sweep.yaml:3: epochs: the list is empty, so there would be no cell; give it values, or leave it out"],
    ),
    "a value twice": (
        SWEPT.format("delta_mode: [rewards, max_rewards, rewards]"),
        [
            "sweep.yaml:3: delta_mode: values 1 and 3 are both rewards, which is one cell twice; leave one out",
        ],
    ),
    "a number twice, as a whole one and as a broken one": (
        SWEPT.format("kl_coefficient: [0, 0.0]"),
        ["sweep.yaml:3: kl_coefficient: values 1 and 2 are both 0, which is one cell twice; leave one out"],
    ),
    "a map twice, in another order": (
        SWEPT.format("reward_fn:\n    - {a: 1, b: 2}\n    - {b: 2, a: 1}"),
        ["sweep.yaml:5: reward_fn: values 1 and 2 are both {b:2,a:1}, which is one cell twice; leave one out"],
    ),
    "swept seeds": (
        SWEPT.format("seeds: [0, 3]"),
        [
            "sweep.yaml:3: seeds: seeds are not swept, since every cell has them all; "
            "write seeds: [0, 3] beside parameters"
        ],
    ),
    "a swept seed": (
        SWEPT.format("seed: [0, 3]"),
        [
            "sweep.yaml:3: seed: seeds are not swept, since every cell has them all; "
            "write seeds: [0, 3] beside parameters"
        ],
    ),
    "a swept key of the sweep itself": (
        SWEPT.format("base: [a, b]"),
        ["sweep.yaml:3: base is a key of the sweep itself, so it is not swept; leave it out here"],
    ),
    "a key swept and fixed": (
        SWEPT.format("epochs: [1, 2]") + "epochs: 5\n",
        ["sweep.yaml:4: epochs stands here and under parameters on line 3; keep one"],
    ),
    "a key in every cell and fixed": (
        NAIVE + "epochs: 5\nmethod: list\nparameters: [{epochs: 1}, {epochs: 2}]\n",
        ["sweep.yaml:2: epochs stands here and under parameters on line 4; keep one"],
    ),
    "parameters that are a list": (
        NAIVE + "parameters: [{epochs: 1}]\n",
        [
            "sweep.yaml:2: parameters: came [{'epochs': 1}] (a list); write a map of keys to lists, "
            "such as {epochs: [50, 100]}, or add method: list"
        ],
    ),
    "parameters of nothing": (
        NAIVE + "parameters:\n",
        ["sweep.yaml:2: parameters: came null; write a map of keys to lists, such as {epochs: [50, 100]}"],
    ),
    "zip with lists of two lengths": (
        NAIVE + "method: zip\nparameters:\n  epochs: [1, 2]\n  seed_of: [1, 2, 3]\n",
        [
            "sweep.yaml:3: parameters: method zip goes through lists of one length side by side; "
            "epochs has 2, seed_of has 3"
        ],
    ),
    "zip of nothing": (
        NAIVE + "method: zip\n",
        ["sweep.yaml: parameters: method zip needs a key with values, such as {epochs: [50, 100]}"],
    ),
    "zip with a cell twice": (
        NAIVE + "method: zip\nparameters:\n  epochs: [1, 2, 1]\n  delta_mode: [rewards, rewards, rewards]\n",
        ["sweep.yaml:4: cells 1 and 3 are equal, epochs=1,delta_mode=rewards; leave one out"],
    ),
    "list with a cell twice": (
        NAIVE + "method: list\nparameters:\n  - {epochs: 1, loss_mode: naive}\n  - {epochs: 2}\n"
        "  - {loss_mode: naive, epochs: 1}\n",
        ["sweep.yaml:6: cells 1 and 3 are equal, loss_mode=naive,epochs=1; leave one out"],
    ),
    "list with a map": (
        NAIVE + "method: list\nparameters: {epochs: [1]}\n",
        [
            "sweep.yaml:3: parameters: method list needs a list of maps, one for each cell: "
            "[{epochs: 50}, {epochs: 100}]"
        ],
    ),
    "list without parameters": (
        NAIVE + "method: list\n",
        ["sweep.yaml: parameters: method list needs a list of maps, one for each cell: [{epochs: 50}, {epochs: 100}]"],
    ),
    "list with seeds": (
        NAIVE + "method: list\nparameters:\n  - {epochs: 1}\n  - {seed: 3}\n",
        [
            "sweep.yaml:5: seed: seeds are not swept, since every cell has them all; "
            "write seeds: [0, 3, 7] beside parameters"
        ],
    ),
    "random without samples": (
        NAIVE + "method: random\nparameters: {epochs: [1, 2]}\n",
        ["sweep.yaml:2: method: random needs the number of cells to draw, such as samples: 40"],
    ),
    "random without parameters": (
        NAIVE + "method: random\nsamples: 3\nparameters: {}\n",
        ["sweep.yaml:4: parameters: method random needs a key with values, such as {epochs: [50, 100]}"],
    ),
    "samples without random": (
        NAIVE + "samples: 3\nsampling_seed: 1\nmethod: zip\nparameters: {epochs: [1]}\n",
        [
            "sweep.yaml:2: samples turns nothing here: method is zip; write method: random, or leave samples out",
            "sweep.yaml:3: sampling_seed turns nothing here: method is zip; "
            "write method: random, or leave sampling_seed out",
        ],
    ),
    "too many samples": (
        NAIVE + "method: random\nsamples: 100001\nparameters: {epochs: [1]}\n",
        ["sweep.yaml:3: samples: came 100001; expected a whole number from 1, up to 100000"],
    ),
    "a distribution in a grid": (
        SWEPT.format("epochs: {distribution: integers, min: 1, max: 3}"),
        ["sweep.yaml:3: epochs: a distribution is for method: random, with samples; here method is grid"],
    ),
    "a distribution that is none": (
        DRAWN.format("epochs: {distribution: integer, min: 1, max: 3}"),
        [
            "sweep.yaml:5: epochs: distribution: came 'integer' (text); "
            "possible: uniform, log_uniform, integers, choice. Did you mean 'integers'?"
        ],
    ),
    "no distribution": (
        DRAWN.format("epochs: {min: 1, max: 3}"),
        ["sweep.yaml:5: epochs: distribution: came null; possible: uniform, log_uniform, integers, choice."],
    ),
    "a distribution that lacks a bound and has something else": (
        DRAWN.format("epochs:\n    distribution: integers\n    min: 1\n    maximum: 3\n    q: 1"),
        [
            "sweep.yaml:5: epochs: integers lacks max; write {distribution: integers, min: …, max: …}",
            "sweep.yaml:8: epochs: integers has no 'maximum'. Did you mean 'max'?",
            "sweep.yaml:9: epochs: integers has no 'q'. Write {distribution: integers, min: …, max: …}.",
        ],
    ),
    "a logarithm of nothing": (
        DRAWN.format("learning_rate:\n    distribution: log_uniform\n    min: 0\n    max: 1"),
        [
            "sweep.yaml:7: learning_rate: min: came 0; a logarithm needs it above 0: write a small number, "
            "such as 1e-5, or distribution: uniform"
        ],
    ),
    "bounds the wrong way round": (
        DRAWN.format("learning_rate: {distribution: uniform, min: 1e-1, max: 1e-3}"),
        ["sweep.yaml:5: learning_rate: min 0.1 is not below max 0.001; exchange them"],
    ),
    "bounds that are equal": (
        DRAWN.format("learning_rate: {distribution: uniform, min: 0.1, max: 0.1}"),
        ["sweep.yaml:5: learning_rate: min 0.1 is not below max 0.1; write [0.1] for one value"],
    ),
    "bounds that are no numbers": (
        DRAWN.format("epochs: {distribution: integers, min: 1.5, max: '3'}"),
        [
            "sweep.yaml:5: epochs: min: came 1.5; expected a whole number",
            "sweep.yaml:5: epochs: max: came '3' (text); expected a whole number; "
            "write 3 without quotes, underscores or leading zeros",
        ],
    ),
    "bounds without end": (
        DRAWN.format("reward_shift: {distribution: uniform, min: -.inf, max: true}"),
        [
            "sweep.yaml:5: reward_shift: min: came -inf; expected a number; it must be finite",
            "sweep.yaml:5: reward_shift: max: came true (a boolean); expected a number",
        ],
    ),
    "whole bounds of more than 64 bits": (
        DRAWN.format("epochs: {distribution: integers, min: 1, max: 9223372036854775808}"),
        ["sweep.yaml:5: epochs: max: came 9223372036854775808; expected a whole number of 64 bits"],
    ),
    "a choice of nothing": (
        DRAWN.format("epochs: {distribution: choice, values: []}"),
        ["sweep.yaml:5: epochs: the list is empty, so there would be no cell; give it values, or leave it out"],
    ),
    "a misspelt method": (
        NAIVE + "method: gird\nparameters: {epochs: 1}\n",
        [
            "sweep.yaml:2: method: came 'gird' (text); expected grid or zip or list or random. Did you mean 'grid'?",
        ],
    ),
    "a misspelt launcher": (
        NAIVE + "launcher: stack\n",
        ["sweep.yaml:2: launcher: came 'stack' (text); expected stacked or processes or ray. Did you mean 'stacked'?"],
    ),
    "misspelt keys": (
        "bas: lecture/two_state\nparamters: {epochs: [1]}\nsample: 3\nlaucher: ray\n",
        [
            "sweep.yaml:1: unknown key 'bas'. Did you mean 'base'?",
            "sweep.yaml:2: unknown key 'paramters'. Did you mean 'parameters'?",
            "sweep.yaml:3: unknown key 'sample'. Did you mean 'samples'?",
            "sweep.yaml:4: unknown key 'laucher'. Did you mean 'launcher'?",
            "sweep.yaml: base: is missing; name the config that the sweep varies, such as base: lecture/centered_naive",
        ],
    ),
    "another tool's keys": (
        NAIVE + "method: random\nsearch_space: {epochs: [1]}\nn_trials: 3\n",
        [
            "sweep.yaml:2: method: random needs the number of cells to draw, such as samples: 40",
            "sweep.yaml:3: unknown key 'search_space': here it is spelled 'parameters'",
            "sweep.yaml:4: unknown key 'n_trials': here it is spelled 'samples'",
            "sweep.yaml: parameters: method random needs a key with values, such as {epochs: [50, 100]}",
        ],
    ),
    "a key twice": (
        NAIVE + "method: grid\nmethod: zip\n",
        ["sweep.yaml:3: the key 'method' stands here and on line 2; keep one"],
    ),
    "a dotted key beside parameters": (
        NAIVE + "method: grid\nreward_fn.sort_exact_reward: 1\n",
        ["sweep.yaml:3: unknown key 'reward_fn.sort_exact_reward': write reward_fn: {sort_exact_reward: …}"],
    ),
    "a base that is not there": (
        "base: lecture/two_stat\nmethod: grid\n",
        [
            "sweep.yaml:1: base: lecture/two_stat: there is no such file, nor a shipped config of that name. "
            "Did you mean 'lecture/two_state'?"
        ],
    ),
    "a base that is no name": (
        "method: grid\nbase: 5\n",
        ["sweep.yaml:2: base: came 5; it must name a config"],
    ),
    "a base that is a sweep": (
        "base:\n  epochs: 3\n  parameters: {epochs: [1]}\nmethod: grid\n",
        [
            "sweep.yaml:1: base: has the key 'parameters' of a sweep (sweep.yaml:3); a sweep builds on a plain config",
        ],
    ),
    "a name that is none": (
        NAIVE + "name: 5\nmethod: grid\n",
        ["sweep.yaml:2: name: came 5; expected text that is not empty, of at most 100 characters"],
    ),
    "a metric of another kind": (
        NAIVE + "metric: [kl]\n",
        ["sweep.yaml:2: metric: came ['kl'] (a list); write a name, or {name: …, over: …, goal: …}"],
    ),
    "a metric with mistakes": (
        NAIVE + "metric:\n  nam: kl\n  over: last_0_epochs\n  goal: maximise\n",
        [
            "sweep.yaml:3: metric: unknown key 'nam'; possible: name, over, goal. Did you mean 'name'?",
            "sweep.yaml:4: metric: over: came 'last_0_epochs' (text); "
            "possible: last_10_epochs (or another number), all_epochs, best_epoch",
            "sweep.yaml:5: metric: goal: came 'maximise' (text); possible: maximize, minimize. "
            "Did you mean 'maximize'?",
        ],
    ),
    "more cells than can be run": (
        NAIVE + f"parameters:\n  a: &a {list(range(100))}\n  b: *a\n  c: *a\n",
        [
            "sweep.yaml:2: parameters: 1000000 cells are more than 100000; "
            "leave values out, or draw: method: random, samples: 100"
        ],
    ),
    "many mistakes at once": (
        "method: zip\nparameters:\n  epochs: 5\n  seed: [1]\nlauncher: rya\nbase: nowhere\nmetric: 5\n",
        [
            f"sweep.yaml:3: epochs: came 5; parameters takes a list: write [5], {BESIDE}",
            "sweep.yaml:4: seed: seeds are not swept, since every cell has them all; "
            "write seeds: [1] beside parameters",
            "sweep.yaml:5: launcher: came 'rya' (text); expected stacked or processes or ray. Did you mean 'ray'?",
            "sweep.yaml:6: base: nowhere: there is no such file, nor a shipped config of that name. "
            "`pgrl config ls` lists those that are shipped.",
            "sweep.yaml:7: metric: came 5; write a name, or {name: …, over: …, goal: …}",
        ],
    ),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_in_a_sweep_is_told_with_its_line_and_the_likely_fix(problems: Problems, kind: str) -> None:
    text, told = MISTAKES[kind]
    assert problems(text) == told


NULL = "write null for none, quotes around text with '#'"
TYPED_MISTAKES: dict[str, tuple[list[str], list[str]]] = {
    "seeds with commas": (
        ["seeds=0,3,7"],
        [
            "command line: seeds=0,3,7: seeds are not swept; write brackets: "
            "seeds='[0, 3, 7]' trains these in every cell"
        ],
    ),
    "a seed with commas": (
        ["seed=1,2"],
        ["command line: seed=1,2: seeds are not swept; write brackets: seeds='[1, 2]' trains these in every cell"],
    ),
    "no key": (["=1"], ["command line: =1: is not KEY=VALUE, such as epochs=50, or KEY=VALUE,VALUE"]),
    "no value": (["epochs="], [f"command line: epochs=: has no value; {NULL}"]),
    "a comma too many": (
        ["epochs=1,"],
        [f"command line: epochs=1,: has nothing between two commas, or at an end; {NULL}"],
    ),
    "a key twice": (["epochs=1", "epochs=2,3"], ["command line: epochs=2,3: epochs is given twice"]),
    "a value twice": (
        ["num_responses=5,5"],
        ["command line: num_responses=5,5: values 1 and 2 are both 5, which is one cell twice; leave one out"],
    ),
    "a value that is no YAML": (
        ["epochs=[1,2"],
        [
            "command line: epochs=[1,2: is not valid YAML: while parsing a flow sequence "
            "did not find expected ',' or ']'"
        ],
    ),
    "a base": (
        ["base=x"],
        ["command line: base=x: base belongs in a file; a sweep has one config, which --config names"],
    ),
    "parameters": (
        ["parameters={}"],
        ["command line: parameters={}: parameters belongs in a file; to sweep a key: KEY=VALUE,VALUE"],
    ),
    "two names": (
        ["name=a,b"],
        ["command line: name=a,b: name takes one value; put text with commas in quotes"],
    ),
    "two metrics": (
        ["metric.name=a,b"],
        ["command line: metric.name=a,b: metric.name takes one value; put text with commas in quotes"],
    ),
    "a misspelt part of the metric": (
        ["metric.nam=kl"],
        ["command line: metric.nam=kl: metric: unknown key 'nam'; possible: name, over, goal. Did you mean 'name'?"],
    ),
    "a list beside a zip": (
        ["method=zip", "learning_rate=1,2"],
        [
            "command line: learning_rate=1,2: values with commas make a grid, but here method is zip; "
            "sweep the key in the file, or say method=grid"
        ],
    ),
    "samples of a grid": (
        ["samples=3"],
        [
            "command line: samples=3: samples turns nothing here: method is grid; "
            "write method: random, or leave samples out"
        ],
    ),
    "random without samples": (
        ["method=random"],
        ["command line: method=random: random needs the number of cells to draw, such as samples: 40"],
    ),
    "too many cells": (
        [f"learning_rate={','.join(map(str, range(1, 50_001)))}", "epochs=1,2,3"],
        [
            "sweep.yaml:2: parameters: 300000 cells are more than 100000; "
            "leave values out, or draw: method: random, samples: 100"
        ],
    ),
    "a part of a swept map": (
        ["reward_fn=[sort_exact_reward],{sort_exact_reward: 1}", "reward_fn.sort_exact_reward=2"],
        [
            "command line: reward_fn.sort_exact_reward=2: reward_fn is swept, so no part of it holds in all cells; "
            "change its values instead"
        ],
    ),
}


@pytest.mark.parametrize("kind", TYPED_MISTAKES)
def test_a_mistake_on_the_command_line_is_told_with_the_likely_fix(problems: Problems, kind: str) -> None:
    typed, told = TYPED_MISTAKES[kind]
    text = CLIPPED + "parameters:\n  delta_mode: [rewards, max_rewards]\n  epochs: [1, 2]\n"
    assert problems(text, *typed) == told


def test_mistakes_of_file_base_and_command_line_are_told_together(tmp_path: Path, problems: Problems) -> None:
    (tmp_path / "low.yaml").write_text("epochs: 1\nepochs: 2\n")
    assert [problem.partition(": ")[0] for problem in problems("base: low.yaml\nlauncher: x\n", "samples=1")] == [
        "sweep.yaml:2",
        f"{tmp_path / 'low.yaml'}:2",
        "command line",
    ]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    one=st.dictionaries(st.text("abk_", min_size=1, max_size=3), values, max_size=3),
    other=st.dictionaries(st.text("abk_", min_size=1, max_size=3), values, max_size=3),
)
def test_labels_are_equal_only_where_the_parameters_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert "\n" not in label_of(one)
    if label_of(one) == label_of(other):
        assert sameness(one) == sameness(other)


def test_labels_are_readable_tell_kinds_apart_and_end(read: Read) -> None:
    several = {"a": 1e-3, "b": 0.1234567, "c": None, "d": True, "e": "1", "f": "x,y", "g": "mine.py:points", "h": 3e-5}
    assert label_of(several) == 'a=0.001,b=0.1234567,c=null,d=true,e="1",f="x,y",g=mine.py:points,h=3e-05'
    assert label_of({}) == "all"
    long, longer = [[1, 2, 3]] * 100, [[1, 2, 3]] * 101
    assert re.fullmatch(r"prompts=\[\[1,2,3\],\[1,2.{30,50}…[0-9a-f]{8}", label_of({"prompts": long}))
    assert label_of({"prompts": long}) != label_of({"prompts": longer})
    assert len(label_of({f"key_{index}": index for index in range(1000)})) <= 400


FOLDERS = {
    "delta_mode=rewards,kl_coefficient=0.1": "delta_mode-rewards_kl_coefficient-0.1-3fa9c1d2",
    "reward_shift=-1": "reward_shift--1-3fa9c1d2",
    "reward_scale=1e+06,epochs=2": "reward_scale-1e06_epochs-2-3fa9c1d2",
    "prompts=[[1,2],[3]]": "prompts-1_2_3-3fa9c1d2",
    "reward_fn={mine.py:points:1}": "reward_fn-mine.py-points-1-3fa9c1d2",
    "name=né/../x": "name-n-..-x-3fa9c1d2",
    "../..": "cell-3fa9c1d2",
    "": "cell-3fa9c1d2",
    "→": "cell-3fa9c1d2",
    "all": "all-3fa9c1d2",
}


@pytest.mark.parametrize("label", FOLDERS)
def test_a_folder_is_named_by_what_of_the_label_every_file_system_takes_and_the_id(label: str) -> None:
    assert folder_name(label, "3fa9c1d2") == FOLDERS[label]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text() | st.text(st.sampled_from("abé/\\.-=,[]{}: 1")))
def test_the_name_of_a_folder_is_short_plain_and_ends_in_the_id(label: str) -> None:
    name = folder_name(label, "3fa9c1d2")
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*-3fa9c1d2", name)
    assert len(name) <= 80 + 9
    assert name == folder_name(label, "3fa9c1d2")


def fed_back(spec: Spec, folder: Path) -> Spec:
    """What sweep.yaml says when it is read from another folder."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    (folder / "elsewhere" / "again.yaml").write_text(yaml12.write(spec.as_mapping()), encoding="utf-8")
    return read_sweep("elsewhere/again.yaml", beside=folder)


ROUND_TRIPS: dict[str, tuple[str, list[str]]] = {
    "a grid": (GRID + "metric: {name: kl, goal: minimize}\nlauncher: ray\nname: mine\n", []),
    "a zip": (NAIVE + "method: zip\nparameters: {epochs: [1, 2], learning_rate: [1e-3, 1e-4]}\n", []),
    "a list": (NAIVE + "method: list\nparameters: [{epochs: 1}, {reward_fn: mine.py:points}]\n", []),
    "draws": (RANDOM.format(5) + "sampling_seed: 3\n", []),
    "the command line": (GRID, ["epochs=3", "kl_coefficient=0.1,0.2", "learning_rate=0.2,0.3", "seeds=[1, 2]"]),
    "one cell": (NAIVE + "method: grid\n", []),
    "a base with bases": ("base: middle.yaml\nparameters: {delta_mode: [rewards, max_rewards]}\n", []),
    "a base with bases and a typed word": (
        "base: middle.yaml\nclip_epsilon: 0.3\nseed: 3\nparameters: {delta_mode: [rewards, max_rewards]}\n",
        ["loss_mode=unclipped", "seeds=3"],
    ),
    "a typed word over a fixed knob": (CLIPPED + "clip_epsilon: 0.3\nseeds: 3\nmethod: grid\n", ["loss_mode=naive"]),
    "a part of a map": ("base: middle.yaml\nparameters: {epochs: [1, 2]}\n", ["reward_fn.sort_exact_reward=3"]),
    "a swept part of a map": ("base: middle.yaml\nparameters: {reward_fn.mine.py:points: [1, 2]}\n", []),
    "swept words and knobs": (CLIPPED + "parameters:\n  loss_mode: [naive, clipped]\n  clip_epsilon: [0.1, 0.2]\n", []),
}


@pytest.mark.parametrize("kind", ROUND_TRIPS)
def test_sweep_yaml_read_from_elsewhere_is_the_same_sweep(tmp_path: Path, read: Read, kind: str) -> None:
    (tmp_path / "mine.py").write_text("def points(prompt, response):\n    return 0\n")
    (tmp_path / "middle.yaml").write_text(
        "base: lecture/centered_clipped\nname: middle\nloss_mode: naive\nseeds: 2\n"
        "reward_fn: {sort_exact_reward: 1, mine.py:points: 0.5}\n"
    )
    text, typed = ROUND_TRIPS[kind]
    spec = read(text, *typed)
    again = fed_back(spec, tmp_path)
    assert again.as_mapping() == spec.as_mapping()
    assert differences(spec.as_mapping(), again.as_mapping()) == []
    assert (again.name, again.metric, again.launcher, again.seeds) == (
        spec.name,
        spec.metric,
        spec.launcher,
        spec.seeds,
    )
    ours, theirs = planned(spec, 1), planned(again, 1)
    assert [cell.id for cell in ours.cells] == [cell.id for cell in theirs.cells]


def test_sweep_yaml_holds_the_whole_sweep_and_needs_no_other_file(read: Read) -> None:
    held = read(GRID, "epochs=3", "seeds=2").as_mapping()
    assert list(held) == [
        "name",
        "base",
        "method",
        "parameters",
        "seeds",
        "learning_rate",
        "epochs",
        "metric",
        "launcher",
    ]
    assert held["base"]["clip_epsilon"] == 0.01
    assert "name" not in held["base"]
    assert held["parameters"] == {"delta_mode": ["rewards", "max_rewards"]}
    assert held["metric"] == {"name": "mean_reward", "over": "last_10_epochs", "goal": "maximize"}
    assert (held["seeds"], held["epochs"]) == (2, 3)


def test_what_differs_between_two_sweeps_is_told_in_words(read: Read) -> None:
    old = read(GRID).as_mapping()
    new = read(
        GRID.replace("max_rewards", "normalized_rewards")
        .replace("seeds: 4", "seeds: [1, 2]")
        .replace("clipped", "naive"),
        "metric.goal=minimize",
        "kl_coefficient=0.1",
    ).as_mapping()
    assert differences(old, new) == [
        "base.loss_mode was clipped, and is naive",
        "base.clip_epsilon is gone (it was 0.01)",
        "parameters.delta_mode no longer has [max_rewards] and now has [normalized_rewards]",
        "seeds was 4, and is [1,2]",
        "metric.goal was maximize, and is minimize",
        "kl_coefficient is new (0.1)",
    ]
    assert differences({"a": [1, 2]}, {"a": [2, 1]}) == ["a was [1,2], and is [2,1]"]
    assert differences({"a": 1, "b": 0.5}, {"b": 0.5, "a": 1.0}) == []
    assert differences({"a": 1}, {"a": True}) == ["a was 1, and is true"]
    flood = differences({f"k{number}": 1 for number in range(1000)}, {})
    assert len(flood) == 21
    assert flood[-1] == "and more"


HOSTILE = {
    "a list of very many values": SWEPT.format(f"epochs: [{'1,' * 120_000}]"),
    "very many distinct values": SWEPT.format(f"epochs: {list(range(101_000))}"),
    "a product beyond all measure": SWEPT.format("\n  ".join(f"k{key}: [1, 2]" for key in range(8_000))),
    "very many scalars": SWEPT.format("\n  ".join(f"k{key}: 1" for key in range(8_000))),
    "very many misspelt keys": NAIVE + "method: grid\n" + "".join(f"parametr{key}: 1\n" for key in range(15_000)),
    "very many equal cells": NAIVE + f"method: list\nparameters: [{'{a: 1},' * 15_000}]\n",
    "very many samples": NAIVE + f"method: random\nsamples: {'9' * 500}\nparameters: {{epochs: [1]}}\n",
    "bounds of very many digits": DRAWN.format(f"x: {{distribution: uniform, min: 0, max: {'9' * 500}}}"),
    "a metric of very many keys": NAIVE + f"metric: {{{','.join(f'k{key}: 1' for key in range(8_000))}}}\n",
    "a distribution of very many keys": DRAWN.format(
        f"x: {{distribution: uniform, {','.join(f'k{key}: 1' for key in range(8_000))}}}"
    ),
    "a very long word": SWEPT.format(f"epochs: {'x' * 900_000}"),
    "a bomb of aliases": "base: &a [x,x]\n"
    + "".join(f"k{n}: &b{n} [{'*a,' * 9000}]\n" for n in range(30))
    + "method: grid\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_sweep_is_refused_soon_and_in_short_messages(problems: Problems, kind: str) -> None:
    started = time.process_time()
    told = problems(HOSTILE[kind])
    assert time.process_time() - started < 2
    assert max(map(len, told)) < 500


@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, "'" * 100_001, '"\\' * 50_000, "['" * 30_000, "," * 120_000, "{a: " * 20_000, "1," * 20_000 + "1"],
    ids=["brackets", "quotes", "escapes", "both", "commas", "braces", "values"],
)
def test_a_hostile_command_line_is_refused_soon_and_in_one_short_message(problems: Problems, value: str) -> None:
    started = time.process_time()
    (told,) = problems(NAIVE + "method: grid\n", f"epochs={value}")
    assert time.process_time() - started < 2
    assert told.startswith("command line: epochs=")
    assert len(told) < 500


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    written=st.dictionaries(
        st.sampled_from([*OWN_KEYS, "epochs", "seeds", "reward_fn", "parametres"]),
        values
        | st.sampled_from(["grid", "zip", "list", "random", "lecture/two_state", [{"epochs": 1}], {"epochs": [1, 2]}])
        | st.dictionaries(st.sampled_from(["distribution", "min", "name", "over", "epochs"]), values, max_size=3),
        max_size=5,
    ),
    typed=st.lists(
        st.builds("{}={}".format, st.sampled_from([*OWN_KEYS, "metric.over", "epochs", "seeds"]), st.text(max_size=6)),
        max_size=3,
    ),
)
def test_any_sweep_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, written: dict[str, Any], typed: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "any.yaml").write_text(yaml12.write({"base": "lecture/two_state", **written}), encoding="utf-8")
    try:
        spec = read_sweep("any.yaml", typed, folder)
    except ConfigError:
        return
    cells = spec.cells()
    assert len({cell.label for cell in cells}) == len(cells) > 0
    assert yaml12.read(yaml12.write(spec.as_mapping()), "f") == spec.as_mapping()


def test_reading_a_sweep_needs_no_torch() -> None:
    code = (
        "import sys, pgrl_cli.config.sweep_spec as s; s.read_sweep('lecture/two_state', ['epochs=1,2']).as_mapping(); "
    )
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
