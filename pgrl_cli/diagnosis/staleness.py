"""How long one rollout stays good: the losses' gradients after several steps on it, against the true gradient."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pgrl_cli.diagnosis.population import NUMBERS_AT_ONCE, Population, whole
from pgrl_cli.diagnosis.rollouts import Rollouts, cosine
from pgrl_cli.diagnosis.subject import Subject
from pgrl_cli.equations.averages import masked
from pgrl_cli.equations.categorical import log_probs_of
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import joined, lay_together
from pgrl_cli.registry import Function, apply, knobs, needs
from pgrl_cli.training.measures import clip_fraction, ratio_measures
from pgrl_cli.training.natural import fisher_products, mean_kl
from pgrl_cli.training.schedules import scheduled
from pgrl_cli.training.updates import clipped_by_norm

MOST_ROLLOUTS = 256
FEWEST_ROLLOUTS = 16
Watch = Callable[[str], None]
"""Sees what is being worked out."""


def loss_modes(
    population: Population, drawn: Rollouts, watch: Watch = lambda what: None
) -> dict[str, list[dict[str, Any]]]:
    """Of each loss mode, what it is like before each of an epoch's steps, from the first on.

    Every rollout trains a copy of the policy of its own: with the config's delta mode (or what stands in for it),
    average and update, from where that stands, at the rate of the epoch that comes next (of a finished run, of its
    last), and with that loss alone, without KL or entropy.
    Means over rollouts: cosine, of the loss's gradient at the copy's parameters to the true gradient there, with its
    standard error; effective_sample_size and clip_fraction (None for a loss without a clip) as in metrics.jsonl;
    expected_reward, the truth for the copy.
    """
    count = _count(population, len(drawn.responses))
    return {name: _stepped(population, drawn, count, loss, watch) for name, loss in LOSSES.items()}


def _count(population: Population, there: int) -> int:
    room = NUMBERS_AT_ONCE // (4 * population.responses.numel())
    return min(there, max(FEWEST_ROLLOUTS, min(MOST_ROLLOUTS, room)))


def _stepped(population: Population, drawn: Rollouts, count: int, loss: Function, watch: Watch) -> list[dict[str, Any]]:
    subject = population.subject
    copies = subject.copies(count)
    parameters = lay_together(copies, stacked=True)
    remembered = {name: moment.expand(count, -1).clone() for name, moment in subject.moments.items()}
    rollout = _rollout(subject, drawn, count)
    told = []
    for step in range(subject.config.steps_per_epoch):
        watch(f"losses: {loss.__name__}, step {step + 1} of {subject.config.steps_per_epoch}")
        log_probs, gradient = _gradient(subject, copies, rollout, loss)
        values, truth = _truth(population, copies)
        told.append(_told(subject, rollout, loss, log_probs, cosine(-gradient, truth), values))
        given = {"parameters": parameters, "count": subject.steps + step + 1} | remembered
        if "fisher_product" in needs(subject.parts.update):
            given |= _natural(subject, copies, rollout, loss)
        _update(subject, gradient, given)
    return told


def _rollout(subject: Subject, drawn: Rollouts, count: int) -> dict[str, Tensor]:
    responses = drawn.responses[:count]
    mask = subject.parts.task.mask(responses)
    with torch.no_grad():
        old = masked(subject.copies(count).log_probs(subject.prompts, responses), mask)
    advantages = drawn.advantages(subject.advantage)[:count]
    rollout = {"responses": responses, "old_log_probs": old, "advantages": advantages}
    return rollout if mask is None else rollout | {"mask": mask}


def _gradient(subject: Subject, copies: Policy, rollout: dict[str, Tensor], loss: Function) -> tuple[Tensor, Tensor]:
    """log pi [rollout prompt response token], and the gradient of each copy's loss: [rollout parameter]."""
    log_probs = masked(copies.log_probs(subject.prompts, rollout["responses"]), rollout.get("mask"))
    losses = _losses(subject, rollout, loss, log_probs)
    gradients = torch.autograd.grad(losses.sum(), list(copies.parameters()))
    return log_probs.detach(), joined(gradients, stacked=True)


def _losses(subject: Subject, rollout: dict[str, Tensor], loss: Function, log_probs: Tensor) -> Tensor:
    """Each copy's: [rollout]."""
    values = apply(loss, rollout | {"log_probs": log_probs}, _knobs_of(subject, loss))
    return apply(subject.parts.average, {"values": values, "mask": rollout.get("mask")}, subject.parts.knobs)


def _natural(subject: Subject, copies: Policy, rollout: dict[str, Tensor], loss: Function) -> dict[str, Any]:
    """What an update asks for that measures its steps by how far they move each copy."""
    prompts, responses, mask = subject.prompts, rollout["responses"], rollout.get("mask")
    with torch.no_grad():
        before = copies.vocab_log_probs(prompts, responses)

    def trial() -> tuple[Tensor, Tensor]:
        now = copies.vocab_log_probs(prompts, responses)
        log_probs = masked(log_probs_of(responses, now), mask)
        return _losses(subject, rollout, loss, log_probs), mean_kl(before, now, mask)

    return {"fisher_product": fisher_products(copies, prompts, responses, mask), "trial": trial}


def _knobs_of(subject: Subject, loss: Function) -> dict[str, Any]:
    """The config's, where it turns them, for any loss: those that it does not know keep their defaults."""
    return {name: subject.config.knobs[name] for name in knobs(loss) if name in subject.config.knobs}


def _truth(population: Population, copies: Policy) -> tuple[Tensor, Tensor]:
    """The expected reward [rollout] of each copy, in units of the task's, and its gradient [rollout parameter].

    Of all responses it is exact; of a sample, which the first policy has drawn, it is importance sampling.
    """
    subject = population.subject
    count = next(copies.parameters()).shape[0]
    responses = population.responses.expand(count, *population.responses.shape)
    log_probs = whole(copies, subject.prompts, responses, population.mask)
    weights = log_probs.exp() if population.exact else population.weights * (log_probs - population.log_probs).exp()
    values = population.mean(population.rewards)[:, None]
    objective = (weights * (population.rewards - values)).sum(dim=-1).mean(dim=-1)
    gradients = torch.autograd.grad(objective.sum(), list(copies.parameters()))
    with torch.no_grad():
        expected = (weights * population.task_rewards).sum(dim=-1) / weights.sum(dim=-1)
    return expected.mean(dim=-1), joined(gradients, stacked=True)


@torch.no_grad()
def _told(
    subject: Subject, rollout: dict[str, Tensor], loss: Function, log_probs: Tensor, cosines: Tensor, values: Tensor
) -> dict[str, Any]:
    effective = ratio_measures(rollout, log_probs)["effective_sample_size"]
    cut = clip_fraction(loss, _knobs_of(subject, loss), rollout, log_probs)
    return {
        "cosine": cosines.mean().item(),
        "standard_error": (cosines.std() / len(cosines) ** 0.5).item(),
        "effective_sample_size": None if effective is None else effective.mean().item(),
        "clip_fraction": None if cut is None else cut.mean().item(),
        "expected_reward": values.mean().item(),
    }


@torch.no_grad()
def _update(subject: Subject, gradient: Tensor, given: dict[str, Any]) -> None:
    config, most = subject.config, subject.parts.knobs["max_gradient_norm"]
    epoch = min(subject.epochs, config.epochs - 1)
    factor = scheduled(config.learning_rate_decay, config.learning_rate_warmup, epoch, config.epochs)
    if most is not None:
        gradient = clipped_by_norm(gradient, torch.linalg.vector_norm(gradient, dim=-1), most)
    given |= {"gradient": gradient, "learning_rate": config.learning_rate * factor}
    apply(subject.parts.update, given, subject.parts.knobs)
