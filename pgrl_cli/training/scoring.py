"""From responses to advantages: how likely they are, what they earn, and what the delta mode makes of that."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations import categorical
from pgrl_cli.equations.attempts import expected_reward
from pgrl_cli.equations.averages import masked
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import of_runs
from pgrl_cli.registry import apply, needs
from pgrl_cli.training.outcomes import scores
from pgrl_cli.training.parts import Number, Parts, Share, State, column

Rollout = dict[str, Tensor]
"""Tensors by name; an equation asks for them by naming its parameters.

prompts [prompt token];
responses, old_log_probs, reference_log_probs, advantages [... prompt response token], and mask where not all tokens
count; reference_vocab_log_probs [... prompt response token vocab] where the divergence asks for it;
task_rewards (the task's), `reward/NAME` (its components), rewards (shaped: what the delta mode sees) and, where the KL
is taken from the reward, reward_kl [... prompt response].
"""


class Sampler(NamedTuple):
    """Who samples: a policy, the reference that the KL pulls it towards, and the knobs, all of the same runs."""

    policy: Policy
    reference: Policy | None
    knobs: Mapping[str, Number]


def described(parts: Parts, config: Config, sampler: Sampler, prompts: Tensor, responses: Tensor) -> Rollout:
    """Responses with how likely the policy and the reference find them, and the KL that is taken from their reward."""
    mask = parts.task.mask(responses)
    old_log_probs = masked(sampler.policy.log_probs(prompts, responses), mask)
    rollout = {"prompts": prompts, "responses": responses, "old_log_probs": old_log_probs}
    if mask is not None:
        rollout["mask"] = mask
    if sampler.reference is not None:
        rollout |= _under_reference(parts, sampler.reference, rollout)
        if config.kl_placement == "reward":
            rollout["reward_kl"] = _reward_kl(parts, sampler, rollout)
    return rollout


def _under_reference(parts: Parts, reference: Policy, rollout: Rollout) -> Rollout:
    """How likely the reference finds the responses, over the whole vocabulary only where the divergence asks for it."""
    prompts, responses = rollout["prompts"], rollout["responses"]
    found = {"reference_log_probs": masked(reference.log_probs(prompts, responses), rollout.get("mask"))}
    if "reference_vocab_log_probs" in needs(parts.divergence):
        found["reference_vocab_log_probs"] = reference.vocab_log_probs(prompts, responses)
    return found


def _reward_kl(parts: Parts, sampler: Sampler, rollout: Rollout) -> Tensor:
    """The estimate of the KL of each response at sampling, summed over its tokens: [... prompt response]."""
    tensors = rollout | {"log_probs": rollout["old_log_probs"]}
    if "vocab_log_probs" in needs(parts.divergence):
        tensors["vocab_log_probs"] = sampler.policy.vocab_log_probs(rollout["prompts"], rollout["responses"])
    kl = masked(apply(parts.divergence, tensors, sampler.knobs), rollout.get("mask")).sum(dim=-1)
    return kl.expand(rollout["responses"].shape[:-1])


def scored(parts: Parts, config: Config, state: State, share: Share, rollout: Rollout) -> Rollout:
    """What the task pays, component by component and in sum; what the delta mode sees; and what it makes of that.

    Raises RewardError.
    """
    found = scores(share.rewards, rollout["prompts"], rollout["responses"], parts.dtype)
    found["rewards"] = shaped(share, found["task_rewards"], rollout.get("reward_kl"))
    asked = {
        name: supply(parts, config, state, share, rollout)
        for name, supply in ON_DEMAND.items()
        if name in needs(share.advantage)
    }
    advantages = apply(share.advantage, rollout | found | asked, share.knobs)
    if advantages.ndim == found["rewards"].ndim:
        advantages = advantages.unsqueeze(-1)  # one advantage for all of a response's tokens
    return found | {"advantages": advantages}


def shaped(share: Share, task_rewards: Tensor, reward_kl: Tensor | None) -> Tensor:
    """What the delta mode sees of the task's rewards: scaled, shifted, and less the KL: [... prompt response]."""
    scale, shift, pull = (
        column(share.knobs[name], axes=2) for name in ("reward_scale", "reward_shift", "kl_coefficient")
    )
    rewards = task_rewards * scale + shift
    return rewards if reward_kl is None else rewards - pull * reward_kl


def score_squares(parts: Parts, config: Config, state: State, share: Share, rollout: Rollout) -> Tensor:
    """The squared length of each response's score with respect to its logits: [... prompt response]."""
    policy = _sampler(parts, state, share).policy
    vocab_log_probs = policy.vocab_log_probs(rollout["prompts"], rollout["responses"])
    squares = categorical.score_squares(rollout["responses"], vocab_log_probs)
    return masked(squares, rollout.get("mask")).sum(dim=-1)


def true_values(parts: Parts, config: Config, state: State, share: Share, rollout: Rollout) -> Tensor:
    """The expected shaped reward of each prompt, from every response that the policy may sample: [... prompt].

    Raises ValueError where there are too many responses, or a reward is the user's own.
    """
    if share.outcomes is None:
        raise ValueError("A reward of the user's own is not asked for every response there is.")
    sampler, prompts = _sampler(parts, state, share), rollout["prompts"]
    places = parts.drawn_prompts(config.prompts_per_epoch, state.epoch)
    task_rewards = share.outcomes.task_rewards if places is None else share.outcomes.task_rewards[places]
    every = share.outcomes.responses.expand(*rollout["responses"].shape[:-2], -1, -1)
    kl = described(parts, config, sampler, prompts, every)["reward_kl"] if "reward_kl" in rollout else None
    return expected_reward(shaped(share, task_rewards, kl), sampler.policy.every_probability(prompts, every))


def _sampler(parts: Parts, state: State, share: Share) -> Sampler:
    """Who samples the responses of a share."""
    if len(parts.shares) == 1:
        return Sampler(state.policy, state.reference, share.knobs)
    reference = None if state.reference is None else of_runs(state.reference, share.runs)
    return Sampler(of_runs(state.policy, share.runs), reference, share.knobs)


ON_DEMAND: Mapping[str, Callable[[Parts, Config, State, Share, Rollout], Tensor]] = {
    "score_squares": score_squares,
    "true_values": true_values,
}
"""What a rollout has only for a delta mode that asks for it."""
