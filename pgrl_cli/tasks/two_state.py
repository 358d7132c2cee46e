"""Two states, two actions each: the lecture's example of why a baseline cuts the variance."""

import torch
from torch import Tensor

from pgrl_cli.registry import table
from pgrl_cli.tasks.task import Task, score

PAYMENTS = ((11.0, 9.0), (0.0, 2.0))
"""What each action pays, state by state."""


def two_state() -> Task:
    """Two states, two actions: state 1 pays 11 or 9, state 2 pays 0 or 2 (the lecture's case for baselines)."""
    states = torch.tensor([[0], [1]])
    return Task(
        prompts=states,
        held_out=states[:0],
        vocab_size=2,
        response_length=1,
        solutions=best_actions,
        rewards=table(two_state_reward),
    )


def two_state_reward(prompts: Tensor, responses: Tensor) -> Tensor:
    """What the chosen action pays: 11 or 9 in state 1, 0 or 2 in state 2.

    prompts [prompt 1], responses [... prompt response 1] -> [... prompt response].
    """
    payments = torch.tensor(PAYMENTS, device=responses.device)
    return score(payments[prompts, responses[..., 0]])


def best_actions(prompts: Tensor) -> Tensor:
    """The action that pays most in each state: [prompt 1] -> [prompt 1]."""
    return torch.tensor(PAYMENTS, device=prompts.device).argmax(dim=-1)[prompts]
