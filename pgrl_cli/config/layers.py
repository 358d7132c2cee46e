"""Layers of a config: defaults < base < file < command line, each value with the place it was written at."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pgrl_cli.config import yaml12
from pgrl_cli.config.files import is_file, opened
from pgrl_cli.config.other_words import OTHER_WORDS
from pgrl_cli.config.problems import ConfigError, Problem, brief, short
from pgrl_cli.config.shipped import find
from pgrl_cli.secrecy import is_secret, redacted, refusal

COMMAND_LINE = "command line"
DEEPEST_BASE = 10
"""How many files may build on each other."""
KEY = re.compile(r"[A-Za-z_][^\s=#]*")


@dataclass(frozen=True)
class Entry:
    """A value and the place it was written at."""

    value: Any
    file: str
    line: int | None
    folder: Path
    """What a relative path in the value is relative to."""
    level: int = 0
    """Which layer it came from: the higher wins."""
    parts: Mapping[str, "Entry"] = field(default_factory=dict)
    """Of a map, what a higher layer put into it."""

    def problem(self, message: str) -> Problem:
        """A problem with this value; a key that the place names already is not said again."""
        if self.line is None and self.file.startswith(f"{COMMAND_LINE}: "):
            message = message.removeprefix(f"{self.file.removeprefix(f'{COMMAND_LINE}: ').partition('=')[0]}: ")
        return Problem(message, self.file, self.line)

    def part(self, key: str) -> "Entry":
        """What a map holds under a key, at the place where that was written."""
        if key in self.parts:
            return self.parts[key]
        lines = self.value.lines if isinstance(self.value, yaml12.Map) else {}
        return replace(self, value=self.value[key], line=lines.get(key, self.line), parts={})

    def with_part(self, key: str, entry: "Entry") -> "Entry":
        """The map with one value of a higher layer in it."""
        value = yaml12.Map()
        value.update(self.value | {key: entry.value})
        value.lines = getattr(self.value, "lines", {})
        return replace(self, value=value, parts={**self.parts, key: entry})


@dataclass
class Layers:
    """What was written, lowest layer first, and what was wrong with the writing."""

    name: str
    """What the config is called if it does not say."""
    file: str
    """The file that was asked for: where problems lie that have no line."""
    layers: list[dict[str, Entry]] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def layers_of(config: str, overrides: Sequence[str] = (), beside: Path | None = None) -> Layers:
    """Read a config (a path or a shipped name), what it builds on, and the overrides KEY=VALUE.

    Problems are kept, so that they can be told together with all others.
    """
    here = Path.cwd() if beside is None else beside
    gathered = Layers(name=Path(config).stem, file=short(config), overrides=list(overrides))
    try:
        path = find(config, here)
        gathered.name = path.stem.encode(errors="replace").decode()  # a file's name need not be Unicode
        _add_file(gathered, path, config if is_file(here / config) else str(path), [])
    except ConfigError as error:
        gathered.problems += error.problems
    _add_overrides(gathered, overrides, here)
    return gathered


def layers_of_base(base: Entry, name: str) -> Layers:
    """The layers of what a sweep builds on: a path, a shipped name, or a map written in its place."""
    gathered = Layers(name=name, file=base.file)
    try:
        if isinstance(base.value, yaml12.Map):
            written = yaml12.Map()
            written.update({key: value for key, value in base.value.items() if key != "name"})
            written.lines = base.value.lines
            _add_map(gathered, written, base.folder, base.file, [])
        else:
            _add_base(gathered, base, [])
    except ConfigError as error:
        gathered.problems += error.problems
    return gathered


def layers_from(mapping: dict[str, Any], name: str = "inline", folder: Path | None = None) -> Layers:
    """The layers of a mapping that was not read from a file: for notebooks and tests."""
    folder = Path.cwd() if folder is None else folder
    layer = {key: Entry(value, name, None, folder) for key, value in mapping.items()}
    return Layers(name=name, file=name, layers=[layer])


def _add_file(gathered: Layers, path: Path, shown: str, above: list[Path]) -> None:
    """Add a file's layer above those of what it builds on; `above` are the files that build on it."""
    written, problems = read_file(path, shown)
    gathered.problems += problems
    _add_map(gathered, written, path.parent, shown, [*above, path.resolve()])


def _add_map(gathered: Layers, written: yaml12.Map, folder: Path, shown: str, above: list[Path]) -> None:
    """Add a map's layer; `above` are the files that build on it, itself the last."""
    lines = written.lines
    if "base" in written:
        base = Entry(written.pop("base"), shown, lines["base"], folder)
        try:
            _add_base(gathered, base, above)
        except ConfigError as error:
            gathered.problems += error.problems
    if len(above) > 1:
        written.pop("name", None)  # a base's name is its own
    level = len(gathered.layers)
    layer = {key: Entry(value, shown, lines[key], folder, level) for key, value in written.items()}
    for key in [key for key in layer if "." in key and key not in OTHER_WORDS]:
        head, _, rest = key.partition(".")
        told = f"unknown key {short(key)!r}: write {short(head)}: {{{short(rest)}: …}}"
        gathered.problems.append(layer.pop(key).problem(told))
    gathered.layers.append(layer)


def _add_base(gathered: Layers, base: Entry, above: list[Path]) -> None:
    if not isinstance(base.value, str):
        raise ConfigError([base.problem(f"base: came {brief(base.value)}; it must name a config")])
    try:
        below = find(base.value, base.folder)
    except ConfigError as error:
        raise ConfigError([base.problem(f"base: {error.problems[0]}")]) from error
    if below.resolve() in above:
        raise ConfigError([base.problem(f"base: {base.value} builds on itself, by way of its own base")])
    if len(above) > DEEPEST_BASE:
        raise ConfigError([base.problem(f"base: more than {DEEPEST_BASE} files build on each other")])
    _add_file(gathered, below, str(below), above)


def read_file(path: Path, shown: str) -> tuple[yaml12.Map, list[Problem]]:
    """The map in a file, and what is wrong with the writing. Raises ConfigError where there is no map."""
    try:
        with opened(path) as file:
            data = file.read(4 * yaml12.LONGEST + 1)
        if len(data) > 4 * yaml12.LONGEST:
            raise ConfigError([Problem(f"is longer than {yaml12.LONGEST} characters: too long for a config", shown)])
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError([Problem("is not text in UTF-8", shown)]) from error
    except OSError as error:
        raise ConfigError([Problem(f"cannot be read: {error.strerror}", shown)]) from error
    written, problems = yaml12.read_on(text, shown)
    if written is None:
        raise ConfigError([Problem("is empty; a config is a map of keys to values, such as epochs: 100", shown)])
    if not isinstance(written, yaml12.Map):
        kind = "list" if isinstance(written, list) else "single value"
        raise ConfigError([Problem(f"is a {kind}; a config is a map of keys to values, such as epochs: 100", shown)])
    return written, problems


def _add_overrides(gathered: Layers, overrides: Sequence[str], here: Path) -> None:
    level = len(gathered.layers)
    layer: dict[str, Entry] = {}
    for override in overrides:
        shown = f"{COMMAND_LINE}: {short(redacted([override])[0])}"
        key, equals, text = override.partition("=")
        if not equals or not KEY.fullmatch(key):
            gathered.problems.append(Problem("is not KEY=VALUE, such as epochs=50", shown))
            continue
        if is_secret(key):
            gathered.problems.append(Problem(refusal(key), shown))
            continue
        if key == "base":
            gathered.problems.append(Problem("base belongs in a file; name the config itself here", shown))
            continue
        if key in layer:
            gathered.problems.append(Problem(f"{short(key)} is given twice", shown))
        try:
            value = yaml12.read(text, shown)
        except ConfigError as error:
            gathered.problems += [Problem(problem.message, shown) for problem in error.problems]
            continue
        if value is None and text.strip() not in yaml12.NULLS - {""}:
            gathered.problems.append(Problem("has no value; write null for none, quotes around text with '#'", shown))
            continue
        layer[key] = Entry(value, shown, None, here, level)
    gathered.layers.append(layer)
