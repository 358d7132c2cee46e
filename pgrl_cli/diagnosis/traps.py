"""Mistakes that look harmless, made on purpose on this very policy."""

from typing import Any

import torch
from torch import Tensor

from pgrl_cli.diagnosis.deltas import one_rollout
from pgrl_cli.diagnosis.population import Population
from pgrl_cli.diagnosis.rollouts import Rollouts, cosine
from pgrl_cli.equations.averages import masked, response_sum
from pgrl_cli.equations.categorical import log_probs_of, log_softmax
from pgrl_cli.equations.losses import unclipped
from pgrl_cli.equations.ratios import importance_ratios
from pgrl_cli.policies.stack import joined
from pgrl_cli.training.measures import ratio_measures

COLD = 0.6
"""The temperature of the mistake."""


def traps(population: Population, drawn: Rollouts, truth: Tensor) -> dict[str, Any]:
    """What becomes of three mistakes, beside what it should be.

    unfrozen_old_log_probs: the length of an unclipped loss's gradient on one rollout, if the old log-probs carry one
    too, and if they do not; first_ratio: the importance ratio farthest from 1 on an epoch's first step, where a clip
    has nothing to do; cold_samples: the expected gradient of the config's delta mode (or what stands in for it)
    against the true one, and the expected reward, with samples of temperature 0.6 that are scored at 1.
    """
    return {
        "unfrozen_old_log_probs": _unfrozen(drawn),
        "first_ratio": _first_ratio(drawn),
        "cold_samples": _cold_samples(population, truth),
    }


def _unfrozen(drawn: Rollouts) -> dict[str, float]:
    subject = drawn.subject
    responses = drawn.responses[0]
    mask = subject.parts.task.mask(responses)
    advantages = drawn.advantages(subject.advantage)[0]
    log_probs = masked(subject.policy.log_probs(subject.prompts, responses), mask)

    def length(old_log_probs: Tensor) -> float:
        loss = response_sum(unclipped(log_probs, old_log_probs, advantages), mask)
        gradients = torch.autograd.grad(loss, list(subject.policy.parameters()), retain_graph=True)
        return joined(gradients, stacked=False).norm().item()

    return {"gradient_norm": length(log_probs), "gradient_norm_frozen": length(log_probs.detach())}


@torch.no_grad()
def _first_ratio(drawn: Rollouts) -> dict[str, float]:
    subject, responses = drawn.subject, drawn.responses[0]
    old, new = (subject.policy.log_probs(subject.prompts, responses) for _ in range(2))
    ratios = importance_ratios(new, old)
    farthest = ratios.flatten()[(ratios - 1).abs().argmax()]
    effective = ratio_measures({"old_log_probs": old}, new[None])["effective_sample_size"]
    return {"ratio": farthest.item(), "effective_sample_size": 1.0 if effective is None else effective.item()}


def _cold_samples(population: Population, truth: Tensor) -> dict[str, float]:
    cold = population.reweighted(_log_probs_at(population, COLD))
    found = one_rollout(population.subject.advantage, cold, truth)
    numbers = found.numbers()
    return {
        "temperature": COLD,
        "cosine": cosine(found.mean, truth).item(),
        "scale": numbers["scale"],
        "off_direction": numbers["off_direction"],
        "expected_reward": cold.mean(cold.task_rewards).mean().item(),
    }


@torch.no_grad()
def _log_probs_at(population: Population, temperature: float) -> Tensor:
    """log pi [prompt response] of whole responses that are drawn at a temperature."""
    subject, found = population.subject, []
    for some in population.stretches():
        responses = population.responses[:, some]
        logits = subject.policy.logits(subject.prompts, responses) / temperature
        log_probs = log_probs_of(responses, log_softmax(logits))
        found.append(masked(log_probs, subject.parts.task.mask(responses)).sum(dim=-1))
    return torch.cat(found, dim=-1)
