"""Rollouts: what one epoch's gradient steps learn from, frozen."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.policies.policy import Policy
from pgrl_cli.reward_calls import RewardError
from pgrl_cli.training.dropping import informative_ones
from pgrl_cli.training.likelihoods import OF_ALL_RUNS, Rollout, Sampler, described, under_reference
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.scoring import scored, valued

__all__ = ["Collected", "Failures", "Rollout", "collect", "taken_up"]

SAMPLED = "group/sampled_responses"
Failures = dict[int, RewardError]
"""Why a share of a stack could not be scored, by its index."""


class Collected(NamedTuple):
    """What an epoch learns from."""

    rollout: Rollout
    failures: Failures
    ahead: Tensor | None = None
    """The first step's log pi [... prompt response token vocab], with its gradient: the policy that has sampled is the
    one that takes this step. None where no step learns from all that was sampled at once."""


@torch.no_grad()  # nothing in a rollout may carry a gradient into a step
def collect(parts: Parts, config: Config, state: State) -> Collected:
    """Sample a group of responses to each of this epoch's prompts, score them, and compare them with each other.

    In a stack of several shares one whose reward fails is scored as NaN, which spoils its runs and no others, and the
    failure is handed back; a share on its own raises RewardError.
    """
    failures: Failures = {}
    rollout, ahead = _sampled(parts, config, state, failures, 0)
    if config.drop_zero_variance_groups:
        rollout = informative_ones(config, rollout, lambda number: _sampled(parts, config, state, failures, number)[0])
    return Collected(rollout, failures, ahead)


@torch.no_grad()
def taken_up(parts: Parts, config: Config, state: State) -> Rollout:
    """The rollout of an earlier epoch, as the reference sees it by now."""
    assert state.rollout is not None
    rollout = dict(state.rollout)
    if state.reference is not None:
        rollout |= under_reference(parts, state.reference, rollout)
    if SAMPLED in rollout:
        rollout[SAMPLED] = torch.zeros_like(rollout[SAMPLED])  # nothing was sampled for it
    return rollout


def _sampled(
    parts: Parts, config: Config, state: State, failures: Failures, number: int
) -> tuple[Rollout, Tensor | None]:
    """The number-th sample of an epoch, which has several where groups that were dropped are replaced.

    And `Collected.ahead`.
    """
    again = f", again {number}" if number else ""
    places = parts.drawn_prompts(config.prompts_per_epoch, state.epoch, f"prompts per epoch{again}")
    prompts = parts.task.prompts if places is None else parts.task.prompts[places]
    shape = (len(prompts), config.num_responses, parts.task.response_length)
    responses = _responses(state.policy, prompts, parts.uniforms(f"responses{again}", state.epoch, *shape))
    whole = config.micro_batch is None and not config.drop_zero_variance_groups
    with torch.set_grad_enabled(whole):
        ahead = state.policy.vocab_log_probs(prompts, responses)
    sampler = Sampler(state.policy, state.reference, parts.knobs)
    rollout = described(parts, config, sampler, prompts, responses, ahead.detach())
    if "mask" in rollout:
        rollout["right"] = parts.task.is_right(prompts, responses)
    rollout |= valued(parts, config, state, rollout) | ({} if places is None else {"places": places})
    scores = _scores(parts, config, state, failures, rollout)
    return rollout | scores, ahead if whole else None


def _responses(policy: Policy, prompts: Tensor, uniforms: Tensor) -> Tensor:
    """What a policy answers; inference mode spares a small one a seventh of the time."""
    with torch.inference_mode():
        responses = policy.respond(prompts, uniforms)
    return responses.clone()  # one that a step may use


def _scores(parts: Parts, config: Config, state: State, failures: Failures, rollout: Rollout) -> Rollout:
    """What `scored` finds, share by share."""
    if len(parts.shares) == 1:
        return scored(parts, config, state, parts.shares[0], rollout)
    found = []
    for index, share in enumerate(parts.shares):
        here = {name: tensor if name in OF_ALL_RUNS else tensor[share.runs] for name, tensor in rollout.items()}
        if index in failures or (state.stopped is not None and state.stopped[share.runs].all()):
            found.append(_spoilt(here))
            continue
        try:
            found.append(scored(parts, config, state, share, here))
        except RewardError as error:
            failures[index] = error
            _stop(state, share.runs)
            found.append(_spoilt(here))
    return _side_by_side(found)


def _stop(state: State, runs: slice) -> None:
    """Let runs of a stack rest from here on: nothing scores them, and no step moves them."""
    if state.stopped is None:
        state.stopped = torch.zeros(len(state.parameters), dtype=torch.bool, device=state.parameters.device)
    state.stopped = state.stopped.clone()  # whoever remembers the old one sees that something has changed
    state.stopped[runs] = True


def _spoilt(rollout: Rollout) -> Rollout:
    nothing = torch.full_like(rollout["old_log_probs"][..., 0], torch.nan)
    spoilt = {"task_rewards": nothing, "rewards": nothing, "advantages": nothing.unsqueeze(-1)}
    return spoilt | ({"targets": torch.full_like(rollout["old_log_probs"], torch.nan)} if "values" in rollout else {})


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
