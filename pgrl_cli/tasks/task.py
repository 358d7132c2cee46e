"""What a task is."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pgrl_cli.equations.categorical import closed, until_end
from pgrl_cli.registry import Table

MOST_ENUMERATED = 2**20
"""Responses that are listed one by one."""
END = "."
"""How the end of a response is written."""
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
    """How many tokens a response may be written with: their ids are 0, 1, ..."""
    response_length: int
    """Tokens of a response: of each, or, where there is an end token, at most."""
    solutions: Callable[[Tensor], Tensor]
    """prompts [prompt token] -> a right response to each, [prompt token]; it earns every reward's maximum."""
    rewards: Table
    """prompts [prompt token], responses [... prompt response token] -> [... prompt response]; first the default.

    A process reward pays token by token: its answer is [... prompt response token], 0 behind a response's end, NaN at
    a token with which no step of the response ends.
    """
    end: int | None = None
    """The token that ends a response; behind it there is nothing but itself. None where all have one length."""
    pad: int | None = None
    """The id that fills shorter prompts up, from the left: the one behind the vocabulary; it is read and never written.
    None where all prompts have one length."""
    symbols: tuple[str, ...] = ()
    """How each token of the vocabulary is written, with one sign; none where tokens are numbers."""
    form: str | None = None
    """What a prompt looks like as it is written, as a regular expression; none where tokens are numbers."""
    right: Callable[[Tensor, Tensor], Tensor] | None = None
    """What `is_right` asks where a prompt may have several right answers."""
    overlong_margin: int | None = None
    """Over how many of a response's last tokens the penalty for length grows; None where all have one length."""

    @property
    def input_size(self) -> int:
        """How many ids a prompt may hold."""
        return self.vocab_size if self.pad is None else self.pad + 1

    @property
    def response_count(self) -> int:
        """How many responses there are to a prompt."""
        if self.end is None:
            return self.vocab_size**self.response_length
        written = self.vocab_size - 1  # tokens that end nothing
        return sum(written**length for length in range(self.response_length + 1))

    @property
    def response_count_told(self) -> str:
        """The same as it is written: 5^3 = 125; of very many the power alone."""
        if self.end is not None:
            power = f"more than {self.vocab_size - 1}^{self.response_length}"
            return power if self.response_count >= LEGIBLE else f"{self.response_count:,}"
        power = f"{self.vocab_size}^{self.response_length}"
        return power if self.response_count >= LEGIBLE else f"{power} = {self.response_count:,}"

    def every_response(self) -> Tensor:
        """All responses there are: token ids [response token], the last token changing fastest.

        Raises ValueError where there are more than a machine should list.
        """
        if self.response_count > MOST_ENUMERATED:
            told = f"There are {self.response_count_told} responses to a prompt"
            raise ValueError(f"{told}; at most {MOST_ENUMERATED:,} can be listed.")
        every = torch.zeros(1, 0, dtype=torch.long, device=self.prompts.device)
        for _ in range(self.response_length):
            every = self._with_a_token_in_front(every)
        return every

    def _with_a_token_in_front(self, shorter: Tensor) -> Tensor:
        """All responses of one token more: [response token] -> [response token]."""
        count, length = shorter.shape
        tokens = torch.arange(self.vocab_size, device=shorter.device)
        counts = torch.full_like(tokens, count)
        if self.end is not None:
            counts[self.end] = 1
        rest = [shorter if token != self.end else shorter.new_full((1, length), token) for token in tokens.tolist()]
        return torch.cat([tokens.repeat_interleave(counts)[:, None], torch.cat(rest)], dim=-1)

    def mask(self, responses: Tensor) -> Tensor | None:
        """Which tokens [... prompt response token] belong to the response; None where all do, as in fixed lengths.

        The first end token belongs to it: a policy must learn to write it.
        """
        return until_end(responses, self.end)

    def ended(self, responses: Tensor) -> Tensor:
        """Which responses [... token] came to an end, and were not cut off: bool [...]."""
        if self.end is None:
            return torch.ones(responses.shape[:-1], dtype=torch.bool, device=responses.device)
        return (responses == self.end).any(dim=-1)

    def is_right(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Which responses [... prompt response token] are the right answer: bool [... prompt response]."""
        if self.right is not None:
            return self.right(prompts, responses)
        return (closed(responses, self.end) == self.solutions(prompts)[:, None, :]).all(dim=-1)

    def ids(self, text: str) -> list[int] | None:
        """The ids [token] of a prompt as it is written, 17+25= or 3 1 2, filled up from the left; None for none."""
        width = self.prompts.shape[-1]
        if self.form is not None:
            ids = [self.symbols.index(sign) for sign in text] if re.fullmatch(self.form, text, re.ASCII) else []
        else:
            words, numbers = text.replace(",", " ").split(), self.vocab_size - (self.end is not None)
            ids = [int(word) for word in words if word.isdecimal() and len(word) < 10 and int(word) < numbers]
            ids = ids if len(ids) == len(words) else []
        shortest = width if self.pad is None else 1
        return [self.pad or 0] * (width - len(ids)) + ids if shortest <= len(ids) <= width else None

    def text(self, tokens: Tensor) -> str:
        """A prompt or a response [token] as it is written: 17+25=, without padding and what lies behind its end."""
        kept = [token for token in tokens.tolist() if token != self.pad]
        if self.end in kept:
            kept = kept[: kept.index(self.end) + 1]
        if self.symbols:
            return "".join(self.symbols[token] for token in kept)
        return " ".join(END if token == self.end else str(token) for token in kept)


def is_process_reward(points: Tensor, responses: Tensor) -> bool:
    """Whether a reward has paid responses [... prompt response token] token by token, and not each as a whole."""
    return points.ndim == responses.ndim


def total(points: Tensor, responses: Tensor) -> Tensor:
    """What each response has earned, [... prompt response], of a reward that paid whole responses or their steps.

    Token after token and in float64: what as many tokens earn at other places is then the same to the bit, and a group
    of equal rewards is seen to be one.
    """
    if not is_process_reward(points, responses):
        return points
    return points.double().nan_to_num(nan=0.0).cumsum(dim=-1)[..., -1].to(points.dtype)


def by_token(points: Tensor, responses: Tensor, mask: Tensor | None) -> Tensor:
    """What each token has earned, [... prompt response token]; what a whole response earned is paid at its last token.

    The mask [... prompt response token] says which tokens belong to a response; None: all do.
    """
    if is_process_reward(points, responses):
        return points.nan_to_num(nan=0.0)
    last = last_tokens(responses, mask)
    return torch.where(last, points.unsqueeze(-1), 0.0)  # a product would make NaN of a NaN's neighbours


def last_tokens(responses: Tensor, mask: Tensor | None) -> Tensor:
    """Which tokens are the last of their responses: bool [... prompt response token]."""
    last = torch.zeros_like(responses, dtype=torch.bool)
    if mask is None:
        last[..., -1] = True
    else:
        last.scatter_(-1, mask.sum(dim=-1, keepdim=True) - 1, True)
    return last


def score(values: Tensor) -> Tensor:
    """Points as numbers of the default dtype: rewards are small counts, which every dtype holds exactly."""
    return values.to(torch.get_default_dtype())


def share(part: Tensor, whole: Tensor | int) -> Tensor:
    """A part of a whole as points, in float64: no small count, so only a run's own dtype may round it."""
    return part.double() / whole
