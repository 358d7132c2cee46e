"""Policy losses, token by token; averaged, each descends -E[reward].

log_probs, old_log_probs, advantages [... prompt response token] -> losses of that shape, in units of advantage
(the token axis of advantages may be 1: the whole response earns the same). `old` is the policy as it was when it
sampled; its log-probs are numbers, not functions of the parameters.
"""

import torch
from torch import Tensor

from pgrl_cli.equations.categorical import bounded
from pgrl_cli.registry import AboveOne, Positive, table


def naive(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """-A log pi: REINFORCE (Williams, 1992)."""
    return -advantages * log_probs


def unclipped(log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor) -> Tensor:
    """-A pi/pi_old: the importance-weighted surrogate (Schulman et al., 2017, eq. 6)."""
    return -advantages * importance_ratios(log_probs, old_log_probs)


def clipped(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    *,
    clip_epsilon: Positive | Tensor | None = 0.2,
    clip_low: Positive | Tensor | None = None,
    clip_high: Positive | Tensor | None = None,
    dual_clip: AboveOne | Tensor | None = None,
) -> Tensor:
    """-min(A r, A clip(r, 1-low, 1+high)) with r = pi/pi_old: PPO's clip.

    Schulman et al., 2017, "Proximal policy optimization algorithms", eq. 7. `clip_low` and `clip_high` replace
    `clip_epsilon` on their side (DAPO; Yu et al., 2025, eq. 8). `dual_clip` c also bounds the loss of a negative
    advantage by -c A (Ye et al., 2020, "Mastering complex control in MOBA games", eq. 5).
    Raises ValueError where a side has no bound.
    """
    low = clip_epsilon if clip_low is None else clip_low
    high = clip_epsilon if clip_high is None else clip_high
    if low is None or high is None:
        raise ValueError("The clip needs clip_epsilon, or both clip_low and clip_high.")
    ratios = importance_ratios(log_probs, old_log_probs)
    costs, moved = -advantages, ratios.detach()
    held = _clip(moved, 1 - low, 1 + high)
    past = (
        costs * held > costs * moved
    )  # the worse of the two counts, and a held ratio is a number: it pushes no further
    losses = costs * torch.where(past, held, ratios)
    if dual_clip is None:
        return losses
    return torch.where(advantages < 0, torch.minimum(losses, dual_clip * costs), losses)


def importance_ratios(log_probs: Tensor, old_log_probs: Tensor) -> Tensor:
    """pi/pi_old per token; exactly 1 on an epoch's first step."""
    return bounded(log_probs - old_log_probs).exp()


def _clip(ratios: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        low = torch.as_tensor(low, dtype=ratios.dtype, device=ratios.device)
        high = torch.as_tensor(high, dtype=ratios.dtype, device=ratios.device)
        return ratios.clamp(low, high)
    return ratios.clamp(low, high)


LOSSES = table(naive, unclipped, clipped)
