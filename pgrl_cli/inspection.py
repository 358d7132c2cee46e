"""One run at a glance, and what two of them differ in. Files, no torch."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgrl_cli.catalogue import UNFINISHED, Entry, entry_of
from pgrl_cli.config.problems import ConfigError
from pgrl_cli.run_table import visible
from pgrl_cli.selection import as_text
from pgrl_cli.small_files import Unreadable, json_of, mapping_of, plain, status_of, text_of

PROCESS = ("status", "pid", "process_started", "host", "exit_code", "started", "finished")
NO_NUMBERS = (*PROCESS, "error", "picture_error", "files", "seeds", "cells", "findings")
"""What status.json says that is no result."""
PASSING = ("seconds",)
"""Numbers that two runs of one config differ in."""


def glance(path: Path, whole_config: bool = False) -> dict[str, Any]:
    """All that is known of a run, a sweep or a cell, by the names of the lines that show it."""
    entry = entry_of(path)
    told, config = _status(path), _config(path, entry.kind)
    unfinished = entry.status in UNFINISHED and "pid" in told
    seen = {
        "folder": str(path),
        "kind": entry.kind,
        "status": entry.status,
        "error": entry.problem or told.get("error"),
        "started": entry.facts["started"],
        "finished": told.get("finished"),
        "process": f"{told['pid']} on {told.get('host')}" if unfinished else None,
        "epochs": config.get("epochs"),
        "epochs_done": entry.facts["epochs_done"],
        "cells": entry.facts.get("cells"),
        "cells_by_status": told.get("cells"),
        "seeds": entry.facts["seed_count"],
        "failed_seeds": _failed_seeds(told),
        "findings": _findings(told),
        "command": _command(path),
        "to_go_on": going_on(entry),
        "checkpoints": [found.name for found in checkpoints_of(path)],
        "numbers": numbers_of(told),
        "config": config if whole_config else without_defaults(config),
        "made_with": made_with(path),
        "files": sizes_of(path),
    }
    return {key: value for key, value in seen.items() if value not in (None, {}, [])}


def differences(a: Path, b: Path) -> dict[str, dict[str, tuple[Any, Any]]]:
    """What two runs differ in: their configs, what they were made with, and their numbers; null where one has none."""
    kinds = entry_of(a).kind, entry_of(b).kind
    pairs = {
        "config": (_flat(_config(a, kinds[0])), _flat(_config(b, kinds[1]))),
        "made_with": (made_with(a), made_with(b)),
        "numbers": (_results(a), _results(b)),
    }
    return {title: found for title, (left, right) in pairs.items() if (found := _apart(left, right))}


def without_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without the keys that have their defaults; knobs, whose defaults their functions know, all stay."""
    from pgrl_cli.config.schema import Config

    fields = Config.model_fields
    return {
        key: value
        for key, value in config.items()
        if key not in fields or fields[key].is_required() or value != fields[key].default
    }


def numbers_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """The results that status.json has."""
    return {key: plain(value) for key, value in told.items() if key not in NO_NUMBERS and value is not None}


def made_with(path: Path) -> dict[str, Any]:
    """What provenance.json says, flat; nothing where it cannot be read."""
    try:
        told = json_of(path / "provenance.json")
    except Unreadable:
        return {}
    flat = _flat(plain(told)) if isinstance(told, dict) else {}
    return {key.removeprefix("packages."): value for key, value in flat.items()}


def checkpoints_of(path: Path) -> list[Path]:
    """The checkpoints in a run folder, in their order."""
    return sorted(found for found in (path / "checkpoints").glob("epoch-*") if found.is_dir())


def sizes_of(path: Path) -> dict[str, int]:
    """How many bytes each file of a folder has, and of its folders all together; links are not followed."""
    sizes = {}
    for found in sorted(path.iterdir()) if path.is_dir() else []:
        if found.is_symlink() or found.name.startswith("."):
            continue
        if found.is_dir():
            inside = [inner for inner in found.rglob("*") if inner.is_file() and not inner.is_symlink()]
            sizes[f"{found.name}/"] = sum(inner.stat().st_size for inner in inside)
        else:
            sizes[found.name] = found.stat().st_size
    return sizes


def going_on(entry: Entry) -> str | None:
    """What to type to go on with a run that was stopped; None where there is nothing to go on with."""
    if entry.status not in ("lost", "interrupted", "failed"):
        return None
    if entry.kind == "run":
        return None if entry.status == "failed" else f"pgrl train --resume {shlex.quote(str(entry.path))}"
    folder = entry.path if entry.kind == "sweep" else entry.path.parents[1]
    again = " --retry-failed" if entry.status == "failed" else ""
    return f"pgrl sweep --resume {shlex.quote(str(folder))}{again}"


def lines_of(seen: Mapping[str, Any]) -> Iterator[str]:
    """A glance as lines of text: what is said in a word first, then all else."""
    shown = {title.replace("_", " "): value for title, value in seen.items()}
    for title, value in shown.items():
        if not isinstance(value, dict):
            told = ", ".join(map(_told, value)) if isinstance(value, list) else _told(value)
            yield f"{title:<13}{told}"
    for title, value in shown.items():
        if isinstance(value, dict):
            sized = {key: _size(part) for key, part in value.items()} if title == "files" else value
            width = max(len(key) for key in sized)
            yield from ("", title, *(f"  {key:<{width}}  {_told(part)}" for key, part in sized.items()))


def lines_of_differences(found: Mapping[str, Mapping[str, tuple[Any, Any]]]) -> Iterator[str]:
    """What two runs differ in, a line for each key."""
    rows = [(key, _told(a), _told(b)) for pairs in found.values() for key, (a, b) in pairs.items()]
    if not rows:
        yield "no difference"
        return
    first, second = (max(len(row[place]) for row in rows) for place in (0, 1))
    for title, pairs in found.items():
        yield title.replace("_", " ")
        for key, (a, b) in pairs.items():
            yield f"  {key:<{first}}  {_told(a):<{min(second, 40)}}  {_told(b)}"


def _apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    keys = dict.fromkeys([*a, *b])
    return {key: (a.get(key), b.get(key)) for key in keys if a.get(key) != b.get(key) or (key in a) != (key in b)}


def _results(path: Path) -> dict[str, Any]:
    return {key: value for key, value in numbers_of(_status(path)).items() if key not in PASSING}


def _flat(mapping: Mapping[str, Any], head: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        flat |= _flat(value, f"{head}{key}.") if isinstance(value, dict) and value else {f"{head}{key}": value}
    return flat


def _failed_seeds(told: Mapping[str, Any]) -> dict[str, Any]:
    """Why seeds failed, by their numbers."""
    seeds = told.get("seeds")
    each = [seed for seed in seeds if isinstance(seed, dict)] if isinstance(seeds, list) else []
    return {str(seed.get("seed")): seed.get("error") for seed in each if seed.get("status") == "failed"}


def _findings(told: Mapping[str, Any]) -> list[str]:
    """The kinds of what stood out; `pgrl explain` says the rest."""
    found = told.get("findings")
    each = [finding for finding in found if isinstance(finding, dict)] if isinstance(found, list) else []
    return [str(finding.get("kind")) for finding in each]


def _status(path: Path) -> dict[str, Any]:
    try:
        return status_of(path)
    except Unreadable:
        return {}


def _config(path: Path, kind: str) -> dict[str, Any]:
    try:
        return mapping_of(path / ("sweep.yaml" if kind == "sweep" else "config.yaml"))
    except (Unreadable, ConfigError):
        return {}


def _command(path: Path) -> str | None:
    try:
        return text_of(path / "command.txt").strip()
    except Unreadable:
        return None


def _told(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else visible(as_text(value))


def _size(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
