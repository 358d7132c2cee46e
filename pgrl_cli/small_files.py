"""The small files of a folder that somebody may have damaged: read within bounds, and never a surprise.

Nothing here follows what it reads: a pipe is no file, a huge file is refused by its size, numbers that JSON cannot hold
are text or null.
"""

import stat
from pathlib import Path
from typing import Any

import orjson

from pgrl_cli.config import yaml12
from pgrl_cli.config.problems import brief
from pgrl_cli.config.yaml12 import DEEPEST

LONGEST = 1 << 24
"""Bytes of a status.json; one of a hundred thousand seeds has them."""


class Unreadable(ValueError):
    """A small file that is missing or damaged: which, and what is wrong with it."""

    def __init__(self, file: str, message: str):
        super().__init__(f"{file}: {message}")
        self.message = message


def text_of(path: Path, longest: int = LONGEST) -> str:
    """The text of a small file. Raises Unreadable where there is none, or it is no file, too long, or no text."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(path.name, "is no file")
        if found.st_size > longest:
            raise Unreadable(path.name, f"is longer than {longest} bytes")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Unreadable(path.name, str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise Unreadable(path.name, "is not text in UTF-8") from error


def json_of(path: Path, longest: int = LONGEST) -> Any:
    """What a small JSON file says. Raises Unreadable."""
    try:
        told = orjson.loads(text_of(path, longest))
    except orjson.JSONDecodeError as error:
        raise Unreadable(path.name, f"is damaged: {error}") from error
    if _is_deep(told):
        raise Unreadable(path.name, f"has more than {DEEPEST} lists or maps inside each other")
    return told


def status_of(path: Path) -> dict[str, Any]:
    """What status.json says. Raises Unreadable."""
    told = json_of(path / "status.json")
    if not isinstance(told, dict) or not isinstance(told.get("status"), str):
        raise Unreadable("status.json", "is damaged: it has no status")
    return told


def mapping_of(path: Path) -> dict[str, Any]:
    """A YAML file's map, its values as JSON has them. Raises Unreadable, or ConfigError where it is no YAML."""
    written = yaml12.read(text_of(path), path.name)
    if not isinstance(written, dict):
        raise Unreadable(path.name, "is no map of keys to values")
    return {written_word(key): plain(value) for key, value in written.items()}


def plain(value: Any) -> Any:
    """A value as JSON has it: what is not finite is null, and a whole number too large for it is text."""
    if isinstance(value, dict):
        return {written_word(key): plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else brief(value)
    return written_word(value) if isinstance(value, str) else value


def written_word(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _is_deep(value: Any) -> bool:
    """Whether there are more lists and maps inside each other than in any file of ours."""
    level = [value]
    for _ in range(DEEPEST + 1):
        nested = [each for each in level if isinstance(each, dict | list)]
        level = [part for each in nested for part in (each.values() if isinstance(each, dict) else each)]
    return any(isinstance(each, dict | list) for each in level)
