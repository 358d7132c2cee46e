"""Statistics over seeds: where runs end, how sure that is, and whether one config is better than another.

The last axis of values is the seed; a run that is missing (failed, or not that long) is NaN and left out. Intervals are
percentile bootstraps (Efron, 1979) in which whole runs are drawn again, each stratum by itself, as Agarwal et al.
recommend (2021, "Deep reinforcement learning at the edge of the statistical precipice", section 4).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]
LEVEL, RESAMPLES = 0.95, 2000
MOST_NUMBERS = 4_000_000
"""Resampled numbers that are held at once: 32 MB."""
TRIMMED = 0.25


def mean(values: np.ndarray) -> np.ndarray:
    """The mean over the runs that are there: [... seed] -> [...]; NaN where none is."""
    values = np.asarray(values, dtype=float)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")
        return np.asarray(np.nanmean(values, axis=-1))


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """The mean of the middle half of the runs that are there: [... seed] -> [...]; NaN where none is.

    Of n runs the int(n / 4) lowest and as many of the highest are left out, whole ones (scipy.stats.trim_mean with
    0.25, as in Agarwal et al., 2021); with n < 4 it is the mean.
    """
    ordered = np.sort(np.asarray(values, dtype=float), axis=-1)  # NaN come last
    there = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    cut = (there * TRIMMED).astype(int)
    places = np.arange(ordered.shape[-1])
    middle = (places >= cut) & (places < there - cut)
    total = np.sum(np.where(middle, ordered, 0.0), axis=-1)
    kept = np.sum(middle, axis=-1)
    return np.divide(total, kept, out=np.full(total.shape, np.nan), where=kept > 0)


STATISTICS: Mapping[str, Statistic] = {"mean": mean, "iqm": interquartile_mean}
TOLD = {"mean": "mean", "iqm": "interquartile mean"}


def bootstrap_interval(
    strata: Sequence[np.ndarray],
    statistic: Statistic,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """The interval that holds a statistic of the pooled runs in a share `level` of all resamples: low and high, [...].

    Each stratum [... seed] is resampled by itself, with whole runs: all points along the axes in front share the drawn
    seeds. Where fewer than two runs are there, both are NaN: one run says nothing about the spread. Equal arguments
    give equal intervals. Raises ValueError without a stratum, or for strata whose front axes differ.
    """
    arrays = [np.asarray(stratum, dtype=float) for stratum in strata]
    if not arrays or len({array.shape[:-1] for array in arrays}) != 1:
        raise ValueError("An interval needs strata with the same axes in front of the seeds.")
    generator = np.random.default_rng(seed)
    drawn = [
        generator.integers(array.shape[-1], size=(resamples, array.shape[-1])) for array in arrays if array.shape[-1]
    ]
    arrays = [array for array in arrays if array.shape[-1]]
    shape = arrays[0].shape[:-1] if arrays else np.asarray(strata[0]).shape[:-1]
    if not arrays:
        return np.full(shape, np.nan), np.full(shape, np.nan)
    flat = [array.reshape(-1, array.shape[-1]) for array in arrays]
    low, high = np.full(len(flat[0]), np.nan), np.full(len(flat[0]), np.nan)
    there = sum(np.sum(~np.isnan(array), axis=-1) for array in flat)
    edges = [(1 - level) / 2, (1 + level) / 2]
    if statistic is mean:
        resampled = _resampled_means(flat, drawn)
        for point in np.flatnonzero(there > 1):
            low[point], high[point] = np.nanquantile(resampled[:, point], edges)
    else:
        for point in np.flatnonzero(there > 1):
            pooled = np.concatenate(
                [_chosen(array[point], seeds) for array, seeds in zip(flat, drawn, strict=True)], axis=-1
            )
            low[point], high[point] = np.nanquantile(statistic(pooled), edges)
    return low.reshape(shape), high.reshape(shape)


def _chosen(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return values[seeds]


def _resampled_means(strata: Sequence[np.ndarray], drawn: Sequence[np.ndarray]) -> np.ndarray:
    """The pooled mean in every resample: [resample point]. How often a run was drawn, times its value, is a product."""
    totals, counts = 0.0, 0.0
    for values, seeds in zip(strata, drawn, strict=True):
        times = np.zeros((len(seeds), values.shape[-1]))
        np.add.at(times, (np.arange(len(seeds))[:, None], seeds), 1)
        totals = totals + times @ np.nan_to_num(values, nan=0.0).T
        counts = counts + times @ (~np.isnan(values)).T.astype(float)
    return np.divide(totals, counts, out=np.full(np.shape(totals), np.nan), where=np.asarray(counts) > 0)


@dataclass(frozen=True)
class Comparison:
    """How much better b is than a on the same seeds, by `b - a`."""

    pairs: int
    """Seeds that both have."""
    missing: int
    """Pairs that were left out because a run is missing."""
    ties: int
    difference: float
    """The mean of b - a; NaN without a pair."""
    low: float
    high: float
    """The interval of the difference; NaN with fewer than two pairs."""
    probability: float
    """P(b > a) + P(b = a) / 2 over the pairs: the probability of improvement (Agarwal et al., 2021, section 4.3)."""
    probability_low: float
    probability_high: float


def paired(
    a: np.ndarray, b: np.ndarray, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Comparison:
    """Compare two configs on common seeds: a and b [pair]. The pairs are resampled, not the runs."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    there = ~(np.isnan(a) | np.isnan(b))
    gaps = b[there] - a[there]
    wins = np.where(gaps == 0, 0.5, gaps > 0)
    both = np.stack([gaps, wins])
    low, high = bootstrap_interval([both], mean, level=level, resamples=resamples, seed=seed)
    difference, probability = mean(both)
    return Comparison(
        pairs=int(there.sum()),
        missing=int((~there).sum()),
        ties=int((gaps == 0).sum()),
        difference=float(difference),
        low=float(low[0]),
        high=float(high[0]),
        probability=float(probability),
        probability_low=float(low[1]),
        probability_high=float(high[1]),
    )


def performance_profile(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The share of runs above each threshold: [seed], [threshold] -> [threshold] (Agarwal et al., 2021)."""
    return mean(above(values, thresholds))


def above(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Whether each run is above each threshold: 1, 0, or NaN for a missing one: [threshold seed]."""
    values = np.asarray(values, dtype=float)
    return np.where(np.isnan(values), np.nan, (values > np.asarray(thresholds)[:, None]).astype(float))


def standard_deviation(values: np.ndarray) -> float:
    """Between the runs that are there, with n - 1; NaN with fewer than two."""
    there = np.asarray(values, dtype=float)
    there = there[~np.isnan(there)]
    return float(np.std(there, ddof=1)) if len(there) > 1 else float("nan")
