"""Standard errors, from parts of a sample that know nothing of each other."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor


def standard_errors(parts: Sequence[Any]) -> Any:
    """Of numbers that were worked out from each part alone: mappings and lists of numbers, all alike, keep their form.

    The standard deviation (n-1) between the parts by the square root of their number: what the whole, which is so many
    times as large as a part, is off by. None where a part has no finite number, and for what is no number.
    """
    first = parts[0]
    if isinstance(first, dict):
        each = {name: standard_errors([part[name] for part in parts]) for name in first}
        return {name: error for name, error in each.items() if error is not None}
    if isinstance(first, list):
        return [standard_errors(list(column)) for column in zip(*parts, strict=True)]
    if isinstance(first, bool | str) or not all(part is not None and math.isfinite(part) for part in parts):
        return None
    return float(np.std(parts, ddof=1) / np.sqrt(len(parts)))


def pseudo_values(
    function: Callable[..., dict[str, Tensor]], whole: Sequence[Tensor], parts: Sequence[Tensor]
) -> dict[str, Tensor]:
    """A function of averages, for each part of a sample, as if it were an average itself: [part].

    whole: averages over the sample; parts [part ...]: the same over its parts. Their mean is free of the bias that
    noise gives to squares, and they scatter as independent numbers do (the jackknife; Tukey, 1958, "Bias and confidence
    in not quite large samples").
    """
    count = len(parts[0])
    without = [mean + (part.mean(dim=0) - part) / (count - 1) for mean, part in zip(whole, parts, strict=True)]
    found, each = function(*whole), function(*without)
    return {name: count * found[name] - (count - 1) * each[name] for name in found}


def mean_error(values: Tensor) -> float:
    """The standard error of the mean of independent values [part]."""
    return (values.std() / len(values) ** 0.5).item()


def quotient_error(values: Tensor, by: Tensor) -> float:
    """The standard error of mean(values) / mean(by), [part] each, to first order (Cochran, 1977, section 2.11)."""
    quotient = values.mean() / by.mean()
    return mean_error((values - quotient * by) / by.mean().abs())
