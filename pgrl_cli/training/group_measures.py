"""What the groups of a rollout are like before the delta mode: their rewards and the lengths of their responses."""

import torch
from torch import Tensor

from pgrl_cli.training.likelihoods import Rollout

GROUPS = (-2, -1)
"""The axes prompt and response."""
Measures = dict[str, Tensor | None]


def group_measures(rollout: Rollout, sampled: Tensor | None = None) -> Measures:
    """What the rewards of the prompts' groups are like: [...] each; of all groups, or of some [... prompt]."""
    rewards = rollout["task_rewards"]
    equal = rewards.amax(dim=-1) == rewards.amin(dim=-1)
    mask = rollout.get("mask")
    lengths = torch.full_like(rewards, rollout["responses"].shape[-1]) if mask is None else mask.sum(dim=-1)
    kl = rollout.get("reward_kl", rollout.get("sampled_kl"))
    alone = rewards.shape[-1] == 1  # a group of one has no spread
    return {
        "mean_reward": _mean(rewards, sampled),
        "shaped_reward": _mean(rollout["rewards"], sampled),
        "zero_variance_groups": _mean(equal.to(rewards.dtype).unsqueeze(-1), sampled),
        "reward_std": None if alone else _mean(rewards.std(dim=-1, keepdim=True), sampled),
        "response_length": _mean(lengths.to(rewards.dtype), sampled),
        **_lengths_by_answer(rollout, lengths.to(rewards.dtype), sampled),
        **({} if kl is None else {"kl_at_sampling": _mean(kl, sampled)}),
        **{name: _mean(rollout[name], sampled) for name in rollout if name.startswith("reward/")},
    }


def _lengths_by_answer(rollout: Rollout, lengths: Tensor, sampled: Tensor | None) -> Measures:
    """The mean length of wrong and of right responses, in tokens: [...] each, NaN where there are none.

    Of tasks whose responses have lengths of their own; of others nothing.
    """
    if "right" not in rollout:
        return {}
    right = rollout["right"]
    counted = torch.ones_like(right) if sampled is None else sampled.unsqueeze(-1).expand(right.shape)
    named = {"wrong_response_length": counted & ~right, "right_response_length": counted & right}
    return {name: (lengths * some).sum(dim=GROUPS) / some.sum(dim=GROUPS) for name, some in named.items()}


def _mean(values: Tensor, sampled: Tensor | None) -> Tensor:
    """Over prompts and responses [... prompt response]: [...]."""
    if sampled is None:
        return values.mean(dim=GROUPS)
    groups = torch.where(sampled, values.mean(dim=-1), 0.0)
    return groups.sum(dim=-1) / sampled.sum(dim=-1)
