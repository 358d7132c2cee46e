"""The run folder: made so that no two runs share one, written so that a reader never meets half a file.

runs/2026-11-30_09-15-00-centered_clipped-3fa9c1/
    config.yaml  overrides.yaml  command.txt  status.json  provenance.json
    metrics.jsonl  timing.jsonl  samples.jsonl  train.log  curves.png
"""

import os
import re
import secrets
import shutil
import socket
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from pgrl_cli.config.files import content
from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.machine import process_started
from pgrl_cli.secrecy import scrubbed

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    LOCKS = True
except ImportError:  # not on Windows
    LOCKS = False

TRIES = 100
RECENT = 60.0
"""Seconds: a folder that another machine says it has, and has written to so lately, is left to it."""
DYING = 1.0
"""Seconds that those who have held a folder may take to die."""


@dataclass(frozen=True)
class Run:
    """A run folder and what lies in it."""

    folder: Path

    @property
    def curves_file(self) -> Path:
        return self.folder / "curves.png"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def log_file(self) -> Path:
        return self.folder / "train.log"

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; a torn last line is left out."""
        return list(read_lines(self.folder / "metrics.jsonl"))

    def status(self) -> dict[str, Any]:
        """What status.json says."""
        return orjson.loads(content(self.folder / "status.json"))

    def status_or_nothing(self) -> Mapping[str, Any]:
        """What status.json says; nothing where it cannot be read: then nobody has the run."""
        try:
            status = self.status()
        except (OSError, ValueError):
            return {}
        return status if isinstance(status, dict) else {}

    def log_traceback(self, error: BaseException) -> None:
        """Write the traceback of an error into train.log, if it can still be written."""
        with suppress(OSError), appended(self.log_file) as log:
            log.write(scrubbed("".join(traceback.format_exception(error))).encode(errors="backslashreplace"))

    def mark(self, status: str, **facts: Any) -> None:
        """Write status.json: the status, which process has the run, and what is known of it. Raises OSError."""
        process = {"pid": os.getpid(), "process_started": process_started(os.getpid()), "host": socket.gethostname()}
        texts = {key: fact for key, fact in facts.items() if isinstance(fact, str)}
        told = {"status": status, **process, **facts, **{key: in_a_file(text) for key, text in texts.items()}}
        try:
            write_whole(self.folder / "status.json", told)
        except OSError:  # a full disk has no room beside the old status, but the old one's own
            with open(self.folder / "status.json", "r+b", opener=no_link) as file:
                file.write(to_json(told, indent=True))
                file.truncate()


def create(name: str, runs_dir: Path, texts: Mapping[str, str], copies: Sequence[Path] = ()) -> Run:
    """A new run folder, never an old one, with the files that are known before the run starts.

    Raises OSError where the folder cannot be made or written.
    """
    runs_dir.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        stem = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{in_a_path(name)}-{secrets.token_hex(3)}"
        folder = runs_dir / stem
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        try:
            return _filled(Run(folder), texts, copies)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # half a folder helps nobody
            raise
    raise FileExistsError(f"{TRIES} names for a run folder in {runs_dir} were all taken.")


def create_at(folder: Path, texts: Mapping[str, str], copies: Sequence[Path] = ()) -> Run:
    """A fresh run folder of a given name; what a run that was not finished has left there goes. Raises OSError."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return _filled(Run(folder), texts, copies)


def _filled(run: Run, texts: Mapping[str, str], copies: Sequence[Path]) -> Run:
    write_whole(run.folder / "status.json", {"status": "pending"})
    run.mark("pending")
    for file, text in texts.items():
        write_whole(run.folder / file, text)
    for source in copies:
        (run.folder / source.name).write_bytes(source.read_bytes())
    return run


def no_link(path: str, flags: int) -> int:
    """An opener for files of a run folder: a link in it must not lead out of it, and a pipe not be waited for."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


def appended(path: Path) -> BinaryIO:
    """A file of a run folder, to be written on at its end. Raises OSError, also for a link."""
    return open(path, "ab", opener=no_link)


def in_a_path(name: str) -> str:
    """A name reduced to what every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:60] or "run"


def in_a_file(text: str) -> str:
    """Somebody's words as they may be written down: without secrets, and of characters that UTF-8 has."""
    return scrubbed(text).encode(errors="backslashreplace").decode()


def write_whole(path: Path, content: str | Mapping[str, Any] | Iterable[bytes]) -> None:
    """Write a file, from a text, an object or pieces, so that a reader sees the old one or the new one, never half."""
    pieces: Iterable[bytes]
    if isinstance(content, str):
        pieces = [content.encode(errors="backslashreplace")]
    else:
        pieces = [to_json(content, indent=True)] if isinstance(content, Mapping) else content
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def to_json(value: Any, *, indent: bool = False) -> bytes:
    """Strict JSON: numpy numbers in their shortest form, what is not finite as null."""
    options = orjson.OPT_SERIALIZE_NUMPY | (orjson.OPT_INDENT_2 if indent else 0)
    return orjson.dumps(value, option=options | orjson.OPT_APPEND_NEWLINE)


def lines_of(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Lines of strict JSON; an array that several rows share is put into words once."""
    known: dict[int, tuple[Any, orjson.Fragment]] = {}

    def told(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if id(value) not in known:  # the array is kept beside its words, so that no other can take its id
            known[id(value)] = value, orjson.Fragment(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
        return known[id(value)][1]

    return b"".join(to_json({name: told(value) for name, value in row.items()}) for row in rows)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; a torn last line is left out.

    Raises ValueError for a damaged line before the last.
    """
    lines = content(path).split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last newline is torn, or nothing
        try:
            yield orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"{path}:{number}: damaged: {error}") from error


class InUse(ConfigError):
    """Another process has the folder."""

    def __init__(self, folder: Path, who: str = "another process"):
        super().__init__([Problem(f"is in use by {who}; wait for it, or stop it first", str(folder))])


@contextmanager
def held(folder: Path) -> Iterator[int | None]:
    """Hold a run's or a sweep's folder while it is entered: one process at a time. Raises InUse.

    The lock goes with the process, however it ends, and with those that inherit the descriptor that is yielded.
    """
    if not LOCKS:  # the status alone tells who has it
        yield None
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        yield descriptor
    finally:
        os.close(descriptor)


def refuse_one_in_use(run: Run) -> None:
    """Raise InUse for a folder that somebody else has by its status, where a lock cannot tell: its lock is ours by now.

    Another machine may not see the lock. It has the folder if it has written to it lately.
    """
    status = run.status_or_nothing()
    if status.get("status") not in ("pending", "running"):
        return
    if status.get("host") in (None, socket.gethostname()):
        in_use = not LOCKS and is_alive(status) and status.get("pid") != os.getpid()
    else:
        ages = [time.time() - file.stat().st_mtime for file in run.folder.iterdir() if file.is_file()]
        in_use = any(abs(age) < RECENT for age in ages)  # one from the future is not lately, but of another clock
    if in_use:
        raise InUse(run.folder, f"process {status.get('pid')} on {status.get('host')}")


def _lock(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + DYING
    while True:
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise InUse(folder) from None
            time.sleep(0.02)
        except OSError:  # a file system without locks: the status alone tells
            return


def now() -> str:
    """The time, with its zone."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_alive(status: Mapping[str, Any]) -> bool:
    """Whether the process that a status names still runs on this host; a process of another host may."""
    if status.get("status") not in ("pending", "running") or type(status.get("pid")) is not int:
        return False
    if not isinstance(host := status.get("host"), str):
        return False
    if host != socket.gethostname():
        return True
    started = process_started(status["pid"])
    return started is not None and started == status.get("process_started")
