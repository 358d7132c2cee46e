"""The values of swept keys: what is wrong with them, and how they are laid out cell by cell.

Swept keys come as `Swept`: to each key the list (or the distribution) that was written for it; of method `list`, a map
of values for each cell.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from pgrl_cli import draws
from pgrl_cli.config import yaml12
from pgrl_cli.config.kinds import misfit
from pgrl_cli.config.kinds import told as told_kind
from pgrl_cli.config.layers import Entry
from pgrl_cli.config.problems import Problem, listed, nearest, short
from pgrl_cli.config.sweep_texts import label_of, sameness, told
from pgrl_cli.config.sweep_words import MOST_CELLS, MOST_TOLD, OWN_KEYS

Cells = Iterator[dict[str, Entry]]
Swept = Mapping[str, Entry] | Sequence[Mapping[str, Entry]]
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "uniform": ("min", "max"),
    "log_uniform": ("min", "max"),
    "integers": ("min", "max"),
    "choice": ("values",),
}
DIGITS = 6
"""Significant digits of a drawn number: labels and configs stay readable."""


def wrong_with_keys(keys: Mapping[str, Entry]) -> Iterator[Problem]:
    """Keys that no sweep can vary."""
    for key, entry in keys.items():
        if key in ("seed", "seeds"):
            seeds = entry.value if isinstance(entry.value, list) else [0, 3, 7]
            fix = f"write seeds: {short(', '.join(map(told, seeds)).join('[]'))} beside parameters"
            yield entry.problem(f"{short(key)}: seeds are not swept, since every cell has them all; {fix}")
        elif key in OWN_KEYS:
            yield entry.problem(f"{short(key)} is a key of the sweep itself, so it is not swept; leave it out here")


def wrong_with_values(method: str, swept: Mapping[str, Entry]) -> Iterator[Problem]:
    """What is wrong with the list or the distribution of each key."""
    for key, entry in swept.items():
        if method == "random" and isinstance(entry.value, dict):
            yield from _wrong_distribution(key, entry)
        else:
            yield from _wrong_list(method, key, entry)


def wrong_with_lengths(method: str, swept: Mapping[str, Entry]) -> str | None:
    """What is wrong with lists that are fine by themselves, taken together."""
    lengths = {key: len(entry.value) for key, entry in swept.items()}
    if method == "zip" and len(set(lengths.values())) > 1:
        each = ", ".join(f"{short(key)} has {length}" for key, length in list(lengths.items())[:20])
        return f"method zip goes through lists of one length side by side; {each}"
    cells = 0 if method == "random" else math.prod(lengths.values()) if method == "grid" else max(lengths.values())
    if cells > MOST_CELLS:
        told_cells = cells if cells < 10**30 else "very many"  # a text of so many digits helps nobody
        return f"{told_cells} cells are more than {MOST_CELLS}; leave values out, or draw: method: random, samples: 100"
    return None


def laid_out(method: str, swept: Swept, samples: int, sampling_seed: int) -> Cells:
    """The values of each cell by key, in the order of the sweep: of a grid the last key turns fastest."""
    if not isinstance(swept, Mapping):
        yield from map(dict, swept)
    elif method == "random":
        lists = {key: _elements(entry) if _is_list(entry) else None for key, entry in swept.items()}
        for index in range(samples):
            yield {key: _drawn(key, entry, lists[key], sampling_seed, index) for key, entry in swept.items()}
    else:
        lists_of = [_elements(entry) for entry in swept.values()]
        rows = zip(*lists_of, strict=True) if method == "zip" else product(*lists_of)
        yield from (dict(zip(swept, row, strict=True)) for row in rows)


def equal_cells(cells: Sequence[Mapping[str, Entry]]) -> Iterator[tuple[int, int]]:
    """Pairs of cells that are equal: where one stands, and where the earlier one."""
    seen: dict[Any, int] = {}
    for number, cell in enumerate(cells):
        earlier = seen.setdefault(sameness({key: entry.value for key, entry in cell.items()}), number)
        if earlier != number:
            yield number, earlier


def wrong_with_cells(cells: Sequence[Mapping[str, Entry]], place: Entry) -> Iterator[Problem]:
    """Cells that are equal to earlier ones, each told at its own line if it has one."""
    for number, earlier in list(equal_cells(cells))[:MOST_TOLD]:
        label = label_of({key: entry.value for key, entry in cells[number].items()})
        where = next(iter(cells[number].values()), place)
        yield where.problem(f"cells {earlier + 1} and {number + 1} are equal, {short(label)}; leave one out")


def _wrong_list(method: str, key: str, entry: Entry) -> Iterator[Problem]:
    values = entry.value
    if isinstance(values, dict) and "distribution" in values:
        yield entry.problem(
            f"{short(key)}: a distribution is for method: random, with samples; here method is {method}"
        )
    elif not isinstance(values, list):
        ways = "a list or {distribution: …}" if method == "random" else "a list"
        beside = "or move it beside parameters, where it holds for all cells"
        yield entry.problem(
            f"{short(key)}: came {told_kind(values)}; parameters takes {ways}: write [{told(values)}], {beside}"
        )
    elif not values:
        yield entry.problem(
            f"{short(key)}: the list is empty, so there would be no cell; give it values, or leave it out"
        )
    elif method != "zip":  # whose equal values may stand in unequal cells
        seen: dict[Any, int] = {}
        for number, value in enumerate(values):
            earlier = seen.setdefault(sameness(value), number)
            if earlier != number:
                both = f"values {earlier + 1} and {number + 1} are both {told(value)}"
                yield _element(entry, value).problem(f"{short(key)}: {both}, which is one cell twice; leave one out")
                return


def _wrong_distribution(key: str, entry: Entry) -> Iterator[Problem]:
    kind = entry.value.get("distribution")
    if not isinstance(kind, str) or kind not in DISTRIBUTIONS:
        place = entry.part("distribution") if "distribution" in entry.value else entry
        hint = nearest(kind, DISTRIBUTIONS) if isinstance(kind, str) else ""
        yield place.problem(
            f"{short(key)}: distribution: came {told_kind(kind)}; possible: {listed(DISTRIBUTIONS)}.{hint}"
        )
        return
    asked = DISTRIBUTIONS[kind]
    form = ", ".join([f"distribution: {kind}", *(f"{name}: …" for name in asked)])
    for name in [name for name in entry.value if name not in ("distribution", *asked)][:MOST_TOLD]:
        hint = nearest(name, asked) or f" Write {{{form}}}."
        yield entry.part(name).problem(f"{short(key)}: {kind} has no {short(name)!r}.{hint}")
    if missing := [name for name in asked if name not in entry.value]:
        yield entry.problem(f"{short(key)}: {kind} lacks {listed(missing)}; write {{{form}}}")
    elif kind == "choice":
        yield from _wrong_list("grid", key, entry.part("values"))
    else:
        yield from _wrong_bounds(key, kind, entry)


def _wrong_bounds(key: str, kind: str, entry: Entry) -> Iterator[Problem]:
    wrong = False
    for name in ("min", "max"):
        bound = entry.part(name)
        message = misfit(int if kind == "integers" else float, bound.value)
        if message is None and kind == "integers" and not -(2**63) <= bound.value < 2**63:
            message = f"came {told(bound.value)}; expected a whole number of 64 bits"
        if message is None and kind == "log_uniform" and name == "min" and bound.value <= 0:
            fix = "a logarithm needs it above 0: write a small number, such as 1e-5, or distribution: uniform"
            message = f"came {told(bound.value)}; {fix}"
        if message is not None:
            wrong = True
            yield bound.problem(f"{short(key)}: {name}: {message}")
    low, high = entry.value["min"], entry.value["max"]
    if not wrong and low >= high:
        fix = "exchange them" if low > high else f"write [{told(low)}] for one value"
        yield entry.part("min").problem(f"{short(key)}: min {told(low)} is not below max {told(high)}; {fix}")


def _drawn(key: str, entry: Entry, values: Sequence[Entry] | None, seed: int, index: int) -> Entry:
    """The value of one draw: more samples leave the first as they were, another key leaves the others'."""
    generator = draws.generator(seed, f"sweep {key}", index)
    if values is not None:
        return values[int(generator.integers(len(values)))]
    kind, low, high = (entry.value[name] for name in ("distribution", "min", "max"))
    if kind == "integers":
        return replace(entry, value=int(generator.integers(low, high, endpoint=True)))
    share = float(generator.random())
    if kind == "log_uniform":
        value = math.exp((1 - share) * math.log(low) + share * math.log(high))
    else:
        value = (1 - share) * low + share * high
    return replace(entry, value=min(max(float(f"{value:.{DIGITS}g}"), float(low)), float(high)))


def _is_list(entry: Entry) -> bool:
    return isinstance(entry.value, list) or entry.value["distribution"] == "choice"


def _elements(entry: Entry) -> list[Entry]:
    """The values of a list, or of a choice, each with its place."""
    if isinstance(entry.value, dict):
        entry = entry.part("values")
    return [_element(entry, value) for value in entry.value]


def _element(entry: Entry, value: Any) -> Entry:
    """A value of a list: a map knows its own line, anything else stands where the list does."""
    line = min(value.lines.values()) if isinstance(value, yaml12.Map) and value.lines else entry.line
    return replace(entry, value=value, line=line)
