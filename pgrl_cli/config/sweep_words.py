"""The words of a sweep: the keys it may have, how else they are spelled, and what its cells are judged by."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from pgrl_cli.config.kinds import told
from pgrl_cli.config.problems import LONGEST_WORD, listed, nearest, short
from pgrl_cli.config.schema import KEYS, Name
from pgrl_cli.registry import Seed

MOST_CELLS = 100_000
Samples = Annotated[int, Ge(1), Le(MOST_CELLS)]
SPEC_KEYS: Mapping[str, tuple[Any, Any]] = {
    "method": (Literal["grid", "zip", "list", "random"], "grid"),
    "samples": (Samples, None),
    "sampling_seed": (Seed, 0),
    "launcher": (Literal["stacked", "processes", "ray"], "stacked"),
    "name": (Name, None),
}
"""Keys of a sweep that hold one value: what that may be, and the default."""
TELLING = ("method", "parameters", "samples", "metric", "launcher")
"""Keys that tell a sweep's file from a config."""
OWN_KEYS = ("name", "base", "parameters", "metric", "method", "samples", "sampling_seed", "launcher")
"""Keys of a sweep that are no keys of its cells; `name` names both."""
OTHER_SWEEP_WORDS = {
    "params": "parameters",
    "sweep": "parameters",
    "grid": "parameters",
    "search_space": "parameters",
    "param_space": "parameters",
    "num_samples": "samples",
    "n_samples": "samples",
    "n_trials": "samples",
    "run_cap": "samples",
    "strategy": "method",
    "sampler": "method",
    "objective": "metric",
    "random_seed": "sampling_seed",
}
"""How other tools spell a key of a sweep -> how it is spelled here."""
METRIC_KEYS = ("name", "over", "goal")
OVER = re.compile(r"last_([1-9][0-9]{0,8})_epochs|all_epochs|best_epoch")
GOALS = ("maximize", "minimize")
MOST_TOLD = 20
"""Mistakes of one kind that are told."""


@dataclass(frozen=True)
class Metric:
    """What cells are judged by."""

    name: str = "mean_reward"
    over: str = "last_10_epochs"
    """last_N_epochs, all_epochs or best_epoch."""
    goal: str = "maximize"


def metric_of(written: Any) -> tuple[Metric, list[str]]:
    """The metric that a name or a map {name, over, goal} asks for, and what is wrong with it."""
    wrong = [message for _, message in wrong_with_metric(written)]
    given = {"name": written} if isinstance(written, str) else written
    return (Metric() if wrong else Metric(**given)), wrong


def wrong_with_metric(written: Any) -> Iterator[tuple[str | None, str]]:
    """What is wrong with a metric as it was written: the key in it, and the words."""
    if isinstance(written, str):
        written = {"name": written}
    if not isinstance(written, dict):
        yield None, f"metric: came {told(written)}; write a name, or {{name: …, over: …, goal: …}}"
        return
    for key in [key for key in written if key not in METRIC_KEYS][:MOST_TOLD]:
        hint = nearest(str(key), METRIC_KEYS)
        yield key, f"metric: unknown key {short(str(key))!r}; possible: {listed(METRIC_KEYS)}.{hint}"
    name, over, goal = (written.get(key, getattr(Metric, key)) for key in METRIC_KEYS)
    if not isinstance(name, str) or not name:
        yield "name", f"metric: name: came {told(name)}; expected the name of a metric, such as mean_reward"
    if not isinstance(over, str) or not OVER.fullmatch(over):
        possible = "last_10_epochs (or another number), all_epochs, best_epoch"
        yield "over", f"metric: over: came {told(over)}; possible: {possible}"
    if goal not in GOALS:
        hint = nearest(goal, GOALS) if isinstance(goal, str) else ""
        yield "goal", f"metric: goal: came {told(goal)}; possible: {listed(GOALS)}.{hint}"


def meant(key: str) -> str | None:
    """The key of a sweep that a key of no kind was probably meant to be."""
    if key in KEYS or len(key) > LONGEST_WORD:
        return None
    close = get_close_matches(key.lower().replace("-", "_"), OWN_KEYS, n=1, cutoff=0.8)
    return OTHER_SWEEP_WORDS.get(key) or next(iter(close), None)
