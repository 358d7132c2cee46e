"""What is wrong with a config, said so that it can be mended."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from reprlib import Repr

BRIEF = Repr()
BRIEF.maxstring = BRIEF.maxother = BRIEF.maxlong = 80
BRIEF.maxlist, BRIEF.maxdict, BRIEF.maxlevel = 8, 4, 3
LONGEST_WORD = 80
"""Characters of somebody's word that a message repeats."""
MOST_COMPARED = 1000
"""Words among which the nearest is looked for."""
MOVING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls of terminals, line ends, turns of the direction of writing, and what is no character."""


@dataclass(frozen=True)
class Problem:
    """One mistake and where it was made; `line` counts from 1 and is None where there is none."""

    message: str
    file: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return legible(f"{place}: {self.message}")


class ConfigError(Exception):
    """A config that cannot run: all its problems at once."""

    def __init__(self, problems: Sequence[Problem]):
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def nearest(word: str, known: Iterable[str]) -> str:
    """A question that offers the known word most like this one, or nothing; of very many the first are looked at."""
    if len(word) > LONGEST_WORD:
        return ""
    near = [other for other in islice(known, MOST_COMPARED) if len(other) <= 2 * LONGEST_WORD]
    close = get_close_matches(word, near, n=1, cutoff=0.61)
    close += [each for each in get_close_matches(word, near, n=1, cutoff=0.6) if word.startswith(each)]
    return f" Did you mean {close[0]!r}?" if close else ""


def listed(words: Iterable[object], most: int = 20) -> str:
    """Words as a person would list them; of very many, the first."""
    told = [str(word) for word in words]
    return ", ".join(told[:most]) + (f", and {len(told) - most} more" if len(told) > most else "")


def brief(value: object) -> str:
    """Any value as Python writes it, cut to what a message can hold."""
    return BRIEF.repr(value)


def short(word: str, longest: int = LONGEST_WORD) -> str:
    """A word that came from outside, cut to what a message can hold."""
    return word if len(word) <= longest else f"{word[: longest - 1]}…"


def refuse_other_than(option: str, word: str, known: Sequence[str]) -> None:
    """Refuse a word that an option does not take. Raises ConfigError."""
    if word not in known:
        raise ConfigError([Problem(f"came {short(word)!r}; possible: {listed(known)}.{nearest(word, known)}", option)])


def legible(text: str) -> str:
    """A text on one line, in which nothing moves a terminal's cursor or turns the direction of the rest."""
    return MOVING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
