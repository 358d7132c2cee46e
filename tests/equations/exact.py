"""Worlds small enough to sum over: one prompt, every response there is, every group of them.

The policy is a free table of logits, one row for each beginning of a response, so a later token depends on the
earlier ones. Whatever is expected of it can be summed without sampling.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor


@dataclass(frozen=True)
class World:
    """One prompt: its possible responses and what each earns."""

    responses: Tensor
    """[response token]: every one there is."""
    rows: Tensor
    """[response token]: which row of the logits a token is drawn from."""
    logits: Tensor
    """[row vocab]: where the policy stands."""
    reference: Tensor
    """[row vocab]: the logits of another policy."""
    points: Tensor
    """[response]: what each response earns."""

    def log_probs(self, logits: Tensor) -> Tensor:
        """log pi of every response's tokens: [response token]."""
        return logits.log_softmax(dim=-1)[self.rows, self.responses]

    def chances(self, logits: Tensor) -> Tensor:
        """How likely every response is: [response]."""
        return self.log_probs(logits).sum(dim=-1).exp()

    def value(self, logits: Tensor) -> Tensor:
        """The expected reward."""
        return self.chances(logits) @ self.points

    def state_values(self) -> Tensor:
        """What is expected to be earned before each token of every response: [response token]."""
        chances = self.chances(self.logits)
        through = [(self.rows == row).any(dim=-1) * chances for row in range(len(self.logits))]
        return torch.stack([(weights @ self.points) / weights.sum() for weights in through])[self.rows]

    def kl(self, logits: Tensor) -> Tensor:
        """KL(policy || reference) of whole responses, in nats."""
        chances = self.chances(logits)
        return chances @ (chances.log() - self.chances(self.reference).log())

    def score_squares(self) -> Tensor:
        """The squared length of each response's score with respect to the logits: [response]."""
        scores = [self.gradient(lambda logits, r=r: self.log_probs(logits)[r].sum()) for r in range(len(self.points))]
        return torch.stack(scores).square().sum(dim=(-2, -1))

    def variance(self, baseline: Tensor | float) -> float:
        """The total variance of one response's gradient: the trace of its covariance, with a constant baseline."""
        lengths = self.score_squares() * (self.points - baseline).square()
        return (self.chances(self.logits) @ lengths - self.gradient(self.value).square().sum()).item()

    def groups(self, size: int) -> tuple[Tensor, Tensor]:
        """Every group of `size` responses as indices [group response], and how likely each is: [group]."""
        members = torch.tensor(list(product(range(len(self.responses)), repeat=size)))
        return members, self.chances(self.logits)[members].prod(dim=-1)

    def gradient(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """d function(logits) / d logits, where the policy stands: [row vocab]."""
        logits = self.logits.clone().requires_grad_()
        return torch.autograd.grad(function(logits), logits)[0]


def numbers(*shape: int, seed: int) -> Tensor:
    """Standard normal float64 numbers, always the same for a seed."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def one_token() -> World:
    """Four responses of one token."""
    return World(
        responses=torch.arange(4)[:, None],
        rows=torch.zeros(4, 1, dtype=torch.long),
        logits=torch.tensor([[0.3, -1.2, 0.8, 0.1]], dtype=torch.float64),
        reference=torch.tensor([[-0.5, 0.4, 0.2, 1.1]], dtype=torch.float64),
        points=torch.tensor([3.0, 0.0, 1.0, 7.0], dtype=torch.float64),
    )


def two_tokens() -> World:
    """Nine responses of two tokens out of three; the second token's logits depend on the first token."""
    responses = torch.tensor(list(product(range(3), repeat=2)))
    rows = torch.stack([torch.zeros(9, dtype=torch.long), 1 + responses[:, 0]], dim=-1)
    return World(
        responses=responses,
        rows=rows,
        logits=numbers(4, 3, seed=1),
        reference=numbers(4, 3, seed=2),
        points=torch.tensor([5.0, 0.0, 1.0, 2.0, 8.0, 0.0, 1.0, 1.0, 3.0], dtype=torch.float64),
    )


WORLDS = {"one token": one_token(), "two tokens": two_tokens()}


def off_direction(estimate: Tensor, true: Tensor) -> float:
    """The share of an estimate's length that points away from the true direction: 0 parallel, 1 at right angles."""
    along = (estimate * true).sum() / true.square().sum() * true
    return ((estimate - along).norm() / estimate.norm()).item()
