"""The responses to each prompt and how likely each is: all there are, or a sample that stands for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from pgrl_cli.diagnosis.subject import Subject
from pgrl_cli.equations.averages import masked
from pgrl_cli.equations.categorical import log_probs_of, score_squares
from pgrl_cli.pieces import slices
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import joined

NUMBERS_AT_ONCE = 2**24
"""How many float64 numbers one tensor of a loop over responses may hold."""
MOST_NUMBERS = 2**27
"""How many float64 numbers are kept of scores."""
BATCHES = 10
"""Parts of a sample that a standard error is made of."""
PER_RESPONSE = ("log_probs", "reference_log_probs", "task_rewards", "right", "score_squares")
"""What is known of each response."""


@dataclass(frozen=True)
class Population:
    """Responses [prompt response token], and what is known of each: [prompt response]."""

    subject: Subject
    responses: Tensor
    weights: Tensor
    """Each prompt's sum to 1: probabilities, or equal shares of a sample."""
    log_probs: Tensor
    """Of whole responses, in nats."""
    reference_log_probs: Tensor
    task_rewards: Tensor
    right: Tensor
    score_squares: Tensor
    """The squared norm of the score with respect to the logits."""
    exact: bool
    """Whether these are all responses there are."""
    own: bool = True
    """Whether it is the policy itself that draws them so."""
    others: "Population | None" = None
    """What the reference drew, where these are a sample."""
    summed: dict[tuple[str, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The moments that were asked for, by what their classes agree in: each takes a pass over all scores."""

    @property
    def rewards(self) -> Tensor:
        """What the delta mode sees."""
        return self.subject.shaped(self.task_rewards)

    @property
    def mask(self) -> Tensor | None:
        return self.subject.parts.task.mask(self.responses)

    @property
    def count(self) -> int:
        """Responses to each prompt."""
        return self.responses.shape[1]

    def mean(self, values: Tensor) -> Tensor:
        """The expectation for each prompt: [... prompt response] -> [... prompt]."""
        return (self.weights * values).sum(dim=-1)

    def reweighted(self, log_probs: Tensor) -> "Population":
        """As if another policy had drawn them: log_probs [prompt response] of whole responses under it.

        Exact where these are all responses; of a sample, self-normalised importance weights, which serve only a policy
        that draws no response much more often.
        """
        # of all responses there are, no weight that underflows stands in the way
        weights = log_probs.exp() if self.exact else self.weights * (log_probs - self.log_probs).exp()
        return replace(self, weights=weights / weights.sum(dim=-1, keepdim=True), own=False)

    def of_reference(self) -> "Population":
        """As the reference draws them. A sample's is one of its own: weights would miss what this policy has left."""
        return self.reweighted(self.reference_log_probs) if self.others is None else self.others

    def drawn(self) -> "Population":
        """A sample from these responses, as large as the subject's `samples` says."""
        weights = self.weights.cumsum(dim=-1)
        uniforms = self.subject.uniforms("drawn", len(weights), max(BATCHES, self.subject.samples)).to(weights)
        chosen = torch.searchsorted(weights, uniforms * weights[:, -1:], right=True).clamp(max=self.count - 1)
        some = {name: getattr(self, name).gather(1, chosen) for name in PER_RESPONSE}
        responses = self.responses.gather(1, chosen[..., None].expand(*chosen.shape, self.responses.shape[-1]))
        weights = torch.full_like(some["log_probs"], 1 / chosen.shape[1])
        return replace(self, **some, responses=responses, weights=weights, exact=False)

    def stretches(self) -> Iterator[slice]:
        """Some of each prompt's responses at a time: as many as have logits that fit into memory."""
        return _stretches(self.subject, self.count)

    def batches(self) -> "Iterator[Population]":
        """A sample in parts that know nothing of each other: what a standard error is made of."""
        others: Iterable[Population | None] = repeat(None) if self.others is None else self.others.batches()
        for batch, other in zip(range(BATCHES), others, strict=False):
            part = {name: getattr(self, name)[:, batch::BATCHES] for name in ("responses", *PER_RESPONSE)}
            weights = self.weights[:, batch::BATCHES]
            yield replace(self, **part, weights=weights / weights.sum(dim=-1, keepdim=True), others=other)

    def scores(self, prompt: int) -> Iterator[tuple[slice, Tensor]]:
        """The gradients of log pi of a prompt's whole responses, some at a time: [response parameter]."""
        asked = self.subject.prompts[prompt : prompt + 1]
        for some in slices(self.count, NUMBERS_AT_ONCE // self.subject.parameter_count):
            responses = self.responses[prompt, some][:, None, None, :]
            copies = self.subject.copies(len(responses))
            log_probs = masked(copies.log_probs(asked, responses), self.subject.parts.task.mask(responses))
            gradients = torch.autograd.grad(log_probs.sum(), list(copies.parameters()))
            yield some, joined(gradients, stacked=True)

    def token_scores(self, prompt: int) -> Iterator[tuple[slice, Tensor]]:
        """The gradients of log pi of each token of a prompt's responses, some at a time: [response token parameter].

        0 behind an end. Their sum over tokens is the response's score.
        """
        asked, tokens = self.subject.prompts[prompt : prompt + 1], self.responses.shape[-1]
        for some in slices(self.count, NUMBERS_AT_ONCE // (tokens * self.subject.parameter_count)):
            responses = self.responses[prompt, some][:, None, None, :]
            copies = self.subject.copies(len(responses))
            log_probs = masked(copies.log_probs(asked, responses), self.subject.parts.task.mask(responses))
            leaves = list(copies.parameters())
            each = [torch.autograd.grad(one.sum(), leaves, retain_graph=True) for one in log_probs.unbind(dim=-1)]
            yield some, torch.stack([joined(gradients, stacked=True) for gradients in each], dim=1)


def enumerated(subject: Subject) -> Population:
    """All responses to every prompt. Raises ValueError where they are too many."""
    every = subject.parts.task.every_response().to(subject.prompts.device)
    return _population(subject, every.expand(len(subject.prompts), *every.shape), exact=True)


@torch.no_grad()
def sampled(subject: Subject) -> Population:
    """As many responses to every prompt as the subject's `samples` says, as far as memory goes, from the policy.

    And as many from the reference.
    """
    most = MOST_NUMBERS // (len(subject.prompts) * subject.parameter_count)
    shape = (len(subject.prompts), max(BATCHES, min(subject.samples, most)), subject.parts.task.response_length)
    own, others = (
        _population(subject, policy.respond(subject.prompts, subject.uniforms(purpose, *shape)), exact=False)
        for policy, purpose in ((subject.policy, "population"), (subject.reference, "population of the reference"))
    )
    return replace(own, others=replace(others, own=False))


@torch.no_grad()
def _population(subject: Subject, responses: Tensor, exact: bool) -> Population:
    found = [_known(subject, responses[:, some]) for some in _stretches(subject, responses.shape[1])]
    log_probs, reference_log_probs, squares = (torch.cat(column, dim=1) for column in zip(*found, strict=True))
    weights = log_probs.exp() if exact else torch.full_like(log_probs, 1 / responses.shape[1])
    return Population(
        subject=subject,
        responses=responses,
        weights=weights / weights.sum(dim=-1, keepdim=True),  # rounding may leave the sum beside 1
        log_probs=log_probs,
        reference_log_probs=reference_log_probs,
        task_rewards=subject.task_rewards(responses),
        right=subject.parts.task.is_right(subject.prompts, responses),
        score_squares=squares,
        exact=exact,
    )


def _stretches(subject: Subject, count: int) -> Iterator[slice]:
    task = subject.parts.task
    return slices(count, NUMBERS_AT_ONCE // (len(task.prompts) * task.response_length * task.vocab_size))


def _known(subject: Subject, responses: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log pi, log ref and the squared score of whole responses: [prompt response]."""
    mask = subject.parts.task.mask(responses)
    vocab_log_probs = subject.policy.vocab_log_probs(subject.prompts, responses)
    log_probs = log_probs_of(responses, vocab_log_probs)
    reference_log_probs = whole(subject.reference, subject.prompts, responses, mask)
    squares = masked(score_squares(responses, vocab_log_probs), mask).sum(dim=-1)
    return masked(log_probs, mask).sum(dim=-1), reference_log_probs, squares


def whole(policy: Policy, prompts: Tensor, responses: Tensor, mask: Tensor | None) -> Tensor:
    """log pi of whole responses: [... prompt response token] -> [... prompt response]."""
    return masked(policy.log_probs(prompts, responses), mask).sum(dim=-1)
