"""Advantages: how much better a response did than a baseline (the lecture's deltas).

rewards [... prompt response] -> advantages [... prompt response], in units of reward unless said otherwise. Some ask
for more: score_squares [... prompt response] (`categorical`), and true_values [... prompt], the expected rewards.
A mode that compares the responses of a group raises ValueError for a group of one. A group whose rewards are
all equal has an advantage of exactly 0 under every mode that centers: rounding leaves no residue to blow up.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from pgrl_cli.equations.baselines import (
    batch_normalized_rewards,
    greedy_baseline,
    moving_average_baseline,
    old_policy_baseline,
)
from pgrl_cli.equations.groups import centered, refuse_a_group_of_one, z_scores
from pgrl_cli.equations.returns import gae, n_step, process_rewards, reward_to_go
from pgrl_cli.registry import compares_responses, table


def rewards(rewards: Tensor) -> Tensor:
    """The reward itself: unbiased, and the noisiest (REINFORCE; Williams, 1992)."""
    return rewards


@compares_responses
def centered_rewards(rewards: Tensor) -> Tensor:
    """The reward minus its group's mean.

    The mean contains the response itself, so the expected gradient is (G-1)/G times the true one for groups of
    G responses. Dr. GRPO's advantage (Liu et al., 2025, "Understanding R1-Zero-like training", section 3.2).
    """
    refuse_a_group_of_one(rewards.shape[-1])
    return centered(rewards)


@compares_responses
def normalized_rewards(rewards: Tensor) -> Tensor:
    """The reward's z-score within its group (GRPO): centered, over the standard deviation.

    The standard deviation has n-1 in the denominator and 1e-5 added, as in the lecture. No unit.
    GRPO: Shao et al., 2024, "DeepSeekMath", section 4.1.2.
    """
    refuse_a_group_of_one(rewards.shape[-1])
    return z_scores(rewards)


def max_rewards(rewards: Tensor) -> Tensor:
    """The reward where it is its group's best (ties included), zero elsewhere."""
    best = rewards.amax(dim=-1, keepdim=True)
    return torch.where(rewards == best, rewards, 0.0)


@compares_responses
def leave_one_out_rewards(rewards: Tensor) -> Tensor:
    """The reward minus the mean of the group's other rewards (RLOO): unbiased.

    Kool et al., 2019, "Buy 4 REINFORCE samples, get a baseline for free"; Ahmadian et al., 2024.
    """
    group_size = rewards.shape[-1]
    return centered_rewards(rewards) * (group_size / (group_size - 1))


@compares_responses
def optimal_baseline(rewards: Tensor, score_squares: Tensor) -> Tensor:
    """The reward minus an estimate, from the group's others, of the baseline with the least variance: unbiased.

    That baseline is E[w R] / E[w], the weights w being the squared lengths of the responses' scores; here each
    response has the others' weighted mean, and their plain mean where their weights vanish, as those of a certain
    policy do. Of any constant baseline the variance is the least one plus E[w] times the squared distance from this
    one. Greensmith et al., 2004, "Variance reduction techniques for gradient estimates in reinforcement learning",
    JMLR 5, where the score is that of the parameters; here it is that of the logits.
    """
    distances = centered_rewards(rewards)
    largest = distances.abs().amax(dim=-1, keepdim=True)  # taken out, so that no product overflows
    parts = torch.where(largest > 0, distances / largest, 0.0)
    weights = _sum_of_others(score_squares)
    weighted = _sum_of_others(score_squares * parts) / weights
    plain = _sum_of_others(parts) / (rewards.shape[-1] - 1)
    return largest * (parts - torch.where(weights > _vanishing(weights.dtype), weighted, plain))


def true_value_baseline(rewards: Tensor, true_values: Tensor) -> Tensor:
    """The reward minus its true expected value, from every response there is: unbiased, also for one response.

    The variance is not the least that a baseline can give: see `optimal_baseline`.
    """
    return rewards - true_values.unsqueeze(-1)


def _sum_of_others(values: Tensor) -> Tensor:
    """Each response's sum over the others of its group, never as a difference: a small rest stays exact."""
    before = pad(values[..., :-1].cumsum(dim=-1), (1, 0))
    after = pad(values[..., 1:].flip(-1).cumsum(dim=-1).flip(-1), (0, 1))
    return before + after


def _vanishing(dtype: torch.dtype) -> float:
    """Weights up to which their products with rewards may lose digits."""
    limits = torch.finfo(dtype)
    return limits.tiny / limits.eps


ADVANTAGES = table(
    rewards,
    centered_rewards,
    normalized_rewards,
    max_rewards,
    leave_one_out_rewards,
    optimal_baseline,
    true_value_baseline,
    moving_average_baseline,
    old_policy_baseline,
    greedy_baseline,
    batch_normalized_rewards,
    reward_to_go,
    n_step,
    gae,
    process_rewards,
)
