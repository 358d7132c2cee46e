"""Runs taken away so that they can be brought back: `.trash/` in the runs folder, hidden, on the same file system.

.trash/3fa9c1d2/
    record.json                                          what it was and when it went
    2026-11-30_09-15-00-centered_clipped-3fa9c1/         the run, as it was

Nothing is followed: a link in the runs folder goes as a link, and what it points to stays where it is. A record only
tells; what is brought back is the folder beside it, to the runs folder that the trash lies in.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgrl_cli import runs, store
from pgrl_cli.catalogue import entry_of, is_one, kind_of
from pgrl_cli.config.problems import ConfigError, Problem, short
from pgrl_cli.small_files import Unreadable, json_of

TRASH = ".trash"
RECORD = "record.json"


@dataclass(frozen=True)
class Discarded:
    """A run in the trash."""

    folder: Path
    """Where it lies there."""
    when: str
    """Empty where its record is lost."""
    name: str
    """The run's."""

    @property
    def token(self) -> str:
        """What its place in the trash is called."""
        return self.folder.parent.name


def removable(words: Sequence[str], runs_dir: Path) -> list[Path]:
    """The folders of the runs that words mean, each once.

    Raises ConfigError, for all of them at once, where one means none or several, lies elsewhere, is a sweep's cell, or
    is in use by a live process.
    """
    chosen: dict[Path, None] = {}
    problems: list[Problem] = []
    for word in words:
        try:
            path = Path(word) if Path(word).is_symlink() else store.resolved(word, runs_dir)
            if wrong := _refused(path, runs_dir):
                problems.append(Problem(wrong, short(word)))
            chosen[runs_dir / path.name] = None
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return list(chosen)


def discard(path: Path) -> Discarded:
    """Move a run of a runs folder into its trash. Raises OSError, and then all is as it was."""
    bin_ = _bin(path.parent)
    bin_.mkdir(exist_ok=True)
    place = bin_ / secrets.token_hex(4)
    place.mkdir()
    name = str(entry_of(path).facts["name"])
    record = {"from": str(path.absolute()), "when": runs.now(), "name": name}
    try:
        runs.write_whole(place / RECORD, _json(record))
        _move(path, place / path.name)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return Discarded(place / path.name, record["when"], name)


def discarded(runs_dir: Path) -> list[Discarded]:
    """What is in the trash, what went last first. Raises OSError."""
    bin_ = _bin(runs_dir)
    places = [place for place in bin_.iterdir() if _is_own_folder(place)] if bin_.is_dir() else []
    found = []
    for place in places:
        record = _record(place)
        inside = [path for path in place.iterdir() if path.name != RECORD and not path.name.startswith(".")]
        found += [Discarded(path, record.get("when", ""), record.get("name", path.name)) for path in inside]
    return sorted(found, key=lambda each: (each.when, each.folder.name), reverse=True)


def restorable(words: Sequence[str], runs_dir: Path) -> list[Discarded]:
    """What words mean of the trash, by the names and ids that runs have, or by its place there. Raises ConfigError."""
    there = discarded(runs_dir)
    chosen: dict[Path, Discarded] = {}
    problems: list[Problem] = []
    for word in words:
        name = Path(word).name  # what was typed to remove it is good enough
        by_place = {each.folder: each for each in there if each.token == name}
        if not by_place:
            try:
                names = {each.folder.name: each.name for each in there}
                meant = store.one_of(name, names, "is not in the trash; `pgrl runs restore` lists what is")
                by_place = {each.folder: each for each in there if each.folder.name == meant}
            except ConfigError as error:
                problems += error.problems
        if len(by_place) > 1:
            several = ", ".join(each.token for each in by_place.values())
            problems.append(Problem(f"went to the trash more than once; name one of {several}", short(word)))
        chosen |= by_place
    taken = [each.folder.name for each in chosen.values() if os.path.lexists(runs_dir / each.folder.name)]
    problems += [Problem("is there already; it is not overwritten", str(runs_dir / name)) for name in taken]
    if problems:
        raise ConfigError(problems)
    return list(chosen.values())


def restore(each: Discarded, runs_dir: Path) -> Path:
    """Bring a run back to where it was. Raises OSError, and then it is still in the trash."""
    back = runs_dir / each.folder.name
    _move(each.folder, back)
    shutil.rmtree(each.folder.parent, ignore_errors=True)
    return back


def purge(runs_dir: Path) -> None:
    """Delete for good what is in the trash; links in it go, what they point to stays. Raises OSError."""
    bin_ = _bin(runs_dir)
    for place in list(bin_.iterdir()) if bin_.is_dir() else []:
        _delete(place)


def _refused(path: Path, runs_dir: Path) -> str | None:
    """Why a folder cannot go, where it cannot."""
    if path.parent.resolve() != runs_dir.resolve() or path.name in ("", "..", TRASH):
        if kind_of(path) == "cell":
            return "is a cell of a sweep, which would no longer be whole; name the sweep"
        return f"does not lie in {runs_dir}; name its folder: --runs-dir {path.parent}"
    if path.is_symlink():
        return None  # only the link goes
    if not is_one(path):
        return "is no run: it has neither status.json nor config.yaml"
    entry = entry_of(path)
    in_use = entry.status in ("pending", "running") and entry.facts.get("pid") is not None
    return f"is in use by process {entry.facts['pid']} on {entry.facts.get('host')}; stop it first" if in_use else None


def _bin(runs_dir: Path) -> Path:
    """The trash of a runs folder. Raises ConfigError for one that leads elsewhere."""
    path = runs_dir / TRASH
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ConfigError([Problem("is no folder of its own: move it away, then there is a trash again", str(path))])
    return path


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _record(place: Path) -> dict[str, str]:
    try:
        told = json_of(place / RECORD)
    except Unreadable:
        return {}
    return {key: value for key, value in told.items() if isinstance(value, str)} if isinstance(told, dict) else {}


def _json(record: dict[str, str]) -> str:
    safe = {key: value.encode(errors="backslashreplace").decode() for key, value in record.items()}
    return runs.to_json(safe, indent=True).decode()


def _move(source: Path, target: Path) -> None:
    """Rename a folder or a link; where that would cross to another file system, copy it whole, then delete it."""
    try:
        source.rename(target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        if source.is_symlink():
            beside.symlink_to(source.readlink())
        else:
            shutil.copytree(source, beside, symlinks=True)
        beside.rename(target)
    except BaseException:
        with suppress(OSError):
            _delete(beside)
        raise
    _delete(source)


def _delete(path: Path) -> None:
    if _is_own_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
