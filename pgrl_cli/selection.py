"""Rows of facts chosen by a filter, and put in order by a key."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import orjson

from pgrl_cli import filters
from pgrl_cli.config.problems import ConfigError, Problem, brief, listed, nearest, short
from pgrl_cli.filters import Comparison

Facts = Mapping[str, Any]
PATTERN = "*?["


def selected(rows: Sequence[Facts], where: str | None, sort: str | None, limit: int | None) -> list[Facts]:
    """The rows that a filter means, by a key (descending with a minus before it, null last), the first so many.

    Raises ConfigError for a filter that cannot be read, a key that no row has, and a comparison that can never be.
    """
    known = list(dict.fromkeys(key for row in rows for key in row))
    chosen = list(rows)
    if where is not None:
        wanted = filters.parsed(where)
        comparisons = filters.comparisons_of(wanted)
        if rows:
            _refuse_unknown([comparison.key for comparison in comparisons], known, "--where")
            _refuse_incomparable(comparisons, rows)
        chosen = [row for row in rows if filters.holds(wanted, row, is_so)]
    if sort is not None:
        key = sort.removeprefix("-")
        if rows:
            _refuse_unknown([key], known, "--sort")
        chosen = _in_order(chosen, key, descending=sort.startswith("-"))
    return chosen[:limit]


def is_so(value: Any, comparison: Comparison) -> bool:
    """Whether a value compares as is said. Null is nothing but null, and text and numbers have no order."""
    operator, word = comparison.operator, comparison.word
    if operator in ("=", "!="):
        if value is None or word.value is None:
            return (value is None) == (word.value is None) if operator == "=" else value is not None
        return _equal(value, comparison) == (operator == "=")
    if value is None:
        return False
    if operator == "~":
        pattern = word.text if any(sign in word.text for sign in PATTERN) else f"*{word.text}*"
        return fnmatchcase(as_text(value), pattern)
    if not _have_an_order(value, word.value):
        return False
    return bool(
        (operator == "<" and value < word.value)
        or (operator == "<=" and value <= word.value)
        or (operator == ">" and value > word.value)
        or (operator == ">=" and value >= word.value)
    )


def as_text(value: Any) -> str:
    """A value as one word: text as it is, all else as JSON has it."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _equal(value: Any, comparison: Comparison) -> bool:
    meant = comparison.word.value
    if isinstance(value, str | list | dict):
        return as_text(value) == comparison.word.text
    if isinstance(value, bool) or isinstance(meant, bool):
        return value is meant
    return bool(value == meant)


def _have_an_order(value: Any, meant: Any) -> bool:
    if isinstance(value, str) or isinstance(meant, str):
        return isinstance(value, str) and isinstance(meant, str)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse_incomparable(comparisons: Sequence[Comparison], rows: Sequence[Facts]) -> None:
    """Refuse an order that none of the values has with the word: the answer would be nothing, whatever is there."""
    problems = []
    for comparison in comparisons:
        values = [row[comparison.key] for row in rows if row.get(comparison.key) is not None]
        meant = comparison.word.value
        if comparison.operator not in filters.ORDERED or not values or any(_have_an_order(v, meant) for v in values):
            continue
        kind = "text" if isinstance(meant, str) else "a number"
        fix = "put it in quotes to compare text" if isinstance(values[0], str) else "it is compared with = != and ~"
        told = f"{comparison}: {comparison.key} is {brief(values[0])} here, and {short(comparison.word.text)} is {kind}"
        problems.append(Problem(f"{told}; {fix}", "--where"))
    if problems:
        raise ConfigError(problems)


def _refuse_unknown(keys: Sequence[str], known: Sequence[str], option: str) -> None:
    wrong = [key for key in dict.fromkeys(keys) if key not in known]
    if not wrong:
        return
    from pgrl_cli.config.other_words import OTHER_WORDS
    from pgrl_cli.config.schema import KEYS

    problems = []
    for key in wrong:
        if key in KEYS:  # a key of a config that none of these runs has: null everywhere
            continue
        if key in OTHER_WORDS:
            told = f"unknown key {key!r}: here it is spelled {OTHER_WORDS[key]!r}"
        else:
            close = nearest(key, known)
            told = (
                f"no run here has a key {short(key)!r}{f'.{close}' if close else f'; possible: {listed(known, 100)}'}"
            )
        problems.append(Problem(told, option))
    if problems:
        raise ConfigError(problems)


def _in_order(rows: Sequence[Facts], key: str, descending: bool) -> list[Facts]:
    there = [row for row in rows if row.get(key) is not None]
    ordered = sorted(there, key=lambda row: _place(row[key]), reverse=descending)
    return ordered + [row for row in rows if row.get(key) is None]


def _place(value: Any) -> tuple[int, float, str]:
    """Numbers before words."""
    return (0, value, "") if isinstance(value, int | float) else (1, 0.0, as_text(value))
