"""What runs have measured: one metric of each, read line by line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli.config.files import opened
from pgrl_cli.config.problems import ConfigError, Problem, listed, nearest, short
from pgrl_cli.config.schema import seeds_of
from pgrl_cli.folders import Found, config_of, found, in_words
from pgrl_cli.measured import NO_METRIC, Checked
from pgrl_cli.runs import Run, is_alive

ONCE_AN_EPOCH = (
    "mean_reward",
    "shaped_reward",
    "zero_variance_groups",
    "reward_std",
    "response_length",
    "wrong_response_length",
    "right_response_length",
    "kept_groups",
    "sampled_responses",
    "explained_variance",
    "kl_coefficient",
    "old_kl_coefficient",
)
"""Metrics of an epoch's rollout: the same in all of its lines. So are the components of a reward, reward/NAME."""
AT_ITS_END = (
    "exact_match",
    "held_out_exact_match",
    "solution_probability",
    "lowest_solution_probability",
    "expected_zero_variance_groups",
    "epoch_kl",
)
"""Metrics of the policy after an epoch, where they were measured: null in all other lines."""
NOT_THE_EXPERIMENT = (
    "seed",
    "seeds",
    "log_seeds",
    "name",
    "log_every",
    "checkpoint_period",
    "checkpoint_keep",
    "reward_timeout",
)
"""Keys of a config that runs of one experiment may differ in."""
MOST_NOTES = 6


@dataclass(frozen=True)
class Result:
    """One metric of a config's runs."""

    path: Path
    config: Mapping[str, Any]
    parameters: Mapping[str, Any] | None
    status: str
    """As in status.json; lost where the process that had it has gone."""
    seeds: tuple[int, ...]
    failed: tuple[int, ...]
    """The seeds that failed: what they have up to there is in `values`."""
    epochs: np.ndarray
    """[row]."""
    steps: np.ndarray
    """[row]: the optimizer step of each value."""
    values: np.ndarray
    """[row seed]; NaN where there is none."""
    held: bool = False
    """Whether a value holds for all steps up to the next one: it is the same all epoch."""
    notes: tuple[str, ...] = ()

    @cached_property
    def experiment(self) -> str:
        """What runs of one experiment have in common, as text."""
        kept = {key: value for key, value in self.config.items() if key not in NOT_THE_EXPERIMENT}
        return json.dumps(kept, sort_keys=True)

    @property
    def finished(self) -> bool:
        """Whether nothing more is to come."""
        return self.status in ("completed", "failed")

    def ends(self, over: str, goal: str = "maximize") -> np.ndarray:
        """Each seed's number: over last_N_epochs, all_epochs or best_epoch; NaN for a run that failed.

        Of a run that is not finished the last epochs are those that it has.
        """
        if len(self.epochs) == 0:
            return np.full(len(self.seeds), np.nan)
        alive = np.where(np.isin(self.seeds, self.failed), np.nan, self.values)
        if over == "best_epoch":
            best = np.fmax if goal == "maximize" else np.fmin
            return np.asarray(best.reduce(alive, axis=0))
        first = 0 if over == "all_epochs" else self.epochs[-1] + 1 - int(over.split("_")[1])
        return alive[self.epochs >= first].mean(axis=0)


def gathered(paths: Sequence[str | Path], metric: str) -> tuple[list[Result], list[str]]:
    """One metric of all runs under some paths, and notes: what is not finished, failed, or could not be read.

    Raises ConfigError where no run has a value.
    """
    results: list[Result] = []
    problems: list[Problem] = []
    runs = found(paths)
    started = [run for run in runs if run.path.is_dir()]
    for run in started:
        try:
            results.append(read(run, metric))
        except ConfigError as error:
            problems += error.problems
    with_values = [result for result in results if len(result.steps)]
    if not with_values:
        nothing = f"{len(runs)} cells, and none has started" if not started else f"no run there has a value of {metric}"
        raise ConfigError(once(problems) or [Problem(nothing, " ".join(map(str, paths)))])
    told = [note for result in results for note in result.notes]
    waiting = len(runs) - len(started)
    notes = [f"{waiting} cell{'s have' if waiting > 1 else ' has'} not started"] if waiting else []
    notes += _first(told) + _first([f"left out: {problem}" for problem in problems])
    return with_values, notes


def read(run: Found, metric: str) -> Result:
    """One metric of a run folder, read line by line; a torn last line is left out.

    Raises ConfigError for a folder that cannot be read, a damaged line, or a metric that is not there.
    """
    config = config_of(run.path)
    status, failed = status_of(run.path)
    seeds = seeds_of(config)
    epochs, steps, values = _measured(Checked(run.path / "metrics.jsonl", config, seeds), metric, seeds)
    failed = seeds if status == "failed" and not failed else failed
    return Result(
        path=run.path,
        config=config,
        parameters=run.parameters,
        status=status,
        seeds=seeds,
        failed=tuple(failed),
        epochs=epochs,
        steps=steps,
        values=values,
        held=_once_an_epoch(metric),
        notes=tuple(_notes(run.path.name, metric, status, failed, seeds, epochs.tolist(), values)),
    )


def _measured(checked: Checked, metric: str, seeds: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lines that have a value: epochs [row], steps [row], values [row seed]."""
    epochs, steps, rows = [], [], []
    for number, line in _lines(checked, metric):
        if metric in NO_METRIC or metric not in line:
            known = [name for name in line if name not in NO_METRIC]
            told = f"there is no metric {short(metric)!r}; possible: {listed(known, 40)}.{nearest(metric, known)}"
            raise ConfigError([Problem(told, str(checked.path.parent))])
        value = checked.value(line, metric, number)
        if value is None and (checked.stacked or metric not in line.get("nonfinite", ())):
            continue
        epochs.append(line["epoch"])
        steps.append(line["step"])
        rows.append(np.array(value, dtype=float))
    values = np.array(rows, dtype=float).reshape(len(rows), len(seeds))
    return np.array(epochs, dtype=int), np.array(steps, dtype=int), values


def status_of(path: Path) -> tuple[str, tuple[int, ...]]:
    """How a run stands, and which of its seeds have failed. Raises ConfigError where status.json cannot be read."""
    try:
        told = Run(path).status()
        status = short(str(told["status"]), 30)
        if status in ("pending", "running") and "pid" in told and not is_alive(told):
            status = "lost"
        seeds = told.get("seeds") or ()
        return status, tuple(int(each["seed"]) for each in seeds if each["status"] == "failed")
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError([Problem(f"status.json cannot be read: {in_words(error)}", str(path))]) from error


def _once_an_epoch(metric: str) -> bool:
    return metric in ONCE_AN_EPOCH or metric.startswith("reward/")


def _lines(checked: Checked, metric: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines that can tell something new about a metric; of one that is the same all epoch, the epoch's first."""
    once = _once_an_epoch(metric)
    nothing = f'"{metric}":null'.encode() if metric in AT_ITS_END else None
    epoch = b""
    if not checked.path.exists():
        return
    with opened(checked.path) as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return  # torn, or still being written
            begins = line[: line.find(b",")]
            if (once and begins == epoch) or (nothing is not None and number > 1 and nothing in line):
                continue
            epoch = begins
            yield number, checked.line(line, number)


def _notes(
    name: str,
    metric: str,
    status: str,
    failed: Sequence[int],
    seeds: Sequence[int],
    epochs: Sequence[int],
    values: np.ndarray,
) -> Iterator[str]:
    if not epochs:
        yield f"{name} has no value of {metric} ({status})"
    elif status != "completed":
        yield f"{name} is {status}: its last epoch is {epochs[-1]}"
    if epochs and failed and status != "failed":
        yield f"{name}: seed {listed(failed, 5)} failed, of {len(seeds)}"
    gaps = [seed for seed, gap in zip(seeds, np.isnan(values).any(axis=0), strict=True) if gap and seed not in failed]
    if gaps:
        yield f"{name}: seed {listed(gaps, 5)} has a value of {metric} that is no finite number"


def once(problems: Sequence[Problem]) -> list[Problem]:
    """One problem of each kind: a metric that no run has is told once."""
    kinds: dict[str, Problem] = {}
    for problem in problems:
        kinds.setdefault(problem.message, problem)
    return list(kinds.values())


def _first(notes: Sequence[str]) -> list[str]:
    more = len(notes) - MOST_NOTES
    return [*notes[:MOST_NOTES], f"… and {more} more of the kind"] if more > 0 else list(notes)
