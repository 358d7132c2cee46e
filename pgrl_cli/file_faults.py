"""What can be wrong with single files of a run folder: links, sizes and digests, the picture, checkpoints."""

import os
import re
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from typing import Any

from pgrl_cli.config.problems import Problem, brief, short

CHECKPOINT = re.compile(r"epoch-\d{6,}")
PNG, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


def problems_of_checkpoint(path: Path) -> list[str]:
    """What is wrong with a checkpoint, in words."""
    from pgrl_cli.training.checkpoints import problems_of  # with torch, which only this check needs

    return problems_of(path)


def links_out(path: Path) -> list[Problem]:
    """The links in a run folder that lead out of it."""
    home = os.path.realpath(path)
    links = [found for found in path.rglob("*") if found.is_symlink()]
    out = [link for link in links if not Path(os.path.realpath(link)).is_relative_to(home)]
    return [Problem("is a link that leads out of the run folder", str(link)) for link in out]


def digest_faults(path: Path, files: Any) -> Iterator[Problem]:
    """The files whose sizes and digests are not those that status.json says."""
    if files is None:
        return
    status = str(path / "status.json")
    if not isinstance(files, dict):
        yield Problem("files: expected a map of names to bytes and sha256", status)
        return
    for name, said in files.items():
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or not isinstance(said, dict):
            yield Problem(f"files: {short(name)!r} is no file of the run with bytes and sha256", status)
            continue
        file = path / name
        if file.is_symlink() or not file.is_file():
            yield Problem("there is no such file, but status.json says its size and digest", str(file))
        elif (size := file.stat().st_size) != said.get("bytes"):
            yield Problem(f"has {size} bytes; it had {brief(said.get('bytes'))} when the run ended", str(file))
        else:
            with file.open("rb") as opened:
                if file_digest(opened, "sha256").hexdigest() != said.get("sha256"):
                    yield Problem("is not what it was when the run ended: its SHA-256 is another", str(file))


def picture_faults(path: Path) -> Iterator[Problem]:
    if path.is_file():
        data = path.read_bytes()
        if not data.startswith(PNG):
            yield Problem("is no PNG", str(path))
        elif not data.endswith(PNG_END):
            yield Problem("is a PNG that is cut off", str(path))


def checkpoint_faults(path: Path) -> Iterator[Problem]:
    for found in sorted(path.iterdir()) if path.is_dir() else []:
        if found.name.startswith("."):
            continue
        if not CHECKPOINT.fullmatch(found.name) or not found.is_dir():
            yield Problem("is no checkpoint: those are called epoch-000100", str(found))
        else:
            yield from (Problem(message, str(found)) for message in problems_of_checkpoint(found))
