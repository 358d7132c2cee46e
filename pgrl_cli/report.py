"""The summary of a sweep: how every cell's runs ended, as tables for people and for programs."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.folders import Found, naming
from pgrl_cli.results import Result, once, read
from pgrl_cli.runs import write_whole
from pgrl_cli.statistics import or_none

COLUMNS = ("runs", "failed", "missing", "mean", "standard_deviation", "iqm", "iqm_low", "iqm_high", "best")


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
    rows: list[Row] = []
    problems: list[Problem] = []
    for cell in sweep.cells:
        status = sweep.status(cell)["status"]
        folder = sweep.folder / cell.folder
        result = None
        if folder.is_dir():
            try:
                result = read(Found(folder, cell.parameters), metric.name)
            except ConfigError as error:
                problems += error.problems
                status = "unreadable"
        rows.append(_row(cell, status, result, metric))
    sign = -1 if metric.goal == "maximize" else 1
    rows.sort(key=lambda row: _rank(row, sign))
    return rows, [f"not in the summary: {problem}" for problem in once(problems)]


def _rank(row: Row, sign: int) -> tuple[bool, float, float]:
    """By the interquartile mean, of equal ones by the mean: of a metric of few values many are equal."""
    iqm, mean = row.numbers["iqm"], row.numbers["mean"]
    return iqm is None, sign * (iqm or 0.0), sign * (mean or 0.0)


def write_summary(sweep: Sweep, rows: Sequence[Row], metric: Metric) -> None:
    """Write summary.csv, summary.md and summary.json. Raises OSError."""
    folder = sweep.folder
    told = {
        "metric": {"name": metric.name, "over": metric.over, "goal": metric.goal},
        "cells": [_json(row) for row in rows],
    }
    texts: dict[str, str | dict[str, Any]] = {
        "summary.csv": _csv(rows),
        "summary.md": markdown(rows, metric),
        "summary.json": told,
    }
    for name, text in texts.items():
        with naming(folder / name):
            write_whole(folder / name, text)


def markdown(rows: Sequence[Row], metric: Metric) -> str:
    """The summary as a table."""
    lines = [
        f"{metric.name}, {metric.over.replace('_', ' ')}, {metric.goal}d. IQM: interquartile mean over seeds, and its "
        "95 % bootstrap interval (equal ones are ranked by the mean); "
        "SD: the standard deviation between seeds; missing: did not fail, but has no number.",
        "",
        "| cell | runs | failed | missing | IQM | 95 % interval | mean (SD) | best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        n = row.numbers
        interval = "" if n["iqm_low"] is None else f"{in_short(n['iqm_low'])} to {in_short(n['iqm_high'])}"
        deviation = "" if n["standard_deviation"] is None else f" (SD {in_short(n['standard_deviation'])})"
        state = "" if row.status == "completed" else f" ({row.status})"
        name = f"`{row.cell.label}`{state}".replace("|", "\\|")
        counts = [n["runs"], n["failed"], n["missing"]]
        cells = [name, *counts, in_short(n["iqm"]), interval, in_short(n["mean"]) + deviation, in_short(n["best"])]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _row(cell: Cell, status: str, result: Result | None, metric: Metric) -> Row:
    numbers: dict[str, Any] = dict.fromkeys(COLUMNS)
    if result is None:
        return Row(cell, status, (), np.array([]), numbers | {"runs": 0, "failed": 0, "missing": 0})
    values = result.ends(metric.over, metric.goal)
    there = values[~np.isnan(values)]
    failed = len(result.failed)  # none of them has a number
    numbers |= {"runs": len(there), "failed": failed, "missing": len(values) - len(there) - failed}
    if len(there):
        low, high = statistics.bootstrap_interval([values], statistics.interquartile_mean)
        numbers |= {
            "mean": float(statistics.mean(values)),
            "standard_deviation": float(there.std(ddof=1)) if len(there) > 1 else None,
            "iqm": float(statistics.interquartile_mean(values)),
            "iqm_low": or_none(float(low)),
            "iqm_high": or_none(float(high)),
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
        listed_out = [json.dumps(list(row.seeds)), json.dumps([or_none(value) for value in row.values.tolist()])]
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
        "values": [or_none(value) for value in row.values.tolist()],
    }


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def in_short(value: float | None) -> str:
    """A number as a table shows it: three digits after the point, of a small one a power of ten."""
    if value is None:
        return ""
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.01 else f"{value:.1e}"
