"""What each delta mode makes of one rollout: its expected gradient against the true one, and its noise."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from pgrl_cli.diagnosis.errors import standard_errors
from pgrl_cli.diagnosis.groups import Estimate, estimate, groups_of
from pgrl_cli.diagnosis.moments import Moments, gradient, most_kinds, visible
from pgrl_cli.diagnosis.moments import moments as moments_of
from pgrl_cli.diagnosis.population import BATCHES, MOST_NUMBERS, Population, sampled
from pgrl_cli.diagnosis.rollouts import Rollouts, cosines
from pgrl_cli.diagnosis.subject import Subject
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.registry import Function, apply, smallest_group

MEASURED = ("scale", "off_direction", "total_variance", "signal_to_noise")
QUANTILES = (0.05, 0.5, 0.95)
LARGEST = 64
"""How many times the config's group size is tried, looking for the accuracy of the best mode."""
SEARCHED = 512
"""Rollouts that are drawn of each size while looking."""
SURE = 1 - 1e-9
"""Sums in another order differ in their last digits."""


def delta_modes(population: Population, drawn: Rollouts, truth: Tensor) -> dict[str, dict[str, Any]]:
    """Every delta mode that the config's group is large enough for, by name.

    scale, off_direction, total_variance, signal_to_noise: see `Estimate.against`; cosine: of one rollout's gradient to
    the true one, its 5, 50 and 95 % quantiles; responses_needed: to each prompt, until it is as accurate as the best
    mode is with the config's number; None if that is beyond 64 times as many, or there is no true gradient.
    standard_error: of the four, where they rest on a sample; else None.
    """
    subject = population.subject
    size, uniforms = subject.group_size, _uniforms(subject, subject.group_size, subject.samples)
    seen = {mode: _Seen(mode, population) for mode in _modes(size)}
    estimates = {mode: each.against_truth(size, uniforms) for mode, each in seen.items()}
    towards = _cosines(drawn, list(seen), truth)
    best = max((n["accuracy"] for n in estimates.values() if not math.isnan(n["accuracy"])), default=math.nan)
    return {
        mode.__name__: {
            **{name: numbers[name] for name in MEASURED},
            "cosine": towards[mode.__name__],
            "responses_needed": seen[mode].responses_needed(best),
            "exact": bool(numbers["exact"]),
            "standard_error": None if numbers["exact"] else seen[mode].standard_errors(size, uniforms),
        }
        for mode, numbers in estimates.items()
    }


def _cosines(drawn: Rollouts, modes: Sequence[Function], truth: Tensor) -> dict[str, dict[str, float]]:
    found = cosines(drawn, {mode.__name__: mode for mode in modes}, truth)
    return {
        name: {f"p{100 * level:02.0f}": values.quantile(level).item() for level in QUANTILES}
        for name, values in found.items()
    }


def expected_gradient(mode: Function, population: Population) -> Tensor:
    """[parameter]: of the config's groups, drawn as the population's weights say."""
    subject = population.subject
    seen = _Seen(mode, population)
    return seen.estimate(subject.group_size, _uniforms(subject, subject.group_size, subject.samples)).mean


def _modes(size: int) -> list[Function]:
    return [mode for mode in ADVANTAGES.values() if visible(mode) is not None and smallest_group(mode) <= size]


def _uniforms(subject: Subject, size: int, rollouts: int) -> Tensor:
    """[rollout prompt response]."""
    return subject.uniforms("groups", rollouts, len(subject.prompts), size)


class _Seen:
    """A population as a delta mode sees it."""

    def __init__(self, mode: Function, population: Population):
        names = visible(mode) or ()
        subject = population.subject
        if population.exact and most_kinds(population, names) * subject.parameter_count > MOST_NUMBERS:
            population = sampled(subject)  # nearly every response is a class of its own
        self.mode, self.names, self.population, self.subject = mode, names, population, subject
        self.moments = moments_of(population, names)
        self.truth = gradient(self.moments)

    def estimate(self, size: int, uniforms: Tensor, moments: Sequence[Moments] | None = None) -> Estimate:
        """One rollout's gradient with groups of so many responses; uniforms [rollout prompt response]."""
        moments = self.moments if moments is None else moments
        drawn = [
            groups_of(prompt, self._advantages(prompt), size, uniforms[:, index])
            for index, prompt in enumerate(moments)
        ]
        return estimate(moments, drawn)

    def _advantages(self, prompt: Moments) -> Any:
        """The delta mode of groups [group response] at a prompt."""

        def advantages(seen: dict[str, Tensor]) -> Tensor:
            groups = next(iter(seen.values()))
            known = seen | {"true_values": prompt.value.expand(len(groups))}
            return apply(self.mode, known, self.subject.share.knobs)

        return advantages

    def against_truth(self, size: int, uniforms: Tensor) -> dict[str, float]:
        found = self.estimate(size, uniforms)
        return found.against(self.truth) | {"exact": found.exact and self.population.exact}

    def standard_errors(self, size: int, uniforms: Tensor) -> dict[str, float]:
        parts = []
        populations = [None] * BATCHES if self.population.exact else self.population.batches()
        for batch, population in enumerate(populations):
            moments = self.moments if population is None else moments_of(population, self.names)
            found = self.estimate(size, uniforms[batch::BATCHES], moments)
            numbers = found.against(gradient(moments))
            parts.append({name: numbers[name] for name in MEASURED})
        errors: dict[str, float] = standard_errors(parts)
        return errors

    def accuracy(self, size: int) -> float:
        known = size == self.subject.group_size  # what the best one's was found from
        rollouts = self.subject.samples if known else min(SEARCHED, self.subject.samples)
        uniforms = _uniforms(self.subject, size, rollouts)
        return self.estimate(size, uniforms).against(self.truth)["accuracy"]

    def responses_needed(self, accuracy: float) -> int | None:
        """The smallest group that is as accurate: doubled until it is, then halved in between."""
        if math.isnan(accuracy):
            return None
        fails, enough = smallest_group(self.mode) - 1, max(smallest_group(self.mode), self.subject.group_size)
        while self.accuracy(enough) < accuracy * SURE:
            fails, enough = enough, 2 * enough
            if enough > LARGEST * self.subject.group_size:
                return None
        while enough - fails > 1:
            middle = (fails + enough) // 2
            fails, enough = (fails, middle) if self.accuracy(middle) >= accuracy * SURE else (middle, enough)
        return enough
