"""Whether runs and sweeps are whole: every file against what its folder promises, each fault with file and line."""

import re
from collections.abc import Iterator
from pathlib import Path

from pgrl_cli.catalogue import cells_of, kind_of
from pgrl_cli.cells import Sweep
from pgrl_cli.config.problems import ConfigError, Problem, short
from pgrl_cli.promises import Folder
from pgrl_cli.small_files import Unreadable, mapping_of, status_of

FINISHED = ("completed", "failed")
PLACE = re.compile(r".*?:(\d+): (.*)", re.DOTALL)
"""A message that says its file and line itself."""


def faults_of(path: Path) -> list[Problem]:
    """All that is wrong with a run, a sweep with its cells, or a cell; nothing where it is whole."""
    return list(_sweep_faults(path)) if kind_of(path) == "sweep" else Folder(path).faults()


def runs_in(path: Path) -> int:
    """How many run folders a folder is or holds: a sweep's cells that have started, else itself."""
    return sum(cell.path.is_dir() for cell in cells_of(path)) if kind_of(path) == "sweep" else 1


def _sweep_faults(path: Path) -> Iterator[Problem]:
    status = None
    try:
        status = status_of(path)["status"]
    except Unreadable as error:
        yield Problem(error.message, str(path / "status.json"))
    yield from _spec_faults(path / "sweep.yaml")
    try:
        cells = Sweep(path).cells
    except (OSError, ValueError, TypeError) as error:
        place = PLACE.fullmatch(str(error))
        message, line = (place[2], int(place[1])) if place else (_told(error), None)
        yield Problem(message, str(path / "cells.jsonl"), line)
        return
    known = {path / cell.folder for cell in cells}
    for folder in sorted(known):
        yield from _cell_faults(folder, sweep_is_done=status in FINISHED)
    for folder in sorted((path / "cells").iterdir()) if (path / "cells").is_dir() else []:
        if folder not in known and not folder.name.startswith("."):
            yield Problem("is none of the cells in cells.jsonl", str(folder))


def _spec_faults(path: Path) -> Iterator[Problem]:
    from pgrl_cli.config.sweep_words import metric_of

    try:
        _, wrong = metric_of(mapping_of(path).get("metric"))
        yield from (Problem(message, str(path)) for message in wrong)
    except ConfigError as error:
        yield from (Problem(problem.message, str(path), problem.line) for problem in error.problems)
    except Unreadable as error:
        yield Problem(error.message, str(path))


def _cell_faults(folder: Path, sweep_is_done: bool) -> Iterator[Problem]:
    if folder.is_symlink():
        yield Problem("is a link; a cell lies in its sweep's folder", str(folder))
    elif not folder.is_dir():
        if sweep_is_done:
            yield Problem("there is no such folder, but the sweep is done", str(folder))
    else:
        cell = Folder(folder)
        yield from cell.faults()
        if sweep_is_done and cell.entry.status not in (*FINISHED, "damaged"):
            yield Problem(f"is {cell.entry.status}, but the sweep is done", str(folder / "status.json"))


def _told(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) else short(str(error), 200).removeprefix("cells.jsonl ")
