"""Tables of results: the summary of a sweep, and the comparison of two experiments on common seeds."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.config.problems import ConfigError, Problem, listed
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.results import Found, Result, read
from pgrl_cli.runs import write_whole

COLUMNS = ("runs", "failed", "mean", "standard_deviation", "iqm", "iqm_low", "iqm_high", "best")


@dataclass(frozen=True)
class Row:
    """How a cell's runs ended."""

    cell: Cell
    status: str
    seeds: tuple[int, ...]
    values: np.ndarray
    """[seed]: each run's number; NaN for one that did not get there."""
    numbers: Mapping[str, Any]
    """By the names of COLUMNS; None where there is no run to tell of."""


def summarised(sweep: Sweep, metric: Metric) -> tuple[list[Row], list[str]]:
    """A row for each cell, the best first, those without a result last; and notes on what could not be read."""
    rows, notes = [], []
    for cell in sweep.cells:
        status = sweep.status(cell)["status"]
        result = None
        try:
            result = read(Found(sweep.folder / cell.folder, cell.parameters), metric.name)
        except ConfigError as error:
            if status == "completed":
                notes += [str(problem) for problem in error.problems]
        rows.append(_row(cell, status, result, metric))
    sign = -1 if metric.goal == "maximize" else 1
    return sorted(rows, key=lambda row: (row.numbers["iqm"] is None, sign * (row.numbers["iqm"] or 0))), notes


def write_summary(sweep: Sweep, rows: Sequence[Row], metric: Metric) -> None:
    """Write summary.csv, summary.md and summary.json. Raises OSError."""
    folder = sweep.folder
    write_whole(folder / "summary.csv", _csv(rows))
    write_whole(folder / "summary.md", markdown(rows, metric))
    told = {
        "metric": {"name": metric.name, "over": metric.over, "goal": metric.goal},
        "cells": [_json(row) for row in rows],
    }
    write_whole(folder / "summary.json", told)


def markdown(rows: Sequence[Row], metric: Metric) -> str:
    """The summary as a table."""
    lines = [
        f"{metric.name}, {metric.over.replace('_', ' ')}, {metric.goal}d. IQM: interquartile mean over seeds, and its "
        "95 % bootstrap interval.",
        "",
        "| cell | runs | failed | mean | IQM | 95 % interval | best |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        n = row.numbers
        interval = "" if n["iqm_low"] is None else f"{n['iqm_low']:.3f} to {n['iqm_high']:.3f}"
        told = [_short(n[name]) for name in ("mean", "iqm")]
        state = "" if row.status == "completed" else f" ({row.status})"
        cells = [f"`{row.cell.label}`{state}", n["runs"], n["failed"], *told, interval, _short(n["best"])]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Compared:
    """Two experiments on their common seeds."""

    a: str
    b: str
    metric: str
    over: str
    numbers: statistics.Comparison
    common: tuple[int, ...]
    apart: tuple[int, ...]
    """Seeds that only one of them has."""
    mean_a: float
    mean_b: float

    def sentence(self) -> str:
        """The answer, in words."""
        n = self.numbers
        if n.n == 0:
            return f"No seed has both runs at their end, so nothing can be said about {self.metric}."
        pairs = f"{n.n} seeds" if n.n > 1 else "1 seed"
        share = (
            f"better in {_percent(n.probability_of_improvement)} of {pairs}"
            if n.ties == 0
            else f"better or level ({n.ties} ties count half) in {_percent(n.probability_of_improvement)} of {pairs}"
        )
        if n.n == 1:
            return f"B ends {_apart(n.difference)}, on 1 seed: that says next to nothing."
        interval = f"[{n.low:.2f}, {n.high:.2f}]"
        if n.low <= 0 <= n.high:
            return f"No clear difference: B ends {_apart(n.difference)} {interval}, {share}."
        turned = interval if n.difference > 0 else f"[{-n.high:.2f}, {-n.low:.2f}]"
        return f"B ends {_apart(n.difference)} {turned}, {share}."


def compared(a: Sequence[Result], b: Sequence[Result], metric: str, over: str, names: tuple[str, str]) -> Compared:
    """Two experiments, paired over their common seeds. Raises ConfigError where there is none."""
    ends_a, ends_b = _by_seed(a, over, names[0]), _by_seed(b, over, names[1])
    common = sorted(ends_a.keys() & ends_b.keys())
    if not common:
        told = f"no seed in common: A has {listed(sorted(ends_a), 5)}; B has {listed(sorted(ends_b), 5)}"
        raise ConfigError([Problem(f"{told}. Train both with the same seeds, such as seeds=32", "compare")])
    first, second = (np.array([ends[seed] for seed in common]) for ends in (ends_a, ends_b))
    return Compared(
        a=names[0],
        b=names[1],
        metric=metric,
        over=over,
        numbers=statistics.paired(first, second),
        common=tuple(common),
        apart=tuple(sorted(ends_a.keys() ^ ends_b.keys())),
        mean_a=float(statistics.mean(first)),
        mean_b=float(statistics.mean(second)),
    )


def _by_seed(results: Sequence[Result], over: str, name: str) -> dict[int, float]:
    experiments = {result.experiment for result in results}
    if len(experiments) > 1:
        told = f"holds {len(experiments)} experiments; name one, such as a cell's folder"
        raise ConfigError([Problem(told, name)])
    return {
        seed: float(value) for result in results for seed, value in zip(result.seeds, result.ends(over), strict=True)
    }


def _row(cell: Cell, status: str, result: Result | None, metric: Metric) -> Row:
    numbers: dict[str, Any] = dict.fromkeys(COLUMNS)
    if result is None:
        return Row(cell, status, (), np.array([]), numbers | {"runs": 0, "failed": 0})
    values = result.ends(metric.over, metric.goal)
    there = values[~np.isnan(values)]
    numbers |= {"runs": len(there), "failed": len(values) - len(there)}
    if len(there):
        low, high = statistics.bootstrap_interval([values], statistics.interquartile_mean)
        numbers |= {
            "mean": float(statistics.mean(values)),
            "standard_deviation": _number(statistics.summary(values).standard_deviation),
            "iqm": float(statistics.interquartile_mean(values)),
            "iqm_low": _number(float(low)),
            "iqm_high": _number(float(high)),
            "best": float(there.max() if metric.goal == "maximize" else there.min()),
        }
    return Row(cell, status, result.seeds, values, numbers)


def _csv(rows: Sequence[Row]) -> str:
    keys = list(dict.fromkeys(key for row in rows for key in row.cell.parameters))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["cell", "id", "status", *keys, *COLUMNS, "seeds", "values"])
    for row in rows:
        swept = [_cell(row.cell.parameters.get(key)) for key in keys]
        numbers = ["" if row.numbers[name] is None else row.numbers[name] for name in COLUMNS]
        listed_out = [json.dumps(list(row.seeds)), json.dumps([_number(value) for value in row.values.tolist()])]
        table.writerow([row.cell.label, row.cell.id, row.status, *swept, *numbers, *listed_out])
    return text.getvalue()


def _json(row: Row) -> dict[str, Any]:
    return {
        "cell": row.cell.label,
        "id": row.cell.id,
        "folder": row.cell.folder,
        "status": row.status,
        "parameters": row.cell.parameters,
        **row.numbers,
        "seeds": row.seeds,
        "values": [_number(value) for value in row.values.tolist()],
    }


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _apart(difference: float) -> str:
    return f"{abs(difference):.2f} {'higher' if difference >= 0 else 'lower'}"


def _percent(share: float) -> str:
    """A share in whole percent; 100 and 0 are said of all and of none alone."""
    rounded = round(100 * share)
    return f"{min(max(rounded, 1 if share > 0 else 0), 100 if share == 1 else 99)} %"
