"""What is known of runs and sweeps without opening their metrics: an entry for each, read from its small files.

An entry's facts are flat: what the config says, what status.json says, and `name`, `kind`, `status`, `started`,
`epochs_done` and `seed_count`. The config's keys come first: `epochs` is how many were asked for. Files, no torch.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pgrl_cli import runs
from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.config.files import is_file, is_folder
from pgrl_cli.config.problems import ConfigError
from pgrl_cli.config.schema import seeds_of
from pgrl_cli.small_files import Unreadable, mapping_of, plain, status_of, written_word

TOLD_BY = ("status.json", "config.yaml", "sweep.yaml")
"""The files that an entry is read from."""
OWN_FILES = (*TOLD_BY, "cells.jsonl", "metrics.jsonl")
"""A folder that holds one of these is a run or a sweep, or was one."""
NAMED = re.compile(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)-.+-[0-9a-f]{6}")
UNFINISHED = ("pending", "running", "lost")
STRUCTURE = ("base", "parameters", "metric", "cells")
"""Keys of a sweep.yaml that are no values of its configs."""


@dataclass(frozen=True)
class Entry:
    """A run, a sweep, or a cell of one."""

    path: Path
    kind: str
    facts: Mapping[str, Any]
    problem: str | None = None
    """Why it could not be read, where it could not: its status is then damaged."""

    @property
    def status(self) -> str:
        return str(self.facts["status"])


def is_one(path: Path) -> bool:
    """Whether a folder is a run or a sweep, or what is left of one."""
    return any(is_file(path / name) for name in OWN_FILES) or (is_folder(path) and bool(NAMED.fullmatch(path.name)))


def entry_of(path: Path, kind: str | None = None) -> Entry:
    """What is known of one folder; one that cannot be read is an entry too."""
    kind = kind or kind_of(path)
    facts: dict[str, Any] = {"kind": kind, "name": _name_without_stamp(path.name), "status": "damaged"}
    facts |= {"started": _stamp(path.name), "epochs_done": None, "seed_count": None}
    facts |= {"label": written_word(path.name.rpartition("-")[0] or path.name)} if kind == "cell" else {}
    try:
        told = status_of(path)
        config = _sweep_config(path) if kind == "sweep" else mapping_of(path / "config.yaml")
    except (Unreadable, ConfigError) as error:
        problem = str(error).splitlines()[0]
        return Entry(path, kind, facts | {"error": problem}, problem)
    facts["name"] = config.get("name", facts["name"])
    facts["status"] = _standing(told)
    facts["started"] = told["started"] if isinstance(told.get("started"), str) else facts["started"]
    facts["seed_count"] = _seed_count(config)
    if kind == "sweep":
        facts |= _cell_counts(path, told)
    else:
        facts["epochs_done"] = _epochs_done(path, told, facts["status"])
    facts |= {key: value for key, value in config.items() if key not in facts}
    ours = {*facts, "epochs", "seeds"}
    facts |= {key: plain(value) for key, value in told.items() if key not in ours and not _nested(value)}
    return Entry(path, kind, facts)


def cells_of(path: Path) -> Iterator[Entry]:
    """The cells of a sweep's folder, those that have not started pending; nothing where the sweep is damaged."""
    try:
        cells = Sweep(path).cells
    except (OSError, ValueError, TypeError):
        return
    for cell in cells:
        folder = path / cell.folder
        yield entry_of(folder, "cell") if folder.is_dir() else _not_started(folder, cell)


def kind_of(path: Path) -> str:
    """Whether a folder is a run, a sweep or a cell, as far as its files' names say."""
    if is_file(path / "cells.jsonl") or is_file(path / "sweep.yaml"):
        return "sweep"
    parents = path.absolute().parents
    return "cell" if len(parents) > 1 and is_file(parents[1] / "cells.jsonl") else "run"


def _nested(value: Any) -> bool:
    return isinstance(value, list | dict)


def _standing(told: Mapping[str, Any]) -> str:
    status = str(told["status"])
    try:
        return "lost" if status in UNFINISHED and "pid" in told and not runs.is_alive(told) else status
    except (TypeError, ValueError, OverflowError):
        return "lost"


def _sweep_config(path: Path) -> dict[str, Any]:
    """What all cells of a sweep have in common."""
    written = mapping_of(path / "sweep.yaml")
    base, swept = written.get("base"), written.get("parameters")
    common = (base if isinstance(base, dict) else {}) | written
    apart = {*STRUCTURE, *(swept if isinstance(swept, dict) else ())}
    return {key: value for key, value in common.items() if key not in apart}


def _cell_counts(path: Path, told: Mapping[str, Any]) -> dict[str, Any]:
    counts = told.get("cells")
    done = counts.get("completed", 0) if isinstance(counts, dict) else None
    try:
        return {"cells": (path / "cells.jsonl").read_bytes().count(b"\n"), "cells_completed": done}
    except OSError:
        return {"cells": None, "cells_completed": done}


def _epochs_done(path: Path, told: Mapping[str, Any], standing: str) -> int | None:
    """Epochs that are written; of a run that goes on, or was killed, as timing.jsonl tells."""
    if isinstance(told.get("epochs"), int) and standing not in UNFINISHED:
        return int(told["epochs"])
    try:
        with (path / "timing.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            lines = file.read().split(b"\n")[:-1]
        return int(orjson.loads(lines[-1])["epoch"]) + 1 if lines else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0 if standing in UNFINISHED else None


def _seed_count(config: Mapping[str, Any]) -> int | None:
    seeds = config.get("seeds")
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return seeds  # a count need not be counted
    return len(seeds_of(config)) if seeds is None or isinstance(seeds, list) else None


def _name_without_stamp(name: str) -> str:
    return written_word(name[20:-7] if NAMED.fullmatch(name) else name)


def _stamp(name: str) -> str | None:
    """When a folder says that it was made, in the form that status.json has."""
    if not (match := NAMED.fullmatch(name)):
        return None
    try:
        return datetime.strptime(match[1], "%Y-%m-%d_%H-%M-%S").astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None


def _not_started(folder: Path, cell: Cell) -> Entry:
    config = plain({key: value for key, value in cell.config.items() if key not in ("knobs", "sources")})
    knobs = cell.config.get("knobs")
    facts = {"kind": "cell", "name": config.get("name"), "status": "pending", "started": None, "epochs_done": 0}
    facts |= {"seed_count": _seed_count(config), "label": cell.label}
    return Entry(folder, "cell", facts | {k: v for k, v in config.items() if k not in facts} | plain(knobs or {}))
