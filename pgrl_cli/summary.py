"""How a config's runs went: what is remembered of them while they train, and the few numbers that remain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.training.evaluation import EVALUATED

ENDS = 10
"""Epochs that the first and last mean reward are taken over."""


@dataclass(frozen=True)
class Summary:
    """How a config's runs went, in a few numbers: of several seeds the means over those that lived, None if none did.

    One run alone that failed keeps the numbers that it had.
    """

    first_mean_reward: float | None = None
    """Of the first ten epochs."""
    last_mean_reward: float | None = None
    """Of the last ten epochs."""
    best_mean_reward: float | None = None
    """Of the best epoch, each seed's own."""
    exact_match: float | None = None
    held_out_exact_match: float | None = None
    solution_probability: float | None = None
    """The policy's own probability of the right answer, averaged over prompts."""
    maximum_reward: float | None = None
    """What right answers earn on average, where that is known."""
    epochs: int = 0
    """Epochs done."""
    seconds: float = 0.0
    """Training with its log files, without imports and picture, in all segments."""
    skipped_steps: int = 0
    """Steps skipped because a gradient had no finite norm, over all seeds (`on_nonfinite: skip`)."""
    picture_error: str | None = None
    """Why there is no picture, where there is none."""
    last_interval: tuple[float, float] | None = None
    """The 95 % bootstrap interval of the last mean reward, over two living seeds or more; none of what failed."""
    seeds: tuple[dict[str, Any], ...] | None = None
    """Of a config with `seeds`, how each one went."""
    findings: tuple[dict[str, Any], ...] = ()
    """What stood out, in the order in which it was said."""


@dataclass
class Fates:
    """What became of each seed so far."""

    seeds: Sequence[int]
    """Of one run alone its one."""
    several: bool
    """Whether the config has `seeds`."""
    mean_rewards: list[np.ndarray] = field(default_factory=list)
    """Of each epoch: [seed]."""
    evaluation: dict[str, np.ndarray] = field(default_factory=dict)
    """[seed] each."""
    failures: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What is known of the seeds that ended early, by their place."""
    skipped: int = 0
    """Steps that were skipped because a gradient had no finite norm, over all seeds."""

    def __post_init__(self) -> None:
        self.alive = np.ones(len(self.seeds), dtype=bool)

    def take_up(self, failures: Mapping[str, Mapping[str, Any]], skipped: int) -> None:
        """Know again who had ended early."""
        self.failures = {int(place): dict(told) for place, told in failures.items()}
        self.alive[list(self.failures)] = False
        self.skipped = skipped

    def note(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Remember what the end needs of an epoch."""
        self.mean_rewards.append(np.atleast_1d(rows[0]["mean_reward"]))
        for name in EVALUATED:
            if rows[-1].get(name) is not None:
                self.evaluation[name] = np.atleast_1d(rows[-1][name])

    def fail(self, place: int, step: int, what: str) -> None:
        """One of the seeds has ended early."""
        self.alive[place] = False
        self.failures[place] = {"step": step, "error": what}

    def summary(self, status: str, **known: Any) -> Summary:
        """How the runs went so far; what else is known of them is taken as it is."""
        first, last, best = self.ends()
        return Summary(
            first_mean_reward=_mean(first),
            last_mean_reward=_mean(last),
            best_mean_reward=_mean(best),
            exact_match=self._evaluated("exact_match"),
            held_out_exact_match=self._evaluated("held_out_exact_match"),
            solution_probability=self._evaluated("solution_probability"),
            epochs=len(self.mean_rewards),
            skipped_steps=self.skipped,
            last_interval=None if status == "failed" else _interval(last),
            seeds=tuple(self._told(status, last)) if self.several else None,
            **known,
        )

    def ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each seed's mean reward over the first and the last epochs, and its best: [seed].

        Of several seeds the failed are NaN; one run alone keeps its numbers.
        """
        nothing = np.full(len(self.seeds), np.nan)
        if not self.mean_rewards:
            return nothing, nothing, nothing
        rewards = np.array(self.mean_rewards, dtype=float)
        if self.several:
            rewards = np.where(self.alive, rewards, np.nan)
        return rewards[:ENDS].mean(axis=0), rewards[-ENDS:].mean(axis=0), rewards.max(axis=0)

    def _evaluated(self, name: str) -> float | None:
        values = self.evaluation.get(name)
        return None if values is None else _mean(values)

    def _told(self, status: str, last: np.ndarray) -> list[dict[str, Any]]:
        told = []
        for place, seed in enumerate(self.seeds):
            if place in self.failures:
                told.append({"seed": seed, "status": "failed", **self.failures[place]})
            else:
                matches = self.evaluation.get("exact_match")
                match = None if matches is None else float(matches[place])
                reward = None if np.isnan(last[place]) else float(last[place])
                told.append({"seed": seed, "status": status, "last_mean_reward": reward, "exact_match": match})
        return told


def _interval(values: np.ndarray) -> tuple[float, float] | None:
    low, high = statistics.bootstrap_interval([values], statistics.mean)
    return None if np.isnan(low) else (float(low), float(high))


def _mean(values: np.ndarray) -> float | None:
    present = values[~np.isnan(values)]
    return float(present.mean()) if len(present) else None
