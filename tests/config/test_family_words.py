"""The words of critics, controllers, dropped groups, warm starts: what lives beside what, and how it is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgrl_cli.config import yaml12
from pgrl_cli.config.sweep_spec import read_sweep
from pgrl_cli.resolution import Resolved, resolve
from pgrl_cli.words import written

Resolve = Callable[..., Resolved]
Problems = Callable[..., list[str]]
NO_CRITIC = "turns nothing here: the delta mode asks for no values, so there is no critic; n_step and gae ask for them"
NOTHING_DROPPED = "turns nothing here: no group is dropped"
NO_RATE = "turns nothing here: nothing has a learning rate"
NO_END = "turns nothing here: no critic is asked what a response that was cut off is worth"
ALONE = "turns nothing here: no critic shares the policy's body"
DEAD = {
    "critic: shared": NO_CRITIC,
    "value_target: td": NO_CRITIC,
    "critic_optimizer: sgd": NO_CRITIC,
    "value_clip: 0.1": NO_CRITIC,
    "critic_learning_rate: 0.1": NO_CRITIC,
    "task: addition, truncation: end": NO_END,
    "delta_mode: gae, truncation: end": NO_END,
    "delta_mode: gae, prompt_count: 5, truncation: end": NO_END,
    "value_coefficient: 1": ALONE,
    "delta_mode: gae, value_coefficient: 1": ALONE,
    "delta_mode: gae, critic: separate, value_coefficient: 1": ALONE,
    "optimizer: trpo, learning_rate: 0.1": "turns nothing here: the optimizer finds the length of its steps itself",
    "optimizer: trpo, learning_rate_decay: cosine": NO_RATE,
    "optimizer: trpo, learning_rate_warmup: 3": NO_RATE,
    "optimizer: trpo, max_gradient_norm: 1": NO_RATE,
    "old_kl_target: 0.1": "turns nothing here: old_kl_coefficient is 0, and stays so however often it is doubled",
    "resampling_rounds: 2": NOTHING_DROPPED,
    "when_unfilled: fill": NOTHING_DROPPED,
    "prompts_seed: 2": "turns nothing here: prompts are neither generated nor drawn",
    "warm_start: {epochs: 2}, prompts_seed: 2": "turns nothing here: prompts are neither generated nor drawn",
    "delta_mode: centered_rewards, gae_lambda: 0.5": "turns nothing here: it belongs to delta_mode: gae or ",
    "delta_mode: gae, max_kl: 0.5": "turns nothing here: it belongs to optimizer: trpo, but here optimizer is adam",
}
ALIVE = (
    "delta_mode: gae, critic: shared, value_target: td, critic_optimizer: sgd, value_clip: 0.1, value_coefficient: 1",
    "delta_mode: gae, optimizer: trpo, learning_rate_decay: cosine, learning_rate_warmup: 3, max_gradient_norm: 1",
    "delta_mode: n_step, gae_lambda: 0.5, critic_learning_rate: 0.1",
    "delta_mode: gae, task: addition, truncation: end",
    "delta_mode: gae, prompt_count: 5, shortest_prompt: 2, truncation: end",
    "old_kl_coefficient: 0.1, old_kl_target: 0.1",
    "drop_zero_variance_groups: true, resampling_rounds: 2, when_unfilled: fill",
    "warm_start: {epochs: 2, prompts: 2}, prompts_seed: 2",
    "kl_coefficient: 0.1, kl_target: 2, kl_horizon: 50",
)


def yaml(keys: str) -> str:
    """A file with a line for each key, of a map as flow style has it."""
    return yaml12.write(yaml12.read(f"{{{keys}}}", "f"))


@pytest.mark.parametrize("keys", DEAD)
def test_a_key_that_turns_nothing_is_told_with_its_reason(problems: Problems, keys: str) -> None:
    text = yaml(keys)
    (problem,) = problems(text)
    key = keys.rpartition(", ")[2].partition(":")[0]
    assert problem.startswith(f"mine.yaml:{len(text.splitlines())}: {key} {DEAD[keys]}")


@pytest.mark.parametrize("keys", ALIVE)
def test_beside_what_lets_it_live_it_is_taken_and_written_down(resolved: Resolve, keys: str) -> None:
    result = resolved(yaml(keys))
    assert result.notes == ()
    asked, kept = yaml12.read(yaml(keys), "f"), yaml12.read(written(result.config), "f")
    for key, value in asked.items():
        value = value | {"learning_rate": 1e-3} if key == "warm_start" else value
        assert kept[key] == value


@pytest.mark.parametrize("key", ["critic: shared", "gae_lambda: 0.5", "value_clip: 1"])
def test_where_the_delta_mode_is_misspelt_nothing_that_hangs_on_it_is_blamed(problems: Problems, key: str) -> None:
    (problem,) = problems(f"delta_mode: gea\n{key}\n")
    assert problem.startswith("mine.yaml:1: delta_mode: came 'gea'")


def test_a_critic_is_there_only_where_values_are_asked_for(resolved: Resolve) -> None:
    assert resolved("delta_mode: rewards\n").config.critic is None
    config = resolved("delta_mode: gae\noptimizer: sgd\n").config
    assert (config.critic, config.value_target, config.critic_optimizer) == ("separate", "lambda_return", "sgd")
    assert resolved("delta_mode: gae\ncritic: null\n").config.critic == "separate"


def test_a_shared_critic_is_refused_by_an_update_that_bounds_how_far_the_policy_moves(problems: Problems) -> None:
    (problem,) = problems("delta_mode: gae\noptimizer: trpo\ncritic: shared\n")
    assert problem.startswith("mine.yaml:3: critic: came 'shared', but optimizer trpo bounds how far the policy moves")
    assert "write critic: separate" in problem


def test_a_mode_that_compares_the_whole_batch_refuses_a_batch_of_one(resolved: Resolve, problems: Problems) -> None:
    mode = "delta_mode: batch_normalized_rewards\nnum_responses: 1\n"
    (problem,) = problems(f"{mode}prompts_per_epoch: 1\n")
    assert problem.startswith("mine.yaml:2: num_responses: came 1, to one prompt; delta_mode batch_normalized_rewards")
    assert resolved(f"{mode}prompts_per_epoch: 2\n").config.num_responses == 1


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("kl_coefficient: 0.1\nkl_horizon: 50\n", "kl_horizon turns nothing while kl_target is null"),
        ("kl_horizon: 50\n", "kl_horizon turns nothing while kl_coefficient is 0"),
        ("drop_zero_variance_groups: true\nwhen_unfilled: fill\n", "when_unfilled fill with resampling_rounds 0 drops"),
        ("optimizer: trpo\nmicro_batch: 1\n", "micro_batch with optimizer trpo saves little memory"),
    ],
)
def test_what_runs_but_not_as_meant_is_noted(resolved: Resolve, text: str, note: str) -> None:
    (told,) = resolved(text).notes
    assert told.startswith(note)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "warm_start: 3\n",
            "mine.yaml:1: warm_start: came 3; expected a map of epochs, learning_rate, prompts or null",
        ),
        ("warm_start: None\n", "mine.yaml:1: warm_start: came 'None' (text); expected a map of epochs, "),
        ("warm_start: {}\n", "mine.yaml:1: warm_start: it says nothing about epochs"),
        ("warm_start:\n  learning_rate: 0.1\n", "mine.yaml:1: warm_start: it says nothing about epochs"),
        ("warm_start:\n  epochs: 2\n  prompts: x\n", "mine.yaml:3: warm_start: prompts: came 'x' (text); expected"),
        ("warm_start:\n  epochs: true\n", "mine.yaml:2: warm_start: epochs: came true (a boolean); expected a whole"),
        (
            "warm_start:\n  epochs: 2\n  prompts: 9\n",
            "mine.yaml:3: warm_start: prompts: came 9; the task has only 3 prompts; null takes them all",
        ),
        (
            "warm_start:\n  epochs: 2\n  learning_rat: 1\n",
            "mine.yaml:3: warm_start: there is no 'learning_rat' in it; possible: epochs, learning_rate, prompts. Did",
        ),
    ],
)
def test_a_mistake_in_a_warm_start_is_told_at_its_line(problems: Problems, text: str, told: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(told)


def test_a_part_of_a_warm_start_is_overridden_by_its_dotted_name(resolved: Resolve, problems: Problems) -> None:
    text = "warm_start: {epochs: 2, learning_rate: 0.1}\n"
    warm_start = resolved(text, "warm_start.epochs=3").config.warm_start
    assert warm_start is not None
    assert (warm_start.epochs, warm_start.learning_rate, warm_start.prompts) == (3, 0.1, None)
    assert resolved(text, "warm_start=null").config.warm_start is None
    (problem,) = problems("seed: 1\n", "warm_start.epochs=3")
    assert "warm_start is not set here, not a map: there is no 'epochs' in it" in problem
    assert problem.endswith("as a map it is written warm_start: {epochs: 3}")
    (problem,) = problems(text, "warm_start.epochs=0")
    assert problem.startswith("command line: warm_start.epochs=0: warm_start: epochs: came 0; expected a whole number")


def configs(tmp_path: Path, text: str) -> list[tuple[Any, ...]]:
    (tmp_path / "sweep.yaml").write_text("base:\n  seed: 1\nmethod: grid\nparameters:\n" + text)
    found = []
    for cell in read_sweep("sweep.yaml", beside=tmp_path).cells():
        result = resolve(cell.layers)
        told = sorted(note.partition(" ")[0] for note in result.notes if "was dropped" in note)
        found.append((cell.parameters, result.config, told))
    return found


def test_a_sweep_over_critics_and_delta_modes_drops_what_is_dead_with_a_note(tmp_path: Path) -> None:
    text = "  delta_mode: [gae, centered_rewards]\n  critic: [shared, separate]\n  value_coefficient: [0.1, 0.2]\n"
    kept = []
    for parameters, config, dropped in configs(tmp_path, text):
        shares = (parameters["delta_mode"], parameters["critic"]) == ("gae", "shared")
        has_one = parameters["delta_mode"] == "gae"
        assert dropped == [*(["critic"] if not has_one else []), *(["value_coefficient"] if not shares else [])]
        assert config.critic == (parameters["critic"] if has_one else None)
        kept.append((config.critic, config.value_coefficient))
    assert len(set(kept)) == 4


def test_a_sweep_over_optimizers_drops_the_rate_that_one_of_them_does_not_have(tmp_path: Path) -> None:
    text = "  optimizer: [adam, trpo]\n  learning_rate: [0.1, 0.2]\n  warm_start: [null, {epochs: 1, prompts: 1}]\n"
    found = configs(tmp_path, text + "  prompts_seed: [1]\n")
    dropped = [told for _, _, told in found]
    assert dropped.count([]) == 2
    assert dropped.count(["learning_rate", "prompts_seed"]) == 2
    assert {config.warm_start and config.warm_start.epochs for _, config, _ in found} == {None, 1}
