"""More policy losses: the ratio of a whole response, and weights that no gradient goes through.

Shapes, units and the promise are those of `losses`: summed over a response, each has the policy gradient at an epoch's
first step. mask [... prompt response token] says which tokens belong to a response, None that all do; what stands
behind a response's end counts for nothing there, even if it is NaN.
"""

from typing import Literal

import torch
from torch import Tensor

from pgrl_cli.equations.averages import Mask, masked
from pgrl_cli.equations.categorical import bounded, clamped, with_slope
from pgrl_cli.equations.ratios import clipped_ratios, importance_ratios
from pgrl_cli.registry import Moderate, cuts_off


def held_by_the_sequence_clip(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Mask = None,
    *,
    clip_epsilon: Moderate | Tensor | None = 0.2,
    clip_low: Moderate | Tensor | None = None,
    clip_high: Moderate | Tensor | None = None,
) -> Tensor:
    """Which tokens the clip of their response's ratio holds: bool, of the shape of log_probs; none behind the end."""
    ratios, costs = sequence_ratios(log_probs, old_log_probs, mask), -advantages
    held = costs * clipped_ratios(ratios, clip_epsilon, clip_low, clip_high) > costs * ratios
    return held.expand_as(log_probs) if mask is None else held & mask.bool()


@cuts_off(held_by_the_sequence_clip)
def sequence_clipped(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Mask = None,
    *,
    clip_epsilon: Moderate | Tensor | None = 0.2,
    clip_low: Moderate | Tensor | None = None,
    clip_high: Moderate | Tensor | None = None,
) -> Tensor:
    """-min(A s, A clip(s, 1-low, 1+high)) with s the geometric mean of a response's ratios (GSPO).

    s = exp(mean of log pi/pi_old over the response's tokens): one for all of them, so a response is held or free as a
    whole where its tokens share their advantage. Each token's derivative is -A s along its own log pi; where the
    advantage is shared these add up to that of s itself, times the response's length, and where it is not each token
    answers for its own (the paper's GSPO-token). s moves far less than a token's ratio: the paper clips at 3e-4 below
    and 4e-4 above. Averaged by response_mean, this is the paper's objective. Zheng et al., 2025, "Group sequence policy
    optimization", arXiv 2507.18071, eq. 5, 7 and 14. Raises ValueError where a side has no bound.
    """
    ratios, costs = sequence_ratios(log_probs, old_log_probs, mask), -advantages
    free, held = costs * ratios, costs * clipped_ratios(ratios, clip_epsilon, clip_low, clip_high)
    losses = masked(torch.maximum(free, held).expand_as(log_probs), mask)
    return with_slope(losses, masked(torch.where(held > free, 0.0, free), mask), masked(log_probs, mask))


def cispo(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    *,
    clip_low: Moderate | Tensor | None = None,
    clip_high: Moderate | Tensor | None = 0.2,
) -> Tensor:
    """-w A log pi, with the weight w = clip(pi/pi_old, 1-low, 1+high) held constant: no token loses its gradient.

    A side that is null has no bound; MiniMax bounded the upper one alone. MiniMax, 2025, "MiniMax-M1: scaling test-time
    compute efficiently with lightning attention", arXiv 2506.13585, eq. 4 and 5.
    """
    low, high = None if clip_low is None else 1 - clip_low, None if clip_high is None else 1 + clip_high
    weights = clamped(importance_ratios(log_probs.detach(), old_log_probs), low, high)
    return -weights * advantages * log_probs


def importance_sampled(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Mask = None,
    *,
    importance_level: Literal["token", "sequence"] = "token",
    importance_cap: Moderate | Tensor | None = None,
) -> Tensor:
    """-min(w, cap) A log pi, with the importance weight w held constant: REINFORCE from an older policy's responses.

    At the level of the sequence, w is pi/pi_old of the whole response: without a cap the expected gradient is that of
    the policy as it is now, at the price of a variance that grows with the length (Precup et al., 2000, "Eligibility
    traces for off-policy policy evaluation"). At the level of the token it is pi/pi_old of that token alone: biased,
    since what came before it and after it is still weighed as if the old policy were the present one, and far less
    noisy. The cap bounds the variance, and adds bias towards the old policy (Ionides, 2008, "Truncated importance
    sampling").
    """
    log_probs = masked(log_probs, mask)
    log_ratios = log_probs.detach() - masked(old_log_probs, mask)
    if importance_level == "sequence":
        log_ratios = log_ratios.sum(dim=-1, keepdim=True)
    weights = clamped(bounded(log_ratios).exp(), None, importance_cap)
    return masked(-weights * advantages * log_probs, mask)


def sequence_ratios(log_probs: Tensor, old_log_probs: Tensor, mask: Mask) -> Tensor:
    """The geometric mean of pi/pi_old over each response's tokens, a number: [... prompt response 1].

    Exactly 1 on an epoch's first step, and for a response without any token.
    """
    log_ratios = masked(log_probs.detach() - old_log_probs, mask)
    lengths = log_ratios.shape[-1] if mask is None else mask.sum(dim=-1, keepdim=True).clamp(min=1)
    return bounded(log_ratios.sum(dim=-1, keepdim=True) / lengths).exp()
