"""A run's own picture, drawn from its files: the one that `pgrl train` leaves, and cells get on demand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.config.schema import seeds_of
from pgrl_cli.folders import Found, config_of, in_words
from pgrl_cli.plots.run import Curves, Gathered, draw, title_of
from pgrl_cli.plots.tables import Table
from pgrl_cli.results import line_of
from pgrl_cli.runs import Run


def draw_own(run: Found, path: Path) -> Table:
    """Reward, exact match, KL and loss of one run folder over its steps; the numbers drawn.

    Raises ConfigError where a file of the folder is missing or damaged, or there is nothing to draw.
    """
    config = config_of(run.path)
    folder = Run(run.path)
    gathered = Gathered()
    try:
        gathered.add(_lines(folder.folder / "metrics.jsonl", len(seeds_of(config))))
        status = folder.status()
        failed = [each["seed"] for each in status.get("seeds") or () if each["status"] == "failed"]
        curves = gathered.curves()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        told = (
            in_words(error) if isinstance(error, OSError | ValueError) else f"damaged: {type(error).__name__} {error}"
        )
        raise ConfigError([Problem(f"cannot be drawn: {told}", str(run.path))]) from error
    if not curves:
        raise ConfigError([Problem("cannot be drawn: no epoch is written yet", str(run.path))])
    draw(curves, path, title=title_of(config, seeds_of(config)), maximum=status.get("maximum_reward"), failed=failed)
    return _table(curves)


def _lines(path: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """The lines of metrics.jsonl, one at a time; a torn last line is left out."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield line_of(line, path, number, seeds)


def _table(curves: Curves) -> Table:
    """A row for each metric and step: the mean over seeds with its interval."""
    table = []
    for name, series in curves.items():
        low, high = statistics.bootstrap_interval([series.values], statistics.mean)
        rows = zip(series.steps.tolist(), series.values, statistics.mean(series.values), low, high, strict=True)
        for step, values, value, least, most in rows:
            numbers = {"runs": int((~np.isnan(values)).sum()), "value": value, "low": least, "high": most}
            table.append({"group": name, "step": step, "statistic": "mean", **numbers})
    return table
