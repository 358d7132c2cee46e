"""A window: what is looked at together, ten epochs of a run and what is remembered of those before. numpy, no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

WINDOW = 10
"""Epochs that are looked at together."""
FAR = 2 * WINDOW
"""Epochs between windows that are held against each other."""
SETTLED = 0.1
"""Share of a uniform policy's entropy below which a policy nearly always answers the same."""
SHORT_OF = 0.1
"""Share of the way from the first epoch's mean reward to the maximum that a solved task may lack."""
HALF_WAY = 0.5
"""The same where all most likely answers are right already."""
NEARLY = 0.01
"""Share of the maximum itself that a solved task may lack, wherever it began."""
CLEARLY = 2.0
"""Standard errors that tell a rise from chance."""


@dataclass(frozen=True)
class Facts:
    """What is known of a run before it trains."""

    epochs: int
    steps_per_epoch: int = 1
    num_responses: int = 2
    seeds: int | None = None
    """How many it has side by side; None for a single run, whose metrics are numbers."""
    maximum_reward: float | None = None
    """What right answers earn on average, where that is known."""
    uniform_entropy: float | None = None
    """Nats per token of a policy to which all tokens are alike: the logarithm of the vocabulary's size."""
    compares: bool = True
    """Whether the delta mode compares a group's responses, so that equal rewards cancel out."""
    drops: bool = False
    """Whether steps learn from groups of unequal rewards alone."""
    scaled: float | None = 1.0
    """What the delta mode multiplies the task's reward by; None where it divides by the group's own spread."""
    push_weight: float = 1.0
    """What a token's log-prob is multiplied by in the policy loss, beside its advantage."""
    pull_weight: float = 0.0
    """The same for the KL, with its coefficient; 0 where no KL acts."""
    kl_weight: float = 1.0
    """What `kl` is to the KL of whole responses."""


@dataclass(frozen=True)
class Look:
    """What a kind sees in a window."""

    holds: np.ndarray
    """In which seeds it holds: bool [seed]."""
    figures: Mapping[str, np.ndarray]
    """The numbers that it was judged by, by their names: [seed] each, NaN where there is none."""


class Past(NamedTuple):
    """What is remembered of a window: [seed] each."""

    epoch: int
    """Its last."""
    mean_reward: np.ndarray
    error: np.ndarray
    """The standard error of the mean reward."""
    loss: np.ndarray
    loss_error: np.ndarray
    exact_match: np.ndarray
    solution_probability: np.ndarray
    spread: np.ndarray
    """The policy's entropy as a share of a uniform policy's."""


@dataclass(frozen=True)
class Window:
    """The last ten epochs as columns [epoch seed], and what was before, [seed] each."""

    facts: Facts
    epoch: int
    """The last one."""
    is_last: bool
    """Whether the run is at its end."""
    columns: Mapping[str, np.ndarray]
    means: Mapping[str, np.ndarray]
    """Of the columns: [seed]; NaN where one lacks a value."""
    start: np.ndarray
    """The first epoch's mean reward."""
    equal_for: np.ndarray
    """Epochs in a row, up to the last, in which rewards told no responses apart."""
    most_clipped: np.ndarray
    """The largest share of tokens that the clip has held at any step since the start."""
    largest_ratio: np.ndarray
    """At any epoch's last step since the start."""
    largest_loss: np.ndarray
    """The largest size of an earlier window's mean loss."""
    best: Past | None
    """Each seed's earlier window with the best exact match, the last of equals."""
    before: Past | None
    """The last window in which exact match was measured."""
    previous: Past | None
    """The last window that ended before this one began."""
    earlier: Past | None
    """The last window that ended twenty epochs ago or more."""

    def mean(self, name: str) -> np.ndarray:
        """A column's mean [seed]; NaN where it lacks a value."""
        return self.means[name]

    def latest(self, name: str) -> np.ndarray:
        """A column's last value [seed]; NaN where it has none."""
        column = self.columns[name]
        there = ~np.isnan(column)
        if there[-1].all() or not there.any():
            return column[-1]
        return column[len(column) - 1 - there[::-1].argmax(axis=0), np.arange(column.shape[1])]

    @property
    def length(self) -> int:
        """How many epochs it has."""
        return len(self.columns["mean_reward"])

    @property
    def nothing(self) -> np.ndarray:
        """NaN for each seed."""
        return np.full(len(self.start), np.nan)

    @property
    def nowhere(self) -> np.ndarray:
        """No seed: bool [seed]."""
        return np.zeros(len(self.start), dtype=bool)

    def nothing_to_see(self, *figures: str) -> Look:
        """What a kind sees that has nothing to look at."""
        return Look(self.nowhere, dict.fromkeys(figures, self.nothing))

    @cached_property
    def alive(self) -> np.ndarray:
        """Which seeds still train: bool [seed]."""
        return np.isfinite(self.columns["mean_reward"][-1])

    @cached_property
    def now(self) -> Past:
        """What will be remembered of it."""
        uniform = self.facts.uniform_entropy
        noisy = np.array([self.columns["mean_reward"], self.columns["loss"]])
        reward_error, loss_error = standard_error(noisy)
        return Past(
            self.epoch,
            self.mean("mean_reward"),
            reward_error,
            self.mean("loss"),
            loss_error,
            self.latest("exact_match"),
            self.latest("solution_probability"),
            self.mean("entropy") / uniform if uniform else self.nothing,
        )

    @cached_property
    def settled(self) -> np.ndarray:
        """Which policies nearly always answer the same: bool [seed]."""
        return np.asarray(self.now.spread < SETTLED)

    @cached_property
    def unsolved(self) -> np.ndarray:
        """Which seeds surely have more to earn: bool [seed].

        Where the maximum is known, those that in the window's second half lack more than a tenth of the way from the
        first epoch to it (half of it where all most likely answers are right), and more than a hundredth of it. Where
        it is not known (a reward of one's own), a policy that has settled may have solved its task, and so may one
        whose reward has risen.
        """
        right = self.now.exact_match >= 1
        most = self.facts.maximum_reward
        if most is None:
            return np.asarray(~right & ~self.settled & ~(self.now.mean_reward > self.start))
        lacking = most - self.columns["mean_reward"][self.length // 2 :].mean(axis=0)
        lacked = np.where(right, HALF_WAY, SHORT_OF) * (most - self.start)
        return np.asarray((lacking > lacked) & (lacking > NEARLY * abs(most)))

    @cached_property
    def rising(self) -> np.ndarray:
        """Whose mean reward rises within the window, beyond chance: bool [seed]."""
        half = self.length // 2
        early, late = self.columns["mean_reward"][:half], self.columns["mean_reward"][half:]
        error = np.hypot(standard_error(early), standard_error(late))
        return np.asarray(late.mean(axis=0) - early.mean(axis=0) > CLEARLY * error)


def standard_error(column: np.ndarray) -> np.ndarray:
    """Of a column's mean [... seed], from how its epochs [... epoch seed] differ."""
    return np.asarray(column.std(axis=-2, ddof=1) / np.sqrt(column.shape[-2]))
