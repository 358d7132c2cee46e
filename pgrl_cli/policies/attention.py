"""Attention over prompts and many responses to each, by which no prompt is read more than once.

What is done row by row is one product for all: rows lie together as [... row width], first those of the prompts
(prompt token), then those of the responses (prompt response token). Attention itself has no parameters, so that runs,
prompts, responses and heads are all the same to it. Places are those of a prompt's tokens and then of a response's.
"""

from typing import NamedTuple

import torch
from torch import Tensor

VECTOR = 16
"""Places that there are at least in float32: torch's softmax takes a shorter row of scores number by number, which is
ten times slower. Places that no token fills are masked. In float64 it always goes number by number."""


class Batch(NamedTuple):
    """How many there are of each axis, and what a token may see."""

    runs: int
    prompts: int
    prompt_tokens: int
    responses: int
    tokens: int
    """Of each response; none while prompts are read by themselves."""
    mask: Tensor
    """0 where a token sees a place, else -inf: [token place], or [prompt 1 1 token place] where prompts are padded."""

    @property
    def rows(self) -> tuple[int, int]:
        """Of the prompts, and of the responses."""
        return self.prompts * self.prompt_tokens, self.prompts * self.responses * self.tokens


def places_for(tokens: int, dtype: torch.dtype) -> int:
    """How many places so many tokens are given."""
    return max(tokens, VECTOR) if dtype == torch.float32 else tokens


def causal_mask(tokens: int, padding: Tensor | None, like: Tensor) -> Tensor:
    """What each token sees: itself and what comes before it, but no padding (bool [prompt token], to the left).

    Padding sees itself, so that its softmax is a number; nothing else sees it. Returns `Batch.mask`.
    """
    mask = like.new_full((tokens, places_for(tokens, like.dtype)), -torch.inf).triu(1)
    if padding is None:
        return mask
    hidden = padding[:, None, :] & ~torch.eye(tokens, padding.shape[-1], dtype=torch.bool, device=padding.device)
    spread = mask.repeat(len(padding), 1, 1)
    spread[..., : padding.shape[-1]].masked_fill_(hidden, -torch.inf)
    return spread[:, None, None]


def self_attention(asked: Tensor, batch: Batch, heads: int) -> tuple[Tensor, Tensor]:
    """What each row finds in its prompt and, up to itself, in its response; and the prompts' keys and values.

    asked [... row (3 width)], a row's query, key and value, -> [... row width] and [2 run prompt 1 head token depth].
    """
    places = batch.mask.shape[-1]
    of_prompts, of_responses = asked.split(batch.rows, dim=-2)
    first = _by_head(of_prompts, batch.runs, batch.prompts, 1, batch.prompt_tokens, heads)
    known = first[1:]
    mask = batch.mask[..., : batch.prompt_tokens, :]
    found = _as_rows(attention(first[0], filled([known], places), mask), asked)
    if batch.tokens == 0:
        return found, known
    later = _by_head(of_responses, batch.runs, batch.prompts, batch.responses, batch.tokens, heads)
    seen = filled([known.expand(-1, -1, -1, batch.responses, -1, -1, -1), later[1:]], places)
    mask = batch.mask[..., batch.prompt_tokens :, :]
    return torch.cat([found, _as_rows(attention(later[0], seen, mask), asked)], dim=-2), known


def attention(queries: Tensor, known: Tensor, mask: Tensor) -> Tensor:
    """softmax(query . key / root of depth) times the values (Vaswani et al., 2017, eq. 1).

    queries [... token depth], known [2 ... place depth] (keys and values), mask as in `Batch` -> as queries.
    """
    *sequences, tokens, depth = queries.shape
    keys, values = known.reshape(2, -1, *known.shape[-2:])
    if mask.ndim > 2:
        mask = mask.expand(*sequences, *mask.shape[-2:]).flatten(0, -3)
    scores = torch.baddbmm(mask, queries.reshape(-1, tokens, depth), keys.mT, alpha=depth**-0.5)
    return torch.bmm(scores.softmax(dim=-1), values).view(queries.shape)


def filled(known: list[Tensor], places: int) -> Tensor:
    """Keys and values [2 ... token depth] one behind the other, and zeros up to so many places."""
    *sequences, _, depth = known[-1].shape
    left = places - sum(each.shape[-2] for each in known)
    return torch.cat([*known, known[-1].new_zeros(1).expand(*sequences, left, depth)], dim=-2)


def _by_head(asked: Tensor, runs: int, prompts: int, responses: int, tokens: int, heads: int) -> Tensor:
    """[... row (3 width)] -> queries, keys and values: [3 run prompt response head token depth]."""
    return asked.view(runs, prompts, responses, tokens, 3, heads, -1).permute(4, 0, 1, 2, 5, 3, 6)


def _as_rows(found: Tensor, asked: Tensor) -> Tensor:
    """[run prompt response head token depth] -> [... row width]."""
    return found.transpose(-3, -2).reshape(*asked.shape[:-2], -1, asked.shape[-1] // 3)
