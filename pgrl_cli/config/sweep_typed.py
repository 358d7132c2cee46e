"""The command line of a sweep: KEY=VALUE holds for all cells, KEY=VALUE,VALUE sweeps a key."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgrl_cli.config import yaml12
from pgrl_cli.config.layers import COMMAND_LINE, KEY, Entry
from pgrl_cli.config.problems import ConfigError, Problem, short
from pgrl_cli.config.sweep_texts import told
from pgrl_cli.config.sweep_words import MOST_CELLS, OWN_KEYS
from pgrl_cli.secrecy import is_secret, redacted, refusal

QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
BEFORE_QUOTES = ("", "[", "{", ",", ":")
"""What a quote that quotes stands behind; anywhere else it is an apostrophe."""


@dataclass
class Typed:
    """What a command line says, and what is wrong with it."""

    own: dict[str, Entry] = field(default_factory=dict)
    """The sweep's own keys, and parts of its metric: metric.over."""
    fixed: dict[str, Entry] = field(default_factory=dict)
    """Keys of a config that have one value in all cells."""
    lists: dict[str, Entry] = field(default_factory=dict)
    """Keys that it sweeps."""
    problems: list[Problem] = field(default_factory=list)

    def take(self, key: str, entry: Entry, values: list[Any]) -> None:
        """Put the values of a key where they belong."""
        head = key.partition(".")[0]
        own = key in OWN_KEYS or head == "metric"
        if own and len(values) > 1:
            self.problems.append(entry.problem(f"{short(key)} takes one value; put text with commas in quotes"))
        elif own:
            self.own[key] = entry
        elif len(values) == 1:
            self.fixed[key] = entry
        elif key in ("seed", "seeds"):
            seeds = short(", ".join(map(told, values[:20])))
            fix = f"seeds='[{seeds}]' trains these in every cell"
            self.problems.append(entry.problem(f"{key}: seeds are not swept; write brackets: {fix}"))
        else:
            self.lists[key] = Entry(values, entry.file, None, entry.folder)


def typed(overrides: Sequence[str], here: Path) -> Typed:
    """The command line, read; its problems are kept, so that they can be told together with all others."""
    line = Typed()
    seen: set[str] = set()
    for override in overrides:
        shown = f"{COMMAND_LINE}: {short(redacted([override])[0])}"
        key, equals, text = override.partition("=")
        head = key.partition(".")[0]
        if not equals or not KEY.fullmatch(key):
            line.problems.append(Problem("is not KEY=VALUE, such as epochs=50, or KEY=VALUE,VALUE", shown))
        elif is_secret(key):
            line.problems.append(Problem(refusal(key), shown))
        elif head in ("base", "parameters"):
            fix = "a sweep has one config, which --config names" if key == "base" else "to sweep a key: KEY=VALUE,VALUE"
            line.problems.append(Problem(f"{head} belongs in a file; {fix}", shown))
        elif key in seen:
            line.problems.append(Problem(f"{short(key)} is given twice", shown))
        else:
            seen.add(key)
            values, problems = _values(text, shown)
            line.problems += problems
            if values:
                line.take(key, Entry(values[0], shown, None, here), values)
    return line


def split(text: str) -> list[str]:
    """A text at its commas, but for those inside brackets, braces and quotes."""
    parts, depth, begin, index, before = [], 0, 0, 0, ""
    while index < len(text):
        quoted = QUOTED.match(text, index) if before in BEFORE_QUOTES else None
        piece = quoted[0] if quoted else text[index]
        index += len(piece)
        if not piece.isspace():
            before = piece[-1]
        depth += (piece in "[{") - (piece in "]}")
        if piece == "," and depth == 0:
            parts.append(text[begin : index - 1])
            begin, before = index, ""
    return [*parts, text[begin:]]


def _values(text: str, shown: str) -> tuple[list[Any], list[Problem]]:
    """The values between the commas; none where one of them is wrong."""
    parts = split(text)
    if len(parts) > MOST_CELLS:
        return [], [Problem(f"{len(parts)} values are more than {MOST_CELLS} cells", shown)]
    values = []
    for part in parts:
        try:
            value = yaml12.read(part, shown)
        except ConfigError as error:
            return [], [Problem(problem.message, shown) for problem in error.problems]
        if value is None and part.strip() not in yaml12.NULLS - {""}:
            lacks = "has no value" if len(parts) == 1 else "has nothing between two commas, or at an end"
            return [], [Problem(f"{lacks}; write null for none, quotes around text with '#'", shown)]
        values.append(value)
    return values, []
