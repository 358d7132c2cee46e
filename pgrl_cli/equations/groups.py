"""Numbers beside each other: how far each is from their mean, and who may not be compared.

values [... number], and counted, a bool of that shape, where not all of them take part -> [... number].
"""

import torch
from torch import Tensor

EPSILON = 1e-5
"""Added to a standard deviation, as in the lecture."""


def centered(values: Tensor, counted: Tensor | None = None) -> Tensor:
    """Each number minus the mean of all that count; exactly 0 where they are all equal, and for one that does not."""
    if counted is None:
        equal = values.amax(dim=-1, keepdim=True) == values.amin(dim=-1, keepdim=True)
        return torch.where(equal, 0.0, values - values.mean(dim=-1, keepdim=True))
    largest = torch.where(counted, values, -torch.inf).amax(dim=-1, keepdim=True)
    equal = largest == torch.where(counted, values, torch.inf).amin(dim=-1, keepdim=True)
    mean = torch.where(counted, values, 0.0).sum(dim=-1, keepdim=True) / counted.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(counted & ~equal, values - mean, 0.0)


def z_scores(values: Tensor, counted: Tensor | None = None) -> Tensor:
    """Each number's distance from the mean of all that count, in standard deviations: no unit.

    The standard deviation has n-1 in the denominator and 1e-5 added.
    """
    distances = centered(values, counted)
    largest = distances.abs().amax(dim=-1, keepdim=True)  # taken out, so that no square overflows
    squares = torch.where(largest > 0, distances / largest, 0.0).square()
    others = values.shape[-1] - 1 if counted is None else (counted.sum(dim=-1, keepdim=True) - 1).clamp(min=1)
    deviation = largest * (squares.sum(dim=-1, keepdim=True) / others).sqrt()
    return distances / (deviation + EPSILON)


def refuse_a_group_of_one(size: int) -> None:
    """Raises ValueError for a group in which nothing can be compared."""
    if size < 2:
        raise ValueError("A group of one response has no other response to be compared with.")
