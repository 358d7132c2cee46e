"""Groups of responses, all of them or a sample, and the gradient estimate that a delta mode makes of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement

import numpy as np
import torch
from einops import einsum
from torch import Tensor

from pgrl_cli.diagnosis.errors import mean_error, pseudo_values, quotient_error
from pgrl_cli.diagnosis.moments import Advantage, Moments, all_but_rounding
from pgrl_cli.diagnosis.population import BATCHES, NUMBERS_AT_ONCE
from pgrl_cli.pieces import slices

FEW_KINDS = 256
"""Classes whose products are cheaper to keep than to work out for each group."""
MOST_GROUPS = 50_000
"""Different groups of one prompt, by how often each class of response occurs, up to which a sum over them is exact."""


@dataclass(frozen=True)
class Groups:
    """One prompt's groups of responses, and what each response's score counts in its group's gradient."""

    weights: Tensor
    """[group]: how likely each is."""
    members: Tensor
    """[group response]: the classes of the responses."""
    shares: Tensor
    """[group response]: their advantages, divided by the group's size."""
    exact: bool

    def batch(self, number: int) -> "Groups":
        """One of the parts of a sample of groups; of all groups there are, all."""
        if self.exact:
            return self
        some = slice(number, None, BATCHES)
        weights = self.weights[some]
        return Groups(weights / weights.sum(), self.members[some], self.shares[some], exact=False)


@dataclass(frozen=True)
class Estimate:
    """The gradient of one rollout as a random vector, beside the true one."""

    mean: Tensor
    """[... parameter]."""
    total_variance: Tensor
    """[...]: the trace of its covariance."""
    truth: Tensor
    """[... parameter]."""
    parts: "Estimate | None" = None
    """[part ...]: the same, from parts of a sample that know nothing of each other; None where all is exact."""

    def numbers(self) -> dict[str, float]:
        """How it lies to the true gradient; NaN where that, or the estimate's expectation, has no length.

        And all are NaN where none of the groups that were drawn has a gradient, though the truth has one.

        scale: its component along the truth, in lengths of the truth; off_direction: the share of it across;
        signal_to_noise: its length by the square root of the total variance; accuracy: the component along the truth
        by the root mean square of its length, which is 1 for an estimate without error.
        """
        known = {name: values.mean().item() for name, values in self._squares().items()}
        second = known["square"] + known["total_variance"]
        if self.parts is not None and second == 0 < known["length"]:  # no group that was drawn has a gradient
            return dict.fromkeys(("scale", "off_direction", "total_variance", "signal_to_noise", "accuracy"), math.nan)
        points = known["length"] > 0
        return {
            "scale": _quotient(known["along"], known["length"]),
            "off_direction": _root(_quotient(known["across"], known["square"])) if points else math.nan,
            "total_variance": known["total_variance"],
            "signal_to_noise": _root(_quotient(max(known["square"], 0.0), known["total_variance"])),
            "accuracy": _quotient(known["along"], _root(known["length"] * second)),
        }

    def errors(self) -> dict[str, float] | None:
        """The standard errors of the first four; None where all is exact."""
        if self.parts is None:
            return None
        known, numbers = self._squares(), self.numbers()
        return {
            "scale": quotient_error(known["along"], known["length"]),
            "off_direction": _error_of_root(numbers, "off_direction", known["across"], known["square"]),
            "total_variance": mean_error(known["total_variance"]),
            "signal_to_noise": _error_of_root(numbers, "signal_to_noise", known["square"], known["total_variance"]),
        }

    def _squares(self) -> dict[str, Tensor]:
        """What the numbers are made of; of a sample [part], freed of what noise adds to a square."""
        here = (self.mean, self.total_variance, self.truth)
        if self.parts is None:
            return _squares(*here)
        return pseudo_values(_squares, here, (self.parts.mean, self.parts.total_variance, self.parts.truth))


def _squares(mean: Tensor, total_variance: Tensor, truth: Tensor) -> dict[str, Tensor]:
    """Squared lengths and products of vectors [... parameter]: [...] each."""
    length, along = truth.square().sum(dim=-1), (mean * truth).sum(dim=-1)
    towards = torch.where(length > 0, along / length, 0.0).unsqueeze(-1) * truth
    return {
        "length": length,
        "along": along,
        "square": mean.square().sum(dim=-1),
        "across": (mean - towards).square().sum(dim=-1),
        "total_variance": total_variance,
    }


def _quotient(value: float, by: float) -> float:
    if by > 0:
        return value / by
    return math.inf if value > 0 and by == 0 else math.nan


def _root(square: float) -> float:
    """Noise may leave a square below zero."""
    return math.sqrt(max(square, 0.0)) if not math.isnan(square) else math.nan


def _error_of_root(numbers: Mapping[str, float], name: str, values: Tensor, by: Tensor) -> float:
    """As far as the root moves if its square is one standard error larger: that has a meaning at zero too."""
    return math.sqrt(numbers[name] ** 2 + quotient_error(values, by)) - numbers[name]


def groups_of(prompt: Moments, advantage: Advantage, size: int, uniforms: Tensor) -> Groups:
    """A prompt's groups of so many responses: all where they are few, else those that uniforms [group response] draw.

    Groups that have the same classes in another order are one, since a delta mode does not mind the order.
    """
    kinds = len(prompt.mass)
    if math.comb(kinds + size - 1, size) <= MOST_GROUPS:
        members, weights = _every_group(prompt.mass, size)
        exact = True
    else:
        likelihoods = prompt.mass.cumsum(dim=0)
        drawn = torch.searchsorted(likelihoods, uniforms[:, :size].contiguous() * likelihoods[-1], right=True)
        members = drawn.clamp(max=kinds - 1)
        weights = torch.full((len(members),), 1 / len(members), dtype=uniforms.dtype)
        exact = False
    advantages = advantage({name: values[members] for name, values in prompt.seen.items()})
    return Groups(weights, members, advantages / size, exact)


def _every_group(mass: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """All groups [group response] of classes, and how likely each is: the multinomial distribution."""
    kinds = len(mass)
    flat = chain.from_iterable(combinations_with_replacement(range(kinds), size))
    members = torch.from_numpy(np.fromiter(flat, dtype=np.int64).reshape(-1, size))
    counts = torch.zeros(len(members), kinds, dtype=mass.dtype).scatter_add_(
        1, members, torch.ones(members.shape, dtype=mass.dtype)
    )
    orders = math.lgamma(size + 1) - torch.lgamma(counts + 1).sum(dim=-1)
    return members, (orders + torch.special.xlogy(counts, mass).sum(dim=-1)).exp()


def estimate(prompts: Sequence[Moments], groups: Sequence[Groups]) -> tuple[Tensor, Tensor]:
    """One rollout's gradient, the mean over prompts of what their groups say: [parameter], and its total variance.

    Given the classes of a group the scores are independent, so their spread within a class is a sum and not a sample.
    """
    means, variances = [], []
    for prompt, group in zip(prompts, groups, strict=True):
        counted = group.weights[:, None] * group.shares
        by_kind = torch.zeros_like(prompt.mass).index_add_(0, group.members.flatten(), counted.flatten())
        mean = by_kind @ prompt.typical
        within = (counted * group.shares * prompt.spread[group.members]).sum()
        second = group.weights @ _squared_lengths(prompt, group) + within
        means.append(mean)
        variances.append(all_but_rounding(second - mean.square().sum(), second))
    return torch.stack(means).mean(dim=0), torch.stack(variances).sum() / len(prompts) ** 2


def _squared_lengths(prompt: Moments, group: Groups) -> Tensor:
    """[group]: of the gradients that groups expect, given the classes of their responses."""
    kinds = len(prompt.mass)
    if kinds <= FEW_KINDS:
        nothing = torch.zeros(len(group.members), kinds, dtype=group.shares.dtype)
        by_kind = nothing.scatter_add_(1, group.members, group.shares)
        return ((by_kind @ prompt.gram) * by_kind).sum(dim=-1)
    numbers = group.members.shape[-1] * prompt.typical.shape[-1]
    stretches = slices(len(group.members), NUMBERS_AT_ONCE // numbers)
    return torch.cat(
        [_gradients(prompt.typical, group.members[some], group.shares[some]).square().sum(dim=-1) for some in stretches]
    )


def _gradients(typical: Tensor, members: Tensor, shares: Tensor) -> Tensor:
    """[group parameter]."""
    return einsum(typical[members], shares, "group response parameter, group response -> group parameter")
