"""Groups that teach nothing, left out, and samples that replace them (DAPO's dynamic sampling).

Yu et al., 2025, "DAPO", section 3.2: groups whose rewards are all equal have no advantage under any mode that centers,
and only thin out the mean over tokens. Every run of a stack keeps its own groups, the first informative ones that it
sampled, so it keeps the same ones alone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.training.group_measures import group_measures
from pgrl_cli.training.likelihoods import OF_ALL_RUNS, Rollout


class _Groups(NamedTuple):
    """Which groups [... prompt] of all that were sampled."""

    sampled: Tensor
    """Before this run had as many as it wanted: another run of the stack may have gone on."""
    kept: Tensor


def informative_ones(config: Config, first: Rollout, another: Callable[[int], Rollout]) -> Rollout:
    """A rollout of the groups whose rewards differ, as many as `first` has prompts if they can be had.

    `another` samples again, at most `resampling_rounds` times; then `when_unfilled` says what to do. Tokens of groups
    that are left out are outside the mask.
    """
    wanted = len(first["prompts"])
    rounds = [first]
    while len(rounds) <= config.resampling_rounds and bool((_informative(rounds).sum(dim=-1) < wanted).any()):
        rounds.append(another(len(rounds)))
    groups = _chosen(_informative(rounds), wanted, fills=config.when_unfilled == "fill")
    whole = {name: torch.cat([each[name] for each in rounds], dim=prompt_axis(name, first[name])) for name in first}
    measures = group_measures(whole, groups.sampled)
    rollout = _of_groups(whole, groups.kept)
    measures["kept_groups"] = groups.kept.sum(dim=-1).to(whole["rewards"].dtype)
    measures["sampled_responses"] = groups.sampled.sum(dim=-1).to(whole["rewards"].dtype) * whole["rewards"].shape[-1]
    return rollout | {f"group/{name}": value for name, value in measures.items() if value is not None}


def prompt_axis(name: str, tensor: Tensor) -> int:
    """Which axis of a rollout's tensor is that of prompts, from the end."""
    if name in OF_ALL_RUNS:
        return -tensor.ndim
    if name.endswith("vocab_log_probs"):
        return -4
    per_response = name in ("task_rewards", "rewards", "right", "reward_kl", "sampled_kl") or name.startswith("reward/")
    return -2 if per_response else -3


def prompts_of(rollout: Rollout, places: Tensor | slice) -> Rollout:
    """The part of a rollout that belongs to some of its prompts; `group/NAME` belongs to none."""
    return {name: _of_prompts(name, tensor, places) for name, tensor in rollout.items() if "group/" not in name}


def _of_prompts(name: str, tensor: Tensor, places: Tensor | slice) -> Tensor:
    axis = prompt_axis(name, tensor)
    if isinstance(places, slice):
        return tensor.narrow(axis, places.start, places.stop - places.start)
    return tensor.index_select(axis, places)


def _informative(rounds: Sequence[Rollout]) -> Tensor:
    """Which groups differ in their rewards: [... prompt]; a run that is spoilt wants no others."""
    rewards = torch.cat([each["task_rewards"] for each in rounds], dim=-2)
    return rewards.amax(dim=-1) != rewards.amin(dim=-1)


def _chosen(informative: Tensor, wanted: int, fills: bool) -> _Groups:
    """Each run's first informative groups [... prompt], as many as it wants, and where it fills up its first others."""
    found = informative.cumsum(dim=-1)
    before = found.unflatten(-1, (-1, wanted))[..., -1]  # [... round], after each
    before = torch.cat([torch.zeros_like(before[..., :1]), before[..., :-1]], dim=-1)
    sampled = (before < wanted).repeat_interleave(wanted, dim=-1)
    kept = informative & (found <= wanted)
    if fills:
        spare = sampled & ~informative
        kept = kept | (spare & (spare.cumsum(dim=-1) <= wanted - kept.sum(dim=-1, keepdim=True)))
    return _Groups(sampled, kept)


def _of_groups(whole: Rollout, kept: Tensor) -> Rollout:
    """Without the prompts that no run keeps; what a run does not keep of the others is outside its mask."""
    if kept.all():
        return whole
    by_any = kept if kept.ndim == 1 else kept.any(dim=0)
    places = by_any.nonzero().squeeze(-1) if by_any.any() else torch.arange(1, device=kept.device)
    rollout = prompts_of(whole, places)
    kept = kept.index_select(-1, places)
    if kept.all():
        return rollout
    inside = kept[..., None, None].expand(rollout["responses"].shape)
    return rollout | {"mask": inside & rollout["mask"] if "mask" in rollout else inside}
