"""Micro-batches: a gradient that is worked out some prompts at a time is the one that is worked out at once."""

import pytest
import torch
from training.lecture import assert_same_rows, config, rows

from pgrl_cli.assembly import assemble
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.training import gradients as gradients_module
from pgrl_cli.training.gradients import gradients_of
from pgrl_cli.training.objectives import critic_loss, policy_gradient, weights_of
from pgrl_cli.training.rollouts import collect
from pgrl_cli.training.trainer import train
from pgrl_cli.workload import bytes_of, multiplications

SMALL = {"epochs": 2, "steps_per_epoch": 2, "learning_rate": 0.03, "num_responses": 3, "reference_period": 0}
ENDS = {"task": "addition", "prompt_count": 5, "reward_fn": "partial", "policy": "transformer", "width": 8, "layers": 1}
PULLED = {"kl_coefficient": 0.3}
WHOLE = PULLED | {"kl_level": "sequence"}
CRITIC = {"delta_mode": "gae", "value_coefficient": 0.7, "critic": "shared"}
CASES = [
    *({"average": word, "kl_average": word} | PULLED for word in AVERAGES),
    *(PULLED | {"kl_estimator": word, "average": "response_mean"} for word in ("k1", "k2", "exact")),
    *(WHOLE | {"kl_estimator": word, "kl_average": "response_mean"} for word in ("k1", "k2", "k3")),
    {"old_kl_coefficient": 0.4, "entropy_coefficient": 0.2, "loss_mode": "unclipped"},
    {"loss_mode": "sequence_clipped", "average": "response_sum"} | CRITIC | PULLED,
    {"delta_mode": "gae", "critic": "separate", "value_clip": 0.01, "entropy_coefficient": 0.1, "seeds": 2},
    {"drop_zero_variance_groups": True, "resampling_rounds": 1, "seeds": 3, "average": "response_mean"} | PULLED,
]


def moved(one):
    """Parts, state and the last rollout of a run whose policy has moved away from the one that sampled."""
    parts, state = assemble([one])
    *_, record = train(parts, one, state)
    return parts, state, record.rollout


def assert_the_same_for_every_split(one):
    parts, state, rollout = moved(one)
    objective, whole = gradients_of(parts, one, state, rollout, 0.2, None)
    weights = weights_of(parts, one, rollout)
    assert whole.policy.abs().max() > 1e-4
    for size in (1, 2):
        split = one.model_copy(update={"micro_batch": size})
        together, gradients = gradients_of(parts, split, state, rollout, 0.2, weights)
        for ours, theirs in zip(
            (*gradients, together.loss, together.kl, together.old_kl, together.value_loss),
            (*whole, objective.loss, objective.kl, objective.old_kl, objective.value_loss),
            strict=True,
        ):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("keys", CASES, ids=str)
def test_the_gradient_is_the_same_for_every_split_of_prompts_where_responses_end(keys):
    assert_the_same_for_every_split(config(**ENDS, **SMALL | keys))


@pytest.mark.parametrize("keys", [CASES[0], CASES[6], CASES[10]], ids=str)
def test_the_gradient_is_the_same_where_responses_to_a_prompt_share_what_is_known_of_them(keys):
    assert_the_same_for_every_split(config(**SMALL | keys))


def test_what_is_measured_is_the_same_though_two_prompts_at_most_are_asked_at_once(monkeypatch):
    at_once = []
    at = gradients_module.policy_gradient

    def counted(parts, config, policy, rollout, *more):
        at_once.append(len(rollout["prompts"]))
        return at(parts, config, policy, rollout, *more)

    keys = ENDS | SMALL | PULLED | CRITIC | {"drop_zero_variance_groups": True, "old_kl_coefficient": 0.1, "seeds": 2}
    theirs = rows(config(**keys))
    monkeypatch.setattr(gradients_module, "policy_gradient", counted)
    assert_same_rows(rows(config(**keys, micro_batch=2)), theirs)
    assert set(at_once) == {1, 2}


LARGER = {"policy": "transformer", "prompt_count": 8, "prompt_length": 5, "vocab_size": 10, "num_responses": 8}
WHAT = [
    {},
    {"width": 64, "prompt_count": 16},
    {"prompt_length": 14},
    {"layers": 4, "dtype": "float64"},
    {"delta_mode": "gae", "critic": "separate"},
    {"delta_mode": "gae", "critic": "shared"},
]


def kept_by_a_gradient(one):
    """Bytes that autograd keeps of a step, and those of a state and of what a step makes of its parameters."""
    parts, state = assemble([one])
    rollout, kept = collect(parts, one, state)[0], {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = policy_gradient(parts, one, state.policy, rollout, 0.0).loss
        if state.learner is not None:
            loss = loss + critic_loss(parts, one, state.learner.critic, state.policy, rollout)
    numbers = state.parameters.nbytes + (0 if state.learner is None else state.learner.parameters.nbytes)
    assert loss.isfinite()
    return sum(kept.values()) + 8 * numbers


@pytest.mark.parametrize("keys", WHAT, ids=str)
def test_the_memory_that_a_sweep_counts_on_is_that_of_a_step_within_a_factor_of_two(keys):
    one = config(**LARGER | {"dtype": "float32"} | keys)
    assert 0.5 < kept_by_a_gradient(one) / bytes_of(one) < 2


def test_micro_batches_are_counted_as_smaller_and_fisher_products_as_larger():
    plain = config(**LARGER)
    assert bytes_of(config(**LARGER, micro_batch=2)) < 0.6 * bytes_of(plain)
    assert bytes_of(config(**LARGER, optimizer="trpo")) > 2 * bytes_of(plain)


def test_work_is_counted_by_tokens_where_each_response_is_read_by_itself():
    few, many = (config(**LARGER | {"num_responses": count}) for count in (2, 32))
    shared = [one.model_copy(update={"policy": "positional"}) for one in (few, many)]

    def work(one):
        parts, state = assemble([one])
        return multiplications(one, parts.task, [state.policy])

    assert work(many) / work(few) == (8 * (5 + 32 * 5)) / (8 * (5 + 2 * 5))
    assert work(shared[0]) == work(shared[1])
    assert work(
        few.model_copy(update={"critic": "shared", "value_target": "td", "critic_optimizer": "adam"})
    ) > 1.9 * work(few)
