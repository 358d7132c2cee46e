"""Many rollouts of one policy, each with the gradient that it gives alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pgrl_cli.diagnosis.population import NUMBERS_AT_ONCE, Population
from pgrl_cli.diagnosis.subject import Subject
from pgrl_cli.equations.averages import masked, response_sum
from pgrl_cli.equations.categorical import score_squares
from pgrl_cli.equations.losses import naive
from pgrl_cli.pieces import slices
from pgrl_cli.policies.stack import joined
from pgrl_cli.registry import Function, apply


@dataclass(frozen=True)
class Rollouts:
    """What the policy answered, so many times over."""

    subject: Subject
    responses: Tensor
    """[rollout prompt response token]."""
    task_rewards: Tensor
    """[rollout prompt response]."""
    seen: Mapping[str, Tensor]
    """What a delta mode may ask for.

    rewards, score_squares [rollout prompt response]; true_values, greedy_rewards [rollout prompt].
    """

    def advantages(self, mode: Function) -> Tensor:
        """[rollout prompt response token], the last axis 1."""
        return apply(mode, self.seen, self.subject.share.knobs).unsqueeze(-1)

    def at_once(self) -> Iterator[slice]:
        """Stretches of rollouts whose copies of the policy fit into memory."""
        count, *shape = self.responses.shape
        tokens = torch.Size(shape).numel() * self.subject.parts.task.vocab_size
        return slices(count, NUMBERS_AT_ONCE // (self.subject.parameter_count + tokens))


@torch.no_grad()
def rollouts(population: Population, count: int) -> Rollouts:
    """So many rollouts of the config's group size."""
    subject = population.subject
    policy, prompts = subject.policy, subject.prompts
    shape = (len(prompts), count * subject.group_size, subject.parts.task.response_length)
    responses = policy.respond(prompts, subject.uniforms("rollouts", *shape))
    squares = masked(
        score_squares(responses, policy.vocab_log_probs(prompts, responses)), subject.parts.task.mask(responses)
    ).sum(dim=-1)
    task_rewards = subject.task_rewards(responses)

    def grouped(tensor: Tensor) -> Tensor:
        """[prompt (rollout response) ...] -> [rollout prompt response ...]."""
        return tensor.unflatten(1, (count, subject.group_size)).transpose(0, 1).contiguous()

    values = population.mean(population.rewards)
    seen = {
        "rewards": subject.shaped(grouped(task_rewards)),
        "score_squares": grouped(squares),
        "true_values": values.expand(count, *values.shape),
        "greedy_rewards": subject.greedy_rewards.expand(count, *values.shape),
    }
    return Rollouts(subject, grouped(responses), grouped(task_rewards), seen)


def cosines(drawn: Rollouts, modes: Mapping[str, Function], truth: Tensor) -> dict[str, Tensor]:
    """Of each rollout's gradient, under each mode, to the true one [parameter]: [rollout].

    A rollout that gives no gradient at all points nowhere: its cosine is 0.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in modes}
    advantages = {name: drawn.advantages(mode) for name, mode in modes.items()}
    for some in drawn.at_once():
        responses = drawn.responses[some]
        copies = drawn.subject.copies(len(responses))
        leaves = list(copies.parameters())
        mask = drawn.subject.parts.task.mask(responses)
        log_probs = masked(copies.log_probs(drawn.subject.prompts, responses), mask)
        for name, each in advantages.items():
            losses = response_sum(naive(log_probs, each[some]), mask)
            gradients = torch.autograd.grad(losses.sum(), leaves, retain_graph=True)
            found[name].append(cosine(-joined(gradients, stacked=True), truth))
    return {name: torch.cat(column) for name, column in found.items()}


def cosine(vectors: Tensor, truth: Tensor) -> Tensor:
    """Of vectors [... parameter] to others: [...]; 0 where either is zero."""
    lengths = torch.linalg.vector_norm(vectors, dim=-1) * torch.linalg.vector_norm(truth, dim=-1)
    return torch.where(lengths > 0, (vectors * truth).sum(dim=-1) / lengths, 0.0)
