"""The mean and the interquartile mean over runs, of the runs themselves and of resamples of them."""

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class Statistic(Protocol):
    """values [... seed] -> [...]; with counts [seed resample], how often a run was drawn, -> [... resample]."""

    def __call__(self, values: ArrayLike, counts: Array | None = None, /) -> Array: ...


def mean(values: ArrayLike, counts: Array | None = None, /) -> Array:
    """The mean over the runs that are present, NaN where none is.

    values [... seed] -> [...]; with counts [seed resample] -> [... resample].
    """
    runs = as_runs(values)
    present = ~np.isnan(runs)
    numbers = np.where(present, runs, 0.0)
    if counts is None:
        totals, n = numbers.sum(axis=-1, keepdims=True), present.sum(axis=-1, keepdims=True)
    else:
        totals, n = numbers @ counts, present.astype(np.float64) @ counts
    means = _within(totals / np.where(n > 0, n, np.nan), runs)
    return means[..., 0] if counts is None else means


def interquartile_mean(values: ArrayLike, counts: Array | None = None, /) -> Array:
    """The mean of the middle half of the runs that are present: a few wild runs do not move it.

    Of n runs the floor(n / 4) lowest and as many highest are left out and the others count alike, as in
    scipy.stats.trim_mean(values, 0.25) and rliable: of 4 runs 2 are kept, of 5 runs 3, of 7 runs 5; below 4 it is the
    mean. A resample is trimmed by the number of runs present in it. Agarwal et al., 2021, section 4.3.

    values [... seed] -> [...]; with counts [seed resample] -> [... resample].
    """
    runs = as_runs(values)
    if counts is None:
        n = (~np.isnan(runs)).sum(axis=-1, keepdims=True)
        rank = np.arange(runs.shape[-1])
        return mean(np.where((rank >= n // 4) & (rank < n - n // 4), np.sort(runs, axis=-1), np.nan))
    means = np.empty((math.prod(runs.shape[:-1]), counts.shape[1]))
    scratch = np.empty((2, *counts.shape))
    for point, row in enumerate(runs.reshape(len(means), runs.shape[-1])):
        means[point] = _middle_of_one_point(row, counts, scratch)
    return _within(means.reshape(*runs.shape[:-1], counts.shape[1]), runs)


def _middle_of_one_point(row: Array, counts: Array, scratch: Array) -> Array:
    """Interquartile means [resample] of a row [seed], sorted once: a resample only repeats or omits its runs."""
    order = np.argsort(row)[: np.count_nonzero(~np.isnan(row))]  # NaN is sorted to the end
    if not order.size:
        return np.full(counts.shape[1], np.nan)
    kept, weights = scratch[:, : order.size]
    np.take(counts, order, axis=0, out=kept, mode="clip")  # the other modes copy
    for rank in range(1, order.size):  # np.cumsum across rows is ten times slower
        kept[rank] += kept[rank - 1]
    n = kept[-1]
    trimmed = np.floor(n / 4)
    size = n - 2 * trimmed
    kept -= trimmed
    np.minimum(np.maximum(kept, 0, out=kept), size, out=kept)
    weights[0] = kept[0]
    np.subtract(kept[1:], kept[:-1], out=weights[1:])
    return row[order] @ weights / np.where(size > 0, size, np.nan)  # a trimmed run has weight 0, however wild


STATISTICS: Mapping[str, Statistic] = {"mean": mean, "iqm": interquartile_mean}


def as_runs(values: ArrayLike) -> Array:
    """Values [... seed] as an array. Raises ValueError for an infinite one."""
    runs = np.asarray(values, dtype=np.float64)
    if np.isinf(runs).any():
        raise ValueError("a run's value is infinite: values are finite, or NaN for a missing run")
    return runs


def _within(means: Array, runs: Array) -> Array:
    """Means [... resample] no lower and no higher than any run [... seed], despite rounding: equal runs stay equal."""
    lowest, highest = (bound.reduce(runs, axis=-1, initial=np.nan, keepdims=True) for bound in (np.fmin, np.fmax))
    return np.clip(means, lowest, highest)
