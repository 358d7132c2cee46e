"""The run folder: made so that no two runs share one, written so that a reader never meets half a file.

runs/2026-11-30_09-15-00-centered_clipped-3fa9c1/
    config.yaml  overrides.yaml  command.txt  status.json  provenance.json
    metrics.jsonl  timing.jsonl  samples.jsonl  train.log  curves.png
"""

import io
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import orjson

from pgrl_cli import __version__
from pgrl_cli.config.files import content
from pgrl_cli.secrecy import scrubbed

PACKAGES = ("torch", "numpy", "einops", "typer", "rich", "pydantic", "orjson", "PyYAML", "matplotlib")
TRIES = 100


@dataclass(frozen=True)
class Run:
    """A run folder and what lies in it."""

    folder: Path

    @property
    def curves_file(self) -> Path:
        return self.folder / "curves.png"

    @property
    def log_file(self) -> Path:
        return self.folder / "train.log"

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; a torn last line is left out."""
        return list(read_lines(self.folder / "metrics.jsonl"))

    def status(self) -> dict[str, Any]:
        """What status.json says."""
        return orjson.loads(content(self.folder / "status.json"))

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


class Lines:
    """The files of a run that grow; they are flushed together, once an epoch."""

    def __init__(self, run: Run):
        with ExitStack() as stack:
            folder = run.folder
            self.metrics = stack.enter_context(appended(folder / "metrics.jsonl"))
            self.timing = stack.enter_context(appended(folder / "timing.jsonl"))
            self.samples = stack.enter_context(appended(folder / "samples.jsonl"))
            self.log = stack.enter_context(io.TextIOWrapper(appended(run.log_file), encoding="utf-8"))
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    def flush(self) -> None:
        files: tuple[IO[Any], ...] = (self.metrics, self.timing, self.samples, self.log)
        for file in files:
            file.flush()


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
    """An opener for files of a run folder: a link in it must not lead out of it."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def appended(path: Path) -> BinaryIO:
    """A file of a run folder, to be written on at its end. Raises OSError, also for a link."""
    return open(path, "ab", opener=no_link)


def in_a_path(name: str) -> str:
    """A name reduced to what every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:60] or "run"


def in_a_file(text: str) -> str:
    """Somebody's words as they may be written down: without secrets, and of characters that UTF-8 has."""
    return scrubbed(text).encode(errors="backslashreplace").decode()


def write_whole(path: Path, content: str | Mapping[str, Any]) -> None:
    """Write a small file so that a reader sees the old one or the new one, never half of it."""
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else to_json(content, indent=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("wb") as file:
            file.write(data)
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


def provenance() -> dict[str, Any]:
    """What the run was made with; never the environment."""
    return {
        "pgrl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "git": _git(),
    }


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


def process_started(pid: int) -> int | None:
    """When a process started, in ticks since boot: tells two processes of one pid apart. None where unknown."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git() -> dict[str, Any] | None:
    """The commit that the working folder is at, and whether anything tracked differs from it."""
    try:
        commit = _git_says("rev-parse", "HEAD").strip()
        return {"commit": commit, "dirty": bool(_git_says("status", "--porcelain", "--untracked-files=no").strip())}
    except (OSError, subprocess.SubprocessError):
        return None


def _git_says(*words: str) -> str:
    asked = ["git", "--no-optional-locks", *words]
    return subprocess.run(asked, capture_output=True, text=True, errors="replace", check=True, timeout=5).stdout
