"""Objectives: from a rollout and the policy as it is now to the number to descend, one per run."""

from typing import NamedTuple

from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations.averages import Mask, masked, token_mean
from pgrl_cli.equations.categorical import entropy, log_probs_of
from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import Function, apply
from pgrl_cli.training.parts import Number, Parts
from pgrl_cli.training.rollouts import Rollout


class Objective(NamedTuple):
    """What to descend, and what it was made of."""

    loss: Tensor
    """[...]: the policy loss, plus the weighted KL, minus the weighted entropy."""
    kl: Tensor | None
    """[...]: the estimate that the loss contains, in nats; none where nothing pulls, or the reward does."""
    entropies: Tensor
    """[... prompt response token], or a response axis of 1: of each token's distribution, in nats."""
    log_probs: Tensor
    """[... prompt response token]."""


def policy_gradient(
    parts: Parts, config: Config, policy: Policy, rollout: Rollout, entropy_coefficient: Number
) -> Objective:
    """The policy loss plus the KL penalty minus the entropy bonus."""
    mask = rollout.get("mask")
    vocab_log_probs = policy.vocab_log_probs(rollout["prompts"], rollout["responses"])
    log_probs = masked(log_probs_of(rollout["responses"], vocab_log_probs), mask)
    tensors = rollout | {"log_probs": log_probs, "vocab_log_probs": vocab_log_probs}
    loss = _average(parts.average, apply(parts.loss, tensors, parts.knobs), mask, parts)
    kl = None
    if "reference_log_probs" in rollout and config.kl_placement == "loss":
        kl = _average(parts.kl_average, apply(parts.divergence, tensors, parts.knobs), mask, parts)
        loss = loss + parts.knob("kl_coefficient", axes=0) * kl
    rewarded = parts.uses("entropy_coefficient")
    entropies = entropy(vocab_log_probs if rewarded else vocab_log_probs.detach())
    if rewarded:
        loss = loss - entropy_coefficient * token_mean(entropies, mask)
    return Objective(loss, kl, entropies.detach(), log_probs.detach())


def _average(function: Function, values: Tensor, mask: Mask, parts: Parts) -> Tensor:
    return apply(function, {"values": values, "mask": mask}, parts.knobs)
