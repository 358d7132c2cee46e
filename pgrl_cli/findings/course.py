"""How a run goes, as far as findings look at it: few numbers of each epoch, and what is remembered of windows of ten.

Everything is read off the lines of metrics.jsonl, so the same lines always tell the same. numpy, no torch.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgrl_cli.findings.window import FAR, WINDOW, Facts, Past, Window

LEAST = 5
"""Epochs of a shorter run that are still looked at, once, at its end."""
FIRST = ("mean_reward", "reward_std", "zero_variance_groups", "loss")
"""Metrics taken from an epoch's first line: its rollout's, and the loss before any step on it."""
LAST = ("entropy", "clip_fraction", "ratio_max", "effective_sample_size")
"""Metrics taken from an epoch's last line, where the policy has moved farthest."""
EVALUATED = ("exact_match", "solution_probability", "expected_zero_variance_groups")
"""Metrics of the policy that an epoch leaves, where they were measured."""
STEPS = ("kl", "clip_fraction")
"""Metrics taken from all of an epoch's lines: their mean and their largest."""
NAMES = (*FIRST, *LAST, *EVALUATED, *(f"{what} {name}" for name in STEPS for what in ("mean", "most")))
"""Columns of a window."""
Rows = Sequence[Mapping[str, Any]]


class Course:
    """Takes in epochs, and makes a window of the last ten of them where it is time to look."""

    def __init__(self, facts: Facts):
        self.facts = facts
        self.width = facts.seeds or 1
        nothing = np.full(self.width, np.nan)
        self._recent: deque[list[Any]] = deque(maxlen=WINDOW)
        self._epoch = -1
        self._count = self._fresh = 0
        self._start = self._reward_before = self._most_clipped = self._largest_ratio = nothing
        self._equal_for = np.zeros(self.width, dtype=int)
        self._largest_loss = np.zeros(self.width)
        self._windows: deque[Past] = deque(maxlen=FAR // WINDOW + 2)
        self._best: Past | None = None
        self._before: Past | None = None

    def add(self, rows: Rows) -> Window | None:
        """Take in an epoch's lines; the window to look at, where it is time: every ten epochs, and after the last."""
        self._recent.append(_kept(rows))
        self._count += 1
        self._fresh += 1
        self._epoch = int(rows[0]["epoch"])
        due = self._count % WINDOW == 0 or (self._is_last and self._count >= LEAST)
        return self._window() if due else None

    def _window(self) -> Window:
        """The last ten epochs, or as many as there are; what is counted on from window to window moves on with it."""
        table = _table(list(self._recent), self.width)
        columns = dict(zip(NAMES, table, strict=True))
        self._remember(columns)
        return Window(
            facts=self.facts,
            epoch=self._epoch,
            is_last=self._is_last,
            columns=columns,
            means=dict(zip(NAMES, table.mean(axis=1), strict=True)),
            start=self._start,
            equal_for=self._equal_for,
            most_clipped=self._most_clipped,
            largest_ratio=self._largest_ratio,
            largest_loss=self._largest_loss,
            best=self._best,
            before=self._before,
            previous=self._ended_by(self._epoch - WINDOW),
            earlier=self._ended_by(self._epoch - FAR),
        )

    def turn(self, window: Window) -> None:
        """Remember a window that has been looked at."""
        past = window.now
        self._windows.append(past)
        self._largest_loss = np.fmax(self._largest_loss, np.abs(past.loss))
        if np.isnan(past.exact_match).all():
            return
        old = past if self._best is None else self._best
        better = ~(past.exact_match < old.exact_match) & ~np.isnan(past.exact_match)
        pairs = zip(past[1:], old[1:], strict=True)
        self._best = Past(past.epoch, *(np.where(better, new, kept) for new, kept in pairs))
        self._before = past

    @property
    def _is_last(self) -> bool:
        return self._epoch == self.facts.epochs - 1

    def _ended_by(self, epoch: int) -> Past | None:
        return next((past for past in reversed(self._windows) if past.epoch <= epoch), None)

    def _remember(self, columns: Mapping[str, np.ndarray]) -> None:
        """Count on what has come in since the last window."""
        rewards = columns["mean_reward"][-self._fresh :]
        told_apart = columns["zero_variance_groups"][-self._fresh :] != 1
        if self.facts.num_responses == 1:  # a group of one is always equal to itself
            told_apart = rewards != np.vstack([self._reward_before, rewards[:-1]])
        since = told_apart[::-1].argmax(axis=0) + (self.facts.num_responses == 1)
        self._equal_for = np.where(told_apart.any(axis=0), since, self._equal_for + self._fresh)
        if self._count <= WINDOW:
            self._start = rewards[0]
        self._reward_before = rewards[-1]
        self._most_clipped = np.fmax(self._most_clipped, np.fmax.reduce(columns["most clip_fraction"]))
        self._largest_ratio = np.fmax(self._largest_ratio, np.fmax.reduce(columns["ratio_max"]))
        self._fresh = 0


def _kept(rows: Rows) -> list[Any]:
    """What is kept of an epoch's lines, FIRST to STEPS in their order; None for what was not measured.

    Numbers are kept as they come, and put together when it is time to look; of arrays [seed] copies, since a view would
    keep all the metrics of a stack.
    """
    first, last = rows[0], rows[-1]
    kept = [first.get(name) for name in FIRST] + [last.get(name) for name in (*LAST, *EVALUATED)]
    steps: list[Any] = [[row.get(name) for row in rows] for name in STEPS]
    if isinstance(first.get("mean_reward"), np.ndarray):
        kept = [value.copy() if isinstance(value, np.ndarray) else value for value in kept]
        steps = [_mean_and_most(values) for values in steps]
    return kept + steps


def _table(epochs: Sequence[Sequence[Any]], width: int) -> np.ndarray:
    """What is kept of epochs, [name epoch seed]; NaN for what was not measured, or is not finite."""
    kept = list(zip(*epochs, strict=True))
    columns: list[Any] = list(kept[: -len(STEPS)])
    for values in kept[-len(STEPS) :]:
        columns += _means_and_mosts(values)
    try:
        table = np.array(columns, dtype=float).reshape(len(columns), len(epochs), -1)
    except ValueError:  # arrays, and None where one was not measured
        table = np.array([[_row(value, width) for value in column] for column in columns])
    table[~np.isfinite(table)] = np.nan
    return np.broadcast_to(table, (*table.shape[:2], width))


def _means_and_mosts(epochs: Sequence[Any]) -> tuple[Any, Any]:
    """Of epochs' steps the means and the largest values."""
    if not isinstance(epochs[0], tuple):
        try:
            array = np.array(epochs, dtype=float)
            return array.mean(axis=1), array.max(axis=1)
        except ValueError:  # epochs of different lengths, as in a damaged file
            epochs = [_mean_and_most(values) for values in epochs]
    means, mosts = zip(*epochs, strict=True)
    return means, mosts


def _mean_and_most(values: Sequence[Any]) -> tuple[Any, Any]:
    """Of an epoch's steps the mean and the largest value: numbers or [seed]; None where one was not measured."""
    if any(value is None for value in values):
        return None, None
    array = np.array(values, dtype=float)
    return array.mean(axis=0), array.max(axis=0)


def _row(value: Any, width: int) -> np.ndarray:
    return np.broadcast_to(np.array(value, dtype=float), (width,))
