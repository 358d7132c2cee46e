"""Rollouts: what one epoch's gradient steps learn from, frozen."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pgrl_cli import draws
from pgrl_cli.config import Config
from pgrl_cli.equations.averages import masked
from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import apply, needs
from pgrl_cli.reward_calls import RewardError
from pgrl_cli.training.parts import Parts, Share, State, column

Rollout = dict[str, Tensor]
"""Tensors by name; an equation asks for them by naming its parameters.

prompts [prompt token];
responses, old_log_probs, reference_log_probs, advantages [... prompt response token], and mask where not all tokens
count; reference_vocab_log_probs [... prompt response token vocab] where the divergence asks for it;
task_rewards (the task's), `reward/NAME` (its components), rewards (shaped: what the delta mode sees) and, where the KL
is taken from the reward, reward_kl [... prompt response].
"""


Failures = dict[int, RewardError]
"""Why a share of a stack could not be scored, by its index."""


@torch.no_grad()  # nothing in a rollout may carry a gradient into a step
def collect(parts: Parts, config: Config, state: State) -> tuple[Rollout, Failures]:
    """Sample a group of responses to each of this epoch's prompts, score them, and compare them with each other.

    In a stack of several shares one whose reward fails is scored as NaN, which spoils its runs and no others, and the
    failure is handed back; a share on its own raises RewardError.
    """
    prompts = _prompts(parts, config, state.epoch)
    shape = (len(prompts), config.num_responses, parts.task.response_length)
    responses = state.policy.respond(prompts, parts.uniforms("responses", state.epoch, *shape))
    mask = parts.task.mask(responses)
    old_log_probs = masked(state.policy.log_probs(prompts, responses), mask)
    rollout = {"prompts": prompts, "responses": responses, "old_log_probs": old_log_probs}
    if mask is not None:
        rollout["mask"] = mask
    if state.reference is not None:
        rollout |= _under_reference(parts, state.reference, rollout)
        if config.kl_placement == "reward":
            rollout["reward_kl"] = _reward_kl(parts, state.policy, rollout)
    if len(parts.shares) == 1:
        return rollout | _scored(parts, parts.shares[0], rollout), {}
    failures: Failures = {}
    scored = []
    for index, share in enumerate(parts.shares):
        here = {name: tensor if name == "prompts" else tensor[share.runs] for name, tensor in rollout.items()}
        if state.stopped is not None and state.stopped[share.runs].all():
            scored.append(_spoilt(here))
            continue
        try:
            scored.append(_scored(parts, share, here))
        except RewardError as error:
            failures[index] = error
            _stop(state, share.runs)
            scored.append(_spoilt(here))
    return rollout | _side_by_side(scored), failures


def _stop(state: State, runs: slice) -> None:
    """Let runs of a stack rest from here on: nothing scores them, and no step moves them."""
    if state.stopped is None:
        state.stopped = torch.zeros(len(state.parameters), dtype=torch.bool, device=state.parameters.device)
    state.stopped = state.stopped.clone()  # whoever remembers the old one sees that something has changed
    state.stopped[runs] = True


def _prompts(parts: Parts, config: Config, epoch: int) -> Tensor:
    """All prompts, or this epoch's draw of them: the same ones for every run of a stack."""
    prompts = parts.task.prompts
    if config.prompts_per_epoch is None or config.prompts_per_epoch >= len(prompts):
        return prompts
    order = draws.generator(parts.prompts_seed, "prompts per epoch", epoch).permutation(len(prompts))
    return prompts[torch.from_numpy(order[: config.prompts_per_epoch]).to(prompts.device)]


def _under_reference(parts: Parts, reference: Policy, rollout: Rollout) -> Rollout:
    """How likely the reference finds the responses, over the whole vocabulary only where the divergence asks for it."""
    prompts, responses = rollout["prompts"], rollout["responses"]
    found = {"reference_log_probs": masked(reference.log_probs(prompts, responses), rollout.get("mask"))}
    if "reference_vocab_log_probs" in needs(parts.divergence):
        found["reference_vocab_log_probs"] = reference.vocab_log_probs(prompts, responses)
    return found


def _reward_kl(parts: Parts, policy: Policy, rollout: Rollout) -> Tensor:
    """The estimate of the KL of each response at sampling, summed over its tokens: [... prompt response]."""
    tensors = rollout | {"log_probs": rollout["old_log_probs"]}
    if "vocab_log_probs" in needs(parts.divergence):
        tensors["vocab_log_probs"] = policy.vocab_log_probs(rollout["prompts"], rollout["responses"])
    kl = masked(apply(parts.divergence, tensors, parts.knobs), rollout.get("mask")).sum(dim=-1)
    return kl.expand(rollout["responses"].shape[:-1])


def _scored(parts: Parts, share: Share, rollout: Rollout) -> Rollout:
    """What the task pays, component by component and in sum; what the delta mode sees; and what it makes of that."""
    scores = {
        f"reward/{name}": reward(rollout["prompts"], rollout["responses"]).to(parts.dtype)
        for name, (reward, _) in share.rewards.items()
    }
    weighted = [scores[f"reward/{name}"] * weight for name, (_, weight) in share.rewards.items()]
    task_rewards = torch.stack(weighted).sum(dim=0) if len(weighted) > 1 else weighted[0]
    scale, shift, pull = (
        column(share.knobs[name], axes=2) for name in ("reward_scale", "reward_shift", "kl_coefficient")
    )
    rewards = task_rewards * scale + shift
    if "reward_kl" in rollout:
        rewards = rewards - pull * rollout["reward_kl"]
    scores |= {"task_rewards": task_rewards, "rewards": rewards}
    advantages = apply(share.advantage, rollout | scores, share.knobs)
    if advantages.ndim == rewards.ndim:
        advantages = advantages.unsqueeze(-1)  # one advantage for all of a response's tokens
    return scores | {"advantages": advantages}


def _spoilt(rollout: Rollout) -> Rollout:
    nothing = torch.full_like(rollout["old_log_probs"][..., 0], torch.nan)
    return {"task_rewards": nothing, "rewards": nothing, "advantages": nothing.unsqueeze(-1)}


def _side_by_side(scored: Sequence[Rollout]) -> Rollout:
    """The shares' scores along the run axis; NaN for a component that a share does not have."""
    names = dict.fromkeys(name for scores in scored for name in scores)
    tokens = max(scores["advantages"].shape[-1] for scores in scored)
    columns: dict[str, list[Tensor]] = {name: [] for name in names}
    for scores in scored:
        nothing = torch.full_like(scores["rewards"], torch.nan)
        for name in names:
            column_of = scores.get(name, nothing)
            columns[name].append(column_of.expand(*nothing.shape, tokens) if name == "advantages" else column_of)
    return {name: torch.cat(column) for name, column in columns.items()}
