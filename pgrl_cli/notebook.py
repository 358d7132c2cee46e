"""What is written of a config's runs while they train, alone or in a stack, and which of their seeds still live."""

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import logs, runs, statistics
from pgrl_cli.config import Config
from pgrl_cli.fingerprints import fingerprint
from pgrl_cli.growing import Damaged, Lines, Position, positions_of
from pgrl_cli.plots.run import Gathered, draw, title_of
from pgrl_cli.reward_calls import RewardError
from pgrl_cli.runs import Run
from pgrl_cli.training.measures import EVALUATED, IN_DOUBLE
from pgrl_cli.training.trainer import Record, Runs

NEEDED = ("loss", "gradient_norm", "mean_reward", "shaped_reward")
"""Measures without which a run cannot go on."""
HINT = "a learning_rate, a coefficient, a weight, reward_scale or reward_shift is too large; a clip may help too"
PLAIN = ("epoch", "step", "nonfinite")
ENDS = 10
"""Epochs that the summary's first and last mean reward are taken over."""


class NotFinite(ArithmeticError):
    """A loss or a gradient that is no finite number: every parameter after it would be spoilt."""


class NotWritten(Exception):
    """A run that went to its end, but whose folder does not say so."""


@dataclass(frozen=True)
class Summary:
    """How a config's runs went, in a few numbers: of several seeds the means over those that lived, None if none did.

    One run alone that failed keeps the numbers that it had.
    """

    first_mean_reward: float | None = None
    """Of the first ten epochs."""
    last_mean_reward: float | None = None
    """Of the last ten epochs."""
    best_mean_reward: float | None = None
    """Of the best epoch, each seed's own."""
    exact_match: float | None = None
    held_out_exact_match: float | None = None
    solution_probability: float | None = None
    """The policy's own probability of the right answer, averaged over prompts."""
    maximum_reward: float | None = None
    """What right answers earn on average, where that is known."""
    epochs: int = 0
    """Epochs done."""
    seconds: float = 0.0
    """Training with its log files, without imports and picture, in all segments."""
    skipped_steps: int = 0
    """Steps skipped because a gradient had no finite norm, over all seeds (`on_nonfinite: skip`)."""
    picture_error: str | None = None
    """Why there is no picture, where there is none."""
    last_interval: tuple[float, float] | None = None
    """The 95 % bootstrap interval of the last mean reward, over two living seeds or more; none of what failed."""
    seeds: tuple[dict[str, Any], ...] | None = None
    """Of a config with `seeds`, how each one went."""


@dataclass
class Notebook:
    """Writes down one config's runs, record by record."""

    folder: Run
    config: Config
    place: Runs = None
    """Which of the stack's runs are this config's."""
    maximum_reward: float | None = None
    picture: bool = True
    """Whether to draw one at the end."""
    status: str = "pending"
    error: BaseException | None = None
    """What ended it, where something did."""
    picture_error: str | None = None
    started: str = field(default_factory=runs.now)
    seconds: float = 0.0
    mean_rewards: list[np.ndarray] = field(default_factory=list)
    """Of each epoch: [seed]."""
    evaluation: dict[str, np.ndarray] = field(default_factory=dict)
    """[seed] each."""
    failures: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What is known of the seeds that ended early, by their place."""
    skipped: int = 0
    """Steps that were skipped because a gradient had no finite norm, over all seeds."""
    segment: int = 1
    """How often the run was begun or taken up again."""

    def __post_init__(self) -> None:
        self.fingerprint = fingerprint(self.config)
        self._spent = 0.0
        self._alive = np.ones(len(self.config.run_seeds), dtype=bool)
        self._lines: Lines | None = None
        self._keys: frozenset[str] | None = None
        """Those of the lines that were there when it was taken up: an older version may have written fewer."""
        self._files: Mapping[str, Position] = {}
        self._gathered = Gathered()
        self._began = time.perf_counter()

    @property
    def told(self) -> str:
        """What ended it, in words."""
        named = isinstance(self.error, RewardError | NotFinite | NotWritten)
        return str(self.error) if named else f"{type(self.error).__name__}: {self.error}"

    def begin(self) -> None:
        """Open the files anew. Raises OSError."""
        self._lines = Lines(self.folder)
        self._start()

    def take_up(self, kept: Mapping[str, Any]) -> None:
        """Open the files where a checkpoint left them, and know again what was measured up to there.

        Raises Damaged where they, or what was kept of them, are not what they were, and OSError.
        """
        positions = positions_of(kept.get("files"))
        if kept.get("config") != fingerprint(self.config):
            raise Damaged(f"{self.folder.folder}: the config is not the one that the checkpoint was made with")
        self._lines = Lines(self.folder, positions)
        self.failures = {int(place): dict(told) for place, told in kept.get("failures", {}).items()}
        self._alive[list(self.failures)] = False
        for rows in written_epochs(self.folder, self.config):
            self._note(rows)
            self._keys = frozenset(rows[0]) | set(PLAIN)
        self.skipped = int(kept.get("skipped", 0))
        self._start()

    def _start(self) -> None:
        self._spent, segments = spent(self.folder.folder / "timing.jsonl")
        self.segment = 1 + segments
        self.status = "running"
        self._began = time.perf_counter()
        self.folder.mark("running", started=self.started, segment=self.segment)

    def kept(self) -> dict[str, Any]:
        """What a checkpoint must know of these runs: nothing in it depends on the time."""
        assert self._lines is not None
        files = {name: asdict(position) for name, position in self._lines.positions.items()}
        failures = {str(place): told for place, told in sorted(self.failures.items())}
        told = {"config": self.fingerprint, "epochs": self.config.epochs, "files": files}
        return told | {"failures": failures, "skipped": self.skipped}

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
        rows = list(record.rows(self.config, self.place, self._alive))
        if self._keys is not None:
            rows = [_with_keys(row, self._keys) for row in rows]
        self._note(rows)
        self._write_down(self._lines, record, rows, began)
        self.seconds = self._spent + time.perf_counter() - self._began
        if not set(NEEDED).isdisjoint(record.doubtful):
            self._bury(rows, record)

    def leave(self, finite: np.ndarray, step: int) -> None:
        """Note which of the stack's policies the last step left finite. Raises NotFinite when none of ours is."""
        ours = np.atleast_1d(finite if self.place is None else finite[self.place])
        for place in np.flatnonzero(self._alive & ~ours).tolist():
            self._fail_seed(place, step, f"the policy is not finite after step {step}, the last; {HINT}")
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
        first, last, best = self._ends()
        evaluation = {name: _mean(value) for name, value in self.evaluation.items()}
        return Summary(
            first_mean_reward=_mean(first),
            last_mean_reward=_mean(last),
            best_mean_reward=_mean(best),
            exact_match=evaluation.get("exact_match"),
            held_out_exact_match=evaluation.get("held_out_exact_match"),
            solution_probability=evaluation.get("solution_probability"),
            maximum_reward=self.maximum_reward,
            epochs=len(self.mean_rewards),
            seconds=self.seconds,
            skipped_steps=self.skipped,
            picture_error=self.picture_error,
            last_interval=None if self.status == "failed" else _interval(last),
            seeds=None if self.config.seeds is None else tuple(self._seeds(last)),
        )

    def facts(self) -> dict[str, Any]:
        """What status.json says beside the status."""
        files = {name: asdict(position) for name, position in self._files.items()}
        told = {"started": self.started, "finished": runs.now(), "segment": self.segment, **asdict(self.summary())}
        return told | ({"files": files} if files else {})

    def draw(self) -> None:
        """Draw the picture; a run whose numbers are all there does not fail by it."""
        if not self.picture:
            return
        try:
            seeds = self.config.run_seeds
            failed = [seeds[place] for place in sorted(self.failures)]
            curves, file = self._gathered.curves(), self.folder.curves_file
            title = title_of(self.config.model_dump(), seeds)
            draw(curves, file, title=title, maximum=self.maximum_reward, failed=failed)
        except Exception as error:
            assert self._lines is not None
            self._lines.log.write(_text("".join(traceback.format_exception(error)).rstrip()))
            self.picture_error = f"{type(error).__name__}: {error}"

    def _note(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.picture:
            self._gathered.add(rows)
        self.mean_rewards.append(np.atleast_1d(rows[0]["mean_reward"]))
        for name in EVALUATED:
            if rows[-1].get(name) is not None:
                self.evaluation[name] = np.atleast_1d(rows[-1][name])

    def _write_down(self, lines: Lines, record: Record, rows: Sequence[Mapping[str, Any]], began: float) -> None:
        config = self.config
        lines.metrics.write(runs.lines_of(rows))
        lines.log.write(_text(logs.epoch_line(rows)))
        last = record.epoch == config.epochs - 1
        if last or (config.log_every > 0 and record.epoch % config.log_every == 0):
            for seed, run in self._logged():
                for sample in logs.samples(record, run, seed):
                    lines.samples.write(runs.to_json(sample))
                    lines.log.write(b"".join(map(_text, logs.sample_lines(sample))))
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
        return [(seeds[place], self.place.start + place) for place in places if self._alive[place]]

    def _bury(self, rows: Sequence[Mapping[str, Any]], record: Record) -> None:
        """Note the seeds that cannot go on, each with the first step that shows it, and why."""
        skips = self.config.on_nonfinite == "skip"
        for row in rows:
            for name in NEEDED:
                values = np.atleast_1d(row[name])
                for place in np.flatnonzero(self._alive & ~np.isfinite(values)).tolist():
                    fault = record.faults.get(self._run(place))
                    if skips and (fault is None or not fault.spoilt):
                        if name == "gradient_norm":
                            self.skipped += 1
                        continue
                    what = f"{name} is {values[place]}" if fault is None else fault.told
                    self._fail_seed(place, row["step"], f"{what}, at step {row['step']} (epoch {row['epoch']}); {HINT}")
        self._end_if_all_failed()

    def _run(self, place: int) -> int:
        """The number in the stack of one of our runs."""
        first = self.place.start if isinstance(self.place, slice) else self.place or 0
        return int(first + place)

    def _fail_seed(self, place: int, step: int, what: str) -> None:
        self._alive[place] = False
        self.failures[place] = {"step": step, "error": what}

    def _end_if_all_failed(self) -> None:
        if not self._alive.any():
            raise NotFinite(self.failures[min(self.failures)]["error"])

    def _ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each seed's mean reward over the first and the last epochs, and its best: [seed].

        Of several seeds the failed are NaN; one run alone keeps its numbers.
        """
        nothing = np.full(len(self.config.run_seeds), np.nan)
        if not self.mean_rewards:
            return nothing, nothing, nothing
        rewards = np.array(self.mean_rewards, dtype=float)
        if self.config.seeds is not None:
            rewards = np.where(self._alive, rewards, np.nan)
        return rewards[:ENDS].mean(axis=0), rewards[-ENDS:].mean(axis=0), rewards.max(axis=0)

    def _seeds(self, last: np.ndarray) -> list[dict[str, Any]]:
        told = []
        for place, seed in enumerate(self.config.run_seeds):
            if place in self.failures:
                told.append({"seed": seed, "status": "failed", **self.failures[place]})
            else:
                matches = self.evaluation.get("exact_match")
                match = None if matches is None else float(matches[place])
                reward = None if np.isnan(last[place]) else float(last[place])
                told.append({"seed": seed, "status": self.status, "last_mean_reward": reward, "exact_match": match})
        return told

    def _close(self) -> None:
        if self._lines is not None:
            with suppress(OSError):
                self._lines.close()
            self._lines = None


def written_epochs(folder: Run, config: Config) -> Iterator[list[dict[str, Any]]]:
    """The lines of metrics.jsonl, an epoch at a time, as they were while it trained: numbers, or arrays [seed]."""
    wide, narrow = np.dtype("float64"), np.dtype(config.dtype)

    def number(name: str, value: Any) -> Any:
        if value is None and name != "mean_reward":
            return None
        return np.array(value, dtype=wide if name in IN_DOUBLE else narrow)[()]

    for _, lines in groupby(runs.read_lines(folder.folder / "metrics.jsonl"), key=itemgetter("epoch")):
        yield [
            {name: value if name in PLAIN else number(name, value) for name, value in line.items()} for line in lines
        ]


def _with_keys(row: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """A line of metrics.jsonl with these keys alone: all lines of a file have the same."""
    kept = {key: value for key, value in row.items() if key in keys}
    wrong = [name for name in kept.pop("nonfinite", ()) if name in kept]
    return kept | ({"nonfinite": wrong} if wrong else {})


def spent(timing: Path) -> tuple[float, int]:
    """The seconds that a run has taken so far, and in how many segments, as far as its timing.jsonl can be read."""
    try:
        lines = list(runs.read_lines(timing))
        return sum(float(line["seconds"]) for line in lines), max((int(line["segment"]) for line in lines), default=0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0, 1  # nothing else depends on it


def _text(line: str) -> bytes:
    return (line + "\n").encode(errors="backslashreplace")


def _interval(values: np.ndarray) -> tuple[float, float] | None:
    low, high = statistics.bootstrap_interval([values], statistics.mean)
    return None if np.isnan(low) else (float(low), float(high))


def _mean(values: np.ndarray) -> float | None:
    present = values[~np.isnan(values)]
    return float(present.mean()) if len(present) else None
