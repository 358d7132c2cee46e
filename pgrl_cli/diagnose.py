"""A config, or a run, in; what is true of its policy and its estimators out."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pgrl_cli import sampling
from pgrl_cli.assembly import assemble
from pgrl_cli.config import Config, ConfigError, Problem
from pgrl_cli.config.problems import listed, short
from pgrl_cli.diagnosis.sections import sections
from pgrl_cli.diagnosis.subject import Subject
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import frozen_copy
from pgrl_cli.registry import apply
from pgrl_cli.runs import Run
from pgrl_cli.sampling import Trained
from pgrl_cli.starts import checkpoint_at, misfit_of
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.task import MOST_ENUMERATED, Task
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.trainer import Record, train
from pgrl_cli.workload import multiplications, threads_for

SAMPLES = 4096
"""Rollouts that are drawn where sums over all of them are out of reach."""
EPOCHS = 10
"""Of training, where nobody says how many: few enough that something is left to learn."""
BEFORE = "the policy before training"


@contextmanager
def after(
    config: Config,
    epochs: int | None = None,
    seed: int | None = None,
    prompts: int | None = None,
    watch: Callable[[str], None] = lambda what: None,
) -> Iterator[Subject]:
    """A config's policy after so many epochs of its own training; the reference is the policy it began with.

    Ten epochs, or all it has, unless their number is named; of a config with `seeds` it is one seed's, the first unless
    it is named; of many prompts the first ones are looked at. `watch` sees how far it is. Raises ConfigError.
    """
    seeds = config.run_seeds
    if seed is not None and seed not in seeds:
        fix = "" if config.seeds is not None else f"; seed={seed} chooses another"
        raise ConfigError([Problem(f"came {seed}; the config has {listed(seeds, 5)}{fix}", "--seed")])
    if epochs is not None and epochs > config.epochs:
        fix = f"epochs={epochs} makes it longer"
        raise ConfigError([Problem(f"came {epochs}; the config trains for {config.epochs} epochs: {fix}", "--after")])
    asked = min(EPOCHS, config.epochs) if epochs is None else epochs
    alone = _alone(config, seeds[0] if seed is None else seed)
    parts, state = assemble([alone])
    with closing(parts):
        reference = frozen_copy(state.policy)
        _train(parts, alone, state, asked, watch)
        yield _subject(config, parts, state, reference, BEFORE, prompts)


@contextmanager
def at_run(
    folder: Run, seed: int | None = None, prompts: int | None = None, tell: Callable[[str], None] = lambda note: None
) -> Iterator[Subject]:
    """A run's policy as its last whole checkpoint has it; `tell` hears what is wrong with a later one.

    The reference is what the run's KL pulls towards; of a run without one, or whose reference is the very policy, the
    policy that it began with. Raises ConfigError.
    """
    with sampling.trained(folder, seed, device="cpu") as trained:
        _refuse_what_is_not_finite(trained.state, str(folder.folder))
        reference, told = _reference(trained, str(folder.folder))
        for note in trained.notes:
            tell(note)
        yield _subject(trained.config, trained.parts, trained.state, reference, told, prompts)


def diagnosis(
    subject: Subject, samples: int | None = None, watch: Callable[[str], None] = lambda what: None
) -> dict[str, Any]:
    """Everything, as JSON holds it; `watch` sees what is being worked out.

    Where there are more responses than can be gone through, that many samples of them stand for all. Raises ConfigError
    if no number was asked for, and RewardError.
    """
    task = subject.parts.task
    _refuse_too_many(task, samples, subject.config.name)
    subject = replace(subject, samples=samples or SAMPLES)
    responses = len(subject.prompts) * min(task.response_count, MOST_ENUMERATED)
    with threads_for(6.0 * subject.parameter_count * responses):  # as `multiplications` counts a step's
        return sections(subject, watch)


def refuse_too_many(config: Config, samples: int | None = None) -> int:
    """Refuse a config that needs a number of samples and has none, before it trains; how many prompts it has.

    Raises ConfigError.
    """
    task = apply(TASKS[config.task], {}, config.settings)
    _refuse_too_many(task, samples, config.name)
    return len(task.prompts)


def _refuse_too_many(task: Task, samples: int | None, name: str) -> None:
    if task.response_count <= MOST_ENUMERATED or samples is not None:
        return
    told = f"{task.response_count_told} responses to each prompt"
    fix = f"--samples N draws N of them instead, {SAMPLES} for one, and says how far off the figures may be"
    message = f"{told} are more than the {MOST_ENUMERATED:,} that can be gone through; {fix}"
    raise ConfigError([Problem(message, name)])


def _alone(config: Config, seed: int) -> Config:
    """One of a config's runs, on the CPU."""
    return config.model_copy(update={"seeds": None, "log_seeds": None, "seed": seed, "device": "cpu"})


def _train(parts: Parts, config: Config, state: State, epochs: int, watch: Callable[[str], None]) -> None:
    """The first epochs of a config's training. Raises ConfigError where it does not come so far."""
    with threads_for(multiplications(config, parts.task, [state.policy])):
        for record in train(parts, config, state) if epochs else ():
            watch(f"training, epoch {record.epoch + 1} of {epochs}")
            _refuse_an_end(record, config)
            if record.epoch + 1 == epochs:
                break
    _refuse_what_is_not_finite(state, "--after")


def _refuse_an_end(record: Record, config: Config) -> None:
    """Refuse to go on where `pgrl train` would not."""
    for fault in record.faults.values():
        if config.on_nonfinite == "stop" or fault.spoilt:
            told = f"training ends in epoch {record.epoch + 1}: {fault.told}; look at it before, --after {record.epoch}"
            raise ConfigError([Problem(told, config.name)])


def _refuse_what_is_not_finite(state: State, where: str) -> None:
    if not state.parameters.isfinite().all():
        raise ConfigError([Problem(f"the policy is not finite after {state.epoch} epochs", where)])


def _reference(trained: Trained, shown: str) -> tuple[Policy, str]:
    """What a run's KL is measured from, and which policy that is. Raises ConfigError where it has gone."""
    own = trained.state.reference
    if own is None:
        return _begun(trained, shown), BEFORE
    if any(not torch.equal(a, b) for a, b in zip(own.parameters(), trained.state.policy.parameters(), strict=True)):
        return own, "the run's own"
    try:
        return _begun(trained, shown), f"{BEFORE} (the run's own is the policy itself, just refreshed)"
    except ConfigError:
        return own, "the run's own, which is the policy itself, just refreshed"


def _begun(trained: Trained, shown: str) -> Policy:
    """The policy that a run began with. Raises ConfigError where it began with another run's that has gone."""
    seed = trained.config.seed
    if (start := trained.origin.init_from) is not None:
        place = checkpoint_at(Path(start))
        wrong = place if isinstance(place, str) else misfit_of(place, trained.state.policy, [seed])
        if wrong is not None:
            told = f"it began with {short(start, 200)}, and KLs would be measured from there, but: {wrong}"
            raise ConfigError([Problem(told, shown)])
    parts, state = assemble([_alone(trained.origin, seed)])
    parts.close()
    return state.policy


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
        critic=None if state.learner is None else frozen_copy(state.learner.critic).double(),
    )
