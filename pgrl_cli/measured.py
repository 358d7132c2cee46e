"""The lines of metrics.jsonl, each checked: a step after the last one, and a number for every seed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import orjson

from pgrl_cli.config.files import opened
from pgrl_cli.config.problems import ConfigError, Problem, brief, short

NO_METRIC = ("epoch", "step", "nonfinite")
MOST_METRICS = 10_000
"""In a line; a run has some thirty, and one for each of its rewards."""
LARGEST = 2**63
"""Epochs and steps are below it: numpy's integers."""


class Checked:
    """Reads the lines of one file, in their order."""

    def __init__(self, path: Path, config: Mapping[str, Any], seeds: Sequence[int]):
        self.path, self.stacked, self.seeds = path, config.get("seeds") is not None, len(seeds)
        self.step = -1

    def line(self, data: bytes, number: int) -> dict[str, Any]:
        """What a line says. Raises ConfigError where it is no JSON, or its epoch or step cannot be."""
        try:
            told = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise self.damaged(str(error), number) from error
        if not isinstance(told, dict) or not all(_counts(told.get(key)) for key in ("epoch", "step")):
            raise self.damaged("has no epoch and step", number)
        if len(told) > MOST_METRICS:
            raise self.damaged(f"has {len(told)} keys", number)
        if told["step"] <= self.step:
            raise self.damaged(f"step {told['step']} comes after step {self.step}", number)
        self.step = told["step"]
        return told

    def value(self, line: Mapping[str, Any], metric: str, number: int) -> Any:
        """A line's value of a metric: a number or None, of a stack a list of them. Raises ConfigError."""
        value = line[metric]
        several = isinstance(value, list)
        if value is not None and (several != self.stacked or (several and len(value) != self.seeds)):
            count = len(value) if several else 1
            what = f"{count} values of {short(metric)}, but config.yaml has {self.seeds} seeds"
            raise self.damaged(what, number)
        kinds = set(map(type, value)) if several else {type(value)}
        if not kinds <= {int, float, NoneType}:
            raise self.damaged(f"{short(metric)} is {brief(value)}, no number", number)
        return value

    def values(self, line: Mapping[str, Any], number: int) -> None:
        """Check all that a line says. Raises ConfigError."""
        for metric in line:
            if metric not in NO_METRIC:
                self.value(line, metric, number)
        names = line.get("nonfinite", [])
        if not isinstance(names, list) or not all(isinstance(name, str) and name in line for name in names):
            raise self.damaged(f"nonfinite is {brief(names)}, no list of its metrics", number)

    def lines(self) -> Iterator[dict[str, Any]]:
        """All lines with all that they say; a torn last line is left out. Raises ConfigError and OSError."""
        with opened(self.path) as file:
            for number, data in enumerate(file, start=1):
                if data.endswith(b"\n"):
                    line = self.line(data, number)
                    self.values(line, number)
                    yield line

    def damaged(self, what: str, number: int) -> ConfigError:
        return ConfigError([Problem(f"damaged: {what}", str(self.path), number)])


def _counts(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST
