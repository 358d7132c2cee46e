"""Which runs are meant: `delta_mode=centered_rewards and last_mean_reward>3`, a grammar of one page.

    filter       any of       all of {"or" all of}
    all of       one {"and" one}
    one          "not" one | "(" filter ")" | KEY operator VALUE
    operator     =  !=  <  <=  >  >=  ~ (contains; with * ? [ a pattern of the whole)

Words are bare or quoted; what a bare value means is what YAML 1.2 reads in it, a quoted one is text. A key that a run
lacks is null there, and null compares false, but with `= null`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgrl_cli.config.problems import ConfigError, Problem, short
from pgrl_cli.config.yaml12 import scalar

LONGEST = 4000
"""Characters of a filter."""
DEEPEST = 30
"""Parentheses and nots inside each other."""
OPERATORS = ("!=", "<=", ">=", "=", "<", ">", "~")
ORDERED = ("<", "<=", ">", ">=")
JOINING = ("and", "or", "not")
TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<sign>!=|<=|>=|[=<>~()]) | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""| (?P<bare>[^\s()=!<>~"']+)""",
    re.VERBOSE | re.DOTALL,
)
BARE = re.compile(r"""[^\s()=!<>~"']+""")


@dataclass(frozen=True)
class Word:
    """A word as it was written."""

    text: str
    quoted: bool = False

    @property
    def value(self) -> Any:
        """What it means as a value."""
        return self.text if self.quoted else scalar(self.text)

    def __str__(self) -> str:
        if not self.quoted and BARE.fullmatch(self.text) and self.text.lower() not in JOINING:
            return self.text
        return '"' + re.sub(r'(["\\])', r"\\\1", self.text) + '"'


@dataclass(frozen=True)
class Comparison:
    """KEY operator VALUE."""

    key: str
    operator: str
    word: Word

    def __str__(self) -> str:
        return f"{Word(self.key)} {self.operator} {self.word}"


@dataclass(frozen=True)
class Not:
    """What its part is not."""

    part: "Filter"

    def __str__(self) -> str:
        return f"not {_inside(self.part)}"


@dataclass(frozen=True)
class All:
    """What all of its parts are: two or more."""

    parts: "tuple[Filter, ...]"

    def __str__(self) -> str:
        return " and ".join(map(_inside, self.parts))


@dataclass(frozen=True)
class Some:
    """What one of its parts is: two or more."""

    parts: "tuple[Filter, ...]"

    def __str__(self) -> str:
        return " or ".join(map(_inside, self.parts))


Filter = Comparison | Not | All | Some


def _inside(part: Filter) -> str:
    return f"({part})" if isinstance(part, All | Some) else str(part)


def parsed(text: str, option: str = "--where") -> Filter:
    """The filter that a text says. Raises ConfigError with the column and what was expected there."""
    if len(text) > LONGEST:
        raise ConfigError([Problem(f"is longer than {LONGEST} characters: too long for a filter", option)])
    return _Parser(_tokens(text, option), len(text) + 1, option).filter()


@dataclass(frozen=True)
class Token:
    """A word or a sign, and the column that it begins in."""

    text: str
    column: int
    kind: str

    @property
    def joins(self) -> str | None:
        """The word that joins comparisons, if it is one."""
        return self.text.lower() if self.kind == "bare" and self.text.lower() in JOINING else None

    def signs(self, *signs: str) -> bool:
        """Whether it is one of some signs."""
        return self.kind == "sign" and self.text in signs


def _tokens(text: str, option: str) -> list[Token]:
    tokens, place = [], 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            lone = "a quote that is not closed" if text[place] in "\"'" else f"came {text[place]!r}"
            fix = "close it" if text[place] in "\"'" else "unequal is written !=, and negation not"
            raise ConfigError([Problem(f"column {place + 1}: {lone}; {fix}", option)])
        kind = str(match.lastgroup)
        if kind == "quoted":
            tokens.append(Token(re.sub(r"\\(.)", r"\1", match[0][1:-1], flags=re.DOTALL), place + 1, kind))
        elif kind != "space":
            tokens.append(Token(match[0], place + 1, kind))
        place = match.end()
    return tokens


@dataclass
class _Parser:
    """Reads tokens from left to right; `place` is the next one."""

    tokens: Sequence[Token]
    end: int
    option: str
    place: int = 0
    depth: int = 0

    def filter(self) -> Filter:
        found = self.joined("or", Some)
        if self.next is not None:
            hint = "; a word with a space is put in quotes" if self.next.kind != "sign" else ""
            raise self.wrong(f"expected 'and', 'or' or the end{hint}")
        return found

    @property
    def next(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def joined(self, by: str, kind: Callable[[tuple[Filter, ...]], Filter]) -> Filter:
        """One part, or several with a word between them."""
        parts = [self.part(by)]
        while self.next is not None and self.next.joins == by:
            self.place += 1
            parts.append(self.part(by))
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def part(self, by: str) -> Filter:
        return self.joined("and", All) if by == "or" else self.one()

    def one(self) -> Filter:
        token = self.next
        if token is None or not (token.joins == "not" or token.signs("(")):
            return self.comparison()
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.wrong(f"expected no more than {DEEPEST} parentheses or nots inside each other")
        self.place += 1
        found: Filter
        if token.joins == "not":
            found = Not(self.one())
        else:
            found = self.joined("or", Some)
            if self.next is None or not self.next.signs(")"):
                raise self.wrong(f"expected ')' for the '(' of column {token.column}")
            self.place += 1
        self.depth -= 1
        return found

    def comparison(self) -> Comparison:
        key = self.word("a key, such as delta_mode")
        token = self.next
        if token is None or not token.signs(*OPERATORS):
            raise self.wrong(f"expected one of = != < <= > >= ~ after {short(key.text)!r}")
        self.place += 1
        word = self.word(f"a value after {token.text!r}")
        if token.text in ORDERED and (word.value is None or isinstance(word.value, bool)):
            self.place -= 1
            raise self.wrong("expected a number or text here: true, false and null are compared with = and !=")
        return Comparison(key.text, token.text, word)

    def word(self, expected: str) -> Word:
        token = self.next
        if token is None or token.kind == "sign" or token.joins is not None:
            quotes = "; in quotes it is a word" if token is not None and token.joins else ""
            raise self.wrong(f"expected {expected}{quotes}")
        self.place += 1
        return Word(token.text, token.kind == "quoted")

    def wrong(self, expected: str) -> ConfigError:
        came = "it ends" if self.next is None else f"came {short(self.next.text)!r}"
        column = self.end if self.next is None else self.next.column
        return ConfigError([Problem(f"column {column}: {expected}; {came}", self.option)])


def comparisons_of(part: Filter) -> list[Comparison]:
    """The comparisons in a filter, from left to right."""
    if isinstance(part, Comparison):
        return [part]
    inner = (part.part,) if isinstance(part, Not) else part.parts
    return [comparison for each in inner for comparison in comparisons_of(each)]


def holds(part: Filter, facts: Mapping[str, Any], is_so: Callable[[Any, Comparison], bool]) -> bool:
    """Whether a filter is true of some facts; `is_so` says what comparing one value means."""
    if isinstance(part, Comparison):
        return is_so(facts.get(part.key), part)
    if isinstance(part, Not):
        return not holds(part.part, facts, is_so)
    decide = all if isinstance(part, All) else any
    return decide(holds(each, facts, is_so) for each in part.parts)
