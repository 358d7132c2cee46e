"""Tokens and the log-probabilities they are drawn with.

vocab_log_probs [... vocab] are normalised log-probabilities over the whole vocabulary.
"""

import torch
from torch import Tensor

LOG_RATIO_BOUND = 20.0
"""A ratio is exponentiated no further than exp(20) = 5e8: beyond lies overflow, in the backward pass first."""

SHORT_ROW, MANY_LOGITS = 32, 5_000


def log_softmax(logits: Tensor) -> Tensor:
    """Normalised log-probabilities over the last axis: logits [... vocab] -> [... vocab].

    torch's own kernel takes rows one by one; many short rows, as in a stack, go twice as fast all at once.
    """
    if logits.shape[-1] <= SHORT_ROW and logits.numel() >= MANY_LOGITS:
        return logits - logits.logsumexp(dim=-1, keepdim=True)
    return logits.log_softmax(dim=-1)


def log_probs_of(tokens: Tensor, vocab_log_probs: Tensor) -> Tensor:
    """log pi of the chosen tokens.

    tokens [... prompt response token], vocab_log_probs [... prompt response token vocab] (the response axis is 1
    where all responses to a prompt share them) -> [... prompt response token].
    """
    if vocab_log_probs.shape[-3] == 1:  # shared: pick all responses' tokens from one row, without copying it for each
        return vocab_log_probs.squeeze(-3).gather(-1, tokens.mT).mT
    return vocab_log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def entropy(vocab_log_probs: Tensor) -> Tensor:
    """The entropy of each token's distribution, in nats: [... vocab] -> [...]."""
    return -(vocab_log_probs.exp() * vocab_log_probs).sum(dim=-1)


def score_squares(tokens: Tensor, vocab_log_probs: Tensor) -> Tensor:
    """The squared length of each token's score with respect to its logits: ||onehot - pi||^2.

    tokens [... prompt response token], vocab_log_probs [... prompt response token vocab] (the response axis is 1
    where all responses to a prompt share them) -> [... prompt response token], from 0 (a certain token) to 2. It is
    1 - 2 pi(token) + sum of pi^2, as the sum of squares that keeps its digits where the policy is nearly certain.
    """
    chosen = tokens.unsqueeze(-1) == torch.arange(vocab_log_probs.shape[-1], device=tokens.device)
    others = torch.where(chosen, 0.0, vocab_log_probs.exp())
    return others.sum(dim=-1).square() + others.square().sum(dim=-1)


def joint_probabilities(vocab_log_probs: Tensor) -> Tensor:
    """pi of every response there is, where no token depends on another one.

    vocab_log_probs [... token vocab] -> [... response], the last token changing fastest.
    """
    joint, *later = vocab_log_probs.exp().unbind(dim=-2)
    for token in later:
        joint = (joint.unsqueeze(-1) * token.unsqueeze(-2)).flatten(-2)
    return joint


def inverse_cdf(vocab_log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """The tokens that uniform numbers fall on: vocab_log_probs [... vocab], uniforms [...] -> tokens [...].

    Pure on purpose: given the same numbers, one run and many draw the same tokens.
    """
    cdf = vocab_log_probs.exp().cumsum(dim=-1)
    threshold = uniforms.unsqueeze(-1) * cdf[..., -1:]  # rounding may leave the last entry beside 1
    return (cdf <= threshold).sum(dim=-1).clamp(max=vocab_log_probs.shape[-1] - 1)


def until_end(tokens: Tensor, end: int | None) -> Tensor | None:
    """Which tokens [... token] belong to a response: those up to its first end token, which belongs to it.

    None where nothing ends a response: all of them do.
    """
    if end is None:
        return None
    ends = tokens == end
    return ends.cumsum(dim=-1) - ends.long() == 0


def closed(tokens: Tensor, end: int | None) -> Tensor:
    """Responses [... token] with nothing but the end token behind their first one."""
    return tokens if end is None else tokens.masked_fill((tokens == end).cumsum(dim=-1) > 0, end)


def bounded(log_ratios: Tensor) -> Tensor:
    """Log-ratios, held where exponentiating them is safe.

    The value is held, the gradient passes: beyond the bound a loss still pulls the right way, with bounded strength.
    """
    held = log_ratios.detach().clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    return with_slope(held, None, log_ratios) if log_ratios.requires_grad else held


def clamped(values: Tensor, low: float | Tensor | None, high: float | Tensor | None) -> Tensor:
    """Values held between two bounds, which may be tensors that broadcast; None bounds nothing."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):  # torch takes two tensors or two numbers
        low, high = (
            bound if bound is None else torch.as_tensor(bound, dtype=values.dtype, device=values.device)
            for bound in (low, high)
        )
    return values if low is None and high is None else values.clamp(low, high)  # type: ignore[arg-type]


def with_slope(values: Tensor, slopes: Tensor | None, variable: Tensor) -> Tensor:
    """Values that have a known derivative along a variable (None: 1). They are exact, and the graph is short."""
    nothing = variable - variable.detach()
    return values + nothing if slopes is None else torch.addcmul(values, slopes, nothing)
