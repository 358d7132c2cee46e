"""Scores summed up over responses that an advantage cannot tell apart.

A delta mode sees rewards, not responses. So of all responses that earn the same (and, where it asks for more, are alike
in that too) only three numbers matter: how likely they are, their mean score, and its mean square. That makes sums over
whole groups of responses short enough to be exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pgrl_cli.diagnosis.population import Population

DIGITS = 10
"""Numbers that agree so far are the same: sums of probabilities differ in their last digits."""
ROUNDING = 8
"""Of a sum of rewards, in units of the last place of the largest."""
NEARLY_EQUAL = 64
"""The same of sums over all responses or groups, of which there are more."""
SEEN_BY = {"rewards": "task_rewards"}
"""What tells classes apart in place of what a mode sees: a large shift would leave few digits of the difference."""
Advantage = Callable[[Mapping[str, Tensor]], Tensor]
"""From what groups [group response] show to their advantages [group response]."""


@dataclass(frozen=True)
class Moments:
    """One prompt's responses by class; score stands for the gradient of log pi of a whole response."""

    seen: Mapping[str, Tensor]
    """What a delta mode sees of each class: `rewards` and what else it asked for, [kind] each."""
    value: Tensor
    """[]: the expected reward."""
    mass: Tensor
    """[kind]: the probability of each class."""
    sums: Tensor
    """[kind parameter]: E[score, of this class]; divided by the mass it is the mean."""
    squares: Tensor
    """[kind]: E[score squared, of this class]."""

    @cached_property
    def typical(self) -> Tensor:
        """[kind parameter]: each class's mean score."""
        return self.sums / self._mass[:, None]

    @cached_property
    def gram(self) -> Tensor:
        """[kind kind]: the products of the mean scores."""
        return self.typical @ self.typical.mT

    @cached_property
    def spread(self) -> Tensor:
        """[kind]: the total variance of the scores within a class."""
        return self.squares / self._mass - self.typical.square().sum(dim=-1)

    @property
    def _mass(self) -> Tensor:
        return self.mass.clamp(min=torch.finfo(self.mass.dtype).tiny)

    @property
    def gradient(self) -> Tensor:
        """[parameter]: of the prompt's expected reward; the value is subtracted, since E[score] is zero.

        What is no more than the rounding of rewards, times the root mean square of a score, is zero.
        """
        rewards = self.seen["rewards"]
        found = (rewards - self.value) @ self.sums
        rounding = (
            ROUNDING * torch.finfo(found.dtype).eps * rewards.abs().max() * self.squares.sum().clamp(min=0).sqrt()
        )
        return found if found.norm() > rounding else torch.zeros_like(found)

    def variance(self, baseline: Tensor) -> Tensor:
        """Of (R - b) score, for one response: E[(R - b)^2 |score|^2] - |E[(R - b) score]|^2."""
        advantages = self.seen["rewards"] - baseline
        second = advantages.square() @ self.squares
        return all_but_rounding(second - (advantages @ self.sums).square().sum(), second)


def all_but_rounding(difference: Tensor, whole: Tensor) -> Tensor:
    """A difference of two sums that nearly cancel, one of them `whole`: zero where it is their rounding."""
    return torch.where(difference > NEARLY_EQUAL * torch.finfo(whole.dtype).eps * whole, difference, 0.0)


def moments(population: Population, names: Sequence[str]) -> list[Moments]:
    """Each prompt's, by classes that agree in what is named; worked out once for a population."""
    found: list[Moments] | None = population.summed.get(tuple(names))
    if found is None:
        prompts = range(len(population.responses))
        found = [_summed(population, prompt, *_kinds(population, prompt, names)) for prompt in prompts]
        population.summed[tuple(names)] = found
    return found


def most_kinds(population: Population, names: Sequence[str]) -> int:
    """How many classes the prompt with the most of them has."""
    return max(int(kind.max()) + 1 for kind in kinds(population, names))


def kinds(population: Population, names: Sequence[str]) -> list[Tensor]:
    """Which class each of a prompt's responses is of: [response] for each prompt."""
    return [_kinds(population, prompt, names)[1] for prompt in range(len(population.responses))]


def _kinds(population: Population, prompt: int, names: Sequence[str]) -> tuple[dict[str, Tensor], Tensor]:
    """The classes of a prompt's responses, and which class [response] each is of."""
    columns = torch.stack([getattr(population, SEEN_BY.get(name, name))[prompt] for name in names], dim=-1)
    scale = columns.abs().amax(dim=0).clamp(min=torch.finfo(columns.dtype).tiny)
    _, kind = torch.unique((columns / scale).round(decimals=DIGITS), dim=0, return_inverse=True)
    first = torch.zeros(int(kind.max()) + 1, dtype=torch.long).scatter_(0, kind, torch.arange(len(kind)))
    return {name: getattr(population, name)[prompt, first] for name in names}, kind


def _summed(population: Population, prompt: int, seen: Mapping[str, Tensor], kind: Tensor) -> Moments:
    weights, count = population.weights[prompt], int(kind.max()) + 1
    mass = torch.zeros(count, dtype=weights.dtype).index_add_(0, kind, weights)
    squares = torch.zeros_like(mass)
    sums: Tensor | None = None
    for some, scores in population.scores(prompt):
        weighted = weights[some, None] * scores
        if sums is None:
            sums = torch.zeros(count, scores.shape[-1], dtype=weights.dtype)
        sums.index_add_(0, kind[some], weighted)
        squares.index_add_(0, kind[some], (weighted * scores).sum(dim=-1))
    assert sums is not None
    if population.own and not population.exact:
        sums, squares = _centered(mass, sums, squares)
    return Moments(seen, mass @ seen["rewards"], mass, sums, squares)


def _centered(mass: Tensor, sums: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
    """Scores less their mean over the sample: under the policy it is zero, and in a sample nothing but noise."""
    mean = sums.sum(dim=0)
    return sums - mass[:, None] * mean, squares - 2 * sums @ mean + mass * mean.square().sum()


def gradient(prompts: Sequence[Moments]) -> Tensor:
    """[parameter]: of the expected reward, averaged over prompts."""
    return torch.stack([each.gradient for each in prompts]).mean(dim=0)
