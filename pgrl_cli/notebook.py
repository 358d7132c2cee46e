"""What is written of a config's runs while they train, alone or in a stack, and which of their seeds still live."""

import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import logs, runs
from pgrl_cli.config import Config
from pgrl_cli.epochs import PLAIN, epochs_of, with_keys
from pgrl_cli.findings import Facts, Finding, Findings
from pgrl_cli.fingerprints import fingerprint
from pgrl_cli.growing import Damaged, Lines, Position, positions_of, told_of
from pgrl_cli.plots.run import Gathered, draw, title_of
from pgrl_cli.reward_calls import RewardError
from pgrl_cli.runs import Run
from pgrl_cli.summary import Fates, Summary
from pgrl_cli.training.trainer import Record, Runs

NEEDED = ("loss", "gradient_norm", "mean_reward", "shaped_reward")
"""Measures without which a run cannot go on."""
HINT = (
    "a learning_rate (also that of a warm_start), a coefficient, a weight, reward_scale or reward_shift is too large; "
    "a clip may help too"
)
LESS_MEMORY = (
    "fewer prompts_per_epoch, num_responses or seeds, shorter responses, a smaller width or a micro_batch need less"
)
PAUSE = 1.0
"""Seconds between two statuses of a run that goes on: writing one costs as much as an epoch or two."""


class NotFinite(ArithmeticError):
    """A loss or a gradient that is no finite number: every parameter after it would be spoilt."""


class NotWritten(Exception):
    """A run that went to its end, but whose folder does not say so."""


@dataclass
class Notebook:
    """Writes down one config's runs, record by record."""

    folder: Run
    config: Config
    place: Runs = None
    """Which of the stack's runs are this config's."""
    known: Facts | None = None
    """What is known before it trains; nothing stands out without it."""
    notice: Callable[[Finding], None] = lambda finding: None
    """Hears of each finding, once it is written down."""
    picture: bool = True
    """Whether to draw one at the end."""
    status: str = "pending"
    error: BaseException | None = None
    """What ended it, where something did."""
    picture_error: str | None = None
    started: str = field(default_factory=runs.now)
    seconds: float = 0.0
    segment: int = 1
    """How often the run was begun or taken up again."""

    def __post_init__(self) -> None:
        self.fingerprint = fingerprint(self.config)
        self.fates = Fates(self.config.run_seeds, several=self.config.seeds is not None)
        self._spent = 0.0
        self._lines: Lines | None = None
        self._keys: frozenset[str] | None = None
        """Those of the lines that were there when it was taken up: an older version may have written fewer."""
        self._files: Mapping[str, Position] = {}
        self._gathered = Gathered()
        self._findings: Findings | None = None
        self._unmarked = False
        self._began = self._marked = time.perf_counter()

    @property
    def maximum_reward(self) -> float | None:
        """What right answers earn on average, where that is known."""
        return None if self.known is None else self.known.maximum_reward

    @property
    def told(self) -> str:
        """What ended it, in words."""
        if _is_of_memory(self.error):
            told = str(self.error).partition("\n")[0]
            return f"there was not enough memory ({type(self.error).__name__}: {told}); {LESS_MEMORY}"
        named = isinstance(self.error, RewardError | NotFinite | NotWritten)
        return str(self.error) if named else f"{type(self.error).__name__}: {self.error}"

    def begin(self) -> None:
        """Open the files anew. Raises OSError."""
        self._lines = Lines(self.folder)
        self._look_on()
        self._start()

    def take_up(self, kept: Mapping[str, Any]) -> None:
        """Open the files where a checkpoint left them, and know again what was measured up to there.

        Raises Damaged where they, or what was kept of them, are not what they were, and OSError.
        """
        positions = positions_of(kept.get("files"))
        if kept.get("config") != fingerprint(self.config):
            raise Damaged(f"{self.folder.folder}: the config is not the one that the checkpoint was made with")
        self._lines = Lines(self.folder, positions)
        self.fates.take_up(kept.get("failures", {}), int(kept.get("skipped", 0)))
        self._look_on()
        for rows in epochs_of(runs.read_lines(self.folder.folder / "metrics.jsonl"), self.config):
            self._note(rows)
            self._keys = frozenset(rows[0]) | set(PLAIN)
        self._start()

    def _start(self) -> None:
        self._spent, segments = spent(self.folder.folder / "timing.jsonl")
        self.segment = 1 + segments
        self.status = "running"
        self._began = time.perf_counter()
        self._mark_running()

    def _look_on(self) -> None:
        self._findings = None if self.known is None else Findings(self.known)

    def _mark_running(self) -> None:
        self._unmarked, self._marked = False, time.perf_counter()
        findings = self._told_findings()
        told = {"findings": findings} if findings else {}
        self.folder.mark("running", started=self.started, segment=self.segment, **told)

    def kept(self) -> dict[str, Any]:
        """What a checkpoint must know of these runs: nothing in it depends on the time."""
        assert self._lines is not None
        files = told_of(self._lines.positions)
        failures = {str(place): told for place, told in sorted(self.fates.failures.items())}
        told = {"config": self.fingerprint, "epochs": self.config.epochs, "files": files}
        return told | {"failures": failures, "skipped": self.fates.skipped}

    def descriptors(self) -> list[int]:
        """Of the files that a checkpoint counts on; whoever takes them closes them."""
        return [] if self._lines is None else self._lines.descriptors()

    def cut_back(self, kept: Mapping[str, Any]) -> None:
        """Drop what was written after a checkpoint was made. Raises OSError."""
        if self._lines is not None:
            self._lines.close()
            self._lines = Lines(self.folder, positions_of(kept.get("files")))

    def take(self, record: Record) -> None:
        """Write an epoch down and note which seeds it spoilt. Raises NotFinite when none is left, and OSError."""
        began = time.perf_counter()
        assert self._lines is not None
        rows = list(record.rows(self.config, self.place, self.fates.alive))
        if self._keys is not None:
            rows = [with_keys(row, self._keys) for row in rows]
        found = self._note(rows)
        self._write_down(self._lines, record, rows, found, began)
        self._tell(found)
        self.seconds = self._spent + time.perf_counter() - self._began
        if not set(NEEDED).isdisjoint(record.doubtful):
            self._bury(rows, record)

    def leave(self, finite: np.ndarray, step: int, what: str) -> None:
        """Note which policies, or critics, of the stack are finite at the end. Raises NotFinite if none of ours is."""
        ours = np.atleast_1d(finite if self.place is None else finite[self.place])
        for place in np.flatnonzero(self.fates.alive & ~ours).tolist():
            self.fates.fail(place, step, f"the {what} is not finite after step {step}, the last; {HINT}")
        self._end_if_all_failed()

    def complete(self) -> None:
        """Mark the runs as finished. Raises NotWritten."""
        self._files = {} if self._lines is None else self._lines.positions
        self._close()
        self.status = "completed"
        try:
            self.folder.mark("completed", exit_code=0, **self.facts())
        except OSError as error:
            raise NotWritten(f"its last status could not be written: {error.strerror}") from error

    def fail(self, error: BaseException) -> None:
        """Mark the runs as failed, with the traceback of the error in the log."""
        self._close()
        self.status, self.error = "failed", error
        with suppress(OSError):
            self.folder.mark("failed", exit_code=1, error=self.told, **self.facts())
        self.folder.log_traceback(error)

    def interrupt(self, exit_code: int = 130) -> None:
        """Mark the runs as interrupted; what was finished is kept."""
        self._close()
        self.status = "interrupted"
        with suppress(OSError):
            self.folder.mark("interrupted", exit_code=exit_code, **self.facts())

    def summary(self) -> Summary:
        """How the runs went so far."""
        return self.fates.summary(
            self.status,
            maximum_reward=self.maximum_reward,
            seconds=self.seconds,
            picture_error=self.picture_error,
            findings=self._told_findings(),
        )

    def facts(self) -> dict[str, Any]:
        """What status.json says beside the status."""
        files = told_of(self._files)
        told = {"started": self.started, "finished": runs.now(), "segment": self.segment, **asdict(self.summary())}
        return told | ({"files": files} if files else {})

    def draw(self) -> None:
        """Draw the picture; a run whose numbers are all there does not fail by it."""
        if not self.picture:
            return
        try:
            seeds = self.config.run_seeds
            failed = [seeds[place] for place in sorted(self.fates.failures)]
            curves, file = self._gathered.curves(), self.folder.curves_file
            title = title_of(self.config.model_dump(), seeds)
            draw(curves, file, title=title, maximum=self.maximum_reward, failed=failed)
        except Exception as error:
            assert self._lines is not None
            self._lines.log.write(_text("".join(traceback.format_exception(error)).rstrip()))
            self.picture_error = f"{type(error).__name__}: {error}"

    def _note(self, rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
        """Remember what the end needs of an epoch; what stands out in it that did not before."""
        if self.picture:
            self._gathered.add(rows)
        self.fates.note(rows)
        return [] if self._findings is None else self._findings.add(rows)

    def _tell(self, found: Iterable[Finding]) -> None:
        """Tell of what stands out who watches, and soon also status.json."""
        for finding in found:
            self._unmarked = True
            self.notice(finding)
        if self._unmarked and time.perf_counter() - self._marked >= PAUSE:
            with suppress(OSError):  # the last status will tell
                self._mark_running()

    def _told_findings(self) -> tuple[dict[str, Any], ...]:
        return () if self._findings is None else tuple(finding.as_json() for finding in self._findings.all())

    def _write_down(
        self,
        lines: Lines,
        record: Record,
        rows: Sequence[Mapping[str, Any]],
        found: Iterable[Finding],
        began: float,
    ) -> None:
        config = self.config
        lines.metrics.write(runs.lines_of(rows))
        if (warmth := logs.warm_start_line(record, self.place)) is not None:
            lines.log.write(_text(warmth))
        lines.log.write(_text(logs.epoch_line(rows)))
        last = record.epoch == config.epochs - 1
        if last or (config.log_every > 0 and record.epoch % config.log_every == 0):
            for seed, run in self._logged():
                for sample in logs.samples(record, run, seed):
                    lines.samples.write(runs.to_json(sample))
                    lines.log.write(b"".join(map(_text, logs.sample_lines(sample, record.task.end))))
        for finding in found:
            lines.log.write(b"".join(map(_text, finding.lines())))
        seconds = {**record.seconds, "files": time.perf_counter() - began}
        told = {"segment": self.segment, "epoch": record.epoch, "seconds": sum(seconds.values()), **seconds}
        lines.timing.write(runs.to_json(told))
        lines.flush()

    def _logged(self) -> list[tuple[int | None, int | None]]:
        """The living seeds whose samples are shown, with their runs in the stack; one run is shown without its seed."""
        if not isinstance(self.place, slice):
            return [(None, self.place)]
        seeds = self.config.run_seeds
        places = [seeds.index(seed) for seed in self.config.log_seeds or ()]
        return [(seeds[place], self.place.start + place) for place in places if self.fates.alive[place]]

    def _bury(self, rows: Sequence[Mapping[str, Any]], record: Record) -> None:
        """Note the seeds that cannot go on, each with the first step that shows it, and why."""
        skips = self.config.on_nonfinite == "skip"
        for row in rows:
            for name in NEEDED:
                values = np.atleast_1d(row[name])
                for place in np.flatnonzero(self.fates.alive & ~np.isfinite(values)).tolist():
                    fault = record.faults.get(self._run(place))
                    if skips and (fault is None or not fault.spoilt):
                        if name == "gradient_norm":
                            self.fates.skipped += 1
                        continue
                    what = f"{name} is {values[place]}" if fault is None else fault.told
                    self.fates.fail(place, row["step"], f"{what}, at step {row['step']} (epoch {row['epoch']}); {HINT}")
        self._end_if_all_failed()

    def _run(self, place: int) -> int:
        """The number in the stack of one of our runs."""
        first = self.place.start if isinstance(self.place, slice) else self.place or 0
        return int(first + place)

    def _end_if_all_failed(self) -> None:
        if not self.fates.alive.any():
            raise NotFinite(self.fates.failures[min(self.fates.failures)]["error"])

    def _close(self) -> None:
        if self._lines is not None:
            with suppress(OSError):
                self._lines.close()
            self._lines = None


def spent(timing: Path) -> tuple[float, int]:
    """The seconds that a run has taken so far, and in how many segments, as far as its timing.jsonl can be read."""
    try:
        lines = list(runs.read_lines(timing))
        return sum(float(line["seconds"]) for line in lines), max((int(line["segment"]) for line in lines), default=0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0, 1  # nothing else depends on it


def _is_of_memory(error: BaseException | None) -> bool:
    """Whether an allocation has failed: of Python, of numpy, or of torch, which has no type for it on the CPU."""
    told = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("allocate memory" in told or "out of memory" in told)
    )


def _text(line: str) -> bytes:
    return (line + "\n").encode(errors="backslashreplace")
