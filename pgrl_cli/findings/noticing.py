"""Noticing: every kind looks at the end of each window, and what it sees is said once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from pgrl_cli.findings import curves, signal, steps
from pgrl_cli.findings.course import Course, Rows
from pgrl_cli.findings.kinds import Kind
from pgrl_cli.findings.window import Facts, Look, Window

KINDS: tuple[Kind, ...] = (*signal.KINDS, *steps.KINDS, *curves.KINDS)
"""In this order they look, those that others yield to first."""
ENOUGH = 0.1
"""Share of the living seeds that must have it before a finding is said; one at least."""


@dataclass(frozen=True)
class Finding:
    """What stood out, once it was said."""

    kind: Kind
    epoch: int
    """The epoch after which it was said; metrics.jsonl counts from 0."""
    seen: str
    numbers: Mapping[str, float]
    """What it was judged by: a run's own, or the medians over the seeds that have it, as they were when it was seen."""
    places: tuple[int, ...] = ()
    """Of a run with `seeds`, the places of those that have it and still live."""
    living: int | None = None
    """Of a run with `seeds`, how many live."""

    def as_json(self) -> dict[str, Any]:
        """What status.json holds of it."""
        told: dict[str, Any] = {"kind": self.kind.word, "epoch": self.epoch, "seen": self.seen}
        told |= {"means": self.kind.means, "helps": "; ".join(self.kind.helps)}
        return told if self.living is None else told | {"seeds": len(self.places), "living": self.living}

    def short_lines(self) -> Iterator[str]:
        """What is seen and what helps most, for those who have other things to do."""
        yield f"after {self.epoch + 1} epochs: {self.kind.title}: {self.seen}"
        yield f"  what helps: {self.kind.helps[0]}"

    def lines(self) -> Iterator[str]:
        """All of it, for eyes."""
        yield f"after {self.epoch + 1} epochs: {self.kind.title}: {self.seen}"
        yield f"  means: {self.kind.means}"
        yield f"  helps: {'; '.join(self.kind.helps)}"


@dataclass
class _Sight:
    """What a kind has seen so far."""

    seen: np.ndarray
    """In which seeds: bool [seed]."""
    figures: dict[str, np.ndarray] = field(default_factory=dict)
    """The numbers when it was first seen: [seed] each."""
    said: int | None = None
    places: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    """Those that had it and lived when last somebody did."""
    living: int = 0

    def note(self, look: Look, new: np.ndarray) -> None:
        """Take in that it is seen in more seeds."""
        for name, values in look.figures.items():
            self.figures[name] = np.where(new, values, self.figures.get(name, np.nan))
        self.seen = self.seen | new

    def count(self, alive: np.ndarray) -> int:
        """In how many living seeds it has been seen."""
        if not self.figures:
            return 0
        places = np.flatnonzero(self.seen & alive)
        if len(places):
            self.places, self.living = places, int(alive.sum())
        return len(places)


class Findings:
    """Looks on while epochs come in, and remembers what it has said."""

    def __init__(self, facts: Facts):
        self.facts = facts
        self.looks: dict[str, Look] = {}
        """What each kind saw in the last window."""
        self.alive = np.ones(facts.seeds or 1, dtype=bool)
        """Which seeds still trained at its end: [seed]."""
        self._course = Course(facts)
        self._sights = {kind.word: _Sight(np.zeros(facts.seeds or 1, dtype=bool)) for kind in KINDS}

    def add(self, rows: Rows) -> list[Finding]:
        """Take in an epoch's lines of metrics.jsonl; what is to be said now, and was not before."""
        with np.errstate(all="ignore"):  # what is no number compares false
            window = self._course.add(rows)
            return [] if window is None else list(self._looked(window))

    def all(self) -> list[Finding]:
        """What has been said so far, in that order, with the seeds that have it by now."""
        said = [(sight.said, kind) for kind in KINDS if (sight := self._sights[kind.word]).said is not None]
        return [self._finding(kind) for _, kind in sorted(said, key=lambda pair: pair[0])]

    def having(self, kind: Kind) -> int:
        """In how many seeds a kind has been seen, whether or not it was said."""
        return int(self._sights[kind.word].seen.sum())

    def _looked(self, window: Window) -> Iterator[Finding]:
        alive = self.alive = window.alive
        enough = max(1, ceil(ENOUGH * int(alive.sum())))
        for kind in KINDS:
            look = self.looks[kind.word] = kind.look(window)
            sight = self._sights[kind.word]
            if look.holds.any():
                new = look.holds & alive & ~sight.seen
                for other in kind.yields_to:
                    new &= ~(self._sights[other].seen | self.looks[other].holds)
                if new.any():
                    sight.note(look, new)
            if sight.count(alive) >= enough and sight.said is None:
                sight.said = window.epoch
                yield self._finding(kind)
        self._course.turn(window)

    def _finding(self, kind: Kind) -> Finding:
        sight = self._sights[kind.word]
        assert sight.said is not None
        numbers = {name: middle(values[sight.places]) for name, values in sight.figures.items()}
        seen = kind.seen(numbers, self.facts)
        if self.facts.seeds is None:
            return Finding(kind, sight.said, seen, numbers)
        seen = f"in {len(sight.places)} of {sight.living} seeds {seen}"
        return Finding(kind, sight.said, seen, numbers, tuple(sight.places.tolist()), sight.living)


def middle(values: np.ndarray) -> float:
    """The median of those that are numbers; NaN where none is."""
    present = values[np.isfinite(values)]
    return float(np.median(present)) if len(present) else float("nan")
