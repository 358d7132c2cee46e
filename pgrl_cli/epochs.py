"""The lines of metrics.jsonl, an epoch at a time, as they were while it trained."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from pgrl_cli.config import Config
from pgrl_cli.training.measures import IN_DOUBLE

PLAIN = ("epoch", "step", "nonfinite")
"""What a line holds beside its metrics."""


def epochs_of(lines: Iterable[Mapping[str, Any]], config: Config) -> Iterator[list[dict[str, Any]]]:
    """Each epoch's lines: numbers of numpy, or arrays [seed], as precise as they were measured."""
    wide, narrow = np.dtype("float64"), np.dtype(config.dtype)

    def number(name: str, value: Any) -> Any:
        if value is None and name != "mean_reward":
            return None
        return np.array(value, dtype=wide if name in IN_DOUBLE else narrow)[()]

    for _, rows in groupby(lines, key=itemgetter("epoch")):
        yield [{name: value if name in PLAIN else number(name, value) for name, value in row.items()} for row in rows]


def with_keys(row: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """A line of metrics.jsonl with these keys alone: all lines of a file have the same."""
    kept = {key: value for key, value in row.items() if key in keys}
    wrong = [name for name in kept.pop("nonfinite", ()) if name in kept]
    return kept | ({"nonfinite": wrong} if wrong else {})
