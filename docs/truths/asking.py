"""A page that asks `pgrl diagnose`, shows each command that it ran, and reads its figures from the answers."""

import json
import re
import shlex
from collections.abc import Sequence
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
from page import Page, pgrl

LECTURE = "lecture/centered_clipped"
ROUNDING = 1e-9
"""Sums in another order differ in their last digits; what is exact differs by less."""


class Truths(Page):
    """A page of diagnoses; none is made twice."""

    folder = "ground-truth"

    def __init__(self, pictures: Path, seeds: int, ages: Sequence[int], samples: int | None, overrides: Sequence[str]):
        super().__init__(pictures, seeds, overrides)
        self.ages, self.samples = ages, samples
        self.known: dict[tuple[str, ...], dict[str, Any]] = {}

    def asked(self, config: str, *words: str, **axes: Sequence[Any]) -> np.ndarray:
        """Diagnoses of a config, one for each value of the shell's variables in the words: an axis for each of them."""
        given = ["--config", config, *words, *self._overrides(config, words)]
        command = " ".join(["pgrl diagnose", *map(_quoted, given), "--json"])
        for name, values in reversed(axes.items()):
            command = f"for {name} in {_listed(values)}; do {command}; done"
        if command not in self.ran:
            self.ran.append(command)
        found = np.empty([len(values) for values in axes.values()], dtype=object)
        for place, values in zip(np.ndindex(found.shape), product(*axes.values()), strict=True):
            found[place] = self._diagnosis([_filled(word, dict(zip(axes, values, strict=True))) for word in given])
        return found

    def of_ages(self, *words: str, ages: Sequence[int] | None = None, config: str = LECTURE) -> np.ndarray:
        """Diagnoses of the policies of each seed after so many epochs: [age seed]."""
        axes = {"AGE": self.ages if ages is None else ages, "SEED": range(self.seeds)}
        return self.asked(config, *words, "seed=$SEED", "--after", "$AGE", **axes)

    def of_seeds(self, *words: str) -> np.ndarray:
        """Diagnoses of each seed's policy: [seed]."""
        return self.asked(LECTURE, *words, "seed=$SEED", SEED=range(self.seeds))

    def _overrides(self, config: str, words: Sequence[str]) -> list[str]:
        """A trial's, of the lecture's config, where the words do not say otherwise."""
        keys = {word.partition("=")[0] for word in words}
        return [word for word in self.overrides if config == LECTURE and word.partition("=")[0] not in keys]

    def _diagnosis(self, words: Sequence[str]) -> dict[str, Any]:
        few = [] if self.samples is None else ["--samples", str(self.samples)]
        key = (*words, *few)
        if key not in self.known:
            self.known[key] = json.loads(pgrl("diagnose", *key, "--json"))
        return self.known[key]


def numbers(diagnoses: np.ndarray, *path: str | int) -> np.ndarray:
    """One number out of each diagnosis, NaN where it has none."""

    def number(diagnosis: dict[str, Any]) -> float:
        found: Any = reduce(getitem, path, diagnosis)
        return np.nan if found is None else found

    return np.vectorize(number, otypes=[float])(diagnoses)


def middle(values: np.ndarray, digits: int = 2, unit: str = "") -> str:
    """The median, and in brackets the least and the largest."""
    median, low, high = (_rounded(value, digits) for value in (np.median(values), values.min(), values.max()))
    return f"{median}{unit}" if low == high else f"{median}{unit} [{low}, {high}]"


def percent(shares: np.ndarray, digits: int = 1) -> str:
    """The same of shares."""
    return middle(100 * shares, digits, " %")


def below(errors: np.ndarray | Sequence[float]) -> str:
    """A power of ten that all errors are below; rounding."""
    most = max(np.abs(errors).max(), 1e-16)
    return f"10^{int(np.floor(np.log10(most))) + 1}"


def rows_of(ages: Sequence[int], *columns: Sequence[str]) -> list[list[str]]:
    """A row for each age."""
    return [[str(age), *cells] for age, *cells in zip(ages, *columns, strict=True)]


def _rounded(value: float, digits: int) -> str:
    """So many digits behind the point; of what is smaller the first one; rounding is zero."""
    if abs(value) < ROUNDING**2:
        return "0"
    if abs(value) < 10.0**-digits:
        return f"{value:.1g}" if abs(value) >= 1e-4 else f"{value:.0e}"
    return f"{value:,.{digits}f}"


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w$=.,/-]+", word) else shlex.quote(word)


def _filled(word: str, values: dict[str, Any]) -> str:
    return re.sub(r"\$([A-Z]+)", lambda found: str(values[found[1]]), word)


def _listed(values: Sequence[Any]) -> str:
    if isinstance(values, range):
        return f"$(seq {values[0]} {values[-1]})"
    return " ".join(map(str, values))
