"""The runs of a folder, listed quickly: what was read of each is remembered in `.index.json`, a hidden file.

The folders are the truth. An entry is believed while its folder and its small files have the times and sizes that they
had; what is not finished is read anew every time. A missing, damaged or foreign index is made anew, and where it cannot
be written all goes on without it.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from pgrl_cli import __version__, runs
from pgrl_cli.catalogue import TOLD_BY, UNFINISHED, Entry, entry_of, is_one
from pgrl_cli.config.files import is_folder
from pgrl_cli.small_files import Unreadable, json_of

INDEX = ".index.json"
FORM = f"pgrl {__version__}, 1"
"""An index of another version is foreign: it may tell other facts."""
LONGEST = 1 << 28
NEEDED = ("kind", "name", "status", "started", "epochs_done", "seed_count")
Stamp = list[int]


def entries(runs_dir: Path) -> list[Entry]:
    """The runs and sweeps in a folder, the newest first. Raises OSError where there is no such folder."""
    known = _remembered(runs_dir)
    found: list[Entry] = []
    settled: dict[str, Any] = {}
    for path in sorted(runs_dir.iterdir()):
        if path.name.startswith(".") or not is_folder(path) or (stamp := _stamp(path)) is None:
            continue
        entry = _believed(path, known.get(path.name), stamp)
        if entry is None:
            if not is_one(path):
                continue
            entry = entry_of(path)
        found.append(entry)
        if entry.problem is None and entry.status not in UNFINISHED and _in_unicode(path.name):
            settled[path.name] = {"stamp": stamp, "kind": entry.kind, "facts": entry.facts}
    if settled != known:
        with suppress(OSError):
            runs.write_whole(runs_dir / INDEX, orjson.dumps({"form": FORM, "entries": settled}).decode())
    return sorted(found, key=_age, reverse=True)


def _age(entry: Entry) -> tuple[str, int, str]:
    """By when it started; of those in one second by when its config was written."""
    config = entry.path / ("sweep.yaml" if entry.kind == "sweep" else "config.yaml")
    try:
        written = config.stat().st_mtime_ns
    except OSError:
        written = 0
    return str(entry.facts["started"] or ""), written, entry.path.name


def _stamp(path: Path) -> Stamp | None:
    """The times and sizes by which a folder that has changed is told; None where it has gone."""
    try:
        stamp = [path.stat().st_mtime_ns]
    except OSError:
        return None
    for name in TOLD_BY:
        try:
            found = (path / name).stat()
            stamp += [found.st_mtime_ns, found.st_size]
        except OSError:
            stamp += [0, -1]
    return stamp


def _believed(path: Path, told: Any, stamp: Stamp) -> Entry | None:
    """What the index says of a folder, if that is what an index would say of the folder as it is now."""
    if not isinstance(told, dict) or told.get("stamp") != stamp or told.get("kind") not in ("run", "sweep"):
        return None
    facts = told.get("facts")
    if not isinstance(facts, dict) or any(key not in facts for key in NEEDED):
        return None
    return Entry(path, told["kind"], facts)


def _remembered(runs_dir: Path) -> Mapping[str, Any]:
    try:
        told = json_of(runs_dir / INDEX, LONGEST)
    except Unreadable:
        return {}
    if not isinstance(told, dict) or told.get("form") != FORM or not isinstance(told.get("entries"), dict):
        return {}
    return dict(told["entries"])


def _in_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
