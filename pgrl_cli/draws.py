"""Random numbers as a pure function of (seed, purpose, epoch).

A run therefore draws the same numbers alone, among a thousand others, and after a resume. Philox is a
counter-based generator whose key is the stream (Salmon et al., 2011, "Parallel random numbers: as easy as
1, 2, 3"): no two keys share a stream, and no state has to be kept.
"""

from zlib import crc32

import numpy as np
from numpy.random import Generator, Philox


def generator(seed: int, purpose: str, epoch: int = 0) -> Generator:
    """The stream of one seed for one purpose in one epoch."""
    stream = (crc32(purpose.encode()) << 32) | epoch
    return Generator(Philox(key=np.array([seed, stream], dtype=np.uint64)))


def uniforms(seed: int, purpose: str, epoch: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers in [0, 1) with 24 bits: float32 holds them exactly, so both dtypes see the same ones."""
    return np.floor(generator(seed, purpose, epoch).random(shape) * 2**24) / 2**24
