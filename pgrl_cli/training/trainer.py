"""The training loop: a generator of records.

It writes no file, prints nothing, and knows no algorithm's name. Logs, progress, early stops and checkpoints are
plain loops around it; stopping between two records and going on later with the same State changes nothing.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import frozen_copy
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.evaluation import NOT_OF_OWN_REWARDS, evaluated, is_due
from pgrl_cli.training.faults import Fault
from pgrl_cli.training.group_measures import Measures
from pgrl_cli.training.measures import MAY_BE_UNKNOWN, OF_KEPT, groups_of, measured, measured_for
from pgrl_cli.training.memory import follow, following, led_by, look_back
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.rollouts import Collected, Failures, Rollout, collect, taken_up
from pgrl_cli.training.schedules import decayed, scheduled
from pgrl_cli.training.steps import Steps
from pgrl_cli.training.warm_start import Warmth, warm_up

Runs = slice | int | None
"""Which of a stack's runs: some side by side, one by itself, or all there are."""


@dataclass(frozen=True)
class Record:
    """How one epoch went."""

    epoch: int
    steps: range
    """The numbers of its optimizer steps."""
    measures: Measures
    """[step ...], or [...] where it is the same in every step."""
    evaluation: Measures
    """[...]: of the policy after the last step."""
    rollout: Rollout
    seconds: dict[str, float]
    failures: Failures
    """The shares of a stack that could not be scored: their runs are spoilt, and no others."""
    faults: Mapping[int, Fault]
    """Why runs had a gradient without a finite norm, the first time in this epoch; a run alone is number 0."""
    task: Task
    """What was trained on."""
    warm_start: Warmth | None = None
    """How the warm start before it went, where there was one."""

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The measures as numpy arrays [step ...] or [...]; None where one was not computed."""
        return {name: None if m is None else m.cpu().numpy() for name, m in self.measures.items()}

    @cached_property
    def last_numbers(self) -> dict[str, Any]:
        """The evaluation as numpy arrays [...]."""
        return {name: None if m is None else m.cpu().numpy() for name, m in self.evaluation.items()}

    @cached_property
    def doubtful(self) -> tuple[str, ...]:
        """The measures that are somewhere no finite number."""
        every = (self.numbers | self.last_numbers).items()
        numbers = [(name, array) for name, array in every if array is not None and name not in MAY_BE_UNKNOWN]
        return tuple(name for name, array in numbers if not (np.isfinite(array) | self.excused(name)).all())

    def excused(self, name: str) -> Any:
        """In which runs a measure need be no number, since all groups were dropped: bool, or of a stack [run]."""
        kept = self.numbers.get("kept_groups")
        return np.zeros((), dtype=bool) if kept is None or name not in OF_KEPT else kept == 0

    def rows(self, config: Config, runs: Runs = None, alive: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl of a config whose runs these are, as if it had trained alone.

        Values are numpy numbers for one run, arrays [run] for a stack, NaN where a run is not alive any more;
        `nonfinite` names those that should be numbers and are none.
        """
        spoilt = None if alive is None or alive.all() else ~alive
        arrays = {name: of_runs(self.numbers[name], runs, spoilt) for name in measured_for(config, self.numbers)}
        if config.kl_coefficient == 0:
            arrays["kl"] = None  # a neighbour's may pull
        last = {name: of_runs(array, runs, spoilt) for name, array in self.last_numbers.items()}
        if config.sources:
            last |= dict.fromkeys(NOT_OF_OWN_REWARDS)  # a neighbour's may be known
        axes = arrays["loss"].ndim
        for index, step in enumerate(self.steps):
            row: dict[str, Any] = {"epoch": self.epoch, "step": step}
            for name, array in arrays.items():
                row[name] = array if array is None or array.ndim < axes else array[index]
            row |= {name: value if step == self.steps[-1] else None for name, value in last.items()}
            if wrong := [
                name for name in self.doubtful if not _finite(row.get(name), spoilt, self.excused(name), runs)
            ]:
                row["nonfinite"] = wrong
            yield row


def of_runs(array: Any, runs: Runs, spoilt: np.ndarray | None = None) -> Any:
    """A measure [... run] of some runs: a number where it is one."""
    if array is None:
        return None
    here = array if runs is None else array[..., runs]
    return (here if spoilt is None else np.where(spoilt, np.nan, here))[()]


def _finite(value: Any, spoilt: np.ndarray | None, excused: Any, runs: Runs) -> bool:
    if value is None:
        return True
    fine = np.isfinite(value) | (excused if excused.ndim == 0 else of_runs(excused, runs))
    return bool((fine if spoilt is None else fine | spoilt).all())


def train(parts: Parts, config: Config, state: State) -> Iterator[Record]:
    """Yield a record per epoch, from the state's epoch to the last; whoever iterates decides what to keep."""
    warmth = warm_up(parts, config, state) if config.warm_start is not None and state.epoch == 0 else None
    while state.epoch < config.epochs:
        record = _epoch(parts, config, state)
        yield record if warmth is None else replace(record, warm_start=warmth)
        warmth = None


def _epoch(parts: Parts, config: Config, state: State) -> Record:
    """Train one epoch: a rollout, its steps, its measures, and what the next ones need of it."""
    started = time.perf_counter()
    parts = following(parts, state)
    before = frozen_copy(state.policy) if parts.asked_for("old_policy_rewards") else None
    _refresh_reference(parts, config, state)
    reuses = _reuses(config, state)
    rollout, failures, ahead = (
        Collected(taken_up(parts, config, state), {}) if reuses else collect(parts, config, state)
    )
    old = _before_the_steps(parts, config, state, rollout, ahead)
    sampled = time.perf_counter()
    factor = scheduled(config.learning_rate_decay, config.learning_rate_warmup, state.epoch, config.epochs)
    bonus = parts.knob("entropy_coefficient", axes=0) * decayed(config.entropy_decay, state.epoch, config.epochs)
    steps = Steps(parts, config, state, rollout, factor, bonus)
    taken = steps.take_all(ahead)
    ended = time.perf_counter()
    measures = measured(parts, state, rollout, taken)
    evaluation = evaluated(parts, config, state, rollout, old)
    _remember(parts, config, state, rollout, evaluation, before)
    seconds = {"rollout": sampled - started, "steps": ended - sampled, "measures": time.perf_counter() - ended}
    state.epoch += 1
    numbers = range(state.steps - config.steps_per_epoch, state.steps)
    return Record(state.epoch - 1, numbers, measures, evaluation, rollout, seconds, failures, steps.faults, parts.task)


def _refresh_reference(parts: Parts, config: Config, state: State) -> None:
    if not parts.uses("kl_coefficient"):
        return
    due = config.reference_period > 0 and state.epoch % config.reference_period == 0
    if due or state.reference is None:
        state.reference = frozen_copy(state.policy)


def _reuses(config: Config, state: State) -> bool:
    """Whether this epoch learns from an earlier one's rollout."""
    return state.rollout is not None and state.epoch % config.rollout_reuse > 0


@torch.no_grad()
def _before_the_steps(
    parts: Parts, config: Config, state: State, rollout: Rollout, ahead: Tensor | None
) -> Tensor | None:
    """log pi over the vocabulary before an epoch's steps, where it is measured how far they lead."""
    if not (is_due(config, state.epoch) or "old_kl_coefficient" in state.coefficients):
        return None
    if ahead is not None:
        return ahead.detach()
    return state.policy.vocab_log_probs(rollout["prompts"], rollout["responses"])


def _remember(
    parts: Parts,
    config: Config,
    state: State,
    rollout: Rollout,
    evaluation: Measures,
    before: Policy | None,
) -> None:
    """What later epochs need of this one; nothing of it may change before its steps are taken."""
    reused = _reuses(config, state)
    goes_on = (state.epoch + 1) % config.rollout_reuse > 0
    if state.coefficients:
        groups = groups_of(rollout)
        sampled = groups.get("sampled_responses")
        responses = rollout["rewards"].shape[-2:].numel() if sampled is None else sampled
        at_sampling = None if reused else groups.get("kl_at_sampling")
        led = None if goes_on else led_by(state, rollout) if reused else evaluation["epoch_kl"]
        follow(parts, state, at_sampling, led, responses)
    if state.past_mean is not None and not reused:
        look_back(parts, state, rollout)
    if before is not None:
        state.previous = before
    # laid out as a checkpoint would give it back: sums over another layout round otherwise
    state.rollout = {name: each.contiguous() for name, each in rollout.items()} if goes_on else None
