"""How token losses become one number per run: who counts the same?

values, mask [... prompt response token] -> [...]. A token outside the mask counts for nothing, even if it is NaN;
without a mask (None) every token counts. The weight of a token in a response of L tokens, among N responses:
token_mean 1/(all tokens), response_mean 1/(N L), response_sum 1/N, budget_mean 1/(N budget). A response without any
token, as of a group that was dropped, is none of the N.
"""

import torch
from torch import Tensor

from pgrl_cli.registry import Moderate, table

TOKENS = (-3, -2, -1)
"""The axes prompt, response and token."""
Mask = Tensor | None


def token_mean(values: Tensor, mask: Mask) -> Tensor:
    """Every token counts the same, so long responses weigh more (DAPO and the lecture).

    Yu et al., 2025, "DAPO", eq. 8. The mean is over all tokens of the batch, not a mean of means.
    """
    if mask is None:
        return _total(values) / values.shape[-3:].numel()
    return _total(masked(values, mask)) / mask.sum(dim=TOKENS).clamp(min=1)


def response_mean(values: Tensor, mask: Mask) -> Tensor:
    """Every response counts the same, so tokens of long ones weigh less (GRPO).

    Shao et al., 2024, "DeepSeekMath", eq. 3.
    """
    if mask is None:
        return token_mean(values, None)
    lengths = mask.sum(dim=-1).clamp(min=1)
    return (masked(values, mask).sum(dim=-1) / lengths).sum(dim=(-2, -1)) / _responses(mask)


def response_sum(values: Tensor, mask: Mask) -> Tensor:
    """The sum over a response's tokens, averaged over responses: what a sequence's log-probability is."""
    kept = masked(values, mask)
    return _total(kept) / (kept.shape[-3:-1].numel() if mask is None else _responses(mask))


def budget_mean(values: Tensor, mask: Mask, *, token_budget: Moderate) -> Tensor:
    """The sum over tokens by a fixed budget, averaged over responses: no length bias (Dr. GRPO).

    Liu et al., 2025, "Understanding R1-Zero-like training", section 3.2.
    """
    return response_sum(values, mask) / token_budget


def masked(values: Tensor, mask: Mask) -> Tensor:
    """Values where the mask is true, exactly 0 elsewhere: NaN times zero would be NaN."""
    return values if mask is None else torch.where(mask.bool(), values, 0.0)


def _responses(mask: Tensor) -> Tensor:
    """How many responses have any token: [...]."""
    return mask.any(dim=-1).sum(dim=(-2, -1)).clamp(min=1)


def _total(values: Tensor) -> Tensor:
    return values.sum() if values.ndim == 3 else values.sum(dim=TOKENS)  # alike, but the first is cheaper backwards


AVERAGES = table(token_mean, response_mean, response_sum, budget_mean)
