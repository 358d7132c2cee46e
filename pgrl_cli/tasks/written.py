"""What tasks have in common whose answers are written symbol by symbol and closed with an end token.

A prompt [prompt token] is filled up from the left with `pad`; an answer [prompt token] is closed with `end`, and behind
its end there is nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from pgrl_cli.equations.categorical import closed, until_end
from pgrl_cli.registry import Function, KnobError, Table, table
from pgrl_cli.tasks.task import score, share

Tokens = Annotated[int, Ge(1), Le(100_000)]
Margin = Annotated[int, Ge(0), Le(100_000)]


def lengths(longest: int, max_response_tokens: int | None, overlong_margin: int | None) -> tuple[int, int]:
    """How many tokens a response may have, and over how many of the last of them its length is punished.

    `longest` is the longest solution, its end included: it must fit, and must not be punished. Raises KnobError.
    """
    limit = longest if max_response_tokens is None else max_response_tokens
    if limit < longest:
        needed = f"the longest solution, with its end, has {longest} tokens; write {longest} or more, or null for that"
        raise KnobError(("max_response_tokens", f"came {limit}; {needed}"))
    margin = limit - longest if overlong_margin is None else overlong_margin
    if margin > limit - longest:
        most = (
            f"at most {limit - longest}, or null for that" if limit > longest else "0, or a larger max_response_tokens"
        )
        told = f"of {limit} tokens that a response may have the longest solution, with its end, takes {longest}"
        raise KnobError(("overlong_margin", f"came {margin}; {told}, and would be punished; write {most}"))
    return limit, margin


def from_the_left(prompts: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """Prompts [prompt token] with their padding moved behind them, and how long each is: [prompt token], [prompt]."""
    count, width = (prompts != pad).sum(dim=-1), prompts.shape[-1]
    places = (torch.arange(width, device=prompts.device) + width - count[:, None]) % width
    return prompts.gather(-1, places), count


def answers(tokens: Tensor, count: Tensor, end: int, limit: int) -> Tensor:
    """The first `count` [prompt] tokens of each row [prompt token], closed, and filled up to so many as the limit."""
    filled = tokens.new_full((len(tokens), limit), end)
    width = min(limit, tokens.shape[-1])
    filled[:, :width] = tokens[:, :width]
    return filled.masked_fill(torch.arange(limit, device=tokens.device) >= count[:, None], end)


@dataclass(frozen=True, eq=False)
class Judge:
    """The rewards of a task with one right answer to each prompt.

    prompts [prompt token], responses [... prompt response token] -> points [... prompt response], or, of a process
    reward, [... prompt response token].
    """

    end: int
    written: int
    """Tokens below it may stand in an answer."""
    solutions: Callable[[Tensor], Tensor]
    """prompts [prompt token] -> answers [prompt token]."""
    margin: int

    def rewards(self, process: Function) -> Table:
        """The outcome rewards and one process reward; first the default."""
        return table(self.exact, self.partial, self.format, self.end_reward, self.overlong_penalty, process)

    def exact(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """One point for the right answer with its end, else none."""
        return score((closed(responses, self.end) == self.solutions(prompts)[:, None, :]).all(dim=-1))

    def partial(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """The share of the answer's places that are right, its end among them."""
        right, places = self._right(prompts, responses)
        return share(right.sum(dim=-1), places.squeeze(-1))

    def format(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """One point for an answer of symbols that may stand there, one at least, and an end."""
        return score(self._well_formed(responses))

    def end_reward(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """One point for a response that came to an end, whatever it says."""
        return end_reward(responses, self.end)

    def overlong_penalty(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Nothing for a response of moderate length, down to -1 for one cut off (DAPO; Yu et al., 2025, eq. 13)."""
        return overlong_penalty(responses, self.end, self.margin)

    def digits(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Token by token: each right place earns its share of one point, the end among them (a process reward)."""
        right, places = self._right(prompts, responses)
        return share(right, places)

    def steps(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Token by token: each right step earns its share of one point, the end among them (a process reward)."""
        return self.digits(prompts, responses)

    def _right(self, prompts: Tensor, responses: Tensor) -> tuple[Tensor, Tensor]:
        """Which tokens are right, [... prompt response token], and how many an answer has, [prompt 1 1]."""
        solutions = self.solutions(prompts)[:, None, :]
        wanted = _until_end(solutions, self.end)
        right = (responses == solutions) & wanted & _until_end(responses, self.end)
        return right, wanted.sum(dim=-1, keepdim=True)

    def _well_formed(self, responses: Tensor) -> Tensor:
        inside = _until_end(responses, self.end) & (responses != self.end)
        fitting = ((responses < self.written) | ~inside).all(dim=-1)
        return fitting & inside.any(dim=-1) & (responses == self.end).any(dim=-1)


def end_reward(responses: Tensor, end: int) -> Tensor:
    """One point for each response [... token] that came to an end."""
    return score((responses == end).any(dim=-1))


def overlong_penalty(responses: Tensor, end: int, margin: int) -> Tensor:
    """DAPO's soft punishment of long responses [... token], their ends counted (Yu et al., 2025, eq. 13).

    0 up to limit - margin tokens, from there falling linearly to -1 at the limit; -1 for what never ended.
    """
    limit, length = responses.shape[-1], _until_end(responses, end).sum(dim=-1)
    left = share((limit - margin - length).clamp(max=0), max(1, margin))
    return left.masked_fill(~(responses == end).any(dim=-1), -1.0)


def _until_end(tokens: Tensor, end: int) -> Tensor:
    mask = until_end(tokens, end)
    assert mask is not None  # there is an end
    return mask
