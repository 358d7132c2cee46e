"""A run's metrics for other programs: JSON lines, CSV, or numpy's arrays."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import runs
from pgrl_cli.config.problems import ConfigError, Problem, listed
from pgrl_cli.results import config_of, seeds_of


def exported(run: Path, seed: int | None, form: str) -> Iterator[bytes]:
    """The metrics of a run folder in pieces: of a stacked run one line per step and seed, unless one seed is asked for.

    Raises ConfigError for a folder that is no run, or a seed that it does not have; ValueError for a damaged line.
    """
    config = config_of(run)
    seeds = seeds_of(config)
    if seed is not None and seed not in seeds:
        raise ConfigError([Problem(f"has no seed {seed}; it has {listed(seeds, 10)}", str(run))])
    stacked = config.get("seeds") is not None
    lines = runs.read_lines(run / "metrics.jsonl")
    if form == "npz":
        return iter([_npz(list(lines), seeds, seed)])
    rows = lines if not stacked else _rows_of_seeds(lines, seeds, seed)
    return map(runs.to_json, rows) if form == "jsonl" else _csv(rows)


def write(path: Path, data: Iterable[bytes]) -> None:
    """Write an export to a file. Raises OSError."""
    with path.open("wb") as file:
        file.writelines(data)


def _rows_of_seeds(
    lines: Iterable[dict[str, Any]], seeds: tuple[int, ...], seed: int | None
) -> Iterator[dict[str, Any]]:
    places = range(len(seeds)) if seed is None else [seeds.index(seed)]
    for line in lines:
        for place in places:
            row = {name: value[place] if isinstance(value, list) else value for name, value in line.items()}
            wrong = [name for name in line.get("nonfinite", ()) if row[name] is None]
            row.pop("nonfinite", None)
            if wrong:
                row["nonfinite"] = wrong
            yield row if seed is not None else {"seed": seeds[place], **row}


def _csv(rows: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    columns: list[str] | None = None
    for row in rows:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if columns is None:
            columns = [name for name in row if name != "nonfinite"]
            writer.writerow(columns)
        writer.writerow(["" if row.get(name) is None else row[name] for name in columns])
        yield text.getvalue().encode()


def _npz(lines: list[dict[str, Any]], seeds: tuple[int, ...], seed: int | None) -> bytes:
    """Arrays [step seed] by metric, with `seeds`, `steps` and `epochs`; what was not computed is NaN."""
    chosen = seeds if seed is None else (seed,)
    places = [seeds.index(each) for each in chosen]
    names = [name for name in (lines[0] if lines else {}) if name not in ("epoch", "step", "nonfinite")]
    arrays: dict[str, Any] = {
        "seeds": np.array(chosen),
        "steps": np.array([line["step"] for line in lines], dtype=int),
        "epochs": np.array([line["epoch"] for line in lines], dtype=int),
    }
    for name in names:
        columns = [np.broadcast_to(np.array(line[name], dtype=float), (len(seeds),))[places] for line in lines]
        arrays[name] = np.array(columns)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()
