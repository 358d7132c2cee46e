"""Objectives: from a rollout and the policy as it is now to the number to descend, one per run."""

from typing import NamedTuple

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations.averages import TOKENS, Mask, masked, token_mean
from pgrl_cli.equations.categorical import entropy, log_probs_of
from pgrl_cli.equations.divergences import exact
from pgrl_cli.equations.values import value_losses
from pgrl_cli.policies.heads import Critic
from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import Function, apply
from pgrl_cli.training.likelihoods import Rollout, whole_responses
from pgrl_cli.training.parts import Number, Parts


class Objective(NamedTuple):
    """What to descend, and what it was made of."""

    loss: Tensor
    """[...]: the policy loss, plus the weighted KLs, minus the weighted entropy."""
    kl: Tensor | None
    """[...]: the estimate that the loss contains, in nats; none where nothing pulls, or the reward does."""
    entropies: Tensor
    """[... prompt response token], or a response axis of 1: of each token's distribution, in nats."""
    log_probs: Tensor
    """[... prompt response token]."""
    old_kl: Tensor | None = None
    """[...]: KL(old || policy) per token, in nats; none where it weighs nothing."""
    value_loss: Tensor | None = None
    """[...]: the critic's, per token; none where there is none."""


class Weights(NamedTuple):
    """What each token of a whole rollout counts, [... prompt response token]: a part of it is weighed the same."""

    loss: Tensor
    kl: Tensor
    """With a token axis of 1 where the KL is of whole responses."""
    mean: Tensor
    """In a mean over all tokens."""


def policy_gradient(
    parts: Parts,
    config: Config,
    policy: Policy,
    rollout: Rollout,
    entropy_coefficient: Number,
    weights: Weights | None = None,
    vocab_log_probs: Tensor | None = None,
) -> Objective:
    """The policy loss plus the KL penalties minus the entropy bonus; of a part of a rollout its share, by weights.

    vocab_log_probs [... prompt response token vocab] are the policy's, with their gradient, where they are known.
    """
    mask = rollout.get("mask")
    if vocab_log_probs is None:
        vocab_log_probs = policy.vocab_log_probs(rollout["prompts"], rollout["responses"])
    log_probs = masked(log_probs_of(rollout["responses"], vocab_log_probs), mask)
    tensors = rollout | {"log_probs": log_probs, "vocab_log_probs": vocab_log_probs}
    losses = apply(parts.loss, tensors, parts.knobs)
    loss = _averaged(parts.average, losses, mask, parts, weights and weights.loss)
    kl = old_kl = None
    if "reference_log_probs" in rollout and config.kl_placement == "loss":
        kl = _kl(parts, config, tensors, mask, weights and weights.kl)
        loss = loss + parts.knob("kl_coefficient", axes=0) * kl
    if parts.uses("old_kl_coefficient"):
        divergences = exact(rollout["old_vocab_log_probs"], vocab_log_probs)
        old_kl = _averaged(token_mean, divergences, mask, parts, weights and weights.mean)
        loss = loss + parts.knob("old_kl_coefficient", axes=0) * old_kl
    rewarded = parts.uses("entropy_coefficient")
    entropies = entropy(vocab_log_probs if rewarded else vocab_log_probs.detach())
    if rewarded:
        loss = loss - entropy_coefficient * _averaged(token_mean, entropies, mask, parts, weights and weights.mean)
    kl, old_kl = (None if term is None else term.detach() for term in (kl, old_kl))
    return Objective(loss, kl, entropies.detach(), log_probs.detach(), old_kl)


def critic_loss(
    parts: Parts, config: Config, critic: Critic, policy: Policy, rollout: Rollout, weights: Weights | None = None
) -> Tensor:
    """Half the mean square of what the critic is off its targets, over tokens: [...]."""
    values = critic.values(policy, rollout["prompts"], rollout["responses"])[..., :-1]
    old, targets = rollout["values"][..., :-1], rollout["targets"]
    losses = value_losses(values, old, targets, value_clip=config.value_clip)
    return _averaged(token_mean, losses, rollout.get("mask"), parts, weights and weights.mean)


def weights_of(parts: Parts, config: Config, rollout: Rollout) -> Weights:
    """What each token counts: every average is a weighted sum, and these are its weights."""
    mask, shape = rollout.get("mask"), rollout["old_log_probs"].shape
    of_sequences = config.kl_level == "sequence"
    kl_mask = mask.any(dim=-1, keepdim=True) if of_sequences and mask is not None else mask

    def weights(function: Function, mask: Mask, shape: torch.Size) -> Tensor:
        with torch.enable_grad():
            values = torch.zeros(shape, dtype=parts.dtype, device=parts.device, requires_grad=True)
            return torch.autograd.grad(_averaged(function, values, mask, parts, None).sum(), values)[0]

    return Weights(
        loss=weights(parts.average, mask, shape),
        kl=weights(parts.kl_average, kl_mask, torch.Size([*shape[:-1], 1]) if of_sequences else shape),
        mean=weights(token_mean, mask, shape),
    )


def _kl(parts: Parts, config: Config, tensors: Rollout, mask: Mask, weights: Tensor | None) -> Tensor:
    """The KL's estimate, of each token or of each whole response, averaged: [...]."""
    if config.kl_level == "sequence":
        tensors = whole_responses(tensors)
        mask = None if mask is None else mask.any(dim=-1, keepdim=True)
    return _averaged(parts.kl_average, apply(parts.divergence, tensors, parts.knobs), mask, parts, weights)


def _averaged(function: Function, values: Tensor, mask: Mask, parts: Parts, weights: Tensor | None) -> Tensor:
    if weights is None:
        return apply(function, {"values": values, "mask": mask}, parts.knobs)
    return (masked(values, mask) * weights).sum(dim=TOKENS)
