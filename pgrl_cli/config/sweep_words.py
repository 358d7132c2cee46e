"""The words of a sweep: its keys checked, the values of its parameters laid out cell by cell."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from pgrl_cli import draws
from pgrl_cli.config.kinds import told
from pgrl_cli.config.problems import brief, listed, nearest, short
from pgrl_cli.registry import Seed

METHODS = ("grid", "zip", "list", "random")
LAUNCHERS = ("stacked", "processes", "ray")
Samples = Annotated[int, Ge(1), Le(100_000)]
SPEC_KEYS: Mapping[str, Any] = {
    "method": Literal["grid", "zip", "list", "random"],
    "samples": Samples,
    "sampling_seed": Seed,
    "launcher": Literal["stacked", "processes", "ray"],
}
"""Keys of a sweep that hold one value; `parameters`, `metric`, `base` and `name` come beside them."""
MOST_CELLS = 100_000
DISTRIBUTIONS = {
    "uniform": ("min", "max"),
    "log_uniform": ("min", "max"),
    "integers": ("min", "max"),
    "choice": ("values",),
}
DIGITS = 6
"""Significant digits of a drawn number: labels and configs stay readable."""
OVER = re.compile(r"last_([1-9][0-9]{0,8})_epochs|all_epochs|best_epoch")


@dataclass(frozen=True)
class Metric:
    """What cells are judged by."""

    name: str = "mean_reward"
    over: str = "last_10_epochs"
    """last_N_epochs, all_epochs or best_epoch."""
    goal: str = "maximize"


def metric_of(written: Any) -> tuple[Metric, list[str]]:
    """The metric that a name or a map {name, over, goal} asks for, and what is wrong with it."""
    if isinstance(written, str):
        written = {"name": written}
    if not isinstance(written, dict):
        return Metric(), [f"metric: came {told(written)}; write a name, or {{name: …, over: …, goal: …}}"]
    wrong = [
        f"metric: unknown key {short(str(key))!r}.{nearest(str(key), METRIC_KEYS)}"
        for key in written
        if key not in METRIC_KEYS
    ]
    values = {"name": "mean_reward", "over": "last_10_epochs", "goal": "maximize"} | written
    if not isinstance(values["name"], str) or not values["name"]:
        wrong.append(f"metric: name: came {told(values['name'])}; expected the name of a metric, such as mean_reward")
    if not isinstance(values["over"], str) or not OVER.fullmatch(values["over"]):
        wrong.append(
            f"metric: over: came {told(values['over'])}; possible: last_10_epochs (any number), all_epochs, best_epoch"
        )
    if values["goal"] not in ("maximize", "minimize"):
        wrong.append(f"metric: goal: came {told(values['goal'])}; possible: maximize, minimize")
    return (Metric() if wrong else Metric(values["name"], values["over"], values["goal"])), wrong


METRIC_KEYS = ("name", "over", "goal")


def laid_out(method: str, parameters: Any, samples: int | None, sampling_seed: int) -> Iterator[dict[str, Any]]:
    """The values of each cell by key, in the order of the sweep: of a grid the last key turns fastest."""
    if method == "list":
        yield from (dict(cell) for cell in parameters)
    elif method == "zip":
        yield from (dict(zip(parameters, values, strict=True)) for values in zip(*parameters.values(), strict=True))
    elif method == "random":
        for index in range(samples or 0):
            yield {key: _drawn(key, values, sampling_seed, index) for key, values in parameters.items()}
    else:
        yield from (dict(zip(parameters, values, strict=True)) for values in product(*parameters.values()))


def wrong_with(method: str, parameters: Any, samples: int | None) -> Iterator[tuple[str | None, str]]:
    """What is wrong with the parameters: the key, where it is about one, and the words."""
    if method == "list":
        yield from _wrong_list(parameters)
        return
    if not isinstance(parameters, dict):
        yield None, f"parameters: came {told(parameters)}; write a map of keys to lists of values"
        return
    for key, values in parameters.items():
        yield from ((key, message) for message in _wrong_values(method, key, values))
    if method == "zip" and all(isinstance(values, list) for values in parameters.values()):
        lengths = {key: len(values) for key, values in parameters.items()}
        if len(set(lengths.values())) > 1:
            each = ", ".join(f"{key} {length}" for key, length in lengths.items())
            yield None, f"parameters: method zip pairs lists of one length; these have {each}"
    if method == "grid" and all(isinstance(values, list) for values in parameters.values()):
        cells = math.prod(len(values) for values in parameters.values())
        if cells > MOST_CELLS:
            yield None, f"parameters: {cells} cells are more than {MOST_CELLS}; use method: random with samples"
    if method == "random" and samples is None:
        yield None, "samples: method random needs a number of draws, such as samples: 40"


def _wrong_list(parameters: Any) -> Iterator[tuple[str | None, str]]:
    if not isinstance(parameters, list) or not parameters or not all(isinstance(cell, dict) for cell in parameters):
        yield None, "parameters: method list needs a list of maps, one for each cell: [{epochs: 50}, {epochs: 100}]"
        return
    for cell in parameters:
        for key in cell:
            if key in ("seed", "seeds"):
                yield None, SEEDS_ARE_APART.format(key)


def _wrong_values(method: str, key: str, values: Any) -> Iterator[str]:
    if key in ("seed", "seeds"):
        yield SEEDS_ARE_APART.format(key)
    elif method == "random" and isinstance(values, dict):
        yield from _wrong_distribution(key, values)
    elif not isinstance(values, list):
        where = "or {distribution: …}" if method == "random" else "or move it out of parameters"
        yield f"{key}: came {told(values)}; write a list of values, [{short(brief(values))}], {where}"
    elif not values:
        yield f"{key}: the list is empty, so there is no cell"
    elif method in ("grid", "random"):
        twice = [value for index, value in enumerate(values) if _same_in(value, values[:index])]
        if twice:
            yield f"{key}: {brief(twice[0])} came twice; the same value is the same cell"


SEEDS_ARE_APART = "{}: seeds are not swept; write seeds: beside parameters, and every cell has them all"


def _same_in(value: Any, others: Sequence[Any]) -> bool:
    return any(type(value) is type(other) and value == other for other in others[:1000])


def _wrong_distribution(key: str, values: Mapping[str, Any]) -> Iterator[str]:
    kind = values.get("distribution")
    if not isinstance(kind, str) or kind not in DISTRIBUTIONS:
        hint = nearest(kind, DISTRIBUTIONS) if isinstance(kind, str) else ""
        yield f"{key}: distribution: came {told(kind)}; possible: {listed(DISTRIBUTIONS)}.{hint}"
        return
    asked = DISTRIBUTIONS[kind]
    if set(values) - {"distribution"} != set(asked):
        yield f"{key}: {kind} needs {listed(asked)}; came {listed(set(values) - {'distribution'}) or 'nothing'}"
        return
    if kind == "choice":
        if not isinstance(values["values"], list) or not values["values"]:
            yield f"{key}: values: came {told(values['values'])}; write a list that is not empty"
        return
    low, high = values["min"], values["max"]
    kinds = (int,) if kind == "integers" else (int, float)
    for name, bound in (("min", low), ("max", high)):
        if isinstance(bound, bool) or not isinstance(bound, kinds) or not math.isfinite(bound):
            yield f"{key}: {name}: came {told(bound)}; expected {'a whole' if kind == 'integers' else 'a'} number"
            return
    if low >= high:
        yield f"{key}: min {brief(low)} is not below max {brief(high)}"
    elif kind == "log_uniform" and low <= 0:
        yield f"{key}: log_uniform needs min above 0; came {brief(low)}"


def _drawn(key: str, values: Any, seed: int, index: int) -> Any:
    """The value of one draw: more samples leave the first as they were, another key leaves the others'."""
    generator = draws.generator(seed, f"sweep {key}", index)
    if isinstance(values, list):
        return values[int(generator.integers(len(values)))]
    kind = values["distribution"]
    if kind == "choice":
        return values["values"][int(generator.integers(len(values["values"])))]
    low, high = values["min"], values["max"]
    if kind == "integers":
        return int(generator.integers(low, high, endpoint=True))
    uniform = generator.random()
    value = low * (high / low) ** uniform if kind == "log_uniform" else low + (high - low) * uniform
    return min(max(float(f"{value:.{DIGITS}g}"), low), high)
