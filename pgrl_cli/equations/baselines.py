"""Advantages against what the group alone does not know: earlier epochs, other policies, the rest of the batch.

rewards [... prompt response] -> advantages [... prompt response], in units of reward unless said otherwise.
"""

import torch
from torch import Tensor

from pgrl_cli.equations.groups import z_scores
from pgrl_cli.registry import Fraction, compares_prompts, remembers


def moving_average(past_mean: Tensor, rewards: Tensor, *, baseline_decay: Fraction = 0.9) -> Tensor:
    """The mean reward of the epochs so far, older ones counting less: past_mean [...] -> [...].

    decay past_mean + (1 - decay) times the mean of rewards over prompts and responses; that mean alone where past_mean
    is NaN, since nothing was seen before.
    """
    mean = rewards.mean(dim=(-2, -1))
    return torch.where(past_mean.isnan(), mean, baseline_decay * past_mean + (1 - baseline_decay) * mean)


@remembers(moving_average)
def moving_average_baseline(rewards: Tensor, past_mean: Tensor) -> Tensor:
    """The reward minus a moving average of the mean rewards of earlier epochs: unbiased, also for one response.

    past_mean [...] is one number per run, NaN before the first epoch, where the baseline is 0. It knows nothing of the
    prompt. Williams, 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning"
    (reinforcement comparison).
    """
    baseline = torch.where(past_mean.isnan(), 0.0, past_mean)
    return rewards - baseline[..., None, None]


def old_policy_baseline(rewards: Tensor, old_policy_rewards: Tensor) -> Tensor:
    """The reward minus the mean of what an older policy's own responses to the prompt earn: unbiased.

    old_policy_rewards [... prompt response], of responses that are sampled for this alone, as many as one likes; so the
    baseline does not depend on the response it is taken from, and may serve a group of one.
    """
    return rewards - old_policy_rewards.mean(dim=-1, keepdim=True)


def greedy_baseline(rewards: Tensor, greedy_rewards: Tensor) -> Tensor:
    """The reward minus what the policy's most likely response to the prompt earns (ReMax): unbiased.

    greedy_rewards [... prompt]; most likely token by token. Li et al., 2023, "ReMax: a simple, effective, and efficient
    reinforcement learning method for aligning large language models", arXiv 2310.10505.
    """
    return rewards - greedy_rewards.unsqueeze(-1)


@compares_prompts
def batch_normalized_rewards(rewards: Tensor) -> Tensor:
    """The reward's z-score among all responses to all prompts of a run (REINFORCE++).

    n-1 in the denominator of the standard deviation and 1e-5 added; no unit. Exactly 0 where all are equal. An easy
    prompt's responses all come out above those to a hard one. Raises ValueError for a batch of one response. Hu et al.,
    2025, "REINFORCE++: a simple and efficient approach for aligning large language models", arXiv 2501.03262.
    """
    batch = rewards.flatten(-2)
    if batch.shape[-1] < 2:
        raise ValueError("A batch of one response has no other response to be compared with.")
    return z_scores(batch).view_as(rewards)
