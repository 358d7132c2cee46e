"""Whether one experiment is better than another, on the seeds that both have, in numbers and in a sentence."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.problems import ConfigError, Problem, listed
from pgrl_cli.config.sweep_spec import told as value_told
from pgrl_cli.groups import differing, measured_by, telling
from pgrl_cli.results import AT_ITS_END, Result
from pgrl_cli.statistics import FEW, or_none

MORE_IS_BETTER = ("mean_reward", "shaped_reward", *AT_ITS_END)
"""And the components of a reward; of other metrics it is only said which is higher."""


@dataclass(frozen=True)
class Compared:
    """Two experiments on their common seeds."""

    a: str
    b: str
    metric: str
    over: str
    goal: str
    """Whether the best epoch is the highest or the lowest."""
    numbers: statistics.Comparison
    common: tuple[int, ...]
    apart: tuple[int, ...]
    """Seeds that only one of them has."""
    mean_a: float
    """Over the pairs that are compared."""
    mean_b: float
    failed: tuple[int, ...]
    """Seeds that failed on a side, and are left out."""
    unmeasured: tuple[int, ...]
    """Seeds that did not fail and have no number on a side; they are left out as well."""
    differ: Mapping[str, tuple[Any, Any]]
    """The keys in which the two differ, with the values of A and of B."""

    def sentence(self) -> str:
        """The answer, in words."""
        n = self.numbers
        if n.n == 0:
            return f"No seed has a value of {self.metric} on both sides, so nothing can be said."
        difference = self._apart()
        if n.n == 1:
            return f"B {difference}, on 1 seed: that says next to nothing."
        if n.ties == n.n:
            return f"No difference: all {n.n} seeds are level."
        turned = (n.low, n.high) if n.difference >= 0 else (-n.high, -n.low)
        interval = "[{}, {}]".format(*(_rounded(edge, self._digits) for edge in turned))
        told = f"B {difference} {interval}, {self._share()}."
        if n.low <= 0 <= n.high:
            told = f"No clear difference: {told}"
        return told + (f" {n.n} seeds are few." if n.n < FEW else "")

    def as_json(self) -> dict[str, Any]:
        """Everything, with what is no number as None."""
        facts = {"a": self.a, "b": self.b, "metric": self.metric, "over": self.over, "goal": self.goal}
        told = {"mean_a": self.mean_a, "mean_b": self.mean_b} | asdict(self.numbers)
        numbers = {name: _told(value) for name, value in told.items()}
        differ = {key: {"a": a, "b": b} for key, (a, b) in self.differ.items()}
        return facts | numbers | {"seeds": list(self.common), "differ": differ, "sentence": self.sentence()}

    def notes(self) -> Iterator[str]:
        """What a reader of the sentence has to know: who is left out, and in what else the two differ."""
        if self.apart:
            yield f"not on both sides, and left out: seed {listed(self.apart, 10)}"
        if self.failed:
            yield f"ended early on a side, and left out: seed {listed(self.failed, 10)}"
        if self.unmeasured:
            why = f"no finite number of {self.metric} on a side"
            yield f"{why}, and left out: seed {listed(self.unmeasured, 10)}"
        scale = {key: self.differ[key] for key in measured_by(self.metric) if key in self.differ}
        if scale:
            yield f"A and B differ in {_both(scale)}: their {self.metric} is not on one scale"
        length = {key: self.differ[key] for key in ("epochs", "steps_per_epoch") if key in self.differ}
        if length:
            yield f"A and B differ in {_both(length)}: they did not end after equally many steps"

    @property
    def _digits(self) -> int:
        """After the point: two that tell, of the interval's width."""
        width = self.numbers.high - self.numbers.low
        scale = width if width > 0 else abs(self.numbers.difference)  # also where the width is no number
        return min(max(2, 1 - math.floor(math.log10(scale))), 12) if scale > 0 else 2

    def _apart(self) -> str:
        verb = {"all_epochs": "is, over all epochs,", "best_epoch": "is, at its best,"}.get(self.over, "ends")
        difference = self.numbers.difference
        return f"{verb} {abs(difference):.{self._digits}f} {'higher' if difference >= 0 else 'lower'}"

    def _share(self) -> str:
        n = self.numbers
        rising = self.goal == "maximize" and more_is_better(self.metric)
        good, bad = ("better", "worse") if rising else ("higher", "lower")
        if n.ties:
            worse = n.n - n.better - n.ties
            return f"{good} in {n.better} of {n.n} seeds, {bad} in {worse}, equal to the last bit in {n.ties}"
        return f"{good} in {_percent(n.probability_of_improvement)} of {n.n} seeds"


def more_is_better(metric: str) -> bool:
    """Whether higher is better, as it is of rewards; of other metrics that is not known here."""
    return metric in MORE_IS_BETTER or metric.startswith("reward/")


def compared(
    a: Sequence[Result],
    b: Sequence[Result],
    metric: str,
    over: str,
    names: tuple[str, str],
    *,
    goal: str = "maximize",
) -> Compared:
    """Two experiments, paired over their common seeds. Raises ConfigError where there is none, or several a side."""
    ends_a, ends_b = _by_seed(a, over, goal, names[0]), _by_seed(b, over, goal, names[1])
    common = sorted(ends_a.keys() & ends_b.keys())
    if not common:
        has = f"A has {listed(sorted(ends_a), 5)}; B has {listed(sorted(ends_b), 5)}"
        fix = "Train both with the same seeds, such as seeds=32; or see them side by side, unpaired, with"
        told = f"no seed in common: {has}. {fix} `pgrl plot --kind final {names[0]} {names[1]}`"
        raise ConfigError([Problem(told, "compare")])
    first, second = (np.array([ends[seed] for seed in common]) for ends in (ends_a, ends_b))
    both = ~np.isnan(first) & ~np.isnan(second)
    failed = {seed for result in (*a, *b) for seed in result.failed}
    left_out = [seed for seed, there in zip(common, both, strict=True) if not there]
    keys = differing([a[0], b[0]])
    return Compared(
        a=names[0],
        b=names[1],
        metric=metric,
        over=over,
        goal=goal,
        numbers=statistics.paired(first, second),
        common=tuple(common),
        apart=tuple(sorted(ends_a.keys() ^ ends_b.keys())),
        mean_a=float(statistics.mean(first[both])),
        mean_b=float(statistics.mean(second[both])),
        failed=tuple(seed for seed in left_out if seed in failed),
        unmeasured=tuple(seed for seed in left_out if seed not in failed),
        differ={key: (a[0].config.get(key), b[0].config.get(key)) for key in keys},
    )


def _by_seed(results: Sequence[Result], over: str, goal: str, name: str) -> dict[int, float]:
    experiments = {result.experiment for result in results}
    if len(experiments) > 1:
        keys = listed(telling(results), 5)
        told = f"holds {len(experiments)} experiments, which differ in {keys}; name one, such as a cell's folder"
        raise ConfigError([Problem(told, name)])
    ends = [(result.seeds, result.ends(over, goal)) for result in results]
    return {seed: float(value) for seeds, values in ends for seed, value in zip(seeds, values, strict=True)}


def _both(values: Mapping[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key} ({value_told(a)} and {value_told(b)})" for key, (a, b) in values.items())


def _rounded(value: float, digits: int) -> str:
    """A number with so many digits after the point; no zero has a sign."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _percent(share: float) -> str:
    """A share in whole percent; 100 and 0 are said of all and of none alone."""
    rounded = round(100 * share)
    return f"{min(max(rounded, 1 if share > 0 else 0), 100 if share == 1 else 99)} %"


def _told(value: Any) -> Any:
    """A number, or a pair of them; what is none as None."""
    return [or_none(each) for each in value] if isinstance(value, tuple) else or_none(value)
