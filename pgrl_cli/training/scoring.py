"""From responses to advantages: how likely they are, what they earn, and what the delta mode makes of that."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations import categorical
from pgrl_cli.equations.attempts import expected_reward
from pgrl_cli.equations.averages import masked
from pgrl_cli.equations.categorical import log_probs_of
from pgrl_cli.policies.heads import Critic
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import of_runs
from pgrl_cli.registry import apply, needs
from pgrl_cli.tasks.task import by_token
from pgrl_cli.training.outcomes import points, scores
from pgrl_cli.training.parts import Number, Parts, Share, State, column

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


def described(parts: Parts, config: Config, sampler: Sampler, prompts: Tensor, responses: Tensor) -> Rollout:
    """Responses with how likely the policy and the reference find them, and the KL that is taken from their reward."""
    mask = parts.task.mask(responses)
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


def valued(parts: Parts, config: Config, state: State, rollout: Rollout) -> Rollout:
    """What the critic finds every state of a rollout worth, where there is one: `values`.

    0 behind an end. A response that was cut off is worth behind its last token what `truncation` says.
    """
    if state.learner is None:
        return {}
    bootstraps = config.truncation == "bootstrap"
    return {"values": critics_values(parts, state.learner.critic, state.policy, rollout, bootstraps)}


def critics_values(parts: Parts, critic: Critic, policy: Policy, rollout: Rollout, bootstraps: bool) -> Tensor:
    """What a critic finds every state of prompts and responses worth: [... prompt response token+1], 0 behind an end.

    Behind the last token of a response that was cut off it is asked where it `bootstraps`; else that is worth 0.
    """
    responses, mask = rollout["responses"], rollout.get("mask")
    values = critic.values(policy, rollout["prompts"], responses)
    values = values.expand(*responses.shape[:-1], responses.shape[-1] + 1)
    goes_on = torch.zeros_like(responses[..., :1], dtype=torch.bool)  # behind the last token
    if mask is not None and bootstraps:
        goes_on = ~parts.task.ended(responses).unsqueeze(-1)
    inside = torch.ones_like(responses, dtype=torch.bool) if mask is None else mask
    return masked(values, torch.cat([inside, goes_on], dim=-1))


def scored(parts: Parts, config: Config, state: State, share: Share, rollout: Rollout) -> Rollout:
    """What the task pays, component by component and in sum; what the delta mode sees; and what it makes of that.

    Raises RewardError.
    """
    paid = points(share.rewards, rollout["prompts"], rollout["responses"], parts.dtype)
    found = scores(paid, share.rewards, rollout["responses"])
    found["rewards"] = shaped(share, found["task_rewards"], rollout.get("reward_kl"))
    known = rollout | found
    if parts.value_target is not None or "token_rewards" in needs(share.advantage):
        known["token_rewards"] = token_rewards(share, paid, rollout)
    if parts.value_target is not None:
        found["targets"] = apply(parts.value_target, known, share.knobs)
    for name, supply in ON_DEMAND.items():
        if name in needs(share.advantage):
            known[name] = supply(parts, config, state, share, rollout)
    advantages = apply(share.advantage, known, share.knobs)
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


def token_rewards(share: Share, paid: Mapping[str, Tensor], rollout: Rollout) -> Tensor:
    """The shaped reward token by token, [... prompt response token]; what a whole response earns comes with its last.

    0 behind a response's end. Its sum over tokens is what the delta mode sees of the response.
    """
    responses, mask = rollout["responses"], rollout.get("mask")
    scale, pull = (column(share.knobs[name], axes=3) for name in ("reward_scale", "kl_coefficient"))
    shifts = torch.zeros_like(rollout["old_log_probs"][..., 0]) + column(share.knobs["reward_shift"], axes=2)
    rewards = by_token(shifts, responses, mask)
    for name, (_, weight) in share.rewards.items():
        rewards = rewards + by_token(paid[name], responses, mask) * weight * scale
    return rewards - pull * rollout["token_kl"] if "token_kl" in rollout else rewards


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
    rewards = share.outcomes.task_rewards
    rewards = rewards[rollout["places"]] if "places" in rollout else rewards
    every = share.outcomes.responses.expand(*rollout["responses"].shape[:-2], -1, -1)
    kl = described(parts, config, sampler, prompts, every)["reward_kl"] if "reward_kl" in rollout else None
    return expected_reward(shaped(share, rewards, kl), sampler.policy.every_probability(prompts, every))


def step_ends(parts: Parts, config: Config, state: State, share: Share, rollout: Rollout) -> Tensor:
    """Which tokens [... prompt response token] end a step of a response: where process rewards are paid."""
    responses, mask = rollout["responses"], rollout.get("mask")
    return torch.ones_like(responses, dtype=torch.bool) if mask is None else mask


def past_mean(parts: Parts, config: Config, state: State, share: Share, rollout: Rollout) -> Tensor:
    """What the share's delta mode remembers of rewards: [...], NaN where it has seen none."""
    assert state.past_mean is not None
    return state.past_mean[share.runs] if parts.stacked else state.past_mean


def greedy_rewards(parts: Parts, config: Config, state: State, share: Share, rollout: Rollout) -> Tensor:
    """What the policy's likeliest response to each prompt earns, shaped: [... prompt]."""
    return _fresh_rewards(parts, config, share, _sampler(parts, state, share), rollout["prompts"], None).squeeze(-1)


def old_policy_rewards(parts: Parts, config: Config, state: State, share: Share, rollout: Rollout) -> Tensor:
    """What fresh responses of the policy of an epoch ago earn, shaped: [... prompt response].

    As many as are sampled from the policy; in the first epoch they are the policy's own.
    """
    sampler = _sampler(parts, state, share)
    if state.previous is not None:
        old = state.previous if len(parts.shares) == 1 else of_runs(state.previous, share.runs)
        sampler = sampler._replace(policy=old)
    shape = (len(rollout["prompts"]), config.num_responses, parts.task.response_length)
    uniforms = parts.uniforms("responses of the old policy", state.epoch, *shape)
    own = uniforms[share.runs] if parts.stacked else uniforms
    return _fresh_rewards(parts, config, share, sampler, rollout["prompts"], own)


def _fresh_rewards(
    parts: Parts, config: Config, share: Share, sampler: Sampler, prompts: Tensor, uniforms: Tensor | None
) -> Tensor:
    """The shaped rewards [... prompt response] of responses that are sampled for this alone."""
    responses = sampler.policy.respond(prompts, uniforms)
    paid = points(share.rewards, prompts, responses, parts.dtype)
    kl = described(parts, config, sampler, prompts, responses).get("reward_kl")
    return shaped(share, scores(paid, share.rewards, responses)["task_rewards"], kl)


def _sampler(parts: Parts, state: State, share: Share) -> Sampler:
    """Who samples the responses of a share."""
    if len(parts.shares) == 1:
        return Sampler(state.policy, state.reference, share.knobs)
    reference = None if state.reference is None else of_runs(state.reference, share.runs)
    return Sampler(of_runs(state.policy, share.runs), reference, share.knobs)


ON_DEMAND: Mapping[str, Callable[[Parts, Config, State, Share, Rollout], Tensor]] = {
    "score_squares": score_squares,
    "true_values": true_values,
    "step_ends": step_ends,
    "past_mean": past_mean,
    "greedy_rewards": greedy_rewards,
    "old_policy_rewards": old_policy_rewards,
}
"""What a rollout has only for a delta mode that asks for it."""
