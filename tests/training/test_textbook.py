"""Whole trainings against a loop that follows the papers response by response, in lists."""

import math

import pytest
import torch
from textbook.loop import Book

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.shipped import shipped_names
from pgrl_cli.logs import samples
from pgrl_cli.resolution import resolve
from pgrl_cli.training.trainer import train

ALGORITHMS = [
    name.removeprefix("algorithms/")
    for name in shipped_names()
    if name.startswith("algorithms/") and not name.endswith("/base")
]
SMALL = {
    "prompt_count": 3,
    "held_out_count": 2,
    "prompt_length": 2,
    "vocab_size": 3,
    "prompts_per_epoch": 3,
    "num_responses": 3,
    "epochs": 3,
    "steps_per_epoch": 2,
    "dtype": "float64",
    "eval_period": 2,
    "learning_rate": 0.03,
    "adam_epsilon": 1e-5,  # so that it makes no step of what rounding leaves of a gradient that is 0
    "warm_start.epochs": 2,
    "warm_start.prompts": 3,
}
TRANSFORMER = {"policy": "transformer", "width": 4, "layers": 1, "warm_start.learning_rate": 0.05}
TABLE = {"policy": "table", "warm_start.learning_rate": 0.3}
ENDS = {"task": "copy", "shortest_prompt": 1, "vocab_size": 2, "max_response_tokens": 4, "reward_fn": "partial"}
WORLDS = {"table": TABLE, "transformer": TRANSFORMER, "table ends": TABLE | ENDS, "ends": TRANSFORMER | ENDS}


def resolved(algorithm, world, without=(), **own):
    """A shipped algorithm, as small as a world."""
    keys = {key: value for key, value in (SMALL | WORLDS[world] | own).items() if key not in without}
    typed = [
        f"{key}={'null' if value is None else str(value).lower() if isinstance(value, bool) else value}"
        for key, value in keys.items()
    ]
    config = resolve(layers_of(f"algorithms/{algorithm}", typed)).config
    return config.model_copy(update={"seeds": None, "seed": 3})


def both(config):
    """What the package measures and samples, and what the textbook does."""
    parts, state = assemble([config])
    critic = None if state.learner is None else dict(state.learner.critic.named_parameters())
    book = Book(config, parts.task, dict(state.policy.named_parameters()), critic)
    records = list(train(parts, config, state))
    lines = [row for record in records for row in record.rows(config)]
    sampled = [list(shown(record)) for record in records]
    return (lines, sampled), book.rows(), book, state


def shown(record):
    """A record's samples, as samples.jsonl has them: prompts and responses without padding."""
    task = record.task
    for sample in samples(record, None, None):
        prompt = tuple(token for token in sample["prompt"].tolist() if token != task.pad)
        for tokens in sample["responses"].tolist():
            yield prompt, tokens[: tokens.index(task.end) + 1] if task.end in tokens else tokens


def difference(ours, theirs):
    """Between two values of a metric."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else math.inf
    if math.isnan(ours) or math.isnan(theirs):
        return 0.0 if math.isnan(ours) and math.isnan(theirs) else math.inf
    return abs(ours - theirs) / max(1.0, abs(theirs))


def assert_same(config):
    (lines, sampled), (expected, written), book, state = both(config)
    assert sampled == written
    for line, other in zip(lines, expected, strict=True):
        off = {name: (line[name], other.get(name)) for name in line if difference(line[name], other.get(name)) > 1e-9}
        assert not off, (line["step"], off)
        assert not {name for name in other if name not in line}
    for name, tensor in book.parameters.items():
        torch.testing.assert_close(state.policy.get_parameter(name), tensor, rtol=1e-9, atol=1e-9)
    return lines


CASES = {
    "reinforce": ("table ends", {"reward_scale": 2.0, "reward_shift": -0.3}),
    "reinforce_baseline": ("table ends", {"baseline_decay": 0.5}),
    "rloo": ("table ends", {"kl_level": "sequence", "kl_target": 0.01, "kl_horizon": 40, "kl_coefficient": 0.3}),
    "grpo": ("ends", {"kl_coefficient": 0.4}),
    "dr_grpo": ("table ends", {"rollout_reuse": 2, "num_responses": 2}),
    "dapo": (
        "table ends",
        {"reward_fn": "exact", "resampling_rounds": 1, "when_unfilled": "fill", "num_responses": 2},
    ),
    "gspo": ("table ends", {}),
    "cispo": ("table", {}),
    "remax": ("transformer", {"temperature": 0.7}),
    "reinforce_pp": ("table ends", {"kl_coefficient": 0.3, "kl_estimator": "k3", "reference_period": 2}),
    "a2c": ("ends", {"n_steps": 2, "discount": 0.8, "value_target": "td", "truncation": "bootstrap"}),
    "ppo_clip": ("ends", {"reward_fn": "digits", "value_clip": 0.01, "discount": 0.9}),
    "ppo_penalty": ("table ends", {"micro_batch": 2, "learning_rate_warmup": 1, "old_kl_target": 0.0008}),
    "trpo": (
        "table ends",
        {"cg_iterations": 200, "cg_damping": 1.0, "without": ["learning_rate"]},
    ),
}
"""Each algorithm somewhere, with some of its knobs turned."""


@pytest.mark.parametrize("algorithm", CASES)
def test_an_algorithm_trains_as_the_textbook_says(algorithm):
    world, own = CASES[algorithm]
    lines = assert_same(resolved(algorithm, world, **own))
    assert max(line["gradient_norm"] for line in lines) > 1e-3


def test_every_algorithm_is_here():
    assert set(CASES) == set(ALGORITHMS)
