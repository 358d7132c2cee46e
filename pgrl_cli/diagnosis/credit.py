"""Credit: which of a response's tokens a reward is put down to, and how noisy the gradient is that comes of it.

An estimate here is that of one response to each prompt: the mean over prompts of the sum over tokens of advantage times
score. There is no group, every advantage depends on its own response alone, and sums over all responses are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pgrl_cli.diagnosis.moments import all_but_rounding
from pgrl_cli.diagnosis.population import Population
from pgrl_cli.tasks.task import by_token
from pgrl_cli.training import scoring
from pgrl_cli.training.outcomes import points


@dataclass(frozen=True)
class Estimate:
    """What advantages token by token make of the gradient."""

    mean: Tensor
    """[parameter]: the expected gradient."""
    total_variance: float
    """The trace of its covariance: how far an estimate lies from the mean, squared and averaged."""

    @property
    def signal_to_noise(self) -> float:
        """The length of the mean by the root of the total variance."""
        return float(self.mean.norm()) / self.total_variance**0.5


def token_rewards(population: Population) -> Tensor:
    """The shaped reward as it falls due, [prompt response token]; a whole response's with its last token.

    Raises RewardError.
    """
    subject, responses, mask = population.subject, population.responses, population.mask
    rollout = {"responses": responses, "old_log_probs": torch.zeros(responses.shape, dtype=subject.parts.dtype)}
    paid = points(subject.share.rewards, subject.prompts, responses, subject.parts.dtype)
    return scoring.token_rewards(subject.share, paid, rollout if mask is None else rollout | {"mask": mask})


def at_the_end(population: Population, rewards: Tensor) -> Tensor:
    """The same sums, paid at each response's last token: [prompt response token] -> [prompt response token]."""
    return by_token(rewards.sum(dim=-1), population.responses, population.mask)


def true_values(population: Population, rewards: Tensor) -> Tensor:
    """What each state is worth: the expected sum of the token rewards that come after it.

    rewards [prompt response token] -> [prompt response token+1]. A state is a prompt and the tokens written so far; the
    expectation is over all responses that begin so. Behind an end nothing is to come, nor behind the last token of a
    response that was cut off. Raises ValueError for a sample, in which hardly two responses begin alike.
    """
    if not population.exact:
        raise ValueError("Values come of all responses there are; these are a sample. Take a smaller task.")
    sums = rewards.flip(-1).cumsum(dim=-1).flip(-1)
    states = [_of_states(population, place, sums[..., place]) for place in range(sums.shape[-1])]
    return torch.stack([*states, torch.zeros_like(sums[..., 0])], dim=-1)


def critics_values(population: Population) -> Tensor:
    """What the subject's critic finds each state worth, [prompt response token+1]; 0 behind an end, and a cut.

    Raises ValueError where the subject has none.
    """
    subject, mask = population.subject, population.mask
    if subject.critic is None:
        raise ValueError("There is no critic: delta_mode is to be one that asks for values, such as gae.")
    rollout = {"prompts": subject.prompts, "responses": population.responses}
    rollout |= {} if mask is None else {"mask": mask}
    with torch.no_grad():
        values = scoring.critics_values(subject.parts, subject.critic, subject.policy, rollout, bootstraps=False)
    values[..., -1] = 0.0  # also where all responses have one length
    return values


def estimates(population: Population, advantages: Mapping[str, Tensor]) -> dict[str, Estimate]:
    """The expected gradient and the total variance that each kind of advantages has.

    advantages [prompt response token] each; a token axis of 1 gives all of a response's tokens the same.
    """
    shape, prompts = population.responses.shape, len(population.responses)
    together = torch.stack([each.expand(shape) for each in advantages.values()])  # [kind prompt response token]
    mean = torch.zeros(len(together), population.subject.parameter_count, dtype=together.dtype)
    variance = torch.zeros(len(together), dtype=together.dtype)
    for prompt in range(prompts):
        first, second = _moments(population, prompt, together[:, prompt])
        mean += first / prompts
        variance += all_but_rounding(second - first.square().sum(dim=-1), second) / prompts**2
    return {name: Estimate(mean[kind], float(variance[kind])) for kind, name in enumerate(advantages)}


def _moments(population: Population, prompt: int, advantages: Tensor) -> tuple[Tensor, Tensor]:
    """The mean gradient of one response to a prompt, and its mean square: [kind parameter], [kind].

    advantages [kind response token].
    """
    first, second = torch.zeros(()), torch.zeros(())
    for some, scores in population.token_scores(prompt):
        weights, here = population.weights[prompt, some], advantages[:, some]
        weighted = here * weights[:, None]
        products = scores @ scores.mT  # [response token token]
        first = first + weighted.flatten(1) @ scores.flatten(0, 1)
        second = second + torch.einsum("krt,rtu,kru->k", weighted, products, here)
    return first, second


def _of_states(population: Population, place: int, values: Tensor) -> Tensor:
    """The expectation of values [prompt response] over the responses that agree in all tokens before a place."""
    if place == 0:
        return population.mean(values)[:, None].expand(values.shape)
    _, state = population.responses[0, :, :place].unique(dim=0, return_inverse=True)
    count = int(state.max()) + 1

    def added(each: Tensor) -> Tensor:
        return torch.zeros(len(each), count, dtype=each.dtype).index_add(1, state, each)

    mass = added(population.weights).clamp(min=torch.finfo(values.dtype).tiny)
    return (added(population.weights * values) / mass)[:, state]
