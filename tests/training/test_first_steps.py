"""An epoch's first step learns from what its policy has said at sampling: nothing is read a second time."""

import pytest
import torch
from training.lecture import config

from pgrl_cli.assembly import assemble
from pgrl_cli.policies.transformer import TransformerPolicy
from pgrl_cli.training.gradients import gradients_of
from pgrl_cli.training.rollouts import collect
from pgrl_cli.training.trainer import train

SMALL = {
    "policy": "transformer",
    "width": 8,
    "layers": 1,
    "num_responses": 4,
    "epochs": 3,
    "eval_period": 0,
    "reference_period": 0,
    "learning_rate": 0.01,
    "loss_mode": "clipped",
    "dtype": "float32",
}
KINDS = {
    "a run alone": {},
    "responses that end": {"task": "addition", "prompt_count": 6, "reward_fn": "partial"},
    "a KL in the loss and an entropy bonus": {"kl_coefficient": 0.1, "entropy_coefficient": 0.1},
    "a KL in the reward": {"kl_coefficient": 0.1, "kl_placement": "reward"},
    "a KL to the old policy": {"old_kl_coefficient": 0.5},
    "a shared critic": {"delta_mode": "gae", "critic": "shared"},
    "a natural gradient": {"loss_mode": "unclipped", "optimizer": "trpo", "learning_rate": None},
    "shared logits": {"policy": "positional", "layers": None},
    "some of the prompts": {"prompt_count": 6, "prompts_per_epoch": 3},
}


def small(**keys):
    return config(**{name: value for name, value in (SMALL | keys).items() if value is not None})


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_step_is_bit_for_bit_what_reading_again_would_make_it(kind, runs):
    one = small(**KINDS[kind], **({} if runs == 1 else {"seeds": runs}))
    parts, state = assemble([one])
    for _ in zip(range(2), train(parts, one, state), strict=False):
        pass
    rollout, _, ahead = collect(parts, one, state)
    assert not any(tensor.requires_grad for tensor in rollout.values())
    anew, expected = gradients_of(parts, one, state, rollout, 0.1, None)
    objective, gradients = gradients_of(parts, one, state, rollout, 0.1, None, ahead)
    assert torch.equal(objective.log_probs, rollout["old_log_probs"])
    assert torch.equal(objective.loss, anew.loss)
    assert torch.equal(gradients.policy, expected.policy)
    assert gradients.policy.abs().max() > 0
    if expected.critic is not None:
        assert torch.equal(gradients.critic, expected.critic)


@pytest.mark.parametrize(
    ("keys", "read"),
    [
        ({}, 1),
        ({"steps_per_epoch": 3}, 3),
        ({"old_kl_coefficient": 0.5, "old_kl_target": 0.01}, 2),  # and once more afterwards, to see how far it went
        ({"micro_batch": 3}, 2),
        ({"drop_zero_variance_groups": True, "when_unfilled": "fill", "resampling_rounds": 0}, 2),
        ({"rollout_reuse": 2, "loss_mode": "importance_sampled"}, 1),
    ],
)
def test_responses_are_read_as_often_as_there_are_policies_to_read_them(keys, read, monkeypatch):
    one = small(**{"steps_per_epoch": 1} | keys)
    parts, state = assemble([one])
    times, logits = [], TransformerPolicy.logits
    monkeypatch.setattr(TransformerPolicy, "logits", lambda *given: times.append(1) or logits(*given))
    records = train(parts, one, state)
    for _ in range(2):  # the last epoch's policy is measured as well
        times.clear()
        record = next(records)
        assert len(times) == read
        assert record.numbers["ratio_max"].reshape(-1)[0] == 1 or "rollout_reuse" in keys
