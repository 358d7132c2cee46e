"""Where training starts from instead of random parameters: the policy of a run that was trained before."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from pgrl_cli.config.problems import ConfigError, listed, short
from pgrl_cli.config.schema import seeds_of
from pgrl_cli.folders import config_of
from pgrl_cli.policies.policy import Policy
from pgrl_cli.runs import Run
from pgrl_cli.training import checkpoints
from pgrl_cli.training.checkpoints import CheckpointError

POLICY = "policy."


def checkpoint_at(path: Path) -> Path | str:
    """The last whole checkpoint of a run folder, or a checkpoint itself, in full; or what is wrong with the path."""
    path = path.absolute()
    inside = path.parent.name == "checkpoints"
    places = [path] if inside else checkpoints.places(Run(path).checkpoints)
    if not path.is_dir():
        return f"there is no run folder {short(str(path), 200)}"
    if not places:
        return f"{short(str(path), 200)} has no checkpoint to start from"
    problems = []
    for place in places:
        if not (wrong := checkpoints.problems_of(place)):
            return place
        problems += wrong
    return "; ".join(problems)


def misfit_of(place: Path, policy: Policy, seeds: Sequence[int]) -> str | None:
    """Why a policy of these seeds cannot start from a checkpoint; None where it can."""
    try:
        known = _seeds_at(place)
        tensors = _parameters_at(place)
    except (ConfigError, CheckpointError) as error:
        return str(error)
    if known is not None and (strangers := [seed for seed in seeds if seed not in known]):
        return f"{place} has no seed {listed(strangers, 5)}; it has {listed(known, 5)}"
    wanted = {name: list(parameter.shape) for name, parameter in policy.named_parameters()}
    there = {name: list(tensor.shape)[known is not None :] for name, tensor in tensors.items()}
    if wanted != there:
        return f"{place} holds another policy: its parameters are {there}, and here they are {wanted}"
    return None


@torch.no_grad()
def start(policy: Policy, place: Path, seed: int) -> None:
    """Give a policy the parameters of a checkpoint, of a run with `seeds` those of its own seed."""
    known, tensors = _seeds_at(place), _parameters_at(place)
    for name, parameter in policy.named_parameters():
        tensor = tensors[name] if known is None else tensors[name][known.index(seed)]
        parameter.copy_(tensor)


@lru_cache(maxsize=4)
def _parameters_at(place: Path) -> Mapping[str, Tensor]:
    found = checkpoints.read(place).tensors
    return {name.removeprefix(POLICY): tensor for name, tensor in found.items() if name.startswith(POLICY)}


@lru_cache(maxsize=4)
def _seeds_at(place: Path) -> tuple[int, ...] | None:
    """The seeds along the run axis of a checkpoint's tensors; None where they have none."""
    config = config_of(place.parents[1])
    return None if config.get("seeds") is None else seeds_of(config)
