"""Policy losses, token by token; summed over a response, each has the policy gradient at an epoch's first step.

log_probs, old_log_probs, advantages [... prompt response token] -> losses of that shape, in units of advantage
(the token axis of advantages may be 1: the whole response earns the same). `old` is the policy as it was when it
sampled; its log-probs are numbers, not functions of the parameters.
"""

import torch
from torch import Tensor

from pgrl_cli.equations.categorical import with_slope
from pgrl_cli.equations.ratios import clipped_ratios, importance_ratios
from pgrl_cli.equations.weighted_losses import cispo, importance_sampled, sequence_clipped
from pgrl_cli.registry import AboveOne, Moderate, cuts_off, table


def naive(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """-A log pi: REINFORCE (Williams, 1992)."""
    return -advantages * log_probs


def unclipped(log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor) -> Tensor:
    """-A pi/pi_old: the importance-weighted surrogate (Schulman et al., 2017, eq. 6)."""
    return -advantages * importance_ratios(log_probs, old_log_probs)


def held_by_the_clip(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    *,
    clip_epsilon: Moderate | Tensor | None = 0.2,
    clip_low: Moderate | Tensor | None = None,
    clip_high: Moderate | Tensor | None = None,
    dual_clip: AboveOne | Tensor | None = None,
) -> Tensor:
    """Which tokens the clip holds, so that `clipped` pushes them no further: bool, of the shape of log_probs."""
    ratios, costs = importance_ratios(log_probs.detach(), old_log_probs), -advantages
    held = costs * clipped_ratios(ratios, clip_epsilon, clip_low, clip_high) > costs * ratios
    return held if dual_clip is None else held | ((costs > 0) & (ratios > dual_clip))


@cuts_off(held_by_the_clip)
def clipped(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    *,
    clip_epsilon: Moderate | Tensor | None = 0.2,
    clip_low: Moderate | Tensor | None = None,
    clip_high: Moderate | Tensor | None = None,
    dual_clip: AboveOne | Tensor | None = None,
) -> Tensor:
    """-min(A r, A clip(r, 1-low, 1+high)) with r = pi/pi_old: PPO's clip.

    Schulman et al., 2017, "Proximal policy optimization algorithms", eq. 7. `clip_low` and `clip_high` replace
    `clip_epsilon` on their side (DAPO; Yu et al., 2025, eq. 8). `dual_clip` c also bounds the loss of a negative
    advantage by -c A (Ye et al., 2020, "Mastering complex control in MOBA games", eq. 5).
    Raises ValueError where a side has no bound.
    """
    ratios, costs = importance_ratios(log_probs.detach(), old_log_probs), -advantages
    free, held = costs * ratios, costs * clipped_ratios(ratios, clip_epsilon, clip_low, clip_high)
    losses = torch.maximum(free, held)
    if dual_clip is not None:
        losses = torch.where(costs > 0, torch.minimum(losses, dual_clip * costs), losses)
    # What autograd makes of -torch.minimum(A * r, A * r.clamp(1 - low, 1 + high)), in two thirds of its time: the
    # derivative along log pi is -A r where that is what counts, and 0 where a bound does.
    return with_slope(losses, free * (losses == free), log_probs)


LOSSES = table(naive, unclipped, clipped, sequence_clipped, cispo, importance_sampled)
