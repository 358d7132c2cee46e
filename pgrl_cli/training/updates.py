"""Updates: from a gradient to new parameters, in place.

parameters, gradient and every moment are [... parameter]: all of a policy's parameters in one tensor. learning_rate is
a number, or a column [run 1] that gives each run of a stack its own; count is the number of this step, from 1. A
positional parameter named otherwise is a moment: the trainer keeps a tensor of zeros of that name from step to step.
"""

import torch
from torch import Tensor

from pgrl_cli.registry import Fraction, Function, Moderate, NonNegative, needs, table
from pgrl_cli.training.natural import trpo
from pgrl_cli.training.parts import Number, column

GIVEN = ("parameters", "gradient", "learning_rate", "count", "fisher_product", "trial")


def adam(
    parameters: Tensor,
    gradient: Tensor,
    means: Tensor,
    squares: Tensor,
    learning_rate: float | Tensor,
    count: int,
    *,
    adam_beta1: Fraction = 0.9,
    adam_beta2: Fraction = 0.999,
    adam_epsilon: Moderate = 1e-8,
) -> None:
    """Adam (Kingma & Ba, 2015, algorithm 1), the lecture's."""
    if isinstance(learning_rate, Tensor):
        _adam_of_many_rates(
            parameters, gradient, means, squares, learning_rate, count, adam_beta1, adam_beta2, adam_epsilon
        )
        return
    # torch's kernel goes through memory once, where written-out operations go ten times.
    torch._fused_adam_(
        [parameters],
        [gradient],
        [means],
        [squares],
        [],
        [torch.full((), float(count), device=parameters.device)],
        lr=learning_rate,
        beta1=adam_beta1,
        beta2=adam_beta2,
        weight_decay=0.0,
        eps=adam_epsilon,
        amsgrad=False,
        maximize=False,
    )


def _adam_of_many_rates(
    parameters: Tensor,
    gradient: Tensor,
    means: Tensor,
    squares: Tensor,
    learning_rates: Tensor,
    count: int,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> None:
    """The same for a stack whose runs differ in their rates.

    The corrections of both moments are folded into the rate, as before Kingma & Ba's section 2.1.
    """
    means.lerp_(gradient, 1 - beta1)
    squares.lerp_(gradient * gradient, 1 - beta2)
    correction = (1 - beta2**count) ** 0.5
    scale = squares.sqrt().add_(epsilon * correction)
    parameters.sub_(means.div(scale).mul_(learning_rates * (correction / (1 - beta1**count))))


def adamw(
    parameters: Tensor,
    gradient: Tensor,
    means: Tensor,
    squares: Tensor,
    learning_rate: float | Tensor,
    count: int,
    *,
    adam_beta1: Fraction = 0.9,
    adam_beta2: Fraction = 0.999,
    adam_epsilon: Moderate = 1e-8,
    weight_decay: NonNegative = 0.01,
) -> None:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019, algorithm 2).

    As in torch, the decay is learning_rate * weight_decay: the paper's alpha multiplies both.
    """
    parameters.mul_(1 - learning_rate * weight_decay)
    betas = {"adam_beta1": adam_beta1, "adam_beta2": adam_beta2}
    adam(parameters, gradient, means, squares, learning_rate, count, **betas, adam_epsilon=adam_epsilon)


def sgd(
    parameters: Tensor,
    gradient: Tensor,
    velocities: Tensor,
    learning_rate: float | Tensor,
    *,
    momentum: Fraction = 0.0,
) -> None:
    """Gradient descent, with momentum if asked for (Polyak, 1964)."""
    velocities.mul_(momentum).add_(gradient)
    parameters.sub_(velocities * learning_rate)


def clipped_by_norm(gradient: Tensor, norm: Tensor, max_gradient_norm: Number) -> Tensor:
    """The gradient, shortened to the largest norm where it is longer; each run's own.

    gradient [... parameter], norm [...] of it, max_gradient_norm a number or one per run -> [... parameter]. Up to the
    largest norm not a bit changes; nor does a gradient whose norm is not finite, which has no direction to keep.
    Pascanu et al., 2013, "On the difficulty of training recurrent neural networks", algorithm 1.
    """
    largest = column(max_gradient_norm, axes=0)
    scale = torch.where((norm > largest) & norm.isfinite(), largest / norm, 1.0)
    return gradient * scale.unsqueeze(-1)


def moments_of(update: Function) -> list[str]:
    """What an update remembers from step to step, by name."""
    return [name for name in needs(update) if name not in GIVEN]


FIRST_ORDER = table(adam, adamw, sgd)
"""Those that need no more than a gradient."""
OPTIMIZERS = {**FIRST_ORDER, **table(trpo)}
