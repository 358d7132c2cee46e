"""One experiment against another on the same seeds."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from pgrl_cli.statistics.bootstrap import bootstrap_interval
from pgrl_cli.statistics.means import as_runs, mean

Interval = tuple[float, float]


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
    improvement is here the share of these pairs with b > a, a tie counting half (Agarwal et al., 2021,
    define it over all pairs of a run of A with a run of B, whatever their seeds), with Wilson's interval: from a
    bootstrap, three of three pairs would be certainty. Pairs with a NaN are left out and counted.
    """
    first, second = as_runs(a), as_runs(b)
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
