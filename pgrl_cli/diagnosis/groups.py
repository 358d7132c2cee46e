"""Groups of responses, all of them or a sample, and the gradient estimate that a delta mode makes of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement

import numpy as np
import torch
from torch import Tensor

from pgrl_cli.diagnosis.moments import Advantage, Moments
from pgrl_cli.equations.categorical import inverse_cdf

MOST_GROUPS = 50_000
"""Different groups of one prompt, by how often each class of response occurs, up to which a sum over them is exact."""


@dataclass(frozen=True)
class Groups:
    """One prompt's groups, and what their advantages are worth: by class of response, [group kind]."""

    weights: Tensor
    """[group]: how likely each is."""
    means: Tensor
    """The mean over a group's responses of the advantages of those of a class."""
    squares: Tensor
    """The same of squared advantages, divided by the group's size once more."""
    exact: bool


@dataclass(frozen=True)
class Estimate:
    """The gradient of one rollout as a random vector."""

    mean: Tensor
    """[parameter]."""
    total_variance: float
    """The trace of its covariance."""
    noise: float
    """The expected squared error of `mean` as it stands here; 0 where it is exact."""
    exact: bool

    def against(self, truth: Tensor) -> dict[str, float]:
        """How it lies to the true gradient [parameter].

        scale: its component along the truth, in lengths of the truth; off_direction: the share of it across;
        signal_to_noise: its length by the square root of the total variance; accuracy: the component along the truth
        by the root mean square of its length, which is 1 for an estimate without error.
        """
        length = truth.square().sum()
        square = max(self.mean.square().sum().item() - self.noise, 0.0)
        scale = (self.mean @ truth / length).item() if length > 0 else math.nan
        across = max((self.mean - scale * truth).square().sum().item() - self.noise, 0.0)
        second = square + self.total_variance
        return {
            "scale": scale,
            "off_direction": math.sqrt(across / square) if square > 0 else math.nan,
            "total_variance": self.total_variance,
            "signal_to_noise": math.sqrt(square / self.total_variance) if self.total_variance > 0 else math.inf,
            "accuracy": scale * math.sqrt(length.item() / second) if second > 0 else math.nan,
        }


def groups_of(prompt: Moments, advantage: Advantage, size: int, uniforms: Tensor) -> Groups:
    """A prompt's groups of so many responses: all where they are few, else those that uniforms [group response] draw.

    Groups that have the same classes in another order are one, since a delta mode does not mind the order.
    """
    kinds = len(prompt.mass)
    if math.comb(kinds + size - 1, size) <= MOST_GROUPS:
        members, weights = _every_group(prompt.mass, size)
        exact = True
    else:
        members = inverse_cdf(prompt.mass.log(), uniforms[:, :size])
        weights = torch.full((len(members),), 1 / len(members), dtype=uniforms.dtype)
        exact = False
    advantages = advantage({name: values[members] for name, values in prompt.seen.items()})
    nothing = torch.zeros(len(members), kinds, dtype=advantages.dtype)
    means = nothing.scatter_add(1, members, advantages / size)
    squares = nothing.scatter_add(1, members, (advantages / size).square())
    return Groups(weights, means, squares, exact)


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


def estimate(prompts: Sequence[Moments], groups: Sequence[Groups]) -> Estimate:
    """One rollout's gradient: the mean over prompts of what their groups say.

    Given the classes of a group the scores are independent, so their spread within a class is a sum and not a sample.
    """
    means, variance, noise = [], 0.0, 0.0
    for prompt, group in zip(prompts, groups, strict=True):
        mean = (group.weights @ group.means) @ prompt.typical
        between = ((group.means @ prompt.gram) * group.means).sum(dim=-1) @ group.weights - mean.square().sum()
        within = (group.weights @ group.squares) @ prompt.spread
        means.append(mean)
        variance += (between + within).item()
        noise += 0.0 if group.exact else between.item() / len(group.weights)
    asked = len(prompts)
    exact = all(group.exact for group in groups)
    return Estimate(torch.stack(means).mean(dim=0), variance / asked**2, noise / asked**2, exact)
