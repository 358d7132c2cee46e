"""What a run folder promises, file by file and line by line, and where it breaks a promise.

What a live process still writes is judged as far as it has come. Resolving a config imports torch; nothing else does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from pgrl_cli.catalogue import Entry, entry_of
from pgrl_cli.config.problems import ConfigError, Problem, brief, listed, short
from pgrl_cli.config.schema import seeds_of
from pgrl_cli.file_faults import checkpoint_faults, digest_faults, links_out, picture_faults
from pgrl_cli.small_files import Unreadable, json_of, mapping_of, status_of

STATUSES = ("pending", "running", "completed", "failed", "interrupted")
WRITTEN_BY_ALL = ("provenance.json",)
WRITTEN_BY_COMPLETED = ("metrics.jsonl", "timing.jsonl", "samples.jsonl", "train.log")
MOST_FAULTS = 20
"""Of one file; a damaged file is damaged all over."""
LineCheck = Callable[[int, Mapping[str, Any]], list[str]]


@dataclass
class Folder:
    """A run folder under examination."""

    path: Path
    found: list[Problem] = field(default_factory=list)
    status: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def entry(self) -> Entry:
        return entry_of(self.path)

    @property
    def alive(self) -> bool:
        return self.entry.status in ("pending", "running")

    @property
    def completed(self) -> bool:
        return self.entry.status == "completed"

    def faults(self) -> list[Problem]:
        self.found += links_out(self.path)
        self.read_status()
        self.read_config()
        self.look_for_files()
        self.read_metrics()
        self.read_lines("timing.jsonl", ("epoch", "seconds"))
        self.read_lines("samples.jsonl", ("epoch", "step", "prompt", "responses"))
        told = {problem.file for problem in self.found}  # a file whose fault has a line need not be told of twice
        self.found += [
            problem for problem in digest_faults(self.path, self.status.get("files")) if problem.file not in told
        ]
        self.found += picture_faults(self.path / "curves.png")
        self.found += checkpoint_faults(self.path / "checkpoints")
        return self.found

    def tell(self, name: str, message: str, line: int | None = None) -> None:
        self.found.append(Problem(message, str(self.path / name), line))

    def read_status(self) -> None:
        try:
            self.status = status_of(self.path)
        except Unreadable as error:
            return self.tell("status.json", error.message)
        if self.status["status"] not in STATUSES:
            self.tell("status.json", f"the status is {short(self.status['status'])!r}; possible: {listed(STATUSES)}")

    def read_config(self) -> None:
        try:
            self.config = mapping_of(self.path / "config.yaml")
        except ConfigError as error:
            self.found += [Problem(p.message, str(self.path / "config.yaml"), p.line) for p in error.problems]
        except Unreadable as error:
            self.tell("config.yaml", error.message)
        else:
            self.found += _unresolved(self.path / "config.yaml")

    def look_for_files(self) -> None:
        for name in (*WRITTEN_BY_ALL, *(WRITTEN_BY_COMPLETED if self.completed else ())):
            if not (self.path / name).is_file():
                self.tell(name, "there is no such file")
        if (self.path / "provenance.json").is_file():
            try:
                json_of(self.path / "provenance.json")
            except Unreadable as error:
                self.tell("provenance.json", error.message)

    def read_metrics(self) -> None:
        per_epoch, epochs = self.config.get("steps_per_epoch"), self.config.get("epochs")
        if not (isinstance(per_epoch, int) and isinstance(epochs, int) and per_epoch > 0):
            return  # the config's own fault says why
        check = _Metrics(self.config, per_epoch)
        count = self.read_lines("metrics.jsonl", ("epoch", "step"), check.faults)
        expected = epochs * per_epoch
        if count is not None and (count > expected or (self.completed and count < expected)):
            told = f"has {count} lines; {epochs} epochs of {per_epoch} steps have {expected}"
            self.tell("metrics.jsonl", told)

    def read_lines(
        self,
        name: str,
        needed: tuple[str, ...],
        check: LineCheck = lambda number, line: [],
    ) -> int | None:
        """Check a file of JSON lines; how many it has, and None where there is none."""
        if not (self.path / name).is_file():
            return None
        number, told = 0, 0
        with (self.path / name).open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    if not self.alive:
                        self.tell(name, f"is torn: the last {len(line)} bytes are no whole line", number)
                    return number - 1
                for message in _line_faults(line, number, needed, check):
                    told += 1
                    if told <= MOST_FAULTS:
                        self.tell(name, message, number)
        if told > MOST_FAULTS:
            self.tell(name, f"and {told - MOST_FAULTS} faults more")
        return number


@dataclass
class _Metrics:
    """What each line of metrics.jsonl must be, given the first."""

    config: Mapping[str, Any]
    per_epoch: int
    keys: frozenset[str] = frozenset()

    @cached_property
    def width(self) -> int | None:
        """How many seeds a line has; None for a single run."""
        return None if self.config.get("seeds") is None else len(seeds_of(self.config))

    def faults(self, number: int, line: Mapping[str, Any]) -> list[str]:
        step = number - 1
        told = []
        if line["step"] != step or line["epoch"] != step // self.per_epoch:
            where = f"epoch {step // self.per_epoch}, step {step}"
            told.append(f"is epoch {brief(line['epoch'])}, step {brief(line['step'])}; in this place belongs {where}")
        keys = frozenset(line) - {"nonfinite"}
        self.keys = self.keys or keys
        if keys != self.keys:
            told.append(f"has other keys than the first line: {listed(sorted(keys ^ self.keys), 5)}")
        wrong = [key for key in line if key not in ("epoch", "step", "nonfinite") and not self.fits(line[key])]
        if wrong:
            kind = "a number or null" if self.width is None else f"a list of {self.width} numbers, or null"
            told.append(f"{listed(wrong, 5)}: expected {kind}")
        return told

    def fits(self, value: Any) -> bool:
        if self.width is None or value is None:
            return value is None or _is_number(value)
        return isinstance(value, list) and len(value) == self.width and all(v is None or _is_number(v) for v in value)


def _line_faults(line: bytes, number: int, needed: tuple[str, ...], check: LineCheck) -> list[str]:
    try:
        told = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return [f"is no JSON: {error}"]
    if not isinstance(told, dict):
        return ["is no object of JSON"]
    if missing := [key for key in needed if key not in told]:
        return [f"has no {listed(missing)}"]
    return check(number, told)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unresolved(path: Path) -> list[Problem]:
    from pgrl_cli.config.layers import layers_of
    from pgrl_cli.resolution import resolve

    try:
        resolve(layers_of(path.name, beside=path.parent), begun=True)
    except ConfigError as error:
        return [Problem(problem.message, str(path), problem.line) for problem in error.problems]
    return []
