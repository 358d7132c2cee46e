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

LONGEST = 1 << 24
"""Bytes of a status.json; one of a hundred thousand seeds has them."""


def text_of(path: Path, longest: int = LONGEST) -> str:
    """The text of a small file. Raises OSError, or ValueError where it is no file, too long, or no text."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path.name} is no file")
    if found.st_size > longest:
        raise ValueError(f"{path.name} is longer than {longest} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not text in UTF-8") from error


def status_of(path: Path) -> dict[str, Any]:
    """What status.json says. Raises OSError, or ValueError where it is damaged."""
    try:
        told = orjson.loads(text_of(path / "status.json"))
    except OSError as error:
        raise ValueError(f"status.json: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise ValueError(f"status.json is damaged: {error}") from error
    if not isinstance(told, dict) or not isinstance(told.get("status"), str):
        raise ValueError("status.json is damaged: it has no status")
    return told


def mapping_of(path: Path) -> dict[str, Any]:
    """A YAML file's map, its values as JSON has them. Raises ValueError, or ConfigError where it is no YAML."""
    try:
        written = yaml12.read(text_of(path), path.name)
    except OSError as error:
        raise ValueError(f"{path.name}: {error.strerror}") from error
    if not isinstance(written, dict):
        raise ValueError(f"{path.name} is no map of keys to values")
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
