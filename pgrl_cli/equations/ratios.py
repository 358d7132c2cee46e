"""Importance ratios: how much likelier a policy finds what an older one sampled."""

from torch import Tensor

from pgrl_cli.equations.categorical import bounded, clamped

Bound = float | Tensor | None


def importance_ratios(log_probs: Tensor, old_log_probs: Tensor) -> Tensor:
    """pi/pi_old per token; exactly 1 on an epoch's first step."""
    return bounded(log_probs - old_log_probs).exp()


def clipped_ratios(ratios: Tensor, both: Bound, low: Bound, high: Bound) -> Tensor:
    """Ratios held between 1 - low and 1 + high, each `both` where it is None. Raises ValueError where both are."""
    low, high = both if low is None else low, both if high is None else high
    if low is None or high is None:
        raise ValueError("The clip needs clip_epsilon, or both clip_low and clip_high.")
    return clamped(ratios, 1 - low, 1 + high)
