"""Run folders: found under the paths that people name, with their configs. Files, no torch."""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.config import yaml12
from pgrl_cli.config.files import content
from pgrl_cli.config.kinds import misfit
from pgrl_cli.config.problems import ConfigError, Problem, brief, listed, short
from pgrl_cli.config.schema import SeedCount, Seeds
from pgrl_cli.registry import Seed

STAMPED = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-(.+)-[0-9a-f]{6}")
CELL = re.compile(r"(.+)-[0-9a-f]{12}")
"""The names of folders made here: what is readable of them stands between time and tail."""
DEEPEST = 6
"""Folders inside folders that are searched for runs."""
SEED_KINDS: Mapping[str, Any] = {"seed": Seed, "seeds": SeedCount | Seeds}


@dataclass(frozen=True)
class Found:
    """A run folder, plain, stacked or a cell; a cell that has not started has none yet."""

    path: Path
    parameters: Mapping[str, Any] | None = None
    """Of a sweep's cell, what was swept."""


def found(paths: Iterable[str | Path]) -> list[Found]:
    """The runs that paths mean: run folders, sweeps, folders of them, or globs; each once.

    Raises ConfigError for a path that holds none, and says what is there.
    """
    here: dict[Path, Found] = {}
    problems = []
    for path in paths:
        matches = [Path(path)] if Path(path).exists() else _matching(str(path))
        seen: set[str] = set()
        runs = [run for match in matches for run in _under(match, DEEPEST, seen)]
        if not runs:
            problems.append(Problem(_nothing_at(Path(path), matches), short(str(path))))
        for run in runs:
            here.setdefault(_real(run.path), run)
    if problems:
        raise ConfigError(problems)
    return _in_order(list(here.values()))


def _in_order(runs: list[Found]) -> list[Found]:
    """Runs as they were named; if all are cells of one sweep, in its order, so that pictures of it agree."""
    sweeps = {run.path.resolve().parents[1] for run in runs}
    if len(sweeps) > 1 or any(run.parameters is None for run in runs):
        return runs
    sweep = sweeps.pop()
    if not (sweep / "cells.jsonl").is_file():  # a cell that is a link lies elsewhere
        return runs
    place = {(sweep / cell.folder).resolve(): number for number, cell in enumerate(_cells(sweep))}
    return sorted(runs, key=lambda run: place.get(run.path.resolve(), len(place)))


def config_of(path: Path) -> Mapping[str, Any]:
    """The resolved config of a run folder. Raises ConfigError where there is none."""
    try:
        config = yaml12.read(content(path / "config.yaml").decode(), str(path / "config.yaml"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(f"is no run folder: config.yaml: {in_words(error)}", str(path))]) from error
    if not isinstance(config, dict):
        raise ConfigError([Problem("is no run folder: config.yaml is no config", str(path))])
    for key, kind in SEED_KINDS.items():
        if config.get(key) is not None and (wrong := misfit(kind, config[key])):
            raise ConfigError([Problem(f"is no run folder: config.yaml: {key}: {wrong}", str(path))])
    return config


def title_of(path: Path) -> str:
    """What a run or a sweep is called in a title: the name of its folder, without the time and the tail."""
    name = path.absolute().name
    made_here = STAMPED.fullmatch(name) or (CELL.fullmatch(name) if path.absolute().parent.name == "cells" else None)
    return made_here[1] if made_here else name


def _matching(pattern: str) -> list[Path]:
    return [Path(name) for name in sorted(glob.glob(pattern))]  # noqa: PTH207 - Path.glob takes no absolute pattern


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve ends at a loop of links


def _under(path: Path, deepest: int, seen: set[str]) -> list[Found]:
    """The runs in a folder; one that links have led to before is left out."""
    if (where := str(_real(path))) in seen:
        return []
    seen.add(where)
    if (path / "cells.jsonl").is_file():
        return [Found(path / cell.folder, cell.parameters) for cell in _cells(path)]
    if (path / "config.yaml").is_file():
        return [Found(path, _parameters_of_cell(path))]
    if path.is_dir() and deepest > 0:
        inside = [inner for inner in sorted(path.iterdir()) if inner.is_dir() and not inner.name.startswith(".")]
        return [run for inner in inside for run in _under(inner, deepest - 1, seen)]
    return []


def _cells(path: Path) -> Sequence[Cell]:
    try:
        return Sweep(path).cells
    except (ValueError, TypeError) as error:
        raise ConfigError([Problem(f"cells.jsonl is damaged: {brief(str(error))}", str(path))]) from error


def _parameters_of_cell(path: Path) -> Mapping[str, Any] | None:
    """What was swept, of a folder cells/NAME in a sweep's folder."""
    real = _real(path)
    parents = real.parents
    if len(parents) < 2 or not (parents[1] / "cells.jsonl").is_file():
        return None
    return next((cell.parameters for cell in _cells(parents[1]) if parents[1] / cell.folder == real), None)


def _nothing_at(path: Path, matches: Sequence[Path]) -> str:
    if not matches:
        return "there is no such folder, and no folder of that pattern"
    if path.is_file():
        return "is a file; name the run folder that it lies in"
    inside = [inner.name for match in matches if match.is_dir() for inner in sorted(match.iterdir())]
    return f"holds no run; in it {'there is ' + listed(inside, 5) if inside else 'is nothing'}"


@contextmanager
def naming(file: str | Path) -> Iterator[None]:
    """An OSError of what is written or read inside names the file, where it does not by itself."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(file)) from error


def in_words(error: Exception) -> str:
    """An error, without what Python adds to it."""
    return str(error.strerror) if isinstance(error, OSError) else brief(str(error))
