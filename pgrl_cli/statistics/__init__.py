"""What many runs say together: a mean, an interval, a comparison. A run that is missing (NaN) is never a number.

Every figure is over runs, the last axis: values [... seed]. Axes in front are points along x, thresholds or metrics.
Intervals come from resampling whole runs, so a curve's band keeps what its points have in common. Numbers are a pure
function of the arguments: no generator is shared, so a curve is the same alone and among others.

Agarwal et al., 2021, "Deep reinforcement learning at the edge of the statistical precipice".
"""

import math

from pgrl_cli.statistics.bootstrap import above, bootstrap_interval, performance_profile
from pgrl_cli.statistics.means import STATISTICS, Array, Statistic, interquartile_mean, mean
from pgrl_cli.statistics.pairs import Comparison, Interval, paired, share_interval

__all__ = [
    "FEW",
    "STATISTICS",
    "Array",
    "Comparison",
    "Interval",
    "Statistic",
    "above",
    "bootstrap_interval",
    "interquartile_mean",
    "mean",
    "or_none",
    "paired",
    "performance_profile",
    "share_interval",
]

FEW = 5
"""Fewer runs than this say little of a spread: they are drawn one by one, and a sentence about them warns."""


def or_none(value: float) -> float | None:
    """A number; what is none as None."""
    return None if math.isnan(value) else value
