"""Where training starts from instead of random parameters: the policy of a run that was trained before."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from pgrl_cli.config.problems import ConfigError, listed, short
from pgrl_cli.config.schema import seeds_of
from pgrl_cli.folders import config_of
from pgrl_cli.policies.policy import Policy
from pgrl_cli.runs import Run
from pgrl_cli.store import resolved
from pgrl_cli.training import checkpoints
from pgrl_cli.training.snapshots import CheckpointError

POLICY = "policy."


def path_or_run(word: str, folder: Path) -> Path:
    """What a config calls a run: a path relative to it, or else an id or a name in its folder `runs`."""
    path = folder / word
    if not path.exists():
        with suppress(ConfigError):
            return resolved(word, folder / "runs", kind="run")
    return path


def checkpoint_at(path: Path) -> Path | str:
    """The last whole checkpoint of a run folder, or a checkpoint itself, in full; or what is wrong with the path."""
    path = path.absolute()
    shown = short(str(path), 200)
    if path.parent.name == "checkpoints":
        if not path.is_dir():
            there = [place.name for place in checkpoints.places(path.parent)]
            return f"there is no checkpoint {shown}; there is {listed(there, 5)}" if there else f"there is no {shown}"
        return "; ".join(checkpoints.problems_of(path)) or path
    if not path.is_dir():
        return f"there is no run folder {shown}, nor a run of that name in runs"
    place, _, problems = checkpoints.newest_whole(Run(path).checkpoints)
    return place or "; ".join(problems) or f"{shown} has no checkpoint to start from"


class Start:
    """The parameters of a checkpoint's policy: of a run with `seeds` each seed's own."""

    def __init__(self, place: Path):
        """Read a checkpoint. Raises CheckpointError, and ConfigError where its run has no config."""
        found = checkpoints.read(place).tensors
        self.place = place
        self.tensors = {name.removeprefix(POLICY): t for name, t in found.items() if name.startswith(POLICY)}
        self.config = config_of(place.parents[1])
        self.seeds = None if self.config.get("seeds") is None else seeds_of(self.config)

    @torch.no_grad()
    def give(self, policy: Policy, seed: int) -> None:
        """Give a policy these parameters, of several seeds its own seed's."""
        for name, parameter in policy.named_parameters():
            tensor = self.tensors[name] if self.seeds is None else self.tensors[name][self.seeds.index(seed)]
            parameter.copy_(tensor)

    def misfit(self, policy: Policy, seeds: Sequence[int]) -> str | None:
        """Why a policy of these seeds cannot start here; None where it can."""
        if self.seeds is not None and (strangers := [seed for seed in seeds if seed not in self.seeds]):
            return f"{self.place} has no seed {listed(strangers, 5)}; it has {listed(self.seeds, 5)}"
        wanted = {name: list(parameter.shape) for name, parameter in policy.named_parameters()}
        there = {name: list(tensor.shape)[self.seeds is not None :] for name, tensor in self.tensors.items()}
        differ = [name for name in sorted(wanted.keys() | there.keys()) if wanted.get(name) != there.get(name)]
        told = [
            f"{name} is {there.get(name, 'not there')}, and here {wanted.get(name, 'not there')}" for name in differ
        ]
        if not told:
            beyond = policy.beyond_shapes.items()
            told = [
                f"{key} is {self.config.get(key)}, and here {own}" for key, own in beyond if self.config.get(key) != own
            ]
        return f"{self.place} holds another policy: {'; '.join(told)}" if told else None


def misfit_of(place: Path, policy: Policy, seeds: Sequence[int]) -> str | None:
    """Why a policy of these seeds cannot start from a checkpoint; None where it can."""
    try:
        return Start(place).misfit(policy, seeds)
    except (ConfigError, CheckpointError) as error:
        return str(error)
