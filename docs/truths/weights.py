"""What groups of right and wrong answers pay on average."""

import torch
from torch.distributions import Binomial

from pgrl_cli.equations.advantages import normalized_rewards


def expected_advantages(rate: float, size: int) -> tuple[float, float]:
    """Of a right answer and of a wrong one, when each of the group's others is right with this rate."""
    right_others = torch.arange(size)  # 0 to G-1 of them
    chances = Binomial(size - 1, torch.tensor(rate, dtype=torch.float64)).log_prob(right_others).exp()
    others = (torch.arange(1, size) <= right_others[:, None]).double()
    right, wrong = (
        normalized_rewards(torch.cat([torch.full((size, 1), own, dtype=torch.float64), others], dim=1))[:, 0]
        for own in (1.0, 0.0)
    )
    return (chances @ right).item(), (chances @ wrong).item()


def share_without_variance(rate: float, size: int) -> float:
    """Of groups in which all answers are right, or all are wrong: every advantage is 0."""
    return rate**size + (1 - rate) ** size
