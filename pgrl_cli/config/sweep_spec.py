"""Reading a sweep: from its file, or a plain config, and the command line to a `Spec`; all mistakes are told at once.

sweep_words    the sweep's own keys, its metric        sweep_typed    the command line, split at its commas
sweep_values   lists and distributions, laid out       sweep_keys     swept keys put together and checked
sweep_cells    Spec, Cell and their layers             sweep_texts    labels, folders' names, differences
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pgrl_cli.config import yaml12
from pgrl_cli.config.files import is_file
from pgrl_cli.config.kinds import misfit
from pgrl_cli.config.layers import Entry, Layers, layers_of, layers_of_base, read_file
from pgrl_cli.config.other_words import OTHER_WORDS
from pgrl_cli.config.problems import ConfigError, Problem, nearest, short
from pgrl_cli.config.schema import KEYS
from pgrl_cli.config.shipped import find
from pgrl_cli.config.sweep_cells import Cell, Spec
from pgrl_cli.config.sweep_keys import SweptKeys
from pgrl_cli.config.sweep_texts import differences, folder_name, label_of, plain, told
from pgrl_cli.config.sweep_typed import Typed, typed
from pgrl_cli.config.sweep_values import Swept
from pgrl_cli.config.sweep_words import (
    OTHER_SWEEP_WORDS,
    OWN_KEYS,
    SPEC_KEYS,
    TELLING,
    Metric,
    meant,
    metric_of,
    wrong_with_metric,
)
from pgrl_cli.secrecy import holds_secret

__all__ = ["Cell", "Metric", "Spec", "differences", "folder_name", "label_of", "read_sweep", "told"]

MOST_HINTS = 50
"""Unknown keys that a nearest name is looked for."""


def read_sweep(config: str, overrides: Sequence[str] = (), beside: Path | None = None) -> Spec:
    """The sweep that a file (a path or a shipped name; a sweep's, or a plain config) and the command line ask for.

    Raises ConfigError with all that is wrong with the sweep itself; its cells are checked when they are resolved.
    """
    here = Path.cwd() if beside is None else beside
    path = find(config, here)
    shown = config if is_file(here / config) else str(path)
    written, problems = read_file(path, shown)
    line = typed(overrides, here)
    unknown = [key for key in written if key not in KEYS][:MOST_HINTS]
    if any(key in TELLING or meant(key) in TELLING for key in unknown):
        entries = {key: Entry(value, shown, written.lines[key], path.parent) for key, value in written.items()}
        return _Reading(shown, path, entries, line, problems=problems).spec(overrides)
    below = layers_of(config, (), here)
    entries = {key: entry for layer in below.layers for key, entry in layer.items() if key == "name"}
    return _Reading(shown, path, entries, line, plain_config=below).spec(overrides)


@dataclass
class _Reading:
    """A sweep on its way: what was written, and what is wrong with it."""

    shown: str
    path: Path
    entries: dict[str, Entry]
    """What the file says; the command line's are laid over the sweep's own keys."""
    typed: Typed
    plain_config: Layers | None = None
    """What is swept over, where the file is no sweep's."""
    problems: list[Problem] = field(default_factory=list)

    def spec(self, overrides: Sequence[str]) -> Spec:
        """The sweep. Raises ConfigError with all problems."""
        self.problems += self.typed.problems
        self.lay_over()
        single = self.single_values()
        metric = self.metric()
        fixed = self.fixed()
        base, below = self.base()
        written: Swept = {}
        swept: list[dict[str, Entry]] = []
        notes: list[str] = []
        if "method" in single:
            keys = SweptKeys(single["method"], self.shown, self.entries, self.typed, notes)
            written = keys.written()
            if not self.problems and not keys.problems:
                swept = keys.laid_out(written, single["samples"] or 0, single["sampling_seed"])
            self.problems += keys.problems
        if self.problems:
            raise ConfigError(sorted(dict.fromkeys([*self.problems, *below.problems]), key=self.rank))
        return Spec(
            name=single["name"],
            file=self.shown,
            base=base,
            below=below,
            method=single["method"],
            written=written,
            swept=swept,
            samples=single["samples"],
            sampling_seed=single["sampling_seed"],
            metric=metric,
            launcher=single["launcher"],
            fixed={key: entry for key, entry in fixed.items() if key not in self.typed.lists},
            typed=self.typed.fixed,
            notes=tuple(notes),
            overrides=tuple(overrides),
        )

    def rank(self, problem: Problem) -> tuple[bool, str, int]:
        """Where a problem is told: line by line, the sweep's file before those it builds on, the command line last."""
        return problem.line is None, problem.file if problem.file != self.shown else "", problem.line or 0

    def lay_over(self) -> None:
        """Lay the command line over the sweep's own keys, whole ones before parts of the metric."""
        for key, entry in sorted(self.typed.own.items(), key=lambda item: "." in item[0]):
            head, dot, rest = key.partition(".")
            if not dot:
                self.entries[key] = entry
                continue
            whole = self.entries.get(head, replace(entry, value={}))
            if isinstance(whole.value, str):
                whole = replace(whole, value={"name": whole.value})
            if isinstance(whole.value, dict):  # else that is told
                self.entries[head] = whole.with_part(rest, entry)

    def single_values(self) -> dict[str, Any]:
        """The keys that hold one value; those that are wrong are left out."""
        values = {key: default for key, (_, default) in SPEC_KEYS.items()}
        values["name"] = self.path.stem.encode(errors="replace").decode()[:100]
        for key, (annotation, _) in SPEC_KEYS.items():
            if (entry := self.entries.get(key)) is None:
                continue
            values[key] = entry.value
            if wrong := misfit(annotation, entry.value):
                words = annotation.__args__ if key in ("method", "launcher") else ()
                hint = nearest(entry.value, words) if isinstance(entry.value, str) else ""
                self.problems.append(entry.problem(f"{key}: {wrong}{hint and '.'}{hint}"))
                del values[key]
            elif key == "name" and holds_secret(entry.value):
                told_why = "name: it looks as if there is a secret in it, and names are written down; leave it out"
                self.problems.append(entry.problem(told_why))
        if "method" in values:
            self.check_samples(values["method"])
        return values

    def check_samples(self, method: str) -> None:
        if method == "random" and "samples" not in self.entries:
            lack = "method: random needs the number of cells to draw, such as samples: 40"
            self.problems.append(self.entries["method"].problem(lack))
        for key in ("samples", "sampling_seed"):
            if key in self.entries and method != "random":
                fix = f"write method: random, or leave {key} out"
                self.problems.append(self.entries[key].problem(f"{key} turns nothing here: method is {method}; {fix}"))

    def metric(self) -> Metric:
        if (entry := self.entries.get("metric")) is None:
            return Metric()
        for key, message in wrong_with_metric(entry.value):
            inside = isinstance(entry.value, dict) and key in entry.value
            self.problems.append((entry.part(str(key)) if inside else entry).problem(message))
        return metric_of(entry.value)[0]

    def fixed(self) -> dict[str, Entry]:
        """The keys of a config that the file sets for all cells; whether they are known, the resolution says."""
        fixed = {key: entry for key, entry in self.entries.items() if key not in OWN_KEYS}
        for key in [key for key in fixed if key not in KEYS][:MOST_HINTS]:
            if known := meant(key):
                other = f": here it is spelled {known!r}"
                hint = other if key in OTHER_SWEEP_WORDS else f". Did you mean {known!r}?"
                self.problems.append(fixed.pop(key).problem(f"unknown key {short(key)!r}{hint}"))
        for key in [key for key in fixed if "." in key and key not in OTHER_WORDS]:
            head, _, rest = key.partition(".")
            message = f"unknown key {short(key)!r}: write {short(head)}: {{{short(rest)}: …}}"
            self.problems.append(fixed.pop(key).problem(message))
        return fixed

    def base(self) -> tuple[Any, Layers]:
        """What the sweep varies: as written, and its layers."""
        if self.plain_config is not None:
            return self.shown, self.plain_config
        if (entry := self.entries.get("base")) is None:
            lack = "base: is missing; name the config that the sweep varies, such as base: lecture/centered_naive"
            self.problems.append(Problem(lack, self.shown))
            return None, Layers(self.path.stem, self.shown)
        layers = _layers_below(entry, self.path.stem)
        if not layers.layers:
            self.problems += layers.problems
        for layer in layers.layers:
            for key in layer.keys() & {*TELLING}:
                where = f"{layer[key].file}:{layer[key].line}"
                message = f"base: has the key {key!r} of a sweep ({where}); a sweep builds on a plain config"
                self.problems.append(entry.problem(message))
        return plain(entry.value), layers


def _layers_below(base: Entry, name: str) -> Layers:
    """The layers of a base, which may be a map in which there is another map under `base`, as in sweep.yaml."""
    inner = base.value.get("base") if isinstance(base.value, yaml12.Map) else None
    if not isinstance(inner, yaml12.Map):
        return layers_of_base(base, name)
    outer = yaml12.Map()
    outer.update({key: value for key, value in base.value.items() if key != "base"})
    outer.lines = base.value.lines
    below, own = _layers_below(base.part("base"), name), layers_of_base(replace(base, value=outer), name)
    return Layers(name, base.file, [*below.layers, *own.layers], problems=[*below.problems, *own.problems])
