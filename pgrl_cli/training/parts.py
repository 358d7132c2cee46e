"""What the words of a config stand for, ready to train, and the state that training changes."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from pgrl_cli import draws
from pgrl_cli.policies.heads import Critic
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import lay_together
from pgrl_cli.registry import Function, needs
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.outcomes import Outcomes, Rewards

Number = float | Tensor
"""A knob: a float for one run; for a stack one value per run, shaped [run 1 1 1]."""


@dataclass(frozen=True)
class Share:
    """Runs that are scored alike: what acts once per epoch may differ inside a stack."""

    runs: slice
    """Of the stack's run axis; all of it where there is one share."""
    rewards: Rewards
    outcomes: Outcomes | None
    """Of every response there is; none where a reward is the user's own, which is asked for those alone that came."""
    advantage: Function
    knobs: "Mapping[str, Number]"
    """The stack's, for these runs."""


@dataclass(frozen=True)
class Parts:
    """One run's parts, or many runs' side by side. Nothing in here changes while it trains."""

    task: Task
    shares: tuple[Share, ...]
    """Side by side, they are all runs; tensors of one run belong to one share."""
    loss: Function
    divergence: Function
    average: Function
    kl_average: Function
    update: Function
    value_target: Function | None
    """What a critic learns; none where nothing asks for values."""
    critic_update: Function | None
    knobs: Mapping[str, Number]
    seeds: tuple[int, ...]
    prompts_seed: int
    """What `prompts_per_epoch` draws from: every run of a stack sees the same prompts."""
    stacked: bool
    """Whether tensors carry a leading run axis."""
    device: torch.device
    dtype: torch.dtype

    def uniforms(self, purpose: str, epoch: int, *shape: int) -> Tensor:
        """Fresh numbers in [0, 1): [*shape] for one run, [run *shape] for a stack."""
        drawn = torch.from_numpy(draws.uniforms(self.seeds, purpose, epoch, shape))
        return (drawn if self.stacked else drawn[0]).to(self.device, self.dtype)

    def drawn_prompts(self, count: int | None, epoch: int, purpose: str = "prompts per epoch") -> Tensor | None:
        """The places [prompt] of the prompts that an epoch draws, the same for every run; None for all, in order."""
        prompts = self.task.prompts
        if count is None or count >= len(prompts):
            return None
        order = draws.generator(self.prompts_seed, purpose, epoch).permutation(len(prompts))
        return torch.from_numpy(order[:count]).to(prompts.device)

    def asked_for(self, name: str) -> bool:
        """Whether a delta mode needs a tensor of that name."""
        return any(name in needs(share.advantage) for share in self.shares)

    def knob(self, name: str, *, axes: int) -> Number:
        """A knob that broadcasts against tensors with so many axes behind the run axis."""
        return column(self.knobs[name], axes)

    def uses(self, knob: str) -> bool:
        """Whether a coefficient is other than zero in any run."""
        value = self.knobs[knob]
        return bool(value.any()) if isinstance(value, Tensor) else value != 0

    def close(self) -> None:
        """End the processes that run rewards of the user's own."""
        for share in self.shares:
            for reward, _ in share.rewards.values():
                if hasattr(reward, "close"):
                    reward.close()


def column(value: Number, axes: int) -> Number:
    """A knob that broadcasts against tensors with so many axes behind the run axis."""
    return value.view(-1, *[1] * axes) if isinstance(value, Tensor) else value


@dataclass
class Learner:
    """A critic, with what its updates touch."""

    critic: Critic
    parameters: Tensor
    """All of the critic's, in one tensor [... parameter] that the critic's own are views of."""
    moments: dict[str, Tensor]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Learner":
        critic = copy.deepcopy(self.critic, memo)
        return Learner(critic, lay_together(critic, self.parameters.ndim > 1), copy.deepcopy(self.moments, memo))


@dataclass
class State:
    """All that changes while it trains: what a checkpoint must hold, and nothing else."""

    policy: Policy
    parameters: Tensor
    """All of the policy's, in one tensor [... parameter] that the policy's own are views of."""
    moments: dict[str, Tensor]
    """What the update remembers, by the name it asks for: [... parameter] each."""
    reference: Policy | None = None
    """The frozen policy that the KL pulls towards; none where nothing pulls."""
    epoch: int = 0
    """Epochs done."""
    steps: int = 0
    """Optimizer steps done."""
    stopped: Tensor | None = None
    """[run]: the runs of a stack that a gradient without a finite norm has stopped; none so far where it is None."""
    learner: Learner | None = None
    """The critic; none where nothing asks for values."""
    coefficients: dict[str, Tensor] = field(default_factory=dict)
    """Weights of KLs that follow a target, as they are by now: [...] each, by their keys."""
    past_mean: Tensor | None = None
    """[...]: what a delta mode with a memory has seen of rewards so far, NaN for nothing; None where none has one."""
    previous: Policy | None = None
    """The frozen policy of an epoch ago, where a delta mode asks what it would have earned."""
    rollout: dict[str, Tensor] | None = None
    """What the next epoch learns from again; none where it samples anew."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "State":
        copied = {each.name: copy.deepcopy(getattr(self, each.name), memo) for each in fields(self)}
        copied["parameters"] = lay_together(copied["policy"], stacked=self.parameters.ndim > 1)
        return State(**copied)
