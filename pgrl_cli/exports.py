"""A run's metrics for other programs: JSON lines, CSV, or numpy's arrays."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import runs
from pgrl_cli.cells import Sweep
from pgrl_cli.config.problems import ConfigError, Problem, listed
from pgrl_cli.config.schema import seeds_of
from pgrl_cli.folders import config_of, naming
from pgrl_cli.measured import NO_METRIC, Checked

Row = dict[str, Any]


def exported(run: Path, seed: int | None, form: str) -> Iterator[bytes]:
    """The metrics of a run folder in pieces: of a stacked run one line per step and seed, unless one seed is asked for.

    One seed's lines are those that it would have written alone; where a seed has failed, its lines end. An npz holds
    arrays [step seed] by metric, and `seeds`, `steps` and `epochs`; what is null is NaN in it.
    Raises ConfigError for a folder that is no run, a seed that it does not have, or a damaged line.
    """
    if (run / "cells.jsonl").is_file():
        cells = [cell.folder for cell in Sweep(run).cells[:1]]
        such = f", such as {run / cells[0]}" if cells else ""
        raise ConfigError([Problem(f"is a sweep, and one run is exported; name one of its cells{such}", str(run))])
    config = config_of(run)
    seeds = seeds_of(config)
    if seed is not None and seed not in seeds:
        raise ConfigError([Problem(f"has no seed {seed}; it has {listed(seeds, 10)}", str(run))])
    lines = _lines(Checked(run / "metrics.jsonl", config, seeds))
    if form == "npz":
        return iter([_npz(lines, seeds, seed)])
    rows = lines if config.get("seeds") is None else _rows_of_seeds(lines, seeds, seed)
    return map(runs.to_json, rows) if form == "jsonl" else _csv(rows)


def write(path: Path, data: Iterable[bytes]) -> None:
    """Write what is exported into a file. Raises ConfigError where there is no folder for it."""
    if not path.parent.is_dir():
        raise ConfigError([Problem(f"there is no folder {path.parent}", "--out")])
    with naming(path):
        runs.write_whole(path, data)


def _lines(checked: Checked) -> Iterator[Row]:
    """The lines of metrics.jsonl, one at a time; a torn last line is left out."""
    try:
        yield from checked.lines()
    except FileNotFoundError as error:
        raise ConfigError([Problem("there is no such file: the run has not begun", str(checked.path))]) from error


def _rows_of_seeds(lines: Iterable[Row], seeds: tuple[int, ...], seed: int | None) -> Iterator[Row]:
    places = range(len(seeds)) if seed is None else [seeds.index(seed)]
    for line in lines:
        for place in places:
            row = {
                name: value[place] if isinstance(value, list) else value
                for name, value in line.items()
                if name != "nonfinite"
            }
            if all(value is None for name, value in row.items() if name not in NO_METRIC):
                continue  # it failed before: alone it would not have come here
            wrong = [name for name in line.get("nonfinite", ()) if row[name] is None]
            if wrong:
                row["nonfinite"] = wrong
            yield row if seed is not None else {"seed": seeds[place], **row}


def _csv(rows: Iterable[Row]) -> Iterator[bytes]:
    columns: list[str] = []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        if not columns:
            columns = [name for name in row if name != "nonfinite"]
            writer.writerow(columns)
        writer.writerow(["" if row.get(name) is None else row[name] for name in columns])
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()


def _npz(lines: Iterable[Row], seeds: tuple[int, ...], seed: int | None) -> bytes:
    chosen = seeds if seed is None else (seed,)
    places = [seeds.index(each) for each in chosen]
    steps: list[int] = []
    epochs: list[int] = []
    columns: dict[str, list[np.ndarray]] = {}
    for line in lines:
        steps.append(line["step"])
        epochs.append(line["epoch"])
        for name, value in line.items():
            if name not in NO_METRIC:
                every = np.broadcast_to(np.array(value, dtype=float), (len(seeds),))
                columns.setdefault(name, []).append(every[places])
    arrays: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
    arrays |= {"seeds": np.array(chosen), "steps": np.array(steps, dtype=int), "epochs": np.array(epochs, dtype=int)}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()
