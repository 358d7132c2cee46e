"""Random numbers as a pure function of (seed, purpose, epoch).

A run therefore draws the same numbers alone, among a thousand others, and after a resume. Philox is a
counter-based generator whose key is the stream (Salmon et al., 2011, "Parallel random numbers: as easy as
1, 2, 3"): no two keys share a stream, and no state has to be kept.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.random import Generator, Philox

SPACING = 24
"""Bits of a uniform number: float32 holds them exactly, so both dtypes see the same ones."""


def generator(seed: int, purpose: str, epoch: int = 0) -> Generator:
    """The stream of one seed for one purpose in one epoch."""
    return Generator(Philox(key=_key(seed, purpose, epoch)))


def uniforms(seeds: Sequence[int], purpose: str, epoch: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers in [0, 1) for each seed, [seed *shape]: what `generator` would draw, cut to 24 bits.

    One generator is led from stream to stream: making a new one for each takes six times as long.
    """
    drawn = np.empty((len(seeds), *shape))
    streams = Philox(key=_key(0, purpose, epoch))
    generator, state = Generator(streams), streams.state
    for seed, row in zip(seeds, drawn, strict=True):
        state["state"]["key"][0] = seed
        streams.state = state
        generator.random(out=row)
    return np.floor(drawn * 2**SPACING) / 2**SPACING


def _key(seed: int, purpose: str, epoch: int) -> np.ndarray:
    return np.array([seed, (crc32(purpose.encode()) << 32) | epoch], dtype=np.uint64)
