"""What each delta mode makes of one rollout: its expected gradient against the true one, and its noise."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pgrl_cli.diagnosis.groups import Estimate, Groups, estimate, groups_of
from pgrl_cli.diagnosis.modes import visible
from pgrl_cli.diagnosis.moments import Advantage, Moments, gradient, most_kinds
from pgrl_cli.diagnosis.moments import moments as moments_of
from pgrl_cli.diagnosis.population import BATCHES, MOST_NUMBERS, Population
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
    """Every delta mode that can be looked at and that the config's group is large enough for, by name.

    scale, off_direction, total_variance, signal_to_noise: see `Estimate.numbers`; cosine: of one rollout's gradient to
    the true one, its 5, 50 and 95 % quantiles; responses_needed: to each prompt, until it is as accurate (see there)
    as the best mode is with the config's number; None if that is beyond 64 times as many, or if nothing is accurate at
    all. standard_error: of the four, where they rest on a sample; else None.
    """
    subject = population.subject
    size, uniforms = subject.group_size, _uniforms(subject, subject.group_size, subject.samples)
    modes = _modes(size)
    classes = {names: _Classes(names, population) for names in {visible(mode) or () for mode in modes}}
    seen = {mode: _Seen(mode, classes[visible(mode) or ()]) for mode in modes}
    estimates = {mode: each.estimate(size, uniforms) for mode, each in seen.items()}
    numbers = {mode: each.numbers() for mode, each in estimates.items()}
    towards = _cosines(drawn, list(seen), truth)
    accuracies = {mode: each.accuracy(size, subject.samples) for mode, each in seen.items()}
    best = max((accuracy for accuracy in accuracies.values() if accuracy > 0), default=math.inf)
    return {
        mode.__name__: {
            **{name: numbers[mode][name] for name in MEASURED},
            "cosine": towards[mode.__name__],
            "responses_needed": seen[mode].responses_needed(best, accuracies[mode]),
            "exact": each.parts is None,
            "standard_error": each.errors(),
        }
        for mode, each in estimates.items()
    }


def _cosines(drawn: Rollouts, modes: Sequence[Function], truth: Tensor) -> dict[str, dict[str, float]]:
    found = cosines(drawn, {mode.__name__: mode for mode in modes}, truth)
    return {
        name: {f"p{100 * level:02.0f}": values.quantile(level).item() for level in QUANTILES}
        for name, values in found.items()
    }


def one_rollout(mode: Function, population: Population, truth: Tensor | None = None) -> Estimate:
    """Its gradient with the config's groups, drawn as the population's weights say.

    Beside a true one [parameter], which is the population's own unless another is given.
    """
    subject = population.subject
    uniforms = _uniforms(subject, subject.group_size, subject.samples)
    return _Seen(mode, _Classes(visible(mode) or (), population), truth).estimate(subject.group_size, uniforms)


def _modes(size: int) -> list[Function]:
    return [mode for mode in ADVANTAGES.values() if visible(mode) is not None and smallest_group(mode) <= size]


def _uniforms(subject: Subject, size: int, rollouts: int) -> Tensor:
    """[rollout prompt response]."""
    return subject.uniforms("groups", max(rollouts, BATCHES), len(subject.prompts), size)


class _Classes:
    """A population by what some delta modes see of it."""

    def __init__(self, names: Sequence[str], population: Population):
        subject = population.subject
        numbers = most_kinds(population, names) * subject.parameter_count * len(subject.prompts)
        if population.exact and numbers > MOST_NUMBERS:
            population = population.drawn()  # nearly every response is a class of its own
        self.names, self.population = names, population
        self.moments = moments_of(population, names)

    @cached_property
    def parts(self) -> list[list[Moments]]:
        """The moments of each part of a sample."""
        return [moments_of(part, self.names) for part in self.population.batches()]


class _Seen:
    """A population as a delta mode sees it."""

    def __init__(self, mode: Function, classes: _Classes, truth: Tensor | None = None):
        self.mode, self.classes, self.truth = mode, classes, truth
        self.moments, self.subject = classes.moments, classes.population.subject

    def estimate(self, size: int, uniforms: Tensor) -> Estimate:
        """One rollout's gradient with groups of so many responses; uniforms [rollout prompt response]."""
        if self.classes.population.exact:
            return self.as_if_exact(size, uniforms)
        mean, total_variance = estimate(self.moments, self._groups(self.moments, size, uniforms))
        parts = self._together(
            (moments, self._groups(moments, size, uniforms[number::BATCHES]))
            for number, moments in enumerate(self.classes.parts)
        )
        return Estimate(mean, total_variance, self._truth(self.moments), parts)

    def as_if_exact(self, size: int, uniforms: Tensor) -> Estimate:
        """The same, as if these were all responses there are: only groups may be a sample."""
        groups = self._groups(self.moments, size, uniforms)
        parts = None
        if not all(group.exact for group in groups):
            parts = self._together(
                (self.moments, [group.batch(number) for group in groups]) for number in range(BATCHES)
            )
        return Estimate(*estimate(self.moments, groups), self._truth(self.moments), parts)

    def _together(self, parts: Iterable[tuple[Sequence[Moments], Sequence[Groups]]]) -> Estimate:
        each = [(*estimate(moments, groups), self._truth(moments)) for moments, groups in parts]
        means, variances, truths = (torch.stack(column) for column in zip(*each, strict=True))
        return Estimate(means, variances, truths)

    def _truth(self, moments: Sequence[Moments]) -> Tensor:
        return gradient(moments) if self.truth is None else self.truth

    def _groups(self, moments: Sequence[Moments], size: int, uniforms: Tensor) -> list[Groups]:
        return [
            groups_of(prompt, self._advantages(prompt, self.subject.greedy_rewards[index]), size, uniforms[:, index])
            for index, prompt in enumerate(moments)
        ]

    def _advantages(self, prompt: Moments, greedy_reward: Tensor) -> Advantage:
        """The delta mode of groups [group response] at a prompt."""

        def advantages(seen: Mapping[str, Tensor]) -> Tensor:
            count = len(next(iter(seen.values())))
            known = {"true_values": prompt.value.expand(count), "greedy_rewards": greedy_reward.expand(count)}
            return apply(self.mode, {**seen, **known}, self.subject.share.knobs)

        return advantages

    def accuracy(self, size: int, rollouts: int) -> float:
        """See `Estimate.numbers`, with groups of so many responses."""
        return self.as_if_exact(size, _uniforms(self.subject, size, rollouts)).numbers()["accuracy"]

    def responses_needed(self, accuracy: float, here: float) -> int | None:
        """The smallest group that reaches an accuracy; `here` is that of the config's group, worked out before.

        Doubled until it is reached, then halved in between: that takes a larger group for a more accurate one. None
        where nothing is accurate, and where `LARGEST` times the config's group is not enough.
        """
        if accuracy == math.inf:
            return None
        own, rollouts = self.subject.group_size, min(SEARCHED, self.subject.samples)

        def is_enough(size: int) -> bool:
            return (here if size == own else self.accuracy(size, rollouts)) >= accuracy * SURE

        enough, most = smallest_group(self.mode), LARGEST * own
        fails = enough - 1
        while not is_enough(enough):
            if enough == most:
                return None
            fails, enough = enough, min(2 * enough, most)
        while enough - fails > 1:
            middle = (fails + enough) // 2
            fails, enough = (fails, middle) if is_enough(middle) else (middle, enough)
        return enough
