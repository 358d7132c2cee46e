"""Invented mistakes: each is told with its file, its line, what came, what was possible, and the nearest name."""

import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import torch

from pgrl_cli.config import KEYS, OTHER_WORDS
from pgrl_cli.registry import apply, smallest_group
from pgrl_cli.resolution import ANNOTATIONS, Resolved
from pgrl_cli.words import TABLES, every_knob, owners

Resolve = Callable[..., Resolved]
Problems = Callable[..., list[str]]
WHOLE = "expected a whole number from 1"
DELTAS = (
    "possible: rewards, centered_rewards, normalized_rewards, max_rewards, leave_one_out_rewards, optimal_baseline, "
    "true_value_baseline, moving_average_baseline, old_policy_baseline, greedy_baseline, batch_normalized_rewards, "
    "reward_to_go, n_step, gae, process_rewards"
)
REWARDS = "possible: sort_inclusion_ordering_reward, sort_distance_reward, sort_exact_reward, or a function of your own"

MISTAKES: dict[str, tuple[str, list[str]]] = {
    "a misspelt key": ("seed: 1\nepohcs: 3\n", ["mine.yaml:2: unknown key 'epohcs'. Did you mean 'epochs'?"]),
    "a misspelt knob": (
        "loss_mode: clipped\n\nclip_epsilom: 0.1\n",
        ["mine.yaml:3: unknown key 'clip_epsilom'. Did you mean 'clip_epsilon'?"],
    ),
    "a key with hyphens": (
        "kl-coefficient: 0.1\n",
        ["mine.yaml:1: unknown key 'kl-coefficient'. Did you mean 'kl_coefficient'?"],
    ),
    "a key in capitals": ("SEED: 1\n", ["mine.yaml:1: unknown key 'SEED'. Did you mean 'seed'?"]),
    "a key like nothing": ("xyzzy: 1\n", ["mine.yaml:1: unknown key 'xyzzy'."]),
    "a key of the code": ("knobs: {}\n", ["mine.yaml:1: unknown key 'knobs'."]),
    "the lecture's key": (
        "# lecture\ndeltas_mode: rewards\n",
        ["mine.yaml:2: unknown key 'deltas_mode': here it is spelled 'delta_mode'"],
    ),
    "a misspelt delta mode": (
        "delta_mode: center_rewards\n",
        [f"mine.yaml:1: delta_mode: came 'center_rewards' (text); {DELTAS}. Did you mean 'centered_rewards'?"],
    ),
    "a loss mode that is nothing": (
        "seed: 1\nloss_mode: ppo\n",
        ["mine.yaml:2: loss_mode: came 'ppo' (text); possible: naive, unclipped, clipped, sequence_clipped, "],
    ),
    "a number for a word": (
        "optimizer: 5\n",
        ["mine.yaml:1: optimizer: came 5; possible: adam, adamw, sgd, trpo."],
    ),
    "a list for a word": (
        "average: [token_mean]\n",
        ["mine.yaml:1: average: came ['token_mean'] (a list); possible: token_mean, response_mean, "],
    ),
    "a misspelt reward": (
        "reward_fn: sort_distanc_reward\n",
        [f"mine.yaml:1: reward_fn: came 'sort_distanc_reward'; {REWARDS}, as in my_rewards.py:points. Did you mean 's"],
    ),
    "a misspelt reward in a map": (
        "reward_fn:\n  sort_exact_reward: 1\n  sort_distanc_reward: 1\n",
        ["mine.yaml:3: reward_fn: came 'sort_distanc_reward'; possible: sort_inclusion_ordering_reward, "],
    ),
    "a truth for a weight": (
        "reward_fn:\n  sort_distance_reward: 1\n  sort_exact_reward: true\n",
        ["mine.yaml:3: reward_fn"],
    ),
    "a reward map without rewards": (
        "reward_fn: {}\n",
        ["mine.yaml:1: reward_fn: the map is empty; give at least one reward a weight"],
    ),
    "a reward of another task": (
        "task: two_state\nreward_fn: sort_exact_reward\n",
        ["mine.yaml:2: reward_fn: came 'sort_exact_reward'; possible: two_state_reward, or a function of your own"],
    ),
    "a reward file that is missing": (
        "reward_fn: nowhere.py:points\n",
        ["mine.yaml:1: reward_fn: there is no file 'nowhere.py' in "],
    ),
    "a truth for a count": ("epochs: true\n", [f"mine.yaml:1: epochs: came true (a boolean); {WHOLE}"]),
    "a truth for a number": (
        "learning_rate: false\n",
        ["mine.yaml:1: learning_rate: came false (a boolean); expected a number above 0"],
    ),
    "a truth for text": ("name: true\n", ["mine.yaml:1: name: came true (a boolean); expected text"]),
    "half an epoch": ("epochs: 2.5\n", [f"mine.yaml:1: epochs: came 2.5; {WHOLE}"]),
    "a whole number with a point": ("epochs: 5.0\n", [f"mine.yaml:1: epochs: came 5.0; {WHOLE}; write 5"]),
    "a whole number with an exponent": ("epochs: 1e2\n", [f"mine.yaml:1: epochs: came 100.0; {WHOLE}; write 100"]),
    "a number in quotes": ("seed: 1\nepochs: '5'\n", [f"mine.yaml:2: epochs: came '5' (text); {WHOLE}; write 5 "]),
    "a number with underscores": (
        "epochs: 1_000\n",
        [f"mine.yaml:1: epochs: came '1_000' (text); {WHOLE}; write 1000 "],
    ),
    "a number with a leading zero": ("epochs: 017\n", [f"mine.yaml:1: epochs: came '017' (text); {WHOLE}; write 17 "]),
    "a time": ("epochs: 12:30\n", [f"mine.yaml:1: epochs: came '12:30' (text); {WHOLE}"]),
    "a word for a number": (
        "learning_rate: small\n",
        ["mine.yaml:1: learning_rate: came 'small' (text); expected a number above 0"],
    ),
    "nothing for a number": ("learning_rate:\n", ["mine.yaml:1: learning_rate: came null; expected a number above"]),
    "no epochs": ("epochs: 0\n", [f"mine.yaml:1: epochs: came 0; {WHOLE}"]),
    "fewer than no epochs": ("epochs: -3\n", [f"mine.yaml:1: epochs: came -3; {WHOLE}"]),
    "endless epochs": ("epochs: 1" + "0" * 30 + "\n", [f"mine.yaml:1: epochs: came 1{'0' * 30}; {WHOLE}"]),
    "no steps": ("steps_per_epoch: 0\n", ["mine.yaml:1: steps_per_epoch: came 0; expected a whole number from 1"]),
    "more responses than an epoch goes through": (
        "prompt_count: 4\nprompt_length: 6\ndelta_mode: true_value_baseline\n",
        [
            "mine.yaml:3: delta_mode: came 'true_value_baseline', which needs the reward of every response there is; "
            "there are 10^6 = 1,000,000 to each prompt, and an epoch goes through 65,536 at most; optimal_baseline and "
            "leave_one_out_rewards do without"
        ],
    ),
    "more responses than can be written down": (
        "prompt_count: 2\nprompt_length: 1000\nvocab_size: 1000000\ndelta_mode: true_value_baseline\n",
        ["mine.yaml:4: delta_mode: came 'true_value_baseline', which needs the reward of every response there is; the"],
    ),
    "too many seeds to go through every response": (
        "delta_mode: true_value_baseline\nseeds: 10000\n",
        [
            "mine.yaml:1: delta_mode: came 'true_value_baseline', which needs the reward of every response there is; "
            "those to 3 prompts in 10000 runs have 11,250,000 tokens, and an epoch goes through 10,000,000 at most; "
            "take fewer prompts or seeds; "
        ],
    ),
    "too many prompts to score every response to": (
        "prompt_count: 9000\nprompt_length: 4\nprompts_per_epoch: 2\ndelta_mode: true_value_baseline\n",
        [
            "mine.yaml:4: delta_mode: came 'true_value_baseline', which needs the reward of every response there is; "
            "those to all prompts have 360,000,000 tokens, "
        ],
    ),
    "no responses": ("num_responses: 0\n", ["mine.yaml:1: num_responses: came 0; expected a whole number from 1"]),
    "a negative rate": ("learning_rate: -1e-3\n", ["mine.yaml:1: learning_rate: came -0.001; expected a number ab"]),
    "an infinite rate": (
        "learning_rate: .inf\n",
        ["mine.yaml:1: learning_rate: came inf; expected a number above 0; it must be finite"],
    ),
    "a rate beyond floats": ("learning_rate: 1e999\n", ["mine.yaml:1: learning_rate: came inf; expected a number"]),
    "a rate that is no number": (
        "kl_coefficient: .nan\n",
        ["mine.yaml:1: kl_coefficient: came nan; expected a number from 0; it must be finite"],
    ),
    "a negative seed": ("seed: -1\n", ["mine.yaml:1: seed: came -1; expected a whole number from 0"]),
    "whole numbers that came otherwise": (
        "seed: 1e10\nnum_responses: 1e300\nname: 1000000000000\n",
        [
            "mine.yaml:1: seed: came 10000000000.0; expected a whole number from 0; write 10000000000",
            "mine.yaml:2: num_responses: came 1e+300; expected a whole number from 1; it is too large",
            "mine.yaml:3: name: came 1000000000000; expected text",
        ],
    ),
    "a seed too large": ("seed: 9223372036854775808\n", ["mine.yaml:1: seed: came 9223372036854775808; expected a"]),
    "a momentum of one": (
        "optimizer: sgd\nmomentum: 1\n",
        ["mine.yaml:2: momentum: came 1; expected a number from 0, below 1"],
    ),
    "a dual clip of one": (
        "loss_mode: clipped\ndual_clip: 1\n",
        ["mine.yaml:2: dual_clip: came 1; expected a number above 1 or null"],
    ),
    "a name that is too long": (f"name: {'x' * 101}\n", ["mine.yaml:1: name: came 'xxxxx"]),
    "a name of digits": ("name: 2026\n", ["mine.yaml:1: name: came 2026; expected text that is not empty"]),
    "a place for the KL that is none": (
        "kl_coefficient: 1\nkl_placement: rewards\n",
        ["mine.yaml:2: kl_placement: came 'rewards' (text); expected loss or reward"],
    ),
    "a precision that is none": (
        "dtype: float16\n",
        ["mine.yaml:1: dtype: came 'float16' (text); expected float32"],
    ),
    "no prompts": ("prompts: []\n", ["mine.yaml:1: prompts: there must be at least one prompt, and none may be empty"]),
    "an empty prompt": ("prompts: [[]]\n", ["mine.yaml:1: prompts: there must be at least one prompt, and none may"]),
    "ragged prompts": (
        "seed: 1\nprompts: [[1, 2], [3]]\n",
        ["mine.yaml:2: prompts: all prompts must have one length; these have 1, 2 numbers"],
    ),
    "a prompt outside the vocabulary": (
        "prompts: [[1, 2], [3, 9]]\nvocab_size: 4\n",
        ["mine.yaml:1: prompts: 9 lies outside the vocabulary, which is 0 to 3"],
    ),
    "a negative token": (
        "prompts: [[1, -2]]\n",
        ["mine.yaml:1: prompts: -2 lies outside the vocabulary, which is 0 "],
    ),
    "a token beyond 64 bits": ("seed: 1\nprompts: [[99999999999999999999, 1]]\n", ["mine.yaml:2: prompts: "]),
    "a prompt that is a number": (
        "prompts: [1, 2]\n",
        ["mine.yaml:1: prompts: came [1, 2] (a list); expected a li"],
    ),
    "a prompt of words": (
        "prompts: [[a]]\n",
        ["mine.yaml:1: prompts: came [['a']] (a list); expected a list of lis"],
    ),
    "a vocabulary too small for the lecture's prompts": (
        "seed: 1\nvocab_size: 3\n",
        ["mine.yaml:2: "],
    ),
    "more prompts than there are": (
        "prompt_count: 9\nprompt_length: 1\nvocab_size: 8\n",
        ["mine.yaml:1: prompt_count: 9 prompts and 0 held out are more than the 8 different prompts of 1 numbers"],
    ),
    "more prompts an epoch than there are": (
        "seed: 1\nprompts_per_epoch: 4\n",
        ["mine.yaml:2: prompts_per_epoch: came 4; the task has only 3 prompts"],
    ),
    "numbers beyond what float32 holds": (
        "policy: transformer\ntemperature: 1e-40\nlayers: 1000000000\nkl_coefficient: 0.1\nkl_target: 1e-46\n"
        "loss_mode: clipped\nclip_epsilon: 1e300\n",
        [
            "mine.yaml:2: temperature: came 1e-40; expected a number from 1e-30",
            "mine.yaml:3: layers: came 1000000000; expected a whole number from 1, up to 1000",
            "mine.yaml:5: kl_target: came 1e-46; expected a number from 1e-30 or null",
            "mine.yaml:7: clip_epsilon: came 1e+300; expected a number from 1e-30 or null; it is too large",
        ],
    ),
    "rounds that would take for ever": (
        "drop_zero_variance_groups: true\nresampling_rounds: 2000000000\n",
        ["mine.yaml:2: resampling_rounds: came 2000000000; expected a whole number from 0, up to 1000"],
    ),
    "heads that do not divide the width": (
        "policy: transformer\nheads: 3\n",
        ["mine.yaml:2: heads: came 3, which does not divide width: 32; 1 does"],
    ),
    "no clip at all": (
        "loss_mode: clipped\nclip_epsilon: null\n",
        [
            "mine.yaml:2: clip_epsilon: came null, and so did clip_low, clip_high; each side of the clip "
            "needs a bound, its own or that of clip_epsilon"
        ],
    ),
    "a knob of another loss": (
        "loss_mode: naive\nclip_epsilon: 0.1\n",
        [
            "mine.yaml:2: clip_epsilon turns nothing here: it belongs to loss_mode: clipped, sequence_clipped, "
            "but here loss_mode is naive"
        ],
    ),
    "listed and generated prompts": (
        "prompt_count: 5\nprompts: [[1]]\n",
        ["mine.yaml:1: prompt_count turns nothing here: prompts lists them"],
    ),
    "a length of prompts that are not generated": (
        "prompt_length: 4\n",
        ["mine.yaml:1: prompt_length turns nothing here: prompts are not generated"],
    ),
    "a seed of prompts that are not drawn": (
        "prompts_seed: 4\n",
        ["mine.yaml:1: prompts_seed turns nothing here: prompts are neither generated nor drawn"],
    ),
    "a decay of no bonus": (
        "entropy_decay: linear\n",
        ["mine.yaml:1: entropy_decay turns nothing here: entropy_coefficient is 0"],
    ),
    "a clip that two others replace": (
        "loss_mode: clipped\nclip_epsilon: 0.1\nclip_low: 0.1\nclip_high: 0.2\n",
        ["mine.yaml:2: clip_epsilon turns nothing here: clip_low and clip_high replace it on both sides"],
    ),
    "equal keys among other mistakes": (
        "seed: 1\nepohcs: 2\nseed: 3\nseed: 4\nwidth: 0\n",
        [
            "mine.yaml:2: unknown key 'epohcs'. Did you mean 'epochs'?",
            "mine.yaml:3: the key 'seed' stands here and on line 1; keep one",
            "mine.yaml:5: width: came 0; expected a whole number from 1",
        ],
    ),
    "a name of None": ("name: None\n", ["mine.yaml:1: name: came 'None' (text); leave the key out to take the file's"]),
    "a word that may not be null": (
        "kl_placement: None\n",
        ["mine.yaml:1: kl_placement: came 'None' (text); expected "],
    ),
    "more responses than anyone has": (
        "num_responses: 1e26\nwidth: 99999999999\n",
        [
            "mine.yaml:1: num_responses: came 1e+26",
            "mine.yaml:2: width: came 99999999999; expected a whole number from 1; it is ",
        ],
    ),
    "two equal keys": ("seed: 1\nepochs: 2\nseed: 3\n", ["mine.yaml:3: the key 'seed' stands here and on line 1"]),
    "a tab": ("seed: 1\nreward_fn:\n\tsort_exact_reward: 1\n", ["mine.yaml:3: is not valid YAML: "]),
    "many at once, in the order of their lines": (
        "epochs: 0\n# a comment\nlr: 1\ndelta_mode: center_rewards\nclip_epsilon: 0.1\n"
        "prompts: [[1], [2, 3]]\nseed: yes\n",
        [
            "mine.yaml:1: epochs: came 0",
            "mine.yaml:3: unknown key 'lr': here it is spelled 'learning_rate'",
            "mine.yaml:4: delta_mode: came 'center_rewards'",
            "mine.yaml:5: clip_epsilon turns nothing here",
            "mine.yaml:6: prompts: all prompts must have one length",
            "mine.yaml:7: seed: came 'yes' (text)",
        ],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_line_and_nothing_else_is_blamed(problems: Problems, mistake: str) -> None:
    text, expected = MISTAKES[mistake]
    told = problems(text)
    assert len(told) == len(expected), told
    for problem, fragment in zip(told, expected, strict=True):
        assert problem.startswith(fragment)


@pytest.mark.parametrize(
    ("text", "lines"),
    {
        "delta_mode: reward\nnum_responses: 1\n": [1],
        "kl_coefficient: -1\nkl_placement: reward\n": [1],
        "kl_coefficient: much\nkl_placement: reward\n": [1],
        "prompts: [[1], [2], [3], [4], [9]]\nvocab_size: 5\nprompts_per_epoch: 5\n": [1],
        "prompts: [[1], [2], [3], [4], x]\nprompts_per_epoch: 5\n": [1],
        "task: sortin\nvocab_size: 3\n": [1],
        "task: two_stat\nreward_fn: two_state_reward\n": [1],
        "loss_mode: cliped\nclip_epsilon: 0.1\n": [1],
        "optimizer: adamm\nweight_decay: 0.1\nmomentum: 0.1\n": [1],
        "vocab_size: none\nprompts: [[1, 9]]\n": [1],
        "num_responses: one\ndelta_mode: normalized_rewards\n": [1],
        "prompt_count: many\nprompt_length: 4\n": [1],
        "entropy_coefficient: much\nentropy_decay: linear\n": [1],
        "seeds: many\ndelta_mode: true_value_baseline\n": [1],
        "vocab_size: many\nprompts: [[0, 0, 0, 0, 0, 0, 0, 9]]\ndelta_mode: true_value_baseline\n": [1],
    }.items(),
)
def test_what_depends_on_a_mistake_is_not_judged_by_a_default(problems: Problems, text: str, lines: list[int]) -> None:
    told = problems(text)
    assert [problem.partition(": ")[0] for problem in told] == [f"mine.yaml:{line}" for line in lines], told


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_a_word_of_another_library_is_told_how_it_is_spelled_here(problems: Problems, word: str) -> None:
    expected = f"unknown key '{word}': here it is spelled '{OTHER_WORDS[word]}'"
    assert problems(f"seed: 1\n{word}: 1\n") == [f"mine.yaml:2: {expected}"]
    assert problems("seed: 1\n", f"{word}=1") == [f"command line: {word}=1: {expected}"]


def test_every_word_of_another_library_points_to_a_key_that_exists_and_is_none_itself() -> None:
    known = {*KEYS, *every_knob()}
    assert set(OTHER_WORDS.values()) <= known
    assert not set(OTHER_WORDS) & known


def test_the_lectures_and_the_best_known_libraries_words_are_all_there() -> None:
    lecture = "deltas_mode num_epochs num_steps_per_epoch num_trials kl_penalty compute_ref_model_period"
    libraries = "adv_estimator scale_rewards loss_type policy_loss loss_agg_mode beta kl_loss_coef kl_loss_type "
    libraries += "use_kl_in_reward use_kl_loss ref_model_sync_steps iterations num_iterations ppo_epochs lr "
    libraries += "num_generations group_size rollout.n epsilon cliprange clip_ratio entropy_coef"
    assert set((lecture + " " + libraries).split()) <= set(OTHER_WORDS)


def may_be_null(annotation: Any) -> bool:
    members = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return may_be_null(members[0])
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in members


NULLABLE = [key for key in KEYS if may_be_null(ANNOTATIONS[key])]
NULLABLE += [name for name, knob in every_knob().items() if may_be_null(knob.annotation)]


def test_the_keys_that_may_be_null_are_those_that_the_next_test_takes() -> None:
    assert {"reward_fn", "prompts_per_epoch", "kl_estimator", "clip_low", "prompts", "vocab_size"} <= set(NULLABLE)


ALIVE = {
    "held_out_count": "prompt_count: 5\n",
    "seeds": "epochs: 1\n",
    "log_seeds": "seeds: 2\n",
    "value_clip": "delta_mode: gae\n",
    "old_kl_target": "old_kl_coefficient: 0.1\n",
    "max_response_tokens": "task: addition\n",
    "overlong_margin": "task: addition\nreward_fn: overlong_penalty\n",
    "shortest_prompt": "prompt_count: 5\n",
    "importance_cap": "loss_mode: importance_sampled\n",
}
"""What lets a key live that may be null."""


@pytest.mark.parametrize("key", NULLABLE)
def test_none_as_text_is_told_to_write_null(problems: Problems, key: str) -> None:
    alive = "loss_mode: clipped\n" if key in every_knob() and "loss_mode" in owners(key) else "seed: 1\n"
    alive = ALIVE.get(key, alive)
    (problem,) = problems(f"{alive}{key}: None\n")
    assert problem.startswith(f"mine.yaml:{1 + len(alive.splitlines())}: {key}: came 'None'")
    assert "write null" in problem.lower()


def test_no_hint_says_to_write_what_was_written(problems: Problems) -> None:
    for came in ("inf", "-inf", "infinity", "Infinity", "nan"):
        (problem,) = problems(f"learning_rate: {came}\n")
        assert f"write {came}" not in problem


def a_dead_place(knob: str) -> dict[str, str] | None:
    """Words of which none has the knob; None where all have it."""
    words = {}
    for key, having in owners(knob).items():
        others = [word for word in TABLES[key] if word not in having]
        if not others:
            return None
        words[key] = others[0]
    return words


@pytest.mark.parametrize("knob", [knob for knob in every_knob() if a_dead_place(knob)])
def test_a_knob_that_turns_nothing_is_a_mistake_beside_the_word_and_above_it(problems: Problems, knob: str) -> None:
    words = a_dead_place(knob) or {}
    text = "".join(f"{key}: {word}\n" for key, word in words.items())
    beside, above = problems(f"{text}{knob}: 1\n"), problems(text, f"{knob}=1")
    assert any(problem.startswith(f"mine.yaml:{len(words) + 1}: {knob} turns nothing here") for problem in beside)
    assert any(problem.startswith(f"command line: {knob}=1: {knob} turns nothing here") for problem in above)


@pytest.mark.parametrize("mode", [mode for mode, delta in TABLES["delta_mode"].items() if smallest_group(delta) > 1])
def test_a_mode_that_compares_responses_refuses_a_group_of_one_and_says_why(problems: Problems, mode: str) -> None:
    (problem,) = problems(f"delta_mode: {mode}\nnum_responses: 1\n")
    told = f"num_responses: came 1; delta_mode {mode} compares a group's responses and needs 2"
    assert problem == f"mine.yaml:2: {told}"


ONE = torch.ones(1, 1, 1, dtype=torch.float64)
A_GROUP_OF_ONE = {
    "rewards": 2 * ONE[0],
    "true_values": ONE[0, 0],
    "past_mean": ONE[0, 0, 0],
    "old_policy_rewards": ONE[0],
    "greedy_rewards": ONE[0, 0],
    "token_rewards": ONE,
    "values": torch.zeros(1, 1, 2, dtype=torch.float64),
}


@pytest.mark.parametrize("mode", [mode for mode, delta in TABLES["delta_mode"].items() if smallest_group(delta) == 1])
def test_a_mode_that_compares_nothing_in_a_group_takes_a_group_of_one(resolved: Resolve, mode: str) -> None:
    assert resolved(f"delta_mode: {mode}\nnum_responses: 1\n").config.num_responses == 1
    if mode == "batch_normalized_rewards":
        return  # it compares with other prompts' responses
    assert apply(TABLES["delta_mode"][mode], A_GROUP_OF_ONE, {}).isfinite().all()


def test_several_modes_compare_responses() -> None:
    comparing = {mode for mode, delta in TABLES["delta_mode"].items() if smallest_group(delta) > 1}
    assert {"centered_rewards", "normalized_rewards", "leave_one_out_rewards"} <= comparing


@pytest.mark.parametrize(
    "text",
    [
        "kl_estimator: exact\n",
        "kl_average: token_mean\n",
        "kl_placement: loss\n",
        "kl_coefficient: 0\nkl_estimator: k1\nkl_average: response_mean\nreference_period: 3\n",
        "reference_period: 0\n",
        "kl_average: budget_mean\ntoken_budget: 4\n",
    ],
)
def test_what_belongs_to_the_kl_is_legal_without_a_kl(resolved: Resolve, text: str) -> None:
    assert all("nothing while kl_coefficient is 0" in note for note in resolved(text).notes)


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("kl_placement: reward\n", ["kl_placement turns nothing while kl_coefficient is 0"]),
        ("kl_average: token_mean\nreference_period: 3\n", ["kl_average, reference_period turn nothing while"]),
        ("kl_average: response_sum\nkl_estimator: k3\nkl_placement: loss\nreference_period: 10\n", []),
        ("kl_average: token_mean\nkl_coefficient: 0.1\n", []),
    ],
)
def test_a_note_says_where_a_key_of_the_kl_turns_nothing(resolved: Resolve, text: str, notes: list[str]) -> None:
    told = resolved(text).notes
    assert len(told) == len(notes)
    assert all(note.startswith(start) for note, start in zip(told, notes, strict=True))


@pytest.mark.parametrize("size", [300, 50_000])
@pytest.mark.parametrize(
    "text",
    ["? {}\n: 1\n", "a: !{} 1\n", "reward_fn: {}\n", "reward_fn: {}.py:points\n", "base: {}\n", "name: {}\n"],
    ids=["key", "tag", "reward", "reward file", "base", "name"],
)
def test_a_long_word_is_told_in_a_message_that_can_be_read(problems: Problems, text: str, size: int) -> None:
    (problem,) = problems(text.format("x" * size))
    assert problem.startswith("mine.yaml:1: ")
    assert len(problem) < 2000


def test_a_list_of_seeds_that_is_none_is_told_what_a_list_of_seeds_is(problems: Problems) -> None:
    (problem,) = problems("seeds: 0\n")
    assert "a whole number from 1, up to 100000 or a list of whole numbers from 0 that is not empty" in problem
    assert "characters" not in problem
