"""Updates: from gradients to new parameters, in place.

parameters, gradients and every moment are lists of tensors of equal shapes, learning_rates a list of one number per
parameter (a column in a stack, so that each run has its own), count the number of this step, from 1. A parameter
named otherwise is a moment: the trainer keeps a tensor of zeros of that name for each parameter.
"""

from collections.abc import Sequence

from torch import Tensor

from pgrl_cli.registry import Fraction, Function, NonNegative, Positive, needs, table

Tensors = list[Tensor]
Rates = Sequence[float | Tensor]
GIVEN = ("parameters", "gradients", "learning_rates", "count")


def adam(
    parameters: Tensors,
    gradients: Tensors,
    means: Tensors,
    squares: Tensors,
    learning_rates: Rates,
    count: int,
    *,
    adam_beta1: Fraction = 0.9,
    adam_beta2: Fraction = 0.999,
    adam_epsilon: Positive = 1e-8,
) -> None:
    """Adam (Kingma & Ba, 2015, algorithm 1), the lecture's."""
    shrink1, shrink2 = 1 - adam_beta1**count, (1 - adam_beta2**count) ** 0.5
    for parameter, gradient, mean, square, rate in zip(
        parameters, gradients, means, squares, learning_rates, strict=True
    ):
        mean.lerp_(gradient, 1 - adam_beta1)
        square.mul_(adam_beta2).addcmul_(gradient, gradient, value=1 - adam_beta2)
        scale = square.sqrt().div_(shrink2).add_(adam_epsilon)
        if isinstance(rate, Tensor):
            parameter.sub_(mean.div(scale).mul_(rate / shrink1))
        else:
            parameter.addcdiv_(mean, scale, value=-rate / shrink1)


def adamw(
    parameters: Tensors,
    gradients: Tensors,
    means: Tensors,
    squares: Tensors,
    learning_rates: Rates,
    count: int,
    *,
    adam_beta1: Fraction = 0.9,
    adam_beta2: Fraction = 0.999,
    adam_epsilon: Positive = 1e-8,
    weight_decay: NonNegative = 0.01,
) -> None:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019, algorithm 2)."""
    for parameter, rate in zip(parameters, learning_rates, strict=True):
        parameter.mul_(1 - rate * weight_decay)
    adam(
        parameters,
        gradients,
        means,
        squares,
        learning_rates,
        count,
        adam_beta1=adam_beta1,
        adam_beta2=adam_beta2,
        adam_epsilon=adam_epsilon,
    )


def sgd(
    parameters: Tensors,
    gradients: Tensors,
    velocities: Tensors,
    learning_rates: Rates,
    *,
    momentum: Fraction = 0.0,
) -> None:
    """Gradient descent, with momentum if asked for (Polyak, 1964)."""
    for parameter, gradient, velocity, rate in zip(parameters, gradients, velocities, learning_rates, strict=True):
        velocity.mul_(momentum).add_(gradient)
        parameter.sub_(velocity * rate)


def moments_of(update: Function) -> list[str]:
    """What an update remembers from step to step, by name."""
    return [name for name in needs(update) if name not in GIVEN]


OPTIMIZERS = table(adam, adamw, sgd)
