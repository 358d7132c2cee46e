"""Standard errors, from parts of a sample that know nothing of each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def standard_errors(parts: Sequence[Any]) -> Any:
    """Of numbers that were worked out from each part alone: mappings and lists of numbers, all alike, keep their form.

    The standard deviation (n-1) between the parts by the square root of their number: what the whole, which is so many
    times as large as a part, is off by. None where a part has no number, and for what is no number.
    """
    first = parts[0]
    if isinstance(first, dict):
        each = {name: standard_errors([part[name] for part in parts]) for name in first}
        return {name: error for name, error in each.items() if error is not None}
    if isinstance(first, list):
        return [standard_errors(list(column)) for column in zip(*parts, strict=True)]
    if isinstance(first, bool | str) or any(part is None for part in parts):
        return None
    with np.errstate(invalid="ignore"):
        return float(np.std(parts, ddof=1) / np.sqrt(len(parts)))
