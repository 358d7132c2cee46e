"""What responses earn from the task, and every response there is: what can be known of it without a policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pgrl_cli.equations.attempts import kinds_of
from pgrl_cli.registry import Function
from pgrl_cli.tasks.task import Task, total

MOST_RESPONSES = 20_000
"""All prompts' responses together, up to which measures go through them one by one."""
MOST_IN_AN_EPOCH = 2**16
"""Responses to a prompt that every epoch may go through."""
MOST_TOKENS_IN_AN_EPOCH = 10**7
"""Tokens of all those responses, of all prompts and runs."""
AT_ONCE = 2**22
"""Pairs of a prompt's and a response's tokens that are scored at once: rewards compare them."""
Rewards = Mapping[str, tuple[Function, float]]
"""Each component of the reward, with its weight."""


def points(rewards: Rewards, prompts: Tensor, responses: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    """What each component answers to responses [... prompt response token], as it answers. Raises RewardError.

    [... prompt response]; of a process reward [... prompt response token].
    """
    return {name: reward(prompts, responses).to(dtype) for name, (reward, _) in rewards.items()}


def scores(paid: Mapping[str, Tensor], rewards: Rewards, responses: Tensor) -> dict[str, Tensor]:
    """What the task pays for whole responses, component by component and in sum, of what each component answered.

    `reward/NAME` and task_rewards, [... prompt response].
    """
    found = {f"reward/{name}": total(paid[name], responses) for name in rewards}
    weighted = [found[f"reward/{name}"] * weight for name, (_, weight) in rewards.items()]
    return found | {"task_rewards": torch.stack(weighted).sum(dim=0) if len(weighted) > 1 else weighted[0]}


def task_rewards(rewards: Rewards, prompts: Tensor, responses: Tensor, dtype: torch.dtype) -> Tensor:
    """What the task pays for whole responses [... prompt response token]: [... prompt response]. Raises RewardError."""
    return scores(points(rewards, prompts, responses, dtype), rewards, responses)["task_rewards"]


@dataclass(frozen=True)
class Outcomes:
    """Every response there is to the prompts that are trained on, and what each earns, whatever the policy.

    Worked out when it is first asked for, and kept.
    """

    task: Task
    rewards: Rewards
    dtype: torch.dtype

    @cached_property
    def responses(self) -> Tensor:
        """[response token]. Raises ValueError where there are too many."""
        return self.task.every_response()

    @cached_property
    def task_rewards(self) -> Tensor:
        """[prompt response]."""
        prompts, every = self.task.prompts, self.responses
        pieces = every.split(max(1, AT_ONCE // (prompts.numel() * every.shape[-1])))
        shape = (len(prompts), -1, -1)
        return torch.cat([task_rewards(self.rewards, prompts, p.expand(shape), self.dtype) for p in pieces], dim=-1)

    @cached_property
    def kinds(self) -> Tensor:
        """Which responses to a prompt earn the same: numbers [prompt response]."""
        return kinds_of(self.task_rewards)


def too_many(task: Task, prompts: int, runs: int) -> str | None:
    """Why an epoch cannot go through all responses to so many prompts in so many runs; None where it can."""
    count = task.response_count
    if count > MOST_IN_AN_EPOCH:
        there = f"there are {task.response_count_told} to each prompt"
        return f"{there}, and an epoch goes through {MOST_IN_AN_EPOCH:,} at most"
    tokens = max(prompts * runs, len(task.prompts)) * count * task.response_length
    if tokens > MOST_TOKENS_IN_AN_EPOCH:
        whose = f"{prompts} prompts in {runs} runs" if prompts * runs >= len(task.prompts) else "all prompts"
        told = f"those to {whose} have {tokens:,} tokens, and an epoch goes through {MOST_TOKENS_IN_AN_EPOCH:,} at most"
        return f"{told}; take fewer prompts or seeds"
    return None
