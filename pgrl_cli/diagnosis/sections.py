"""All that is found out about a subject, section by section, as JSON holds it."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from pgrl_cli.diagnosis.baselines import baselines, spread
from pgrl_cli.diagnosis.deltas import delta_modes
from pgrl_cli.diagnosis.divergences import kl_terms, kl_terms_of_sequences
from pgrl_cli.diagnosis.errors import standard_errors
from pgrl_cli.diagnosis.population import Population, enumerated, sampled
from pgrl_cli.diagnosis.rewards import reward, reward_in_numbers
from pgrl_cli.diagnosis.rollouts import rollouts
from pgrl_cli.diagnosis.staleness import loss_modes
from pgrl_cli.diagnosis.subject import Subject
from pgrl_cli.diagnosis.traps import traps
from pgrl_cli.diagnosis.truth import true_gradient, truth
from pgrl_cli.tasks.task import MOST_ENUMERATED

NUMBERS: dict[str, Callable[[Population], dict[str, Any]]] = {
    "truth": truth,
    "baselines": baselines,
    "kl": partial(kl_terms, doubt=False),
    "kl_sequence": partial(kl_terms_of_sequences, doubt=False),
    "reward": reward_in_numbers,
}
"""What rests on the responses alone: of a sample of them it has standard errors."""
MOST_IN_JSON = 2**53
"""Whole numbers beyond it are not whole everywhere."""


def sections(subject: Subject, watch: Callable[[str], None]) -> dict[str, Any]:
    """Every section by its name; `watch` sees which one is being worked out. What is no finite number is None."""
    watch("the responses")
    exact = subject.parts.task.response_count <= MOST_ENUMERATED
    population = enumerated(subject) if exact else sampled(subject)
    drawn = rollouts(population, subject.samples)
    gradient = true_gradient(population)
    every: dict[str, Callable[[], Any]] = {
        "subject": lambda: _told(population),
        "truth": lambda: truth(population),
        "delta_modes": lambda: delta_modes(population, drawn, gradient),
        "baselines": lambda: baselines(population),
        "spread": lambda: spread(population),
        "losses": lambda: loss_modes(population, drawn, watch),
        "kl": lambda: kl_terms(population),
        "kl_sequence": lambda: kl_terms_of_sequences(population),
        "reward": lambda: reward(population, drawn),
        "traps": lambda: traps(population, drawn, gradient),
        "standard_errors": lambda: None if exact else _errors(population),
    }
    found = {}
    for name, section in every.items():
        watch(name.replace("_", " "))
        found[name] = _strict(section())
    return found


def _errors(population: Population) -> dict[str, Any]:
    parts = list(population.batches())
    errors = {name: standard_errors([numbers(part) for part in parts]) for name, numbers in NUMBERS.items()}
    errors["truth"].pop("maximum_reward")  # the more are drawn, the more the best of them earns
    return errors


def _told(population: Population) -> dict[str, Any]:
    """What is looked at, and how closely."""
    subject = population.subject
    config, task = subject.config, subject.parts.task
    return {
        "config": config.name,
        "task": config.task,
        "policy": config.policy,
        "delta_mode": config.delta_mode,
        "looked_at_as": subject.advantage.__name__,
        "loss_mode": config.loss_mode,
        "kl_estimator": config.kl_estimator,
        "kl_placement": config.kl_placement,
        "kl_coefficient": config.kl_coefficient,
        "seed": subject.parts.seeds[0],
        "epochs": subject.epochs,
        "reference": subject.reference_told,
        "group_size": subject.group_size,
        "prompts": len(subject.prompts),
        "responses_per_prompt": task.response_count if task.response_count <= MOST_IN_JSON else None,
        "responses_looked_at": population.count,
        "exact": population.exact,
        "parameters": subject.parameter_count,
        "rollouts": subject.samples,
    }


def _strict(value: Any) -> Any:
    """A value as strict JSON has it: infinities and what is no number are null."""
    if isinstance(value, dict):
        return {name: _strict(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_strict(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
