"""Addition and multiplication of whole numbers, written digit by digit: 7+25=, and the answer 32 with its end."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge, Le
from numpy.random import Generator
from torch import Tensor

from pgrl_cli.registry import Function, Seed
from pgrl_cli.tasks.drawing import Million, Space, UpToMillion, drawn
from pgrl_cli.tasks.task import END, Task
from pgrl_cli.tasks.written import Judge, Margin, Tokens, answers, lengths

Digits = Annotated[int, Ge(1), Le(9)]
OPERATOR, EQUALS, STOP, PAD = 10, 11, 12, 13
"""The ids behind the ten digits."""


def addition(
    *,
    digits: Digits = 1,
    fixed_width: bool = False,
    reversed_answer: bool = False,
    prompt_count: Million = 60,
    prompts_seed: Seed = 0,
    held_out_count: UpToMillion | None = None,
    max_response_tokens: Tokens | None = None,
    overlong_margin: Margin | None = None,
) -> Task:
    """Add two numbers of up to so many digits, 7+25=, and end.

    `fixed_width` fills all numbers up with zeros from the left; `reversed_answer` has the answer's last digit first,
    which is easier to learn, as a carry then comes before the digit that needs it (Lee et al., 2023, section 3). Raises
    KnobError for more prompts than there are, and for a limit that no right answer keeps.
    """
    writing = Writing("+", digits, digits + 1, fixed_width, reversed_answer)
    return _task(writing, torch.add, (prompt_count, held_out_count, prompts_seed), max_response_tokens, overlong_margin)


def multiplication(
    *,
    digits: Digits = 1,
    fixed_width: bool = False,
    reversed_answer: bool = False,
    prompt_count: Million = 60,
    prompts_seed: Seed = 0,
    held_out_count: UpToMillion | None = None,
    max_response_tokens: Tokens | None = None,
    overlong_margin: Margin | None = None,
) -> Task:
    """Multiply two numbers of up to so many digits, 7*25=, and end.

    `fixed_width` fills all numbers up with zeros from the left; `reversed_answer` has the answer's last digit first.
    Raises KnobError for more prompts than there are, and for a limit that no right answer keeps.
    """
    writing = Writing("*", digits, 2 * digits, fixed_width, reversed_answer)
    return _task(writing, torch.mul, (prompt_count, held_out_count, prompts_seed), max_response_tokens, overlong_margin)


@dataclass(frozen=True)
class Writing:
    """How problems and answers are written."""

    operator: str
    digits: int
    """Of an operand, at most."""
    places: int
    """Of an answer, at most."""
    fixed_width: bool
    reversed_answer: bool

    @property
    def form(self) -> str:
        """What a prompt looks like."""
        number = rf"\d{{{self.digits}}}" if self.fixed_width else rf"(0|[1-9]\d{{0,{self.digits - 1}}})"
        return rf"{number}\{self.operator}{number}="

    def problems(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Prompts [prompt token] of operands [prompt], filled up from the left."""
        first, second = self._width(left), self._width(right)
        columns = []
        for place in range(2 * self.digits + 2):  # from the right: =, the right operand, the operator, the left one
            behind = place - second - 2
            written = np.where(behind < first, _digit(left, behind), PAD)
            written = np.where(behind == -1, OPERATOR, written)
            columns.append(np.where(behind < -1, _digit(right, np.full_like(right, place - 1)), written))
        columns[0] = np.full_like(left, EQUALS)
        return np.stack(columns[::-1], axis=-1)

    def operands(self, prompts: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers [prompt] of prompts [prompt token]."""
        places = torch.arange(prompts.shape[-1], device=prompts.device)
        operator = (prompts == OPERATOR).int().argmax(dim=-1, keepdim=True)
        last = prompts.shape[-1] - 1
        numbers = prompts.where(prompts < OPERATOR, 0)
        power = 10 ** torch.where(places < operator, operator - 1 - places, last - 1 - places).clamp(min=0)
        worth = numbers * power
        return worth.where(places < operator, 0).sum(dim=-1), worth.where(places > operator, 0).sum(dim=-1)

    def answers(self, values: Tensor, limit: int) -> Tensor:
        """Answers [prompt token] that say the values [prompt], closed."""
        powers = 10 ** torch.arange(self.places, device=values.device)
        count = (values[:, None] >= powers[1:]).sum(dim=-1) + 1
        if self.fixed_width:
            count = torch.full_like(count, self.places)
        places = torch.arange(self.places, device=values.device).expand(len(values), -1)
        if not self.reversed_answer:
            places = (count[:, None] - 1 - places).clamp(min=0)
        return answers(values[:, None] // powers[places] % 10, count, STOP, limit)

    def _width(self, numbers: np.ndarray) -> np.ndarray:
        """How many digits each number is written with."""
        if self.fixed_width:
            return np.full_like(numbers, self.digits)
        return (numbers[:, None] >= 10 ** np.arange(1, self.digits)).sum(axis=-1) + 1


def _digit(numbers: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The digit of each number at a place, 0 for its last."""
    return numbers // 10 ** np.maximum(place, 0) % 10


def _task(
    writing: Writing,
    result: Function,
    drawing: tuple[int, int | None, int],
    max_response_tokens: int | None,
    overlong_margin: int | None,
) -> Task:
    """The task of writing the result of two operands [prompt] each."""
    limit, margin = lengths(writing.places + 1, max_response_tokens, overlong_margin)
    prompts, held_out = drawn(_space(writing), *drawing)

    def solutions(prompts: Tensor) -> Tensor:
        return writing.answers(result(*writing.operands(prompts)), limit)

    judge = Judge(STOP, OPERATOR, solutions, margin)
    return Task(
        prompts=prompts,
        held_out=held_out,
        vocab_size=PAD,
        response_length=limit,
        solutions=solutions,
        rewards=judge.rewards(judge.digits),
        end=STOP,
        pad=PAD if writing.digits > 1 and not writing.fixed_width else None,
        symbols=(*"0123456789", writing.operator, "=", END),
        form=writing.form,
        overlong_margin=margin,
    )


def _space(writing: Writing) -> Space:
    """All problems there are."""
    numbers = 10**writing.digits

    def listed(places: np.ndarray) -> np.ndarray:
        return writing.problems(*np.divmod(places, numbers))

    def some(generator: Generator, count: int) -> np.ndarray:
        return writing.problems(*generator.integers(numbers, size=(2, count)))

    return Space(
        numbers**2, listed, some, f"of two numbers of up to {writing.digits} digit{'s' * (writing.digits > 1)}"
    )
