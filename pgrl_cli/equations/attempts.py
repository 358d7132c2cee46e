"""What several attempts at a prompt earn: at their best (best-of-n, pass@k), and how likely all the same."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def expected_reward(rewards: Tensor, probabilities: Tensor) -> Tensor:
    """The expected reward of a response, exactly, from every response there is: [... response] each -> [...]."""
    least = rewards.amin(dim=-1)  # taken off first, so that a large shift costs no digits, and equal rewards none
    return least + (probabilities * (rewards - least.unsqueeze(-1))).sum(dim=-1)


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


def all_equal(probabilities: Tensor, kinds: Tensor, attempts: int) -> Tensor:
    """The probability that so many responses are all of one kind, exactly, from every response there is.

    probabilities [... response], which are those of all responses, and their kinds, numbers from 0 on that are the same
    for responses of one kind -> [...]: the sum over kinds of q^n, where q is the probability of a kind. Raises
    ValueError for less than one attempt.
    """
    _refuse_none(attempts)
    of_kind = torch.zeros_like(probabilities).scatter_add_(-1, kinds.expand_as(probabilities), probabilities)
    return (of_kind**attempts).sum(dim=-1)


def kinds_of(rewards: Tensor) -> Tensor:
    """Which responses earn the same: rewards [... response] -> numbers from 0 on [... response], the least's first."""
    ordered, order = rewards.sort(dim=-1)
    numbers = pad(ordered[..., 1:] != ordered[..., :-1], (1, 0)).cumsum(dim=-1)
    return torch.empty_like(order).scatter_(-1, order, numbers)


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
