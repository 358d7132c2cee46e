"""Countdown: reach a target from given numbers. 2 3 5:13= may be answered 2*5+3, and in many other ways."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from pgrl_cli import draws
from pgrl_cli.equations.categorical import closed
from pgrl_cli.registry import KnobError, Seed, table
from pgrl_cli.tasks import written
from pgrl_cli.tasks.drawing import MOST_HELD_OUT, Million, UpToMillion
from pgrl_cli.tasks.expressions import DIGITS, STRENGTH, Written, evaluated, joined
from pgrl_cli.tasks.task import END, Task, score
from pgrl_cli.tasks.written import Margin, Tokens, lengths

Given = Annotated[int, Ge(2), Le(8)]
Largest = Annotated[int, Ge(1), Le(999)]
SYMBOLS = (*DIGITS, *STRENGTH, "(", ")", " ", ":", "=", END)
STOP, PAD = len(SYMBOLS) - 1, len(SYMBOLS)
NOTHING, EXPRESSION, OF_THE_GIVEN, RIGHT = range(4)
"""What a response is at best."""
PARTIAL = (0.0, 0.25, 0.5, 1.0)
PROMPT = re.compile("([0-9]{1,9}(?: [0-9]{1,9})*):([0-9]{1,9})=")
AT_ONCE, RARE = 2_000, 200
"""How many different prompts there are nobody knows: where of so many draws fewer than one in 200 is new, none is drawn
any more."""
TARGETS = 10
"""A target is at most so many times the largest number, as in the game, where they are 100 and 999."""


def countdown(
    *,
    numbers: Given = 3,
    largest: Largest = 9,
    prompt_count: Million = 64,
    prompts_seed: Seed = 0,
    held_out_count: UpToMillion | None = None,
    max_response_tokens: Tokens | None = None,
    overlong_margin: Margin | None = None,
) -> Task:
    """Reach the target with + - * / from so many given numbers up to the largest, each at most once, and end.

    Each prompt comes from an expression over all its numbers, which is its solution, with results above zero and
    divisions that come out even; any other expression that reaches the target is right too. The numbers are in
    ascending order, so that no held-out problem is a rearranged one. Raises KnobError for more prompts than were found,
    and for a limit that no right answer keeps.
    """
    width = len(str(largest))
    longest = numbers * width + (numbers - 1) + 2 * (numbers - 2) + 1  # numbers, operators, parentheses, the end
    limit, margin = lengths(longest, max_response_tokens, overlong_margin)
    problems = _drawn(numbers, largest, prompt_count, held_out_count, prompts_seed)
    room = numbers * width + numbers + len(str(TARGETS * largest)) + 1
    rows = torch.tensor([[PAD] * (room - len(prompt)) + ids(prompt) for prompt in problems])
    known = dict(zip(map(tuple, rows.tolist()), problems.values(), strict=True))

    def solutions(prompts: Tensor) -> Tensor:
        """Of a prompt that was not drawn none is known: an answer that ends at once."""
        found = [ids(known.get(tuple(prompt), "")) for prompt in prompts.tolist()]
        return torch.tensor([each + [STOP] * (limit - len(each)) for each in found], device=prompts.device)

    judge = Judge(margin)
    return Task(
        prompts=rows[:prompt_count],
        held_out=rows[prompt_count:],
        vocab_size=PAD,
        response_length=limit,
        solutions=solutions,
        rewards=table(judge.exact, judge.partial, judge.format, judge.end_reward, judge.overlong_penalty),
        end=STOP,
        pad=PAD,
        symbols=SYMBOLS,
        form=PROMPT.pattern,
        right=lambda prompts, responses: verdicts(prompts, responses) == RIGHT,
        overlong_margin=margin,
    )


@dataclass(frozen=True, eq=False)
class Judge:
    """The rewards: prompts [prompt token], responses [... prompt response token] -> points [... prompt response]."""

    margin: int

    def exact(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """One point for an expression that reaches the target from the given numbers, with its end, else none."""
        return score(verdicts(prompts, responses) == RIGHT)

    def partial(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """A quarter of a point for an expression, a half if it takes given numbers only, one if it is right."""
        return score(torch.tensor(PARTIAL, device=responses.device)[verdicts(prompts, responses)])

    def format(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """One point for any expression that has a whole number as its value, and an end."""
        return score(verdicts(prompts, responses) >= EXPRESSION)

    def end_reward(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """One point for a response that came to an end, whatever it says."""
        return written.end_reward(responses, STOP)

    def overlong_penalty(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Nothing for a response of moderate length, down to -1 for one cut off (DAPO; Yu et al., 2025, eq. 13)."""
        return written.overlong_penalty(responses, STOP, self.margin)


def verdicts(prompts: Tensor, responses: Tensor) -> Tensor:
    """What each response [... prompt response token] is at best: [... prompt response]."""
    asked = prompts[:, None, :].expand(*responses.shape[:-1], -1).flatten(0, -2).tolist()
    answered = closed(responses, STOP).flatten(0, -2).tolist()
    each = [verdict(tuple(prompt), tuple(response)) for prompt, response in zip(asked, answered, strict=True)]
    return torch.tensor(each, dtype=torch.long, device=responses.device).view(responses.shape[:-1])


@lru_cache(maxsize=2**16)
def verdict(prompt: tuple[int, ...], response: tuple[int, ...]) -> int:
    """What one response is at best."""
    if STOP not in response:
        return NOTHING
    said = evaluated(text(response[: response.index(STOP)]))
    if said is None:
        return NOTHING
    asked = PROMPT.fullmatch(text(prompt))
    if asked is None or Counter(said.numbers) - Counter(map(int, asked[1].split())):
        return EXPRESSION
    return RIGHT if said.value == int(asked[2]) else OF_THE_GIVEN


def text(tokens: Sequence[int]) -> str:
    """Ids as they are written, without padding."""
    return "".join(SYMBOLS[token] for token in tokens if token != PAD)


def ids(said: str) -> list[int]:
    """The ids that say it."""
    return [SYMBOLS.index(symbol) for symbol in said]


def _drawn(numbers: int, largest: int, count: int, held_out_count: int | None, seed: int) -> dict[str, str]:
    """Different prompts with a solution to each: those to train on, then those held out. Raises KnobError."""
    needed = count + (MOST_HELD_OUT if held_out_count is None else held_out_count)
    generator = draws.generator(seed, "prompts")
    found: dict[str, str] = {}
    before = -AT_ONCE
    while len(found) < needed and len(found) - before >= AT_ONCE / RARE:
        before = len(found)
        for uniforms in generator.random((AT_ONCE, 4 * numbers - 3)).tolist():
            if len(found) < needed and (problem := _problem(uniforms, numbers, largest)):
                found.setdefault(*problem)
    if len(found) < count + (held_out_count or 0):
        there = f"the {len(found)} different prompts that were found of {numbers} numbers up to {largest}"
        raise KnobError(("prompt_count", f"{count} prompts and {held_out_count or 0} held out are more than {there}"))
    return found


def _problem(uniforms: Sequence[float], numbers: int, largest: int) -> tuple[str, str] | None:
    """A prompt and its solution, as numbers in [0, 1) have it; None where they lead nowhere."""
    given = sorted(1 + int(uniform * largest) for uniform in uniforms[:numbers])
    parts = [Written(number, str(number)) for number in given]
    for first, second, operator in zip(*(iter(uniforms[numbers:]),) * 3, strict=True):
        left = parts.pop(int(first * len(parts)))
        right = parts.pop(int(second * len(parts)))
        whole = _one_of_both(left, right, int(operator * len(STRENGTH)), TARGETS * largest)
        if whole is None:
            return None
        parts.append(whole)
    (solution,) = parts
    return f"{' '.join(map(str, given))}:{solution.value}=", solution.text


def _one_of_both(left: Written, right: Written, first: int, most: int) -> Written | None:
    """Two expressions in one with a value from 1 to the most, by the first of the operators, else by the next."""
    operators = "+-*/"
    for operator in operators[first:] + operators[:first]:
        whole = joined(operator, left, right)
        if whole is not None and 1 <= whole.value <= most:
            return whole
    return None
