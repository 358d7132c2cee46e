"""What a task is."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pgrl_cli.registry import Table

MOST_ENUMERATED = 2**20
"""Responses that are listed one by one."""
LEGIBLE = 10**15
"""From which on a number is not written out."""


@dataclass(frozen=True)
class Task:
    """Prompts to answer, what a right answer is, and the rewards that may judge answers."""

    prompts: Tensor
    """Token ids [prompt token] to train on."""
    held_out: Tensor
    """Token ids [prompt token] never trained on; there may be none."""
    vocab_size: int
    response_length: int
    solutions: Callable[[Tensor], Tensor]
    """prompts [prompt token] -> a right response to each, [prompt token]; it earns every reward's maximum."""
    rewards: Table
    """prompts [prompt token], responses [... prompt response token] -> [... prompt response]; first the default."""

    @property
    def response_count(self) -> int:
        """How many responses there are to a prompt."""
        return self.vocab_size**self.response_length

    @property
    def response_count_told(self) -> str:
        """The same as it is written: 5^3 = 125; of very many the power alone."""
        power = f"{self.vocab_size}^{self.response_length}"
        return power if self.response_count >= LEGIBLE else f"{power} = {self.response_count:,}"

    def every_response(self) -> Tensor:
        """All responses there are: token ids [response token], the last token changing fastest.

        Raises ValueError where there are more than a machine should list.
        """
        if self.response_count > MOST_ENUMERATED:
            told = f"There are {self.response_count_told} responses to a prompt"
            raise ValueError(f"{told}; at most {MOST_ENUMERATED:,} can be listed.")
        powers = [self.vocab_size**place for place in reversed(range(self.response_length))]
        numbers = torch.arange(self.response_count, device=self.prompts.device)
        return numbers[:, None] // torch.tensor(powers, device=numbers.device) % self.vocab_size

    def mask(self, responses: Tensor) -> Tensor | None:
        """Which tokens [... prompt response token] belong to the response; None where all do, as in fixed lengths."""
        return None

    def is_right(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Which responses [... prompt response token] are the right answer: bool [... prompt response]."""
        return (responses == self.solutions(prompts)[:, None, :]).all(dim=-1)


def score(values: Tensor) -> Tensor:
    """Points as numbers of the default dtype: rewards are small counts, which every dtype holds exactly."""
    return values.to(torch.get_default_dtype())
