"""What a rollout has only for a delta mode that asks for it, by the name of the parameter it asks with."""

from collections.abc import Callable, Mapping

from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations import categorical
from pgrl_cli.equations.attempts import expected_reward
from pgrl_cli.equations.averages import masked
from pgrl_cli.policies.stack import of_runs
from pgrl_cli.training.likelihoods import Rollout, Sampler, described, shaped
from pgrl_cli.training.outcomes import points, scores
from pgrl_cli.training.parts import Parts, Share, State


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
    "past_mean": past_mean,
    "greedy_rewards": greedy_rewards,
    "old_policy_rewards": old_policy_rewards,
}
"""What a rollout has only for a delta mode that asks for it."""
