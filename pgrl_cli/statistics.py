"""What many runs say together: a mean, an interval, a comparison. A run that is missing (NaN) is never a number.

Every figure is over runs, the last axis: values [... seed]. Axes in front are points along x, thresholds or metrics.
Intervals come from resampling whole runs, so a curve's band keeps what its points have in common. Numbers are a pure
function of the arguments: no generator is shared, so a curve is the same alone and among others.

Agarwal et al., 2021, "Deep reinforcement learning at the edge of the statistical precipice".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Interval = tuple[float, float]
FEW = 5
"""Fewer runs than this say little of a spread: they are drawn one by one, and a sentence about them warns."""
COUNTS_AT_ONCE, RESULTS_AT_ONCE = 2**18, 2**20
"""Numbers held at a time, 2 and 8 MB, little enough for a cache. No draw depends on them."""


class Statistic(Protocol):
    """values [... seed] -> [...]; with counts [seed resample], how often a run was drawn, -> [... resample]."""

    def __call__(self, values: ArrayLike, counts: Array | None = None, /) -> Array: ...


def mean(values: ArrayLike, counts: Array | None = None, /) -> Array:
    """The mean over the runs that are present, NaN where none is.

    values [... seed] -> [...]; with counts [seed resample] -> [... resample].
    """
    runs = _runs(values)
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
    runs = _runs(values)
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


def bootstrap_interval(
    strata: Sequence[ArrayLike], statistic: Statistic, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[Array, Array]:
    """The stratified percentile bootstrap interval of a statistic over all runs of all strata: (low [...], high [...]).

    strata: arrays [... seed], equal in front, one per cell that is pooled. Each stratum's runs are resampled among
    themselves; all points share the resample. Quantiles are interpolated linearly, over the resamples in which any
    run is present. One run says nothing about spread: (NaN, NaN) wherever a stratum has exactly one run present, or
    no stratum has any. So single runs that stand for one population belong into one stratum.

    An interval of few runs is too narrow: on normal data a mean's "95 %" covers 84 % with 5 runs, 90 % with 10, 94 %
    with 50. Agarwal et al., 2021, section 4.1; Efron, 1979, "Bootstrap methods".
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"level {level}, resamples {resamples}: a level lies between 0 and 1, resamples are 1 or more")
    groups = [group for group in map(_runs, strata) if group.shape[-1]]
    front = np.shape(strata[0])[:-1]
    bounds = np.full((2, math.prod(front)), np.nan)
    if groups:
        present = np.array([np.count_nonzero(~np.isnan(group), axis=-1).reshape(-1) for group in groups])
        known = np.flatnonzero((present != 1).all(axis=0) & present.any(axis=0))
        rows = np.concatenate(groups, axis=-1).reshape(bounds.shape[1], -1)
        step = max(1, RESULTS_AT_ONCE // resamples)
        for points in (known[start : start + step] for start in range(0, len(known), step)):
            drawn = _resampled(rows[points], [group.shape[-1] for group in groups], statistic, resamples, seed)
            bounds[:, points] = _quantiles(drawn, (1 - level) / 2, (1 + level) / 2)
    return bounds[0].reshape(front), bounds[1].reshape(front)


def _resampled(rows: Array, sizes: Sequence[int], statistic: Statistic, resamples: int, seed: int) -> Array:
    """The statistic of every resample: rows [point seed], strata side by side, -> [point resample]."""
    drawn = np.empty((len(rows), resamples))
    generators = [np.random.default_rng([seed, stratum]) for stratum in range(len(sizes))]
    step = max(1, COUNTS_AT_ONCE // sum(sizes))
    for start in range(0, resamples, step):
        some = drawn[:, start : start + step]
        strata = zip(generators, sizes, strict=True)
        counts = np.concatenate([_counts(generator, size, some.shape[1]) for generator, size in strata])
        some[:] = statistic(rows, counts)
    return drawn


def _counts(generator: np.random.Generator, size: int, resamples: int) -> Array:
    """How often each run is drawn when as many as there are are drawn with replacement: [seed resample]."""
    draws = generator.integers(size, size=(resamples, size))
    cells = draws * resamples + np.arange(resamples)[:, None]
    return np.bincount(cells.reshape(-1), minlength=size * resamples).reshape(size, resamples).astype(np.float64)


def _quantiles(drawn: Array, *shares: float) -> Array:
    """Linearly interpolated quantiles over what is not NaN: [point resample] -> [share point]."""
    ranked = np.sort(drawn, axis=-1)
    last = np.maximum(np.count_nonzero(~np.isnan(ranked), axis=-1)[:, None] - 1, 0)
    place = last * np.asarray(shares)
    below = np.floor(place).astype(np.intp)
    low = np.take_along_axis(ranked, below, axis=-1)
    high = np.take_along_axis(ranked, np.minimum(below + 1, last), axis=-1)
    return (low + (high - low) * (place - below)).T


@dataclass(frozen=True)
class Comparison:
    """B against A over their common seeds; `better` counts pairs with b > a, `left_out` those with a run missing."""

    difference: float
    low: float
    high: float
    probability_of_improvement: float
    probability_interval: Interval
    n: int
    better: int
    ties: int
    left_out: int
    level: float


def paired(a: ArrayLike, b: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Comparison:
    """How much higher B ends than A on the same seeds, and how often: a, b [pair].

    The difference is the mean of b - a with a bootstrap interval over pairs (NaN below two). The probability of
    improvement is the share of pairs with b > a, a tie counting half, with Wilson's interval: from a bootstrap, three
    of three pairs would be certainty. Pairs with a NaN are left out and counted.
    """
    first, second = _runs(a), _runs(b)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"pairs are two lists of the same length, here of shapes {first.shape} and {second.shape}")
    differences = second - first
    differences = differences[~np.isnan(differences)]
    n, better, ties = len(differences), int((differences > 0).sum()), int((differences == 0).sum())
    low, high = bootstrap_interval([differences], mean, level=level, resamples=resamples, seed=seed)
    return Comparison(
        difference=float(mean(differences)),
        low=float(low),
        high=float(high),
        probability_of_improvement=(better + ties / 2) / n if n else math.nan,
        probability_interval=share_interval(better + ties / 2, n, level=level),
        n=n,
        better=better,
        ties=ties,
        left_out=len(first) - n,
        level=level,
    )


def share_interval(successes: float, n: int, *, level: float = 0.95) -> Interval:
    """Wilson's interval of a share, successes / n: honest at 0 and 1, where a bootstrap has no width. NaN for n = 0.

    Wilson, 1927, "Probable inference". Halves (ties) are allowed and make it a little too wide.
    """
    if not n:
        return math.nan, math.nan
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = successes / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * share * (1 - share) + spread * spread / 4) / (1 + spread)
    return (0.0 if successes == 0 else middle - half), (1.0 if successes == n else middle + half)


def above(values: ArrayLike, thresholds: ArrayLike) -> Array:
    """1 where a run lies strictly above a threshold, 0 where not, NaN where it is missing: [threshold seed]."""
    runs, marks = _runs(values), np.asarray(thresholds, dtype=np.float64)[:, None]
    return np.where(np.isnan(runs), np.nan, runs > marks)


def performance_profile(
    strata: Sequence[ArrayLike],
    thresholds: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[Array, Array, Array]:
    """The share of runs strictly above each threshold, with its bootstrap interval: (share, low, high) [threshold].

    strata: arrays [seed], one per cell that is pooled; missing runs count neither way. Agarwal et al., 2021,
    section 4.2.
    """
    shares = [above(values, thresholds) for values in strata]
    edges = bootstrap_interval(shares, mean, level=level, resamples=resamples, seed=seed)
    return mean(np.concatenate(shares, axis=-1)), *edges


def or_none(value: float) -> float | None:
    """A number; what is none as None."""
    return None if math.isnan(value) else value


def _runs(values: ArrayLike) -> Array:
    runs = np.asarray(values, dtype=np.float64)
    if np.isinf(runs).any():
        raise ValueError("a run's value is infinite: values are finite, or NaN for a missing run")
    return runs


def _within(means: Array, runs: Array) -> Array:
    """Means [... resample] no lower and no higher than any run [... seed], despite rounding: equal runs stay equal."""
    lowest, highest = (bound.reduce(runs, axis=-1, initial=np.nan, keepdims=True) for bound in (np.fmin, np.fmax))
    return np.clip(means, lowest, highest)
