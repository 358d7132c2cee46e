"""YAML as version 1.2 reads it, with lines, and nothing that could surprise.

PyYAML follows version 1.1: there `1e-3` is a string, `no` is False, `12:30` is 750, `017` is 15, and of two equal keys
the last one counts. So only its parser is used; what a scalar means is decided here (YAML 1.2, section 10.3).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from pgrl_cli.config.problems import ConfigError, Problem, brief, short
from pgrl_cli.secrecy import is_secret, refusal

LONGEST = 1 << 20
"""Characters in a file; a config is a page, not a data set."""
MOST_NODES = 200_000
"""Values in a file after its aliases are expanded."""
DEEPEST = 20
"""Lists and maps inside each other."""

NULLS = {"", "~", "null", "Null", "NULL"}
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,999})")  # 017 stays text: 1.1 reads it as 15, 1.2 as 17
BASED = re.compile(r"0o[0-7]{1,999}|0x[0-9a-fA-F]{1,999}")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NOT_ZERO = re.compile(r"[-+.0]*[1-9]")  # 1e-400 stays text: as a number it would be 0, without a word
SPECIAL_FLOAT = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What turns the direction of the rest of a line."""
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Map(dict[str, Any]):
    """A mapping that remembers the line of each of its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


def read(text: str, file: str) -> Any:
    """The one document in `text`: maps (with lines), lists and scalars. Raises ConfigError, naming `file` and line."""
    value, problems = read_on(text, file)
    if problems:
        raise ConfigError(problems)
    return value


def read_on(text: str, file: str) -> tuple[Any, list[Problem]]:
    """As `read`, but two equal keys do not end the reading: the first counts, the others are problems."""
    if len(text) > LONGEST:
        raise ConfigError([Problem(f"is longer than {LONGEST} characters: too long for a config", file)])
    try:
        reader = _Reader(text, file)
        return reader.document(), reader.problems
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        told = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError([Problem(f"is not valid YAML: {told}", file, line)]) from error
    except (yaml.YAMLError, UnicodeError) as error:
        told = str(error).splitlines()[0]
        raise ConfigError([Problem(f"is not valid YAML: {told}", file)]) from error


def scalar(text: str) -> Any:
    """What a plain scalar means in YAML 1.2: null, a boolean, a number, or text."""
    if text in NULLS:
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if INTEGER.fullmatch(text):
        return int(text)
    if BASED.fullmatch(text):
        return int(text, base=0)
    if FLOAT.fullmatch(text):
        number = float(text)
        return text if number == 0 and NOT_ZERO.match(text) else number
    if special := SPECIAL_FLOAT.fullmatch(text):
        return float("nan") if special[3] else float(f"{special[1]}inf")
    return text


def write(mapping: Mapping[str, Any]) -> str:
    """A mapping as YAML that `read` reads back equal; lists stay on one line."""
    text = yaml.dump(dict(mapping), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return TURNING.sub(lambda found: f"\\u{ord(found[0]):04X}", text)  # not printable, so in double quotes


class _Reader:
    """Builds values from PyYAML's events; it keeps count of what has been built so far."""

    def __init__(self, text: str, file: str):
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=Loader))
        self.file = file
        self.anchors: dict[str, tuple[Any, int, int]] = {}
        self.nodes = 0
        self.deepest = 0
        self.problems: list[Problem] = []

    def document(self) -> Any:
        next(self.events)  # the stream starts
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self._value(next(self.events), depth=0)
        next(self.events)  # the document ends
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._error("a second document begins; there may be one", event)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        before, outside, self.deepest = self.nodes, self.deepest, depth
        self._count(1, event)
        if isinstance(event, yaml.AliasEvent):
            value = self._alias(event, depth)
        else:
            value = self._new(event, depth)
            if event.anchor is not None:
                self.anchors[event.anchor] = (value, self.nodes - before, self.deepest - depth)
        self.deepest = max(outside, self.deepest)
        return value

    def _new(self, event: Any, depth: int) -> Any:
        if event.tag is not None:
            raise self._error(f"the tag {short(event.tag)!r} is not read here; leave it out", event)
        self._refuse_depth(depth, event)
        if isinstance(event, yaml.ScalarEvent):
            return event.value if event.style else scalar(event.value)
        return self._list(depth) if isinstance(event, yaml.SequenceStartEvent) else self._map(depth)

    def _list(self, depth: int) -> list[Any]:
        values = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            values.append(self._value(event, depth + 1))
        return values

    def _map(self, depth: int) -> Map:
        values, twice = Map(), set()
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                raise self._error(f"the key {brief(key)} is not a word; put it in quotes if it is meant as one", event)
            if key == "<<":
                raise self._error("merge keys (<<) are not YAML 1.2; use 'base:' to build on another file", event)
            value = self._value(next(self.events), depth + 1)
            line = event.start_mark.line + 1
            if key in twice:
                continue
            if is_secret(key):
                self.problems.append(Problem(refusal(key), self.file, line))
                twice.add(key)
                continue
            if key in values:
                twice.add(key)
                message = f"the key {short(key)!r} stands here and on line {values.lines[key]}; keep one"
                self.problems.append(Problem(message, self.file, line))
            else:
                values.lines[key], values[key] = line, value
        return values

    def _alias(self, event: Any, depth: int) -> Any:
        if event.anchor not in self.anchors:
            raise self._error(f"the alias *{short(event.anchor)} stands for nothing that is complete before it", event)
        value, size, deep = self.anchors[event.anchor]
        self._count(size, event)
        self._refuse_depth(depth + deep, event)
        self.deepest = depth + deep
        return value

    def _count(self, nodes: int, event: Any) -> None:
        self.nodes += nodes
        if self.nodes > MOST_NODES:
            raise self._error(f"more than {MOST_NODES} values, aliases expanded: too many for a config", event)

    def _refuse_depth(self, depth: int, event: Any) -> None:
        if depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} lists or maps inside each other", event)

    def _error(self, message: str, event: Any) -> ConfigError:
        return ConfigError([Problem(message, self.file, event.start_mark.line + 1)])


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    plain = isinstance(scalar(text), str) and text.isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


def _represent_list(dumper: _Dumper, values: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=True)


_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)
_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)
