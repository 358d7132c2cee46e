"""Prompts drawn without replacement: some to train on, others held out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge, Le
from numpy.random import Generator
from torch import Tensor

from pgrl_cli import draws
from pgrl_cli.registry import KnobError

Million = Annotated[int, Ge(1), Le(1_000_000)]
UpToMillion = Annotated[int, Ge(0), Le(1_000_000)]
UpToThousand = Annotated[int, Ge(1), Le(1_000)]
MOST_HELD_OUT = 100
"""How many prompts are held out unless `held_out_count` says otherwise."""


@dataclass(frozen=True)
class Space:
    """Prompts that there are to draw from."""

    size: int
    """How many different ones."""
    listed: Callable[[np.ndarray], np.ndarray]
    """Those of some numbers from 0 to size - 1: [prompt] -> ids [prompt token]."""
    some: Callable[[Generator, int], np.ndarray]
    """So many at random, repetitions among them: ids [prompt token]."""
    told: str
    """What they are, as a message says it."""


def drawn(space: Space, count: int, held_out_count: int | None, seed: int) -> tuple[Tensor, Tensor]:
    """Different prompts [prompt token] to train on, and others held out; a hundred of these, or all that are left.

    Raises KnobError where there are fewer.
    """
    apart = min(MOST_HELD_OUT, max(space.size - count, 0)) if held_out_count is None else held_out_count
    needed = count + apart
    if needed > space.size:
        there = f"the {space.size} different prompts {space.told}"
        raise KnobError(("prompt_count", f"{count} prompts and {apart} held out are more than {there}"))
    generator = draws.generator(seed, "prompts")
    if space.size <= 4 * needed:  # nearly all of them: shuffle the whole list instead of drawing the rest late
        rows = space.listed(generator.permutation(space.size)[:needed])
    else:
        seen: dict[tuple[int, ...], None] = {}
        while len(seen) < needed:
            for row in space.some(generator, needed).tolist():
                seen[tuple(row)] = None
        rows = np.array(list(seen)[:needed])
    everything = torch.from_numpy(np.ascontiguousarray(rows)).long()
    return everything[:count], everything[count:]


def strings(symbols: int, shortest: int, longest: int, pad: int, told: str) -> Space:
    """All strings of ids below `symbols` of some lengths, filled up with `pad` from the left.

    At random each length is as likely as another. Raises KnobError where the shortest is longer than the longest.
    """
    if shortest > longest:
        raise KnobError(("shortest_prompt", f"came {shortest}; it must not be above prompt_length, which is {longest}"))
    lengths = np.arange(shortest, longest + 1)
    counts = [symbols**length for length in lengths.tolist()]

    def listed(places: np.ndarray) -> np.ndarray:
        ends = np.cumsum(counts)
        which = np.searchsorted(ends, places, side="right")
        within = places - np.concatenate([[0], ends])[which]
        powers = symbols ** np.arange(longest - 1, -1, -1)
        return padded((within[:, None] // powers) % symbols, lengths[which])

    def some(generator: Generator, number: int) -> np.ndarray:
        chosen = lengths if shortest == longest else generator.integers(shortest, longest + 1, size=number)
        return padded(generator.integers(symbols, size=(number, longest)), chosen)

    def padded(rows: np.ndarray, kept: np.ndarray) -> np.ndarray:
        return np.where(np.arange(longest) < longest - kept[:, None], pad, rows)

    return Space(sum(counts), listed, some, told)
