"""The files of a run that grow: they are flushed together once an epoch, and can be cut back to where they were."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from pgrl_cli.config.files import opened
from pgrl_cli.runs import Run, appended

KEPT = ("metrics.jsonl", "samples.jsonl", "train.log")
"""The files that a resumed run cuts back; timing.jsonl shows every segment."""
BLOCK = 2**20


class Damaged(ValueError):
    """A file that is not what a checkpoint says it was; the message names it."""


@dataclass(frozen=True)
class Position:
    """How far a file had come, and what was in it."""

    bytes: int
    sha256: str


class Growing:
    """A file that grows; it knows its length and its digest."""

    def __init__(self, path: Path, position: Position | None = None):
        """Open a file at a position, at its beginning without one; what follows goes. Raises Damaged and OSError."""
        self._digest = sha256() if position is None else digest_up_to(path, position)
        self._bytes = 0 if position is None else position.bytes
        self._file: IO[bytes] = appended(path)
        self._file.truncate(self._bytes)

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self._bytes += len(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def fileno(self) -> int:
        return self._file.fileno()

    @property
    def position(self) -> Position:
        return Position(self._bytes, self._digest.copy().hexdigest())


def cut_torn_line(path: Path) -> None:
    """Cut off what follows the last line end of a file, if anything does. Raises OSError."""
    if not path.is_file() or path.is_symlink():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - BLOCK))
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(size - len(tail) + tail.rfind(b"\n") + 1)


def digest_up_to(path: Path, position: Position) -> Any:
    """The running SHA-256 of a file up to a position. Raises Damaged where it is not what it was, and OSError."""
    digest, left = sha256(), position.bytes
    try:
        with opened(path) as file:
            while left and (block := file.read(min(left, BLOCK))):
                digest.update(block)
                left -= len(block)
    except FileNotFoundError as error:
        raise Damaged(f"{path} is missing") from error
    if left:
        raise Damaged(f"{path} has {position.bytes - left} bytes, and the checkpoint was made at {position.bytes}")
    if digest.hexdigest() != position.sha256:
        raise Damaged(f"{path} is not what it was when the checkpoint was made")
    return digest


class Lines:
    """The open files of a run."""

    def __init__(self, run: Run, positions: Mapping[str, Position] | None = None):
        """Open them at their positions, or anew. Raises Damaged and OSError."""
        with ExitStack() as stack:

            def opened(name: str) -> Growing:
                growing = Growing(run.folder / name, None if positions is None else positions[name])
                stack.callback(growing.close)
                return growing

            self.metrics, self.samples, self.log = (opened(name) for name in KEPT)
            cut_torn_line(run.folder / "timing.jsonl")
            self.timing = stack.enter_context(appended(run.folder / "timing.jsonl"))
            self._stack = stack.pop_all()

    @property
    def positions(self) -> dict[str, Position]:
        return dict(zip(KEPT, (file.position for file in self._kept), strict=True))

    @property
    def _kept(self) -> tuple[Growing, ...]:
        return self.metrics, self.samples, self.log

    def descriptors(self) -> list[int]:
        """Copies of the descriptors of the files that a checkpoint counts on; whoever takes them closes them."""
        return [os.dup(file.fileno()) for file in self._kept]

    def flush(self) -> None:
        files: tuple[Any, ...] = (*self._kept, self.timing)
        for file in files:
            file.flush()

    def close(self) -> None:
        self._stack.close()


def told_of(positions: Mapping[str, Position]) -> dict[str, dict[str, Any]]:
    """Positions as JSON holds them."""
    return {name: {"bytes": position.bytes, "sha256": position.sha256} for name, position in positions.items()}


def positions_of(told: Any) -> dict[str, Position]:
    """Positions as a checkpoint holds them. Raises Damaged where they are none."""
    try:
        found = {name: Position(int(told[name]["bytes"]), str(told[name]["sha256"])) for name in KEPT}
    except (TypeError, KeyError, ValueError) as error:
        raise Damaged("the checkpoint does not say how far the run's files had come") from error
    if any(position.bytes < 0 for position in found.values()):
        raise Damaged("the checkpoint does not say how far the run's files had come")
    return found
