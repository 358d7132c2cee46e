"""Responses under the policies that know them: how likely they are, the KL between these, and rewards less that KL."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations.averages import masked
from pgrl_cli.equations.categorical import log_probs_of
from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import apply, needs
from pgrl_cli.tasks.task import by_token
from pgrl_cli.training.parts import Number, Parts, Share, column

Rollout = dict[str, Tensor]
"""Tensors by name; an equation asks for them by naming its parameters.

prompts [prompt token], and places [prompt], which of the task's they are, where an epoch draws some;
responses, old_log_probs, reference_log_probs, advantages [... prompt response token], and mask where not all tokens
count; reference_vocab_log_probs, old_vocab_log_probs [... prompt response token vocab] where something asks for them;
task_rewards (the task's), `reward/NAME` (its components), rewards (shaped: what the delta mode sees) and, where the KL
is taken from the reward, reward_kl [... prompt response], and token_kl, its parts [... prompt response token]; where
the loss has it and its coefficient follows a target, sampled_kl [... prompt response], of each response at sampling;
right [... prompt response], which responses are the right answer, where not all have one length;
with a critic its values [... prompt response token+1], 0 behind an end, and their targets [... prompt response token].
Where groups were dropped, `group/NAME` [...] says what all groups that were sampled are like.
"""
OF_ALL_RUNS = ("prompts", "places")
"""What has no run axis."""


class Sampler(NamedTuple):
    """Who samples: a policy, the reference that the KL pulls it towards, and the knobs, all of the same runs."""

    policy: Policy
    reference: Policy | None
    knobs: Mapping[str, Number]


def described(
    parts: Parts,
    config: Config,
    sampler: Sampler,
    prompts: Tensor,
    responses: Tensor,
    vocab_log_probs: Tensor | None = None,
) -> Rollout:
    """Responses with how likely the policy and the reference find them, and the KL that is taken from their reward.

    vocab_log_probs [... prompt response token vocab] are the policy's, where they are known already.
    """
    mask = parts.task.mask(responses)
    if vocab_log_probs is None:
        vocab_log_probs = sampler.policy.vocab_log_probs(prompts, responses)
    old_log_probs = masked(log_probs_of(responses, vocab_log_probs), mask)
    rollout = {"prompts": prompts, "responses": responses, "old_log_probs": old_log_probs}
    if mask is not None:
        rollout["mask"] = mask
    if parts.uses("old_kl_coefficient"):
        rollout["old_vocab_log_probs"] = vocab_log_probs
    if sampler.reference is not None:
        rollout |= under_reference(parts, sampler.reference, rollout)
        if config.kl_placement == "reward" or config.kl_target is not None:
            rollout |= _kl_at_sampling(parts, config, sampler, rollout, vocab_log_probs)
    return rollout


def under_reference(parts: Parts, reference: Policy, rollout: Rollout) -> Rollout:
    """How likely the reference finds the responses, over the whole vocabulary only where the divergence asks for it."""
    prompts, responses = rollout["prompts"], rollout["responses"]
    found = {"reference_log_probs": masked(reference.log_probs(prompts, responses), rollout.get("mask"))}
    if "reference_vocab_log_probs" in needs(parts.divergence):
        found["reference_vocab_log_probs"] = reference.vocab_log_probs(prompts, responses)
    return found


def _kl_at_sampling(
    parts: Parts, config: Config, sampler: Sampler, rollout: Rollout, vocab_log_probs: Tensor
) -> Rollout:
    """The KL's estimate at sampling: reward_kl of each response and token_kl, which adds up to it, or sampled_kl."""
    mask = rollout.get("mask")
    tensors = rollout | {"log_probs": rollout["old_log_probs"], "vocab_log_probs": vocab_log_probs}
    if config.kl_level == "sequence":
        kl = apply(parts.divergence, whole_responses(tensors), sampler.knobs)
        token_kl = by_token(kl.squeeze(-1), rollout["responses"], mask)
    else:
        token_kl = masked(apply(parts.divergence, tensors, sampler.knobs), mask).expand(rollout["responses"].shape)
    whole = token_kl.sum(dim=-1)
    return {"reward_kl": whole, "token_kl": token_kl} if config.kl_placement == "reward" else {"sampled_kl": whole}


def whole_responses(tensors: Rollout) -> Rollout:
    """The log-probs of whole responses, with a token axis of 1: log_probs and reference_log_probs."""
    names = ("log_probs", "reference_log_probs")
    return {name: tensors[name].sum(dim=-1, keepdim=True) for name in names}


def shaped(share: Share, task_rewards: Tensor, reward_kl: Tensor | None) -> Tensor:
    """What the delta mode sees of the task's rewards: scaled, shifted, and less the KL: [... prompt response]."""
    scale, shift, pull = (
        column(share.knobs[name], axes=2) for name in ("reward_scale", "reward_shift", "kl_coefficient")
    )
    rewards = task_rewards * scale + shift
    return rewards if reward_kl is None else rewards - pull * reward_kl
