"""Whether one experiment is better than another, on the seeds that both have, in numbers and in a sentence."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.problems import ConfigError, Problem, listed
from pgrl_cli.groups import differing
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
        interval = "[{}, {}]".format(*(f"{edge:.{self._digits}f}" for edge in turned))
        told = f"B {difference} {interval}, {self._share()}."
        if n.low <= 0 <= n.high:
            told = f"No clear difference: {told}"
        return told + (f" {n.n} seeds are few." if n.n < FEW else "")

    def as_json(self) -> dict[str, Any]:
        """Everything, with what is no number as None."""
        facts = {"a": self.a, "b": self.b, "metric": self.metric, "over": self.over, "goal": self.goal}
        told = {"mean_a": self.mean_a, "mean_b": self.mean_b} | asdict(self.numbers)
        numbers = {name: _told(value) for name, value in told.items()}
        return facts | numbers | {"seeds": list(self.common), "sentence": self.sentence()}

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
        good = "better" if self.goal == "maximize" and more_is_better(self.metric) else "higher"
        level = f" ({n.ties} level, counted half)" if n.ties else ""
        return f"{good} in {_percent(n.probability_of_improvement)} of {n.n} seeds{level}"


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
    )


def _by_seed(results: Sequence[Result], over: str, goal: str, name: str) -> dict[int, float]:
    experiments = {result.experiment for result in results}
    if len(experiments) > 1:
        keys = listed(differing(results), 5)
        told = f"holds {len(experiments)} experiments, which differ in {keys}; name one, such as a cell's folder"
        raise ConfigError([Problem(told, name)])
    ends = [(result.seeds, result.ends(over, goal)) for result in results]
    return {seed: float(value) for seeds, values in ends for seed, value in zip(seeds, values, strict=True)}


def _percent(share: float) -> str:
    """A share in whole percent; 100 and 0 are said of all and of none alone."""
    rounded = round(100 * share)
    return f"{min(max(rounded, 1 if share > 0 else 0), 100 if share == 1 else 99)} %"


def _told(value: Any) -> Any:
    """A number, or a pair of them; what is none as None."""
    return [or_none(each) for each in value] if isinstance(value, tuple) else or_none(value)
