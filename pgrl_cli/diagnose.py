"""A config, or a run, in; what is true of its policy and its estimators out."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from pgrl_cli import sampling
from pgrl_cli.assembly import assemble, threads_for
from pgrl_cli.config import Config, ConfigError, Problem
from pgrl_cli.config.problems import listed
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
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import frozen_copy
from pgrl_cli.runs import Run
from pgrl_cli.tasks.task import MOST_ENUMERATED
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.trainer import train

SAMPLES = 4096
"""Rollouts that are drawn where sums over all of them are out of reach."""
NUMBERS: dict[str, Callable[[Population], dict[str, Any]]] = {
    "truth": truth,
    "baselines": baselines,
    "kl": partial(kl_terms, doubt=False),
    "kl_sequence": partial(kl_terms_of_sequences, doubt=False),
    "reward": reward_in_numbers,
}
"""What rests on the responses alone: of a sample of them it has standard errors."""


@contextmanager
def after(config: Config, epochs: int, seed: int | None = None, prompts: int | None = None) -> Iterator[Subject]:
    """A config's policy after so many epochs of its own training; the reference is the policy it began with.

    Of a config with `seeds` it is one seed's, the first unless it is named; of many prompts the first ones are
    looked at. Raises ConfigError.
    """
    seeds = config.run_seeds
    if seed is not None and seed not in seeds:
        raise ConfigError([Problem(f"came {seed}; the config has {listed(seeds, 5)}", "--seed")])
    if epochs > config.epochs:
        raise ConfigError([Problem(f"came {epochs}; the config trains for {config.epochs} epochs", "--after")])
    parts, state = assemble([_alone(config, seeds[0] if seed is None else seed)])
    with closing(parts):
        reference = frozen_copy(state.policy)
        with threads_for(0):
            for record in train(parts, config, state) if epochs else ():
                if record.epoch + 1 == epochs:
                    break
        if not state.parameters.isfinite().all():
            raise ConfigError([Problem(f"the policy is not finite after {epochs} epochs", "--after")])
        yield _subject(config, parts, state, reference, "the policy before training", prompts)


@contextmanager
def at_run(folder: Run, seed: int | None = None, prompts: int | None = None) -> Iterator[Subject]:
    """A run's policy as its last whole checkpoint has it.

    The reference is what the run's KL pulls towards; of a run without one, the policy that it began with. Raises
    ConfigError.
    """
    with sampling.trained(folder, seed) as trained:
        state = trained.state
        reference, told = state.reference, "the run's own"
        if reference is None:
            (first, begun), told = assemble([_alone(trained.origin, trained.config.seed)]), "the policy before training"
            first.close()
            reference = begun.policy
        yield _subject(trained.config, trained.parts, state, reference, told, prompts)


def _alone(config: Config, seed: int) -> Config:
    """One of a config's runs, on the CPU."""
    return config.model_copy(update={"seeds": None, "log_seeds": None, "seed": seed, "device": "cpu"})


def _subject(config: Config, parts: Parts, state: State, reference: Policy, told: str, prompts: int | None) -> Subject:
    """The policy as it stands, in float64."""
    return Subject(
        config=config,
        parts=replace(parts, dtype=torch.float64, task=replace(parts.task, prompts=parts.task.prompts[:prompts])),
        policy=frozen_copy(state.policy).double().requires_grad_(True),
        reference=frozen_copy(reference).double(),
        reference_told=told,
        moments={name: moment.double() for name, moment in state.moments.items()},
        epochs=state.epoch,
        steps=state.steps,
    )


def diagnosis(
    subject: Subject, samples: int | None = None, watch: Callable[[str], None] = lambda what: None
) -> dict[str, Any]:
    """Everything, as JSON holds it; `watch` sees what is being worked out.

    Where there are more responses than can be gone through, that many samples of them stand for all. Raises ConfigError
    if no number was asked for.
    """
    task = subject.parts.task
    if task.response_count > MOST_ENUMERATED and samples is None:
        told = f"{task.vocab_size}^{task.response_length} = {task.response_count:,} responses to each prompt"
        fix = f"--samples N draws N of them instead, {SAMPLES} for one, and says how far off the figures may be"
        message = f"{told} are more than the {MOST_ENUMERATED:,} that can be gone through; {fix}"
        raise ConfigError([Problem(message, subject.config.name)])
    subject = replace(subject, samples=samples or SAMPLES)
    with threads_for(6.0 * subject.parameter_count * len(subject.prompts) * min(task.response_count, MOST_ENUMERATED)):
        return _sections(subject, watch)


def _sections(subject: Subject, watch: Callable[[str], None]) -> dict[str, Any]:
    watch("the responses")
    exact = subject.parts.task.response_count <= MOST_ENUMERATED
    population = enumerated(subject) if exact else sampled(subject)
    drawn = rollouts(population, subject.samples)
    gradient = true_gradient(population)
    sections: dict[str, Callable[[], dict[str, Any]]] = {
        "subject": lambda: _told(population),
        "truth": lambda: truth(population),
        "delta_modes": lambda: delta_modes(population, drawn, gradient),
        "baselines": lambda: baselines(population),
        "spread": lambda: spread(population),
        "losses": lambda: loss_modes(population, drawn),
        "kl": lambda: kl_terms(population),
        "kl_sequence": lambda: kl_terms_of_sequences(population),
        "reward": lambda: reward(population, drawn),
        "traps": lambda: traps(population, drawn, gradient),
    }
    found = {}
    for name, section in sections.items():
        watch(name)
        found[name] = section()
    watch("standard errors")
    return found | {"standard_errors": None if exact else _errors(population)}


def _errors(population: Population) -> dict[str, Any]:
    parts = list(population.batches())
    return {name: standard_errors([numbers(part) for part in parts]) for name, numbers in NUMBERS.items()}


def _told(population: Population) -> dict[str, Any]:
    """What is looked at, and how closely."""
    subject = population.subject
    config, task = subject.config, subject.parts.task
    return {
        "config": config.name,
        "task": config.task,
        "policy": config.policy,
        "delta_mode": config.delta_mode,
        "loss_mode": config.loss_mode,
        "seed": subject.parts.seeds[0],
        "epochs": subject.epochs,
        "reference": subject.reference_told,
        "group_size": subject.group_size,
        "prompts": len(subject.prompts),
        "responses_per_prompt": task.response_count,
        "responses_looked_at": population.count,
        "exact": population.exact,
        "parameters": subject.parameter_count,
        "rollouts": subject.samples,
    }
