"""What is wrong with a config, said so that it can be mended."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Problem:
    """One mistake and where it was made; `line` counts from 1 and is None where there is none."""

    message: str
    file: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


class ConfigError(Exception):
    """A config that cannot run: all its problems at once."""

    def __init__(self, problems: Sequence[Problem]):
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def nearest(word: str, known: Iterable[str]) -> str:
    """A question that offers the known word most like this one, or nothing."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def listed(words: Iterable[str]) -> str:
    """Words as a person would list them."""
    return ", ".join(words)
