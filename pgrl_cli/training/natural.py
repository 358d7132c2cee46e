"""The natural gradient: steps that are as long as a policy is moved by them, not its parameters.

parameters, gradient and every vector are [... parameter]: all of a policy's parameters in one tensor, each run's by
itself. The Fisher matrix is never written out; it is known by its products with vectors.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from pgrl_cli.equations.averages import Mask, token_mean
from pgrl_cli.equations.divergences import exact
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import joined
from pgrl_cli.registry import Count, Moderate, NonNegative, Whole
from pgrl_cli.training.parts import Number, column

Product = Callable[[Tensor], Tensor]
"""Vectors [... parameter] -> a matrix times them, [... parameter]: each run's own matrix."""
Trial = Callable[[], tuple[Tensor, Tensor]]
"""At the parameters as they are now: the objective to descend [...], and KL(before || now) [...] in nats."""

ROUNDING = 4.0
"""By how many of a dtype's smallest shares two objectives may differ that are the same."""


class Move(NamedTuple):
    """How a step within a bound went."""

    kl: Tensor
    """[...]: KL(before || now) in nats, never above the bound; 0 where nothing moved."""
    halvings: Tensor
    """[...]: how often the step was halved; whole numbers."""
    moved: Tensor
    """[...]: whether a step was accepted; bool."""


@torch.no_grad()
def trpo(
    parameters: Tensor,
    gradient: Tensor,
    fisher_product: Product,
    trial: Trial,
    *,
    max_kl: Moderate | Tensor = 0.01,
    cg_iterations: Count = 10,
    cg_damping: NonNegative | Tensor = 0.1,
    backtracks: Whole = 10,
) -> Move:
    """The natural gradient as far as a KL allows, and only where the objective falls (TRPO).

    Schulman et al., 2015, "Trust region policy optimization", appendix C: conjugate gradients for the direction x, the
    length sqrt(2 max_kl / x F x), then halved, at most `backtracks` times, until the objective is lower, by more than
    rounding makes it, and the KL within its bound. `cg_damping` is added to the diagonal of F where the direction is
    sought, not in the length. A run whose gradient is 0 or not finite, or for which no length is accepted, keeps its
    parameters to the bit.
    """
    largest = gradient.abs().amax(dim=-1, keepdim=True)
    usable = largest.isfinite() & (largest > 0)
    wanted = torch.where(usable, gradient / largest, 0.0)  # its length means nothing, and its square could underflow
    damping, bound = column(cg_damping, axes=1), column(max_kl, axes=0)
    direction = conjugate(lambda vector: fisher_product(vector) + damping * vector, wanted, cg_iterations)
    length = (2 * bound / _dot(direction, fisher_product(direction)).squeeze(-1)).sqrt()
    moves = length.isfinite()
    step = torch.where(moves, length, 0.0).unsqueeze(-1) * direction
    return _searched(parameters, step, moves, trial, bound, backtracks)


def conjugate(product: Product, wanted: Tensor, iterations: int) -> Tensor:
    """The vectors that a symmetric, positive matrix turns into the wanted ones, by conjugate gradients from 0.

    Hestenes & Stiefel, 1952, section 3, with each residual made orthogonal to all before it, which are kept: rounding
    would otherwise grow tenfold per iteration, and a run would step otherwise in a stack than alone. A run rests once
    its residual is at rounding, or where its matrix turns out to have no positive curvature along the way. For a
    singular matrix that reaches the wanted, it is the shortest solution.
    """
    solution, residual, direction = torch.zeros_like(wanted), wanted, wanted
    square = _dot(residual, residual)
    enough = square * torch.finfo(wanted.dtype).eps ** 1.5  # of eps^2, rounding would lead out of the matrix's range
    goes = square > enough
    earlier: list[Tensor] = []
    for _ in range(iterations):
        if not goes.any():
            break
        turned = product(direction)
        curvature = _dot(direction, turned)
        goes = goes & (curvature > 0)
        size = square / curvature
        solution = torch.where(goes, solution + size * direction, solution)
        earlier.append(residual / square.sqrt())
        residual = _orthogonal(residual - size * turned, torch.stack(earlier, dim=-2))
        left = _dot(residual, residual)
        goes = goes & (left > enough)
        direction = torch.where(goes, residual + left / square * direction, 0.0)
        square = left
    return solution


def fisher_products(policy: Policy, prompts: Tensor, responses: Tensor, mask: Mask) -> Product:
    """Products with the Fisher matrix of a policy as it is now, of the mean over the tokens of these responses.

    prompts [prompt token], responses and mask [... prompt response token]; exact over the vocabulary. It is the second
    derivative of KL(held || policy) at the policy itself, found by going backwards twice; the graph is kept, so all
    products must be asked for before the parameters change.
    """
    leaves, stacked = list(policy.parameters()), responses.ndim > 3
    with torch.enable_grad():
        log_probs = policy.vocab_log_probs(prompts, responses)
        kl = mean_kl(log_probs.detach(), log_probs, mask)
        slopes = torch.autograd.grad(kl.sum(), leaves, create_graph=True, materialize_grads=True)
        slope = joined(slopes, stacked)

    def product(vectors: Tensor) -> Tensor:
        with torch.enable_grad():
            along = (slope * vectors).sum()
        return joined(torch.autograd.grad(along, leaves, retain_graph=True, materialize_grads=True), stacked)

    return product


def mean_kl(before: Tensor, now: Tensor, mask: Mask) -> Tensor:
    """KL(before || now) per token, exact over the vocabulary, averaged over tokens: [...] in nats.

    before, now [... prompt response token vocab], log-probs; the response axis is 1 where responses share them.
    """
    return token_mean(exact(before, now), mask)


def _searched(parameters: Tensor, step: Tensor, moves: Tensor, trial: Trial, bound: Number, backtracks: int) -> Move:
    """Go back along the step, each run until it may stay; where none may, to where it was."""
    before, (start, _) = parameters.clone(), trial()
    kl, halvings = torch.zeros_like(start), torch.zeros_like(start, dtype=torch.long)
    seeking, moved = moves, torch.zeros_like(moves)
    for halved in range(backtracks + 1):
        shorter = before - step * 0.5**halved
        seeking = seeking & (shorter != before).any(dim=-1)  # of a shorter one rounding would leave nothing
        if not seeking.any():
            break
        halvings[seeking] = halved
        parameters.copy_(torch.where(seeking.unsqueeze(-1), shorter, parameters))
        objective, distance = trial()
        accepted = seeking & _lower(objective, start) & (distance <= bound)
        kl = torch.where(accepted, distance, kl)
        moved, seeking = moved | accepted, seeking & ~accepted
    parameters.copy_(torch.where(moved.unsqueeze(-1), parameters, before))
    return Move(kl, halvings, moved)


def _lower(objective: Tensor, start: Tensor) -> Tensor:
    """Whether it has fallen: where a clip holds every token it stands still, and its gradient is what rounding left."""
    return start - objective > ROUNDING * torch.finfo(start.dtype).eps * (start.abs() + objective.abs())


def _orthogonal(vectors: Tensor, units: Tensor) -> Tensor:
    """Vectors [... parameter] without what they share with others of length 1 [... other parameter]."""
    return vectors - (units.mT @ (units @ vectors.unsqueeze(-1))).squeeze(-1)


def _dot(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum(dim=-1, keepdim=True)
