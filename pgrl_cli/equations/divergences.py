"""KL(policy || reference), token by token: three estimates from the policy's own samples, and the exact sum.

log_probs, reference_log_probs [... prompt response token] -> nats, of that shape. The names are Schulman's (2020,
"Approximating KL divergence", http://joschu.net/blog/kl-approx.html). What each descends in expectation, as a loss on
one token that was drawn from the policy as it is now: k1 nothing, k2 and exact KL(policy || reference), k3
KL(reference || policy). On an epoch's later steps the tokens come from an older policy; then k1 only pushes down what
was drawn, and of the others just exact keeps its meaning.
"""

import torch
from torch import Tensor

from pgrl_cli.equations.categorical import LOG_RATIO_BOUND, bounded
from pgrl_cli.registry import table


def k1(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """log pi/ref: unbiased, but as a loss its expected gradient on fresh samples is zero."""
    return log_probs - reference_log_probs


def k2(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """(log pi/ref)^2 / 2: biased, but as a loss its expected gradient on fresh samples is the KL's."""
    return (log_probs - reference_log_probs).square() / 2


def k3(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """ref/pi - 1 - log ref/pi: unbiased and never negative (the lecture's and GRPO's).

    As a loss its expected gradient is that of KL(reference || policy). Shao et al., 2024, "DeepSeekMath", eq. 4.
    """
    log_ratios = reference_log_probs - log_probs
    return torch.expm1(bounded(log_ratios)) - log_ratios.clamp(max=LOG_RATIO_BOUND)


def exact(vocab_log_probs: Tensor, reference_vocab_log_probs: Tensor) -> Tensor:
    """The KL of each token's distribution, summed over the whole vocabulary: no sampling noise.

    vocab_log_probs, reference_vocab_log_probs [... prompt response token vocab] -> [... prompt response token].
    """
    gap = vocab_log_probs - reference_vocab_log_probs
    return (vocab_log_probs.exp() * gap).sum(dim=-1)


DIVERGENCES = table(k1, k2, k3, exact)
