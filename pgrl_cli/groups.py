"""Results put together into what is one curve, one row, one point, and named by what tells it from the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pgrl_cli.config.problems import ConfigError, Problem, listed, nearest, short
from pgrl_cli.config.sweep_spec import label_of
from pgrl_cli.results import AT_ITS_END, NOT_THE_EXPERIMENT, Result

OF_THE_PROMPTS = (
    "task",
    "prompts",
    "prompt_count",
    "prompt_length",
    "shortest_prompt",
    "vocab_size",
    "digits",
    "fixed_width",
    "reversed_answer",
    "numbers",
    "largest",
    "scratchpad",
    "prompts_seed",
    "held_out_count",
)
"""Keys that say what is to be answered."""


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
        """Its results, those of one experiment together: each experiment's runs are resampled by themselves.

        Experiments of a single run each, which say nothing of their spread alone, are one stratum together; where there
        is only one such, it joins the smallest of the others.
        """
        by_experiment: dict[str, list[Result]] = {}
        for result in self.results:
            by_experiment.setdefault(result.experiment, []).append(result)
        strata = sorted(by_experiment.values(), key=lambda stratum: -sum(len(result.seeds) for result in stratum))
        singles = [result for stratum in strata for result in stratum if len(stratum) == len(result.seeds) == 1]
        several = [stratum for stratum in strata if len(stratum) > 1 or len(stratum[0].seeds) > 1]
        if len(singles) == 1 and several:
            several[-1] = several[-1] + singles
            return several
        return [*several, singles] if singles else several

    @cached_property
    def steps(self) -> np.ndarray:
        """Every step at which one of its runs has a value, in order."""
        return np.unique(np.concatenate([result.steps for result in self.results]))

    @property
    def failed(self) -> list[int]:
        """The seeds that failed, of all its experiments."""
        return sorted(seed for result in self.results for seed in result.failed)

    @property
    def unfinished(self) -> int:
        """Runs that are not at their end."""
        return sum(len(result.seeds) for result in self.results if not result.finished)

    def curves(self) -> list[np.ndarray]:
        """For each experiment the values [step seed] at `steps`: NaN where a run has none, nothing stretched."""
        return [np.concatenate([_at(self.steps, result) for result in stratum], axis=1) for stratum in self.strata]

    def ends(self, over: str, goal: str = "maximize") -> list[np.ndarray]:
        """For each experiment every seed's number."""
        return [np.concatenate([result.ends(over, goal) for result in stratum]) for stratum in self.strata]


def distinct(results: Sequence[Result]) -> tuple[list[Result], list[str]]:
    """Each seed of an experiment once, and a note: two runs of one config and seed are the same run, not two.

    Of doubles the one that went furthest is kept.
    """
    best: dict[tuple[str, int], int] = {}
    for index, result in enumerate(results):
        for seed in result.seeds:
            kept = best.setdefault((result.experiment, seed), index)
            if len(results[kept].steps) < len(result.steps):
                best[result.experiment, seed] = index
    chosen = []
    for index, result in enumerate(results):
        places = [place for place, seed in enumerate(result.seeds) if best[result.experiment, seed] == index]
        if len(places) == len(result.seeds):
            chosen.append(result)
        elif places:
            seeds = tuple(result.seeds[place] for place in places)
            failed = tuple(seed for seed in result.failed if seed in seeds)
            chosen.append(replace(result, seeds=seeds, failed=failed, values=result.values[:, places]))
    doubles = sum(len(result.seeds) for result in results) - len(best)
    note = f"{doubles} run{'s repeat' if doubles > 1 else ' repeats'} a seed of the same config: each seed counts once"
    return chosen, [note] if doubles else []


def grouped(results: Sequence[Result], by: Sequence[str] = ()) -> list[Group]:
    """Results by experiment, or by the values of keys: everything else is pooled, and a key that is missing is null.

    Raises ConfigError for a key that no config has.
    """
    if by:
        return _by_values(results, by)
    experiments: dict[str, list[Result]] = {}
    for result in results:
        experiments.setdefault(result.experiment, []).append(result)
    return [
        Group(str(members[0].config.get("name", members[0].path.name)), parts, tuple(members))
        for parts, members in zip(
            _parts([members[0] for members in experiments.values()]), experiments.values(), strict=True
        )
    ]


def differing(results: Sequence[Result]) -> list[str]:
    """The keys in which the experiments differ, in the order of their configs."""
    keys = dict.fromkeys(key for result in results for key in result.config if key not in NOT_THE_EXPERIMENT)
    return [key for key in keys if any(result.config.get(key) != results[0].config.get(key) for result in results)]


def telling(results: Sequence[Result]) -> list[str]:
    """The keys that tell results apart: of a sweep's cells the swept ones that differ, of others all that differ.

    A knob that a swept word leaves nothing to turn is missing in some cells, and is no key of its own.
    """
    sweeps = {result.path.absolute().parents[1] for result in results if result.parameters is not None}
    if len(sweeps) == 1 and all(result.parameters is not None for result in results):
        swept = [result.parameters or {} for result in results]
        keys = dict.fromkeys(key for parameters in swept for key in parameters)
        if differ := [key for key in keys if any(each.get(key) != swept[0].get(key) for each in swept)]:
            return differ
    return differing(results)


def measured_by(metric: str) -> tuple[str, ...]:
    """The keys that say what a metric measures: where they differ its values are not on one scale."""
    if metric in AT_ITS_END or metric.startswith("reward/"):
        return OF_THE_PROMPTS
    shaping = ("reward_scale", "reward_shift") if metric == "shaped_reward" else ()
    return ("reward_fn", *OF_THE_PROMPTS, *shaping) if metric in ("mean_reward", "shaped_reward") else ()


def _by_values(results: Sequence[Result], keys: Sequence[str]) -> list[Group]:
    known = list(dict.fromkeys(name for result in results for name in [*result.config, *(result.parameters or ())]))
    if twice := [key for index, key in enumerate(keys) if key in keys[:index]]:
        raise ConfigError([Problem(f"{short(twice[0])} came twice; name each key once", "--by")])
    wrong = [key for key in keys if key not in known]
    if wrong:
        told = [f"came {short(key)!r}; possible: {listed(known, 60)}.{nearest(key, known)}" for key in wrong]
        raise ConfigError([Problem(each, "--by") for each in told])
    groups: dict[str, Group] = {}
    for result in results:
        parts = {key: _value(result, key) for key in keys}
        label = label_of(parts)
        members = groups[label].results if label in groups else ()
        groups[label] = Group(label, parts, (*members, result))
    return list(groups.values())


def _value(result: Result, key: str) -> Any:
    """What a config says under a key, or a sweep under a part of one: reward_fn.points."""
    return (result.parameters or {}).get(key) if "." in key else result.config.get(key)


def _parts(firsts: Sequence[Result]) -> list[Mapping[str, Any]]:
    """What tells experiments apart: swept keys; else their names, where each has its own; else what differs."""
    swept = [first.parameters for first in firsts if first.parameters is not None]
    if len(swept) == len(firsts) and len({label_of(parameters) for parameters in swept}) == len(firsts):
        return swept
    names = [str(first.config.get("name")) for first in firsts]
    if len(set(names)) == len(names):
        return [{} for _ in firsts]
    keys = differing(firsts)
    return [{key: first.config.get(key) for key in keys} for first in firsts]


def _at(steps: np.ndarray, result: Result) -> np.ndarray:
    """The values [step seed] at some steps; one that holds all epoch is the same up to the next."""
    placed = np.full((len(steps), len(result.seeds)), np.nan)
    if result.held and len(result.steps) > 1:
        latest = np.searchsorted(result.steps, steps, side="right") - 1
        length = result.steps[-1] - result.steps[-2]  # of the last epoch, as of the one before
        covered = (latest >= 0) & (steps < result.steps[-1] + length)
        placed[covered] = result.values[latest[covered]]
    else:
        placed[np.searchsorted(steps, result.steps)] = result.values
    return placed
