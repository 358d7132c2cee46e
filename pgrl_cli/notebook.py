"""What is written of a config's runs while they train, alone or in a stack, and which of their seeds still live."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pgrl_cli import logs, runs, statistics
from pgrl_cli.config import Config
from pgrl_cli.plots.run import Gathered, draw, title_of
from pgrl_cli.reward_calls import RewardError
from pgrl_cli.runs import Lines, Run
from pgrl_cli.training.measures import EVALUATED
from pgrl_cli.training.trainer import Record, Runs

NEEDED = ("loss", "gradient_norm", "mean_reward", "shaped_reward")
"""Measures without which a run cannot go on."""
HINT = "a learning_rate, a coefficient, a weight, reward_scale or reward_shift is too large; a clip may help too"
ENDS = 10
"""Epochs that the summary's first and last mean reward are taken over."""


class NotFinite(ArithmeticError):
    """A loss or a gradient that is no finite number: every parameter after it would be spoilt."""


class NotWritten(Exception):
    """A run that went to its end, but whose folder does not say so."""


@dataclass(frozen=True)
class Summary:
    """How a config's runs went, in a few numbers: of several seeds the means over those that lived."""

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
    """Training with its log files, without imports and picture."""
    picture_error: str | None = None
    """Why there is no picture, where there is none."""
    last_interval: tuple[float, float] | None = None
    """The 95 % bootstrap interval of the last mean reward, over two seeds or more."""
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

    def __post_init__(self) -> None:
        self._alive = np.ones(len(self.config.run_seeds), dtype=bool)
        self._lines: Lines | None = None
        self._gathered = Gathered()
        self._began = time.perf_counter()

    @property
    def told(self) -> str:
        """What ended it, in words."""
        named = isinstance(self.error, RewardError | NotFinite | NotWritten)
        return str(self.error) if named else f"{type(self.error).__name__}: {self.error}"

    def begin(self) -> None:
        """Open the files. Raises OSError."""
        self.status = "running"
        self._began = time.perf_counter()
        self.folder.mark("running", started=self.started)
        self._lines = Lines(self.folder)

    def take(self, record: Record) -> None:
        """Write an epoch down and note which seeds it spoilt. Raises NotFinite when none is left, and OSError."""
        began = time.perf_counter()
        assert self._lines is not None
        rows = list(record.rows(self.config, self.place, self._alive))
        self._note(rows)
        self._write_down(self._lines, record, rows, began)
        self.seconds = time.perf_counter() - self._began
        if not set(NEEDED).isdisjoint(record.doubtful):
            self._bury(rows)

    def leave(self, finite: np.ndarray, step: int) -> None:
        """Note which of the stack's policies the last step left finite. Raises NotFinite when none of ours is."""
        ours = np.atleast_1d(finite if self.place is None else finite[self.place])
        for place in np.flatnonzero(self._alive & ~ours).tolist():
            self._fail_seed(place, step, f"the policy is not finite after step {step}, the last; {HINT}")
        self._end_if_all_failed()

    def complete(self) -> None:
        """Draw the picture and mark the runs as finished. Raises NotWritten."""
        self._close()
        self._draw()
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

    def interrupt(self) -> None:
        """Mark the runs as interrupted; what was finished is kept."""
        self._close()
        self.status = "interrupted"
        with suppress(OSError):
            self.folder.mark("interrupted", exit_code=130, **self.facts())

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
            picture_error=self.picture_error,
            last_interval=_interval(last),
            seeds=None if self.config.seeds is None else tuple(self._seeds(last)),
        )

    def facts(self) -> dict[str, Any]:
        """What status.json says beside the status."""
        return {"started": self.started, "finished": runs.now(), **asdict(self.summary())}

    def _draw(self) -> None:
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
            self.folder.log_traceback(error)
            self.picture_error = f"{type(error).__name__}: {error}"

    def _note(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.picture:
            self._gathered.add(rows)
        self.mean_rewards.append(np.atleast_1d(rows[0]["mean_reward"]))
        for name in EVALUATED:
            if rows[-1][name] is not None:
                self.evaluation[name] = np.atleast_1d(rows[-1][name])

    def _write_down(self, lines: Lines, record: Record, rows: Sequence[Mapping[str, Any]], began: float) -> None:
        config = self.config
        lines.metrics.write(runs.lines_of(rows))
        lines.log.write(logs.epoch_line(rows) + "\n")
        last = record.epoch == config.epochs - 1
        if last or (config.log_every > 0 and record.epoch % config.log_every == 0):
            for seed, run in self._logged():
                for sample in logs.samples(record, run, seed):
                    lines.samples.write(runs.to_json(sample))
                    lines.log.writelines(line + "\n" for line in logs.sample_lines(sample))
        seconds = {**record.seconds, "files": time.perf_counter() - began}
        lines.timing.write(runs.to_json({"epoch": record.epoch, "seconds": sum(seconds.values()), **seconds}))
        lines.flush()

    def _logged(self) -> list[tuple[int | None, int | None]]:
        """The living seeds whose samples are shown, with their runs in the stack; one run is shown without its seed."""
        if not isinstance(self.place, slice):
            return [(None, self.place)]
        seeds = self.config.run_seeds
        places = [seeds.index(seed) for seed in self.config.log_seeds or ()]
        return [(seeds[place], self.place.start + place) for place in places if self._alive[place]]

    def _bury(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Note the seeds that a row shows to be spoilt, each with the first step and measure that do."""
        for row in rows:
            for name in NEEDED:
                values = np.atleast_1d(row[name])
                for place in np.flatnonzero(self._alive & ~np.isfinite(values)).tolist():
                    what = f"{name} is {values[place]} at step {row['step']} (epoch {row['epoch']}); {HINT}"
                    self._fail_seed(place, row["step"], what)
        self._end_if_all_failed()

    def _fail_seed(self, place: int, step: int, what: str) -> None:
        self._alive[place] = False
        self.failures[place] = {"step": step, "error": what}

    def _end_if_all_failed(self) -> None:
        if not self._alive.any():
            raise NotFinite(self.failures[min(self.failures)]["error"])

    def _ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each seed's mean reward over the first and the last epochs, and its best: [seed], NaN for the failed."""
        nothing = np.full(len(self.config.run_seeds), np.nan)
        if not self.mean_rewards:
            return nothing, nothing, nothing
        rewards = np.array(self.mean_rewards, dtype=float)
        if self._alive.any():
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


def _interval(values: np.ndarray) -> tuple[float, float] | None:
    low, high = statistics.bootstrap_interval([values], statistics.mean)
    return None if np.isnan(low) else (float(low), float(high))


def _mean(values: np.ndarray) -> float | None:
    present = values[~np.isnan(values)]
    return float(present.mean()) if len(present) else None
