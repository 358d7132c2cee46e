"""From responses to advantages: what a critic finds them worth, what they earn, and what a delta mode makes of it."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations.averages import masked
from pgrl_cli.policies.heads import Critic
from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import apply, needs
from pgrl_cli.tasks.task import by_token, is_process_reward, last_tokens
from pgrl_cli.training.likelihoods import Rollout, shaped
from pgrl_cli.training.on_demand import ON_DEMAND
from pgrl_cli.training.outcomes import points, scores
from pgrl_cli.training.parts import Parts, Share, State, column


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
    if "step_ends" in needs(share.advantage):
        known["step_ends"] = step_ends(share, paid, rollout)
        known["token_rewards"] = at_step_ends(known["token_rewards"], known["step_ends"])
    for name, supply in ON_DEMAND.items():
        if name in needs(share.advantage):
            known[name] = supply(parts, config, state, share, rollout)
    advantages = apply(share.advantage, known, share.knobs)
    if advantages.ndim == found["rewards"].ndim:
        advantages = advantages.unsqueeze(-1)  # one advantage for all of a response's tokens
    return found | {"advantages": advantages}


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


def step_ends(share: Share, paid: Mapping[str, Tensor], rollout: Rollout) -> Tensor:
    """Which tokens [... prompt response token] end a step of a response: where a process reward says so.

    Every token does where none is paid. A response's last token ends one also where anything else is paid: an outcome
    or a shift, which fall due there, or a KL penalty, which falls due up to there. What weighs nothing is not paid.
    """
    responses, mask = rollout["responses"], rollout.get("mask")
    inside = torch.ones_like(responses, dtype=torch.bool) if mask is None else mask
    weighed = [paid[name] for name, (_, weight) in share.rewards.items() if weight != 0]
    steps = [~points.isnan() for points in weighed if is_process_reward(points, responses)]
    if not steps:
        return inside
    shift, pull = (column(share.knobs[name], axes=3) for name in ("reward_shift", "kl_coefficient"))
    more = torch.as_tensor(shift != 0) | (len(steps) < len(weighed)) | ((pull != 0) & ("token_kl" in rollout))
    return inside & (torch.stack(steps).any(dim=0) | (last_tokens(responses, mask) & more))


def at_step_ends(rewards: Tensor, ends: Tensor) -> Tensor:
    """What falls due within a step, paid with the token that ends it: [... token], [... token] -> [... token].

    What comes behind the last step is no step's and counts for nothing.
    """
    due, paid = torch.zeros_like(rewards[..., 0]), []
    for reward, ended in zip(rewards.unbind(dim=-1), ends.unbind(dim=-1), strict=True):
        due = due + reward
        paid.append(torch.where(ended, due, 0.0))
        due = torch.where(ended, 0.0, due)
    return torch.stack(paid, dim=-1)
