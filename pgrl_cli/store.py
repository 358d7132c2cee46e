"""Which run a person means: a path, the beginning of a folder's name, its last letters, a name, or `latest`."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pgrl_cli import index
from pgrl_cli.catalogue import Entry, cells_of, entry_of, is_one, kind_of
from pgrl_cli.config.problems import ConfigError, Problem, listed, nearest, short

RUNS = Path("runs")
"""Where runs lie unless somebody says otherwise."""
SHORTEST = 4
"""Letters of an id."""
LATEST = "latest"
SHOWN = 8


def resolved(word: str | Path, runs_dir: Path = RUNS, kind: str | None = None) -> Path:
    """The folder of the run, sweep or cell that a word means; `kind` says that it must be one of these.

    A path that exists wins; else it is an id in `runs_dir`, and SWEEP/CELL means a cell.
    Raises ConfigError where it means none, or several: then they are named.
    """
    path = Path(word)
    if str(word) and os.path.lexists(path):
        if not is_one(path):
            raise ConfigError([Problem(_no_run(path), short(str(word)))])
    else:
        path = _of_id(str(word).rstrip("/"), runs_dir, kind)
    if kind is not None and kind_of(path) != kind:
        raise ConfigError([Problem(f"is a {kind_of(path)}; a {kind} is wanted here", short(str(word)))])
    return path


def path_or_id(word: str, runs_dir: Path = RUNS) -> str:
    """A path or a glob of paths as it is; an id as the path of its run. Raises ConfigError."""
    if word and (os.path.lexists(word) or (glob.has_magic(word) and glob.glob(word))):  # noqa: PTH207 - as in folders
        return word
    return str(_of_id(word, runs_dir, None))


def entries_of(runs_dir: Path) -> list[Entry]:
    """The runs and sweeps of a folder, the newest first. Raises ConfigError where there is no such folder."""
    try:
        return index.entries(runs_dir)
    except OSError as error:
        fix = " `pgrl train` makes it; --runs-dir names another" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError([Problem(f"{error.strerror}.{fix}", short(str(runs_dir)))]) from error


def under(words: Sequence[str], runs_dir: Path, with_cells: bool = False) -> list[Entry]:
    """The runs and sweeps that words mean: those in a folder, a run by itself, of a sweep its cells; each once.

    Without words all of `runs_dir`. Raises ConfigError.
    """
    found: dict[Path, Entry] = {}
    for word in words or [str(runs_dir)]:
        path = Path(word)
        if path.is_dir() and not is_one(path):
            here = entries_of(path)
        else:
            path = resolved(word, runs_dir)
            here = (list(cells_of(path)) if kind_of(path) == "sweep" else []) or [entry_of(path)]
        for entry in here:
            cells = cells_of(entry.path) if with_cells and entry.kind == "sweep" else ()
            found |= {each.path.resolve(): each for each in (entry, *cells)}
    return list(found.values())


def short_ids(names: Sequence[str]) -> dict[str, str]:
    """For each folder's name the fewest of its last letters that are its alone, four or more."""
    ids: dict[str, str] = {}
    waiting, length = list(dict.fromkeys(names)), SHORTEST
    while waiting:
        tails = Counter(name[-length:] for name in names)
        for name in waiting:
            if len(name) <= length or (tails[name[-length:]] == 1 and name[-length] != "-"):
                ids[name] = name[-length:]
        waiting = [name for name in waiting if name not in ids]
        length += 1
    return ids


def matching(word: str, names: Mapping[str, str]) -> list[str]:
    """The folders' names that a word means, given each one's run's name: those that it means most plainly."""
    ways = (
        lambda folder, name: folder == word,
        lambda folder, name: folder.rpartition("-")[2] == word,
        lambda folder, name: name == word,
        lambda folder, name: folder.startswith(word) or _ends_with(folder, word),
    )
    for means in ways:
        if found := [folder for folder, name in names.items() if means(folder, name)]:
            return found
    return []


def one_of(word: str, names: Mapping[str, str], nothing: str) -> str:
    """The one folder's name that a word means. Raises ConfigError, saying `nothing`, or which ones it may mean."""
    found = matching(word, names) if word else []
    if len(found) == 1:
        return found[0]
    shown = short(word) or "''"
    if not found:
        close = nearest(word, dict.fromkeys([*names.values(), *names]))
        raise ConfigError([Problem(f"{nothing}.{close}", shown)])
    fix = "write more of one of them"
    raise ConfigError([Problem(f"may be any of {len(found)}: {listed(found, SHOWN)}; {fix}", shown)])


def _of_id(word: str, runs_dir: Path, kind: str | None) -> Path:
    nothing = "there is no such folder, and no folder of that pattern"
    if not runs_dir.is_dir():
        raise ConfigError(
            [Problem(f"{nothing}; nor is there a folder {runs_dir}, where runs lie", short(word) or "''")]
        )
    head, slash, rest = word.partition("/")
    found = entries_of(runs_dir)
    if not slash:  # of several the ones that are wanted come first
        wanted = [entry for entry in found if entry.kind == kind]
        found = wanted if matching(word, _names(wanted)) or (word == LATEST and wanted) else found
    nothing = f"{nothing}; nor has {runs_dir} a run of that id or name"
    if head == LATEST and found:
        path = found[0].path
    else:
        path = runs_dir / one_of(head if slash else word, _names(found), nothing)
    if not slash:
        return path
    cells = [Entry(cell.path, cell.kind, {**cell.facts, "name": cell.facts["label"]}) for cell in cells_of(path)]
    return path / "cells" / one_of(rest.removeprefix("cells/"), _names(cells), f"{path} has no such cell")


def _names(found: Iterable[Entry]) -> dict[str, str]:
    return {entry.path.name: str(entry.facts["name"]) for entry in found}


def _ends_with(folder: str, word: str) -> bool:
    """Whether a word is a folder's last letters, or the first ones of what stands after its last hyphen."""
    return len(word) >= SHORTEST and (folder.endswith(word) or folder.rpartition("-")[2].startswith(word))


def _no_run(path: Path) -> str:
    if path.is_file():
        return "is a file; name the run folder that it lies in"
    return "is no run: it has neither status.json nor config.yaml"
