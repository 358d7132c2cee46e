"""A sweep as it is written: a base, the keys that vary, and the values that all cells share.

Layers of a cell, each winning over those before: the base, the sweep's fixed values, its swept values, its swept words,
the command line. Words (and the numbers that decide whether others live) are above the rest, so that a swept knob is
dropped with a note in the cells in which a swept word leaves it nothing to turn.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pgrl_cli.config import yaml12
from pgrl_cli.config.kinds import misfit
from pgrl_cli.config.layers import COMMAND_LINE, KEY, Entry, Layers, layers_of_base, read_file
from pgrl_cli.config.problems import ConfigError, Problem, short
from pgrl_cli.config.schema import KEYS, LISTS
from pgrl_cli.config.shipped import find, is_file
from pgrl_cli.config.sweep_words import SPEC_KEYS, Metric, laid_out, metric_of, wrong_with

OWN_KEYS = ("name", "base", "parameters", "metric", *SPEC_KEYS)
"""Keys of a sweep that no cell has."""
TELLING = ("parameters", "metric", *SPEC_KEYS)
"""Keys that tell a sweep's file from a config."""
DECIDING = {
    *LISTS.values(),
    "kl_average",
    "kl_coefficient",
    "entropy_coefficient",
    "clip_low",
    "clip_high",
    "prompt_count",
}
"""Keys whose values decide whether others turn anything."""


@dataclass(frozen=True)
class Cell:
    """What one cell of a sweep says."""

    parameters: Mapping[str, Any]
    layers: Layers

    @property
    def label(self) -> str:
        """The swept keys with their values, readable."""
        return label_of(self.parameters)


@dataclass(frozen=True)
class Spec:
    """A sweep, read and checked; its cells' configs are not resolved yet."""

    name: str
    file: str
    base: Layers
    fixed: Mapping[str, Entry]
    """Keys of a config that all cells share."""
    method: str
    parameters: Any
    """As written: a map of lists or distributions; of method list, a list of maps."""
    places: Mapping[str, Entry]
    """Where the swept keys stand."""
    samples: int | None
    sampling_seed: int
    metric: Metric
    launcher: str
    typed: Mapping[str, Entry]
    """Keys of a config given on the command line."""
    notes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    def cells(self) -> Iterator[Cell]:
        """The cells in the sweep's order."""
        for values in laid_out(self.method, self.parameters, self.samples, self.sampling_seed):
            yield Cell(values, self._layers(values))

    def as_mapping(self) -> dict[str, Any]:
        """Everything that the sweep says, as sweep.yaml holds it."""
        base = {key: entry.value for layer in self.base.layers for key, entry in layer.items() if key != "name"}
        fixed = {key: entry.value for key, entry in (*self.fixed.items(), *self.typed.items())}
        drawn = {"samples": self.samples, "sampling_seed": self.sampling_seed} if self.method == "random" else {}
        metric = {"name": self.metric.name, "over": self.metric.over, "goal": self.metric.goal}
        return plain(
            {
                "name": self.name,
                "base": base,
                "method": self.method,
                **drawn,
                "parameters": self.parameters,
                **fixed,
                "metric": metric,
                "launcher": self.launcher,
            }
        )

    def _layers(self, values: Mapping[str, Any]) -> Layers:
        entries = {key: replace(self.places[key], value=value) for key, value in values.items()}
        knobs = {key: entry for key, entry in entries.items() if key not in DECIDING}
        words = {key: entry for key, entry in entries.items() if key in DECIDING}
        below = [{key: entry for key, entry in layer.items() if key != "name"} for layer in self.base.layers]
        layers = [*below, dict(self.fixed), knobs, words, dict(self.typed)]
        levelled = [{key: replace(e, level=level) for key, e in layer.items()} for level, layer in enumerate(layers)]
        return Layers(name=self.name, file=self.file, layers=levelled, problems=list(self.base.problems))


def read_sweep(config: str, overrides: Sequence[str] = (), beside: Path | None = None) -> Spec:
    """The sweep that a file (or a plain config) and the command line ask for.

    Raises ConfigError with all that is wrong with the sweep itself; its cells are checked when they are resolved.
    """
    here = Path.cwd() if beside is None else beside
    path = find(config, here)
    shown = config if is_file(here / config) else str(path)
    written, problems = read_file(path, shown)
    reading = _Reading(shown, path, here, list(problems))
    if not set(TELLING) & set(written):
        base = Entry(str(path.resolve()), shown, None, path.parent)
        written = yaml12.Map()
        reading.entries = {"base": base}
    else:
        reading.entries = {key: Entry(value, shown, written.lines[key], path.parent) for key, value in written.items()}
    reading.take(overrides)
    return reading.spec(overrides)


def label_of(parameters: Mapping[str, Any]) -> str:
    """Swept keys with their values: delta_mode=rewards,kl_coefficient=0.1."""
    return ",".join(f"{key}={told(value)}" for key, value in parameters.items()) or "all"


def folder_name(label: str, identity: str) -> str:
    """What a file system takes of a label, and an id: delta_mode=rewards,kl_coefficient=0.1-3fa9c1d2."""
    return f"{re.sub(r'[^A-Za-z0-9._=,+-]+', '-', label).strip('.-')[:80]}-{identity}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> list[str]:
    """In words, what differs between two sweeps as sweep.yaml holds them."""
    found = []
    for key in {**old, **new}:
        name = f"{above}{key}"
        if key not in new:
            found.append(f"{name} is gone (it was {told(old[key])})")
        elif key not in old:
            found.append(f"{name} is new ({told(new[key])})")
        elif isinstance(old[key], dict) and isinstance(new[key], dict):
            found += differences(old[key], new[key], f"{name}.")
        elif old[key] != new[key]:
            found.append(f"{name} was {told(old[key])}, and is {told(new[key])}")
    return found


def plain(value: Any) -> Any:
    """The value without the lines that it remembers."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def split(text: str) -> list[str]:
    """A text at its commas, but for those inside brackets, braces and quotes."""
    parts, depth, quote, begin = [], 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    return [*parts, text[begin:]]


@dataclass
class _Reading:
    shown: str
    path: Path
    here: Path
    problems: list[Problem]
    entries: dict[str, Entry] = field(default_factory=dict)
    typed: dict[str, Entry] = field(default_factory=dict)
    swept: dict[str, Entry] = field(default_factory=dict)
    """Keys that the command line sweeps."""
    notes: list[str] = field(default_factory=list)

    def take(self, overrides: Sequence[str]) -> None:
        """Take in the command line."""
        seen: set[str] = set()
        for override in overrides:
            shown = f"{COMMAND_LINE}: {short(override)}"
            key, equals, text = override.partition("=")
            if not equals or not KEY.fullmatch(key):
                self.problems.append(Problem("is not KEY=VALUE, such as epochs=50, or KEY=VALUE,VALUE", shown))
                continue
            if key in ("base", "parameters"):
                self.problems.append(Problem(f"{key} belongs in a file", shown))
                continue
            if key in seen:
                self.problems.append(Problem(f"{short(key)} is given twice", shown))
            seen.add(key)
            try:
                values = [yaml12.read(part, shown) for part in split(text)]
            except ConfigError as error:
                self.problems += [Problem(problem.message, shown) for problem in error.problems]
                continue
            self.place(key, values, Entry(values[0], shown, None, self.here))

    def place(self, key: str, values: list[Any], entry: Entry) -> None:
        head, _, rest = key.partition(".")
        if key in ("seed", "seeds") and len(values) > 1:
            listed_seeds = "[" + ", ".join(map(str, values)) + "]"
            self.problems.append(
                entry.problem(f"{key} is not swept; for these seeds in every cell: seeds='{listed_seeds}'")
            )
        elif head == "metric" and rest:
            before = self.entries.get("metric", replace(entry, value={})).value
            whole = {"name": before} if isinstance(before, str) else dict(before)
            self.entries["metric"] = replace(entry, value=whole | {rest: values[0]})
        elif key in OWN_KEYS:
            self.entries[key] = entry
        elif len(values) > 1:
            self.swept[key] = replace(entry, value=values)
        else:
            self.typed[key] = entry

    def spec(self, overrides: Sequence[str]) -> Spec:
        single = self.single_values()
        method = single["method"]
        parameters, places = self.parameters(method)
        metric = Metric()
        if "metric" in self.entries:
            metric, wrong = metric_of(self.entries["metric"].value)
            self.problems += [self.entries["metric"].problem(message) for message in wrong]
        name = self.name()
        base = self.base(name)
        fixed = {key: entry for key, entry in self.entries.items() if key not in OWN_KEYS}
        for key in [key for key in fixed if "." in key]:
            head, _, rest = key.partition(".")
            self.problems.append(fixed.pop(key).problem(f"unknown key {key!r}: write {head}: {{{rest}: …}}"))
        self.near_misses(fixed)
        if self.problems:
            raise ConfigError(self.problems)
        return Spec(
            name=name,
            file=self.shown,
            base=base,
            fixed=fixed,
            method=method,
            parameters=parameters,
            places=places,
            samples=single["samples"],
            sampling_seed=single["sampling_seed"],
            metric=metric,
            launcher=single["launcher"],
            typed=self.typed,
            notes=tuple(self.notes),
            overrides=tuple(overrides),
        )

    def single_values(self) -> dict[str, Any]:
        """The keys that hold one value, checked; defaults where none was given."""
        values: dict[str, Any] = {"method": "grid", "samples": None, "sampling_seed": 0, "launcher": "stacked"}
        for key, annotation in SPEC_KEYS.items():
            if key in self.entries:
                if problem := misfit(annotation, self.entries[key].value):
                    self.problems.append(self.entries[key].problem(f"{key}: {problem}"))
                else:
                    values[key] = self.entries[key].value
        for key in ("samples", "sampling_seed"):
            if key in self.entries and values["method"] != "random":
                message = f"{key} turns nothing here: method is {values['method']}, not random"
                self.problems.append(self.entries[key].problem(message))
        return values

    def parameters(self, method: str) -> tuple[Any, dict[str, Entry]]:
        """The swept keys with their values, and where they stand."""
        entry = self.entries.get("parameters")
        written = {} if entry is None else entry.value
        if self.swept and method != "grid":
            shown = next(iter(self.swept.values()))
            self.problems.append(shown.problem(f"a list of values makes a grid, but method is {method}"))
        if entry is not None:
            for key, message in wrong_with(method, written, self.samples_written()):
                place = entry.part(key) if key is not None else entry
                self.problems.append(place.problem(message))
        elif method in ("zip", "list", "random"):
            self.problems.append(Problem(f"parameters: method {method} needs some", self.shown))
        if self.problems:
            return {}, {}
        if method == "list":
            assert entry is not None
            return written, {key: self.part_of_cell(entry, cell, key) for cell in written for key in cell}
        places = {} if entry is None else {key: entry.part(key) for key in written}
        parameters = dict(written)
        for key in self.typed.keys() & parameters.keys():
            if method == "grid":
                del parameters[key]
                self.notes.append(f"{key} is fixed by the command line; its list in {self.shown} is not swept")
            else:
                self.problems.append(self.typed[key].problem(f"{key} is swept by method {method}; change the file"))
        for key, swept in self.swept.items():
            parameters[key], places[key] = swept.value, swept
        for key, message in wrong_with("grid", {key: entry.value for key, entry in self.swept.items()}, None):
            self.problems.append((self.swept[key] if key else next(iter(self.swept.values()))).problem(message))
        return parameters, places

    def part_of_cell(self, entry: Entry, cell: Any, key: str) -> Entry:
        return replace(entry, value=cell).part(key)

    def samples_written(self) -> int | None:
        return self.entries["samples"].value if "samples" in self.entries else None

    def name(self) -> str:
        entry = self.entries.get("name")
        if entry is None:
            return self.path.stem.encode(errors="replace").decode()[:100]
        if not isinstance(entry.value, str) or not 1 <= len(entry.value) <= 100:
            self.problems.append(
                entry.problem(f"name: came {short(str(entry.value))!r}; expected up to 100 characters")
            )
        return str(entry.value)

    def base(self, name: str) -> Layers:
        entry = self.entries.get("base")
        if entry is None:
            self.problems.append(Problem("base: is missing: name the config that the sweep varies", self.shown))
            return Layers(name=name, file=self.shown)
        layers = layers_of_base(entry, name)
        if not layers.layers:
            self.problems += layers.problems
        return layers

    def near_misses(self, fixed: Mapping[str, Entry]) -> None:
        """Misspelt keys of the sweep itself: no cell could say what they should have been."""
        for key, entry in fixed.items():
            if key not in KEYS and (close := get_close_matches(key, OWN_KEYS, n=1, cutoff=0.8)):
                self.problems.append(entry.problem(f"unknown key {short(key)!r}. Did you mean {close[0]!r}?"))


def told(value: Any) -> str:
    """A swept value, short."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{told(inner)}" for key, inner in value.items()) + "}"
    return "[" + ",".join(map(told, value)) + "]" if isinstance(value, list) else str(value)
