"""What runs have measured: found under paths, read one metric at a time, and grouped into what is one experiment."""

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from pgrl_cli.cells import Sweep
from pgrl_cli.config import yaml12
from pgrl_cli.config.problems import ConfigError, Problem, brief, listed, nearest, short
from pgrl_cli.config.sweep_spec import label_of
from pgrl_cli.runs import Run

ONCE_AN_EPOCH = ("mean_reward", "shaped_reward", "zero_variance_groups", "reward_std", "response_length")
"""Metrics of an epoch's rollout: the same in all of its lines. So are the components of a reward, reward/NAME."""
AT_ITS_END = ("exact_match", "held_out_exact_match", "solution_probability", "lowest_solution_probability")
"""Metrics of the policy after an epoch, where they were measured: null in all other lines."""
NOT_THE_EXPERIMENT = ("seed", "seeds", "log_seeds", "name", "log_every")
"""Keys of a config that runs of one experiment may differ in."""


@dataclass(frozen=True)
class Found:
    """A run folder, plain, stacked or a cell."""

    path: Path
    parameters: Mapping[str, Any] | None = None
    """Of a sweep's cell, what was swept."""


@dataclass(frozen=True)
class Result:
    """One metric of a config's runs."""

    path: Path
    config: Mapping[str, Any]
    parameters: Mapping[str, Any] | None
    status: str
    seeds: tuple[int, ...]
    epochs: np.ndarray
    """[row]."""
    steps: np.ndarray
    """[row]: the optimizer step of each value."""
    values: np.ndarray
    """[row seed]; NaN where there is none."""
    notes: tuple[str, ...] = ()

    @cached_property
    def experiment(self) -> str:
        """What runs of one experiment have in common, as text."""
        kept = {key: value for key, value in self.config.items() if key not in NOT_THE_EXPERIMENT}
        return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()

    def ends(self, over: str, goal: str = "maximize") -> np.ndarray:
        """Each seed's number: over last_N_epochs, all_epochs or best_epoch; NaN for a run that did not get there."""
        if len(self.epochs) == 0:
            return np.full(len(self.seeds), np.nan)
        if over == "best_epoch":
            best = np.nanmax if goal == "maximize" else np.nanmin
            there = ~np.isnan(self.values).all(axis=0)
            found = np.full(len(self.seeds), np.nan)
            found[there] = best(self.values[:, there], axis=0)
            return found
        first = 0 if over == "all_epochs" else self.epochs[-1] + 1 - int(over.split("_")[1])
        window = self.epochs >= first
        return self.values[window].mean(axis=0) if window.any() else self.values[-1]


@dataclass(frozen=True)
class Group:
    """Runs that are one curve, one row, one point."""

    name: str
    parts: Mapping[str, Any]
    """The keys that tell it from the others, with its values; there may be none."""
    results: tuple[Result, ...]

    @property
    def label(self) -> str:
        """What it is called where it stands alone."""
        return label_of(self.parts) if self.parts else self.name

    @cached_property
    def strata(self) -> list[list[Result]]:
        """Its results, those of one experiment together: each experiment's runs are resampled by themselves."""
        by_experiment: dict[str, list[Result]] = {}
        for result in self.results:
            by_experiment.setdefault(result.experiment, []).append(result)
        return list(by_experiment.values())

    @cached_property
    def steps(self) -> np.ndarray:
        """Every step at which one of its runs has a value, in order."""
        return np.unique(np.concatenate([result.steps for result in self.results]))

    def curves(self) -> list[np.ndarray]:
        """For each experiment the values [step seed] at `steps`: NaN where a run has none, nothing stretched."""
        return [np.concatenate([self._at_steps(result) for result in stratum], axis=1) for stratum in self.strata]

    def ends(self, over: str, goal: str = "maximize") -> list[np.ndarray]:
        """For each experiment every seed's number."""
        return [np.concatenate([result.ends(over, goal) for result in stratum]) for stratum in self.strata]

    def _at_steps(self, result: Result) -> np.ndarray:
        placed = np.full((len(self.steps), len(result.seeds)), np.nan)
        placed[np.searchsorted(self.steps, result.steps)] = result.values
        return placed


def found(paths: Iterable[str | Path]) -> list[Found]:
    """The run folders that paths mean: runs, sweeps, folders of them, or globs. Raises ConfigError where none is."""
    here: dict[Path, Found] = {}
    problems = []
    for path in paths:
        matches = [Path(path)] if Path(path).exists() else _matching(str(path))
        runs = [run for match in matches for run in _under(match)]
        if not runs:
            problems.append(Problem(_nothing_at(Path(path), matches), short(str(path))))
        for run in runs:
            here.setdefault(run.path.resolve(), run)
    if problems:
        raise ConfigError(problems)
    return list(here.values())


def read(run: Found, metric: str) -> Result:
    """One metric of a run folder, read line by line; a torn last line is left out.

    Raises ConfigError for a folder that cannot be read, a damaged line, or a metric that is not there.
    """
    shown = str(run.path)
    config = config_of(run.path)
    try:
        status = str(Run(run.path).status().get("status"))
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError([Problem(f"status.json cannot be read: {_told(error)}", shown)]) from error
    seeds = seeds_of(config)
    epochs, steps, rows = [], [], []
    for line in _lines(run.path / "metrics.jsonl", metric):
        if metric not in line:
            known = [name for name in line if name not in ("epoch", "step", "nonfinite")]
            hint = nearest(metric, known)
            raise ConfigError(
                [Problem(f"there is no metric {short(metric)!r}; possible: {listed(known)}.{hint}", shown)]
            )
        if line[metric] is not None:
            epochs.append(line["epoch"])
            steps.append(line["step"])
            rows.append(line[metric])
    values = np.array(rows, dtype=float).reshape(len(rows), len(seeds))
    return Result(
        path=run.path,
        config=config,
        parameters=run.parameters,
        status=status,
        seeds=seeds,
        epochs=np.array(epochs, dtype=int),
        steps=np.array(steps, dtype=int),
        values=values,
        notes=tuple(_notes(run, status, seeds, values)),
    )


def grouped(results: Sequence[Result], by: str | None = None) -> list[Group]:
    """Results by experiment, or by the value of a key: everything else is pooled. Labels tell what differs."""
    results = _without_doubles(results)
    if by is not None:
        return _by_values(results, [by])
    experiments: dict[str, list[Result]] = {}
    for result in results:
        experiments.setdefault(result.experiment, []).append(result)
    firsts = [members[0] for members in experiments.values()]
    parts = _parts(firsts)
    return [
        Group(str(members[0].config.get("name", members[0].path.name)), own, tuple(members))
        for own, members in zip(parts, experiments.values(), strict=True)
    ]


def grouped_by_two(results: Sequence[Result], first: str, second: str) -> list[Group]:
    """Results by the values of two keys: everything else is pooled."""
    return _by_values(_without_doubles(results), [first, second])


def _by_values(results: Sequence[Result], keys: Sequence[str]) -> list[Group]:
    for key in keys:
        _refuse_unknown_key(key, results)
    groups: dict[str, Group] = {}
    for result in results:
        parts = {key: result.config.get(key) for key in keys}
        label = label_of(parts)
        members = groups[label].results if label in groups else ()
        groups[label] = Group(label, parts, (*members, result))
    return list(groups.values())


def differing(results: Sequence[Result]) -> list[str]:
    """The keys in which the experiments differ, in the order of their configs."""
    keys = dict.fromkeys(key for result in results for key in result.config if key not in NOT_THE_EXPERIMENT)
    return [key for key in keys if any(result.config.get(key) != results[0].config.get(key) for result in results)]


def _parts(firsts: Sequence[Result]) -> list[Mapping[str, Any]]:
    """What tells experiments apart: swept keys; else their names, where each has its own; else what differs."""
    if all(first.parameters is not None for first in firsts):
        return [first.parameters or {} for first in firsts]
    names = [str(first.config.get("name")) for first in firsts]
    if len(set(names)) == len(names):
        return [{} for _ in firsts]
    keys = differing(firsts)
    return [{key: first.config.get(key) for key in keys} for first in firsts]


def _without_doubles(results: Sequence[Result]) -> list[Result]:
    """Each seed of an experiment once: two runs of one config and seed are the same run, not two."""
    seen: set[tuple[str, int]] = set()
    kept = []
    for result in results:
        fresh = [place for place, seed in enumerate(result.seeds) if (result.experiment, seed) not in seen]
        seen |= {(result.experiment, seed) for seed in result.seeds}
        if len(fresh) == len(result.seeds):
            kept.append(result)
        elif fresh:
            seeds = tuple(result.seeds[place] for place in fresh)
            kept.append(replace(result, seeds=seeds, values=result.values[:, fresh]))
    return kept


def _refuse_unknown_key(key: str, results: Sequence[Result]) -> None:
    known = list(dict.fromkeys(name for result in results for name in result.config))
    if key not in known:
        raise ConfigError(
            [Problem(f"came {short(key)!r}; possible: {listed(known, 60)}.{nearest(key, known)}", "--by")]
        )


def _matching(pattern: str) -> list[Path]:
    return [Path(name) for name in sorted(glob.glob(pattern))]  # noqa: PTH207 - Path.glob takes no absolute pattern


def _under(path: Path) -> list[Found]:
    if (path / "cells.jsonl").is_file():
        sweep = Sweep(path)
        return [Found(path / cell.folder, cell.parameters) for cell in sweep.cells if (path / cell.folder).is_dir()]
    if (path / "config.yaml").is_file():
        return [Found(path, _parameters_of_cell(path))]
    if path.is_dir():
        return [run for inner in sorted(path.iterdir()) if inner.is_dir() for run in _under(inner)]
    return []


def _parameters_of_cell(path: Path) -> Mapping[str, Any] | None:
    sweep = path.resolve().parents[1] if len(path.resolve().parents) > 1 else path
    if not (sweep / "cells.jsonl").is_file():
        return None
    return next((c.parameters for c in Sweep(sweep).cells if (sweep / c.folder) == path.resolve()), None)


def _nothing_at(path: Path, matches: Sequence[Path]) -> str:
    if not matches:
        return "there is no such folder, and no folder of that pattern"
    if not path.is_dir():
        return "is a file; name the run folder that it lies in"
    inside = [inner.name for inner in sorted(path.iterdir())][:5]
    return f"holds no run: there is {listed(inside) if inside else 'nothing'} in it"


def config_of(path: Path) -> Mapping[str, Any]:
    """The resolved config of a run folder. Raises ConfigError where there is none."""
    try:
        config = yaml12.read((path / "config.yaml").read_text(encoding="utf-8"), "config.yaml")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(f"is no run folder: config.yaml: {_told(error)}", str(path))]) from error
    if not isinstance(config, dict):
        raise ConfigError([Problem("is no run folder: config.yaml is no config", str(path))])
    return config


def seeds_of(config: Mapping[str, Any]) -> tuple[int, ...]:
    """The seeds of a run folder's config, in the order of its metrics."""
    seeds = config.get("seeds")
    if seeds is None:
        return (config.get("seed", 0),)
    return tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)


def _lines(path: Path, metric: str) -> Iterator[dict[str, Any]]:
    """The lines that can tell something new about a metric; of one that is the same all epoch, the epoch's first."""
    once = metric in ONCE_AN_EPOCH or metric.startswith("reward/")
    nothing = f'"{metric}":null'.encode() if metric in AT_ITS_END else None
    epoch = b""
    told = False
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return  # torn, or still being written
            begins = line[: line.find(b",")]
            if (once and begins == epoch) or (nothing is not None and told and nothing in line):
                continue
            epoch, told = begins, True
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise ConfigError([Problem(f"damaged: {error}", str(path), number)]) from error


def _notes(run: Found, status: str, seeds: Sequence[int], values: np.ndarray) -> Iterator[str]:
    name = run.path.name
    if status != "completed":
        yield f"{name} is {status}: it has {len(values)} points"
    elif len(values) == 0:
        yield f"{name} has no value of this metric"
    else:
        gone = [seed for place, seed in enumerate(seeds) if np.isnan(values[-1, place])]
        if gone:
            yield f"{name}: seed {listed(gone, 5)} ended early"


def _told(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) else brief(str(error))
