"""What several attempts at a prompt earn at their best: best-of-n, and pass@k where a reward says right or wrong."""

import torch
from torch import Tensor


def best_of(rewards: Tensor, probabilities: Tensor, attempts: int) -> Tensor:
    """The expected best reward of so many responses, exactly, from every response there is.

    rewards, probabilities [... response], which are those of all responses -> [...]. With F(r) the probability of
    earning no more than r, E max = sum over r of r (F(r)^n - F(r-)^n). Of rewards that are 0 or 1 it is pass@n:
    1 - (1 - p)^n. Raises ValueError for less than one attempt.
    """
    _refuse_none(attempts)
    ordered, order = rewards.sort(dim=-1)
    at_most = probabilities.gather(-1, order).cumsum(dim=-1)
    at_most = at_most / at_most[..., -1:]  # rounding may leave the last entry beside 1
    below = torch.cat([torch.zeros_like(at_most[..., :1]), at_most[..., :-1]], dim=-1)
    return (ordered * (at_most**attempts - below**attempts)).sum(dim=-1)


def best_of_samples(rewards: Tensor, attempts: int) -> Tensor:
    """An unbiased estimate of the expected best reward of so many responses, from sampled ones.

    rewards [... sample] -> [...]: the mean of the best over all subsets of n of the m samples, of which the i-th
    smallest is the best in C(i-1, n-1). Of rewards that are 0 or 1 it is pass@n as Chen et al., 2021 ("Evaluating
    large language models trained on code", eq. 1) estimate it. Raises ValueError where there are fewer samples, and
    for less than one attempt.
    """
    _refuse_none(attempts)
    samples = rewards.shape[-1]
    if attempts > samples:
        raise ValueError(f"{samples} samples cannot tell what {attempts} attempts earn.")
    ordered = rewards.double().sort(dim=-1).values
    places = torch.arange(1, samples + 1, dtype=torch.float64, device=rewards.device)
    log_share = torch.where(places >= attempts, _log_choose(places - 1, attempts - 1), -torch.inf)
    weights = (log_share - _log_choose(torch.tensor(float(samples), dtype=torch.float64), attempts)).exp()
    return (ordered * weights).sum(dim=-1)


def _refuse_none(attempts: int) -> None:
    if attempts < 1:
        raise ValueError(f"{attempts} attempts earn nothing; there must be at least one.")


def _log_choose(of: Tensor, chosen: int) -> Tensor:
    """log of the binomial coefficient; what lies beneath `chosen` is meaningless and masked by the caller."""
    of = of.clamp(min=chosen)
    return (
        torch.lgamma(of + 1) - torch.lgamma(of - chosen + 1) - torch.lgamma(torch.tensor(chosen + 1.0, dtype=of.dtype))
    )
