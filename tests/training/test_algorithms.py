"""The shipped algorithms, small: the same alone and in a stack, and the same after a stop at any epoch."""

import numpy as np
import pytest
import torch
from training.lecture import SAME_WITHIN, assert_same_rows

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.shipped import shipped_names
from pgrl_cli.resolution import resolve
from pgrl_cli.runs import lines_of
from pgrl_cli.training.snapshots import restore, snapshot
from pgrl_cli.training.trainer import train

ALGORITHMS = [name for name in shipped_names() if name.startswith("algorithms/") and not name.endswith("/base")]
SMALL = ["prompt_count=8", "held_out_count=2", "prompt_length=3", "vocab_size=4", "reward_fn=sort_distance_reward"]
SMALL += [
    "prompts_per_epoch=3",
    "num_responses=3",
    "width=8",
    "layers=1",
    "warm_start.epochs=2",
    "warm_start.prompts=3",
]
SMALL += ["epochs=3", "dtype=float64", "eval_period=2"]
REUSED = ["rollout_reuse=3", "loss_mode=importance_sampled", "epochs=4"]
MORE = {
    "a rollout used three times": ("ppo_penalty", [*REUSED]),
    "one without the groups that teach nothing": ("grpo", [*REUSED, "drop_zero_variance_groups=true"]),
    "a coefficient that follows a target": ("grpo", ["kl_target=0.01", "kl_horizon=20", "kl_coefficient=0.5"]),
    "a target and groups that are dropped": (
        "rloo",
        [
            "kl_target=0.01",
            "kl_horizon=20",
            "kl_coefficient=0.5",
            "drop_zero_variance_groups=true",
            "kl_level=sequence",
        ],
    ),
    "a memory and groups that are dropped": (
        "reinforce_baseline",
        ["drop_zero_variance_groups=true", "resampling_rounds=1", "when_unfilled=fill", "num_responses=2"],
    ),
    "the old policy's rewards": ("reinforce", ["delta_mode=old_policy_baseline", "steps_per_epoch=2"]),
    "a critic with a memory": ("a2c", ["optimizer=sgd", "momentum=0.5", "value_clip=0.1", "value_target=td"]),
}
KINDS = {name: (name.removeprefix("algorithms/"), []) for name in ALGORITHMS} | MORE


def shrunk(kind):
    """An algorithm's config, small, of one seed."""
    name, own = KINDS[kind]
    chosen = {text.partition("=")[0]: text for text in (*SMALL, *own)}
    config = resolve(layers_of(f"algorithms/{name}", list(chosen.values()))).config
    return config.model_copy(update={"seeds": None, "seed": 3})


def unequal(config):
    """The same with another seed, and with other numbers wherever a stack allows it."""
    more = {"learning_rate": 2e-3, "critic_learning_rate": 3e-3, "value_coefficient": 0.8, "reward_scale": 1.5}
    more |= {name: 2 * value for name in ("kl_coefficient", "old_kl_coefficient") if (value := getattr(config, name))}
    halved = ("kl_target", "old_kl_target", "max_gradient_norm")
    more |= {name: value / 2 for name in halved if (value := getattr(config, name))}
    knobs = {name: config.knobs[name] / 2 for name in ("clip_high", "gae_lambda", "max_kl") if config.knobs.get(name)}
    return config.model_copy(update=more | {"seed": 4, "knobs": config.knobs | knobs})


def rows_of(records, config, runs=None):
    return [row for record in records for row in record.rows(config, runs)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_the_same_in_a_stack_of_unequal_runs_as_alone(kind):
    first = shrunk(kind)
    stack = [first, unequal(first)]
    parts, together = assemble(stack)
    records = list(train(parts, first, together))
    for run, one in enumerate(stack):
        parts, alone = assemble([one])
        own = list(train(parts, one, alone))
        assert_same_rows(rows_of(records, one, run), rows_of(own, one))
        torch.testing.assert_close(together.parameters[run], alone.parameters, rtol=SAME_WITHIN, atol=SAME_WITHIN)
        assert max(record.measures["gradient_norm"].max() for record in own) > 0
        if alone.learner is not None:
            ours = together.learner.parameters[run]
            torch.testing.assert_close(ours, alone.learner.parameters, rtol=SAME_WITHIN, atol=SAME_WITHIN)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_stopped_after_every_epoch_writes_the_same_bytes(kind):
    config = shrunk(kind)
    parts, straight = assemble([config])
    expected = lines_of(rows_of(train(parts, config, straight), config))
    kept, lines = None, b""
    for _ in range(config.epochs):
        parts, state = assemble([config])
        if kept is not None:
            restore(state, kept)
        lines += lines_of(rows_of([next(train(parts, config, state))], config))
        kept = snapshot(state, {})
    assert lines == expected
    last = snapshot(straight, {})
    assert last.tensors.keys() == kept.tensors.keys()
    for name, tensor in last.tensors.items():
        assert np.array_equal(tensor.numpy(), kept.tensors[name].numpy(), equal_nan=tensor.is_floating_point()), name


def test_every_algorithm_is_here():
    assert len(ALGORITHMS) == 14
