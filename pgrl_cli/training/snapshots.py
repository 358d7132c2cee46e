"""What a checkpoint holds: a state's tensors by name; taken from it, given back to it, and shared out among runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import frozen_copy
from pgrl_cli.training.parts import State

TENSORS = "tensors.safetensors"
ROLLOUT = "rollout."
"""What an epoch learns from again."""
SHARED = ("rollout.prompts", "rollout.places")
"""Tensors that have no run axis in a stack's checkpoint."""


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or is none; the message names the file."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood between two epochs."""

    epoch: int
    """Epochs done."""
    steps: int
    tensors: Mapping[str, Tensor]
    """policy.NAME, reference.NAME, moments.NAME and so on, [run ...] of a stack: what a state has, by its own words."""
    facts: Mapping[str, Any]
    """What whoever keeps the checkpoint wrote into it."""


def snapshot(state: State, facts: Mapping[str, Any]) -> Checkpoint:
    """A copy of a state as it is now, on the CPU: training may go on while it is written."""
    tensors = _tensors_of(state)
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    return Checkpoint(state.epoch, state.steps, copies, facts)


def _tensors_of(state: State) -> dict[str, Tensor]:
    """All tensors of a state by their names, as they lie in memory."""
    tensors: dict[str, Tensor] = {f"policy.{name}": tensor for name, tensor in state.policy.named_parameters()}
    tensors |= {f"moments.{name}": tensor for name, tensor in state.moments.items()}
    if state.reference is not None:
        tensors |= {f"reference.{name}": tensor for name, tensor in state.reference.named_parameters()}
    if state.stopped is not None:
        tensors["stopped"] = state.stopped
    if state.learner is not None:
        tensors |= {f"critic.{name}": tensor for name, tensor in state.learner.critic.named_parameters()}
        tensors |= {f"critic_moments.{name}": tensor for name, tensor in state.learner.moments.items()}
    if state.previous is not None:
        tensors |= {f"previous.{name}": tensor for name, tensor in state.previous.named_parameters()}
    if state.past_mean is not None:
        tensors["past_mean"] = state.past_mean
    tensors |= {f"coefficients.{name}": tensor for name, tensor in state.coefficients.items()}
    return tensors | {f"{ROLLOUT}{name}": tensor for name, tensor in (state.rollout or {}).items()}


@torch.no_grad()
def restore(state: State, checkpoint: Checkpoint) -> None:
    """Put a state where a checkpoint stood. Raises CheckpointError where the tensors are not those of this state."""
    wanted = _with_room(state, checkpoint.tensors)
    expected = _tensors_of(wanted)
    if strange := sorted(expected.keys() ^ checkpoint.tensors.keys()):
        raise CheckpointError(f"{TENSORS} does not fit this config: {', '.join(strange[:5])}")
    for name, tensor in expected.items():
        given = checkpoint.tensors[name]
        if given.shape != tensor.shape or given.dtype != tensor.dtype:
            here, there = _shape(tensor), _shape(given)
            raise CheckpointError(f"{TENSORS} does not fit this config: {name} is {there}, and should be {here}")
    for name, tensor in expected.items():
        tensor.copy_(checkpoint.tensors[name])
    state.reference, state.stopped = wanted.reference, wanted.stopped
    state.previous, state.rollout = wanted.previous, wanted.rollout
    state.epoch, state.steps = checkpoint.epoch, checkpoint.steps


def _with_room(state: State, tensors: Mapping[str, Tensor]) -> State:
    """The state with room for what a checkpoint holds and a state does not always have."""

    def copy_if(prefix: str) -> Policy | None:
        return frozen_copy(state.policy) if any(name.startswith(prefix) for name in tensors) else None

    device = state.parameters.device
    rollout = {
        name.removeprefix(ROLLOUT): torch.empty_like(tensor, device=device)
        for name, tensor in tensors.items()
        if name.startswith(ROLLOUT)
    }
    stopped = None
    if "stopped" in tensors:
        stopped = torch.zeros(state.parameters.shape[:-1], dtype=torch.bool, device=device)
    return replace(
        state,
        reference=copy_if("reference."),
        previous=copy_if("previous."),
        stopped=stopped,
        rollout=rollout or None,
    )


def part_of(checkpoint: Checkpoint, runs: slice | int | None, facts: Mapping[str, Any]) -> Checkpoint:
    """The part of a stack's checkpoint that belongs to some of its runs, as if they had trained alone."""
    if runs is None:
        return replace(checkpoint, facts=facts)
    tensors = {
        name: tensor if name in SHARED else tensor[runs].contiguous() for name, tensor in checkpoint.tensors.items()
    }
    if isinstance(runs, int):
        tensors.pop("stopped", None)
    elif "stopped" in tensors and not tensors["stopped"].any():
        del tensors["stopped"]  # a neighbour has stopped
    return Checkpoint(checkpoint.epoch, checkpoint.steps, tensors, facts)


def _shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
