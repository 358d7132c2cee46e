"""Which run a person means: a path, the beginning of a folder's name, its last letters, a name, or `latest`."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pgrl_cli import index
from pgrl_cli.catalogue import Entry, cells_of, entry_of, is_one, kind_of
from pgrl_cli.config.files import is_folder
from pgrl_cli.config.problems import ConfigError, Problem, listed, nearest, short

RUNS = Path("runs")
"""Where runs lie unless somebody says otherwise."""
SHORTEST = 4
"""Letters of an id."""
LATEST = "latest"
SHOWN = 8


def resolved(word: str | Path, runs_dir: Path = RUNS, kind: str | None = None) -> Path:
    """The folder of the run, sweep or cell that a word means; `kind` says which it must be: a cell is a run, too.

    A path that exists wins; else it is an id in `runs_dir`, and SWEEP/CELL means a cell.
    Raises ConfigError where it means none, or several: then they are named.
    """
    path = Path(word)
    if str(word) and os.path.lexists(path):
        if not is_one(path):
            raise ConfigError([Problem(_no_run(path), short(str(word)))])
    else:
        path = _of_id(str(word).rstrip("/"), runs_dir, kind)
    here = kind_of(path)
    if kind is not None and here != kind and (here, kind) != ("cell", "run"):
        raise ConfigError([Problem(f"is a {here}; a {kind} is wanted here", short(str(word)))])
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
    except FileNotFoundError as error:
        told = f"there is no such folder; `pgrl train --runs-dir {runs_dir}` makes it"
        raise ConfigError([Problem(told, short(str(runs_dir)))]) from error
    except OSError as error:
        raise ConfigError([Problem(f"cannot be read: {error.strerror}", short(str(runs_dir)))]) from error


def under(words: Sequence[str], runs_dir: Path, with_cells: bool = False) -> list[Entry]:
    """The runs and sweeps that words mean: those in a folder, a run by itself, of a sweep its cells; each once.

    Without words all of `runs_dir`. Raises ConfigError.
    """
    found: dict[str, Entry] = {}
    for entry in [entry for word in words for entry in _meant(word, runs_dir)] if words else entries_of(runs_dir):
        cells = cells_of(entry.path) if with_cells and entry.kind == "sweep" else ()
        found |= {os.path.realpath(each.path): each for each in (entry, *cells)}
    return list(found.values())


def _meant(word: str, runs_dir: Path) -> list[Entry]:
    if word and is_folder(Path(word)) and not is_one(Path(word)):
        return entries_of(Path(word))
    path = resolved(word, runs_dir)
    return (list(cells_of(path)) if kind_of(path) == "sweep" else []) or [entry_of(path)]


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
    if not is_folder(runs_dir):
        told = f"{nothing}; nor is there a folder {runs_dir}, where runs lie"
        raise ConfigError([Problem(told, short(word) or "''")])
    head, slash, rest = word.partition("/")
    found = entries_of(runs_dir)
    if slash:
        sweeps = [entry for entry in found if entry.kind == "sweep"]
        sweep = _among(head, sweeps, f"{nothing}; nor has {runs_dir} a sweep of that id or name")
        return _among(rest.removeprefix("cells/"), list(cells_of(sweep)), f"{sweep} has no such cell")
    wanted = [entry for entry in found if entry.kind == kind]  # of several the ones that are wanted come first
    if word == LATEST and found:
        return (wanted or found)[0].path
    if matching(word, _names(wanted)):
        found = wanted
    elif word and not matching(word, _names(found)):
        found = _cells_called(word, found) or found
    return _among(word, found, f"{nothing}; nor has {runs_dir} a run of that id or name")


def _among(word: str, found: Sequence[Entry], nothing: str) -> Path:
    """The path of the one entry that a word means. Raises ConfigError."""
    if word == LATEST and found:
        return found[0].path
    name = one_of(word, _names(found), nothing)
    paths = [entry.path for entry in found if entry.path.name == name]
    if len(paths) > 1:
        raise ConfigError([Problem(f"may be any of {len(paths)}: {listed(paths, SHOWN)}; write its path", short(word))])
    return paths[0]


def _cells_called(word: str, found: Sequence[Entry]) -> list[Entry]:
    """The cells of all sweeps, where one of them is called so."""
    cells = [cell for entry in found if entry.kind == "sweep" for cell in cells_of(entry.path)]
    return cells if matching(word, _names(cells)) else []


def _names(found: Iterable[Entry]) -> dict[str, str]:
    """What each one is called, by its folder's name."""
    return {each.path.name: str(each.facts["label" if each.kind == "cell" else "name"]) for each in found}


def _ends_with(folder: str, word: str) -> bool:
    """Whether a word is a folder's last letters, or the first ones of what stands after its last hyphen."""
    return len(word) >= SHORTEST and (folder.endswith(word) or folder.rpartition("-")[2].startswith(word))


def _no_run(path: Path) -> str:
    if path.is_file():
        return "is a file; name the run folder that it lies in"
    return "is no run: it has neither status.json nor config.yaml"
