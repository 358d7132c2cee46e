"""The training loop: a generator of records.

It writes no file, prints nothing, and knows no algorithm's name. Logs, progress, early stops and checkpoints are
plain loops around it; stopping between two records and going on later with the same State changes nothing.
"""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.policies.stack import frozen_copy, joined
from pgrl_cli.registry import apply
from pgrl_cli.training.faults import Fault, fault
from pgrl_cli.training.measures import NOT_OF_OWN_REWARDS, Measures, evaluated, measured, measured_for
from pgrl_cli.training.objectives import Objective, policy_gradient
from pgrl_cli.training.parts import Number, Parts, State
from pgrl_cli.training.rollouts import Failures, Rollout, collect

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
        return tuple(name for name, array in every if array is not None and not np.isfinite(array).all())

    def rows(self, config: Config, runs: Runs = None, alive: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl of a config whose runs these are, as if it had trained alone.

        Values are numpy numbers for one run, arrays [run] for a stack, NaN where a run is not alive any more;
        `nonfinite` names those that should be numbers and are none.
        """
        spoilt = None if alive is None or alive.all() else ~alive
        arrays = {name: _of_runs(self.numbers[name], runs, spoilt) for name in measured_for(config, self.numbers)}
        if config.kl_coefficient == 0:
            arrays["kl"] = None  # a neighbour's may pull
        last = {name: _of_runs(array, runs, spoilt) for name, array in self.last_numbers.items()}
        if config.sources:
            last |= dict.fromkeys(NOT_OF_OWN_REWARDS)  # a neighbour's may be known
        axes = arrays["loss"].ndim
        for index, step in enumerate(self.steps):
            row: dict[str, Any] = {"epoch": self.epoch, "step": step}
            for name, array in arrays.items():
                row[name] = array if array is None or array.ndim < axes else array[index]
            row |= {name: value if step == self.steps[-1] else None for name, value in last.items()}
            if wrong := [name for name in self.doubtful if not _finite(row.get(name), spoilt)]:
                row["nonfinite"] = wrong
            yield row


def _of_runs(array: Any, runs: Runs, spoilt: np.ndarray | None) -> Any:
    """A measure [... run] of some runs: a number where it is one."""
    if array is None:
        return None
    here = array if runs is None else array[..., runs]
    return (here if spoilt is None else np.where(spoilt, np.nan, here))[()]


def _finite(value: Any, spoilt: np.ndarray | None) -> bool:
    return value is None or bool((np.isfinite(value) if spoilt is None else np.isfinite(value) | spoilt).all())


def train(parts: Parts, config: Config, state: State) -> Iterator[Record]:
    """Yield a record per epoch, from the state's epoch to the last; whoever iterates decides what to keep."""
    while state.epoch < config.epochs:
        yield _epoch(parts, config, state)


def _epoch(parts: Parts, config: Config, state: State) -> Record:
    started = time.perf_counter()
    _refresh_reference(parts, config, state)
    rollout, failures = collect(parts, config, state)
    sampled = time.perf_counter()
    factor = decayed(config.learning_rate_decay, state.epoch, config.epochs)
    rate = parts.knob("learning_rate", axes=1) * factor
    bonus = parts.knob("entropy_coefficient", axes=0) * decayed(config.entropy_decay, state.epoch, config.epochs)
    leaves = list(state.policy.parameters())
    steps: list[Objective] = []
    norms: list[Tensor] = []
    faults: dict[int, Fault] = {}
    for _ in range(config.steps_per_epoch):
        objective = policy_gradient(parts, config, state.policy, rollout, bonus)
        gradients = torch.autograd.grad(_summed(objective.loss), leaves)
        with torch.no_grad():
            gradient = joined(gradients, parts.stacked)
            norm = torch.linalg.vector_norm(gradient, dim=-1)
            if state.stopped is None and _all_finite(norm):
                _update(parts, state, gradient, rate)
            else:
                broken = _broken_by(parts, config, state, rollout, objective, norm, faults)
                _update_others(parts, state, gradient, rate, broken)
        norms.append(norm)
        steps.append(objective)
    stepped = time.perf_counter()
    measures = measured(parts, rollout, steps, norms)
    evaluation = evaluated(parts, config, state)
    seconds = {
        "rollout": sampled - started,
        "steps": stepped - sampled,
        "measures": time.perf_counter() - stepped,
    }
    state.epoch += 1
    numbers = range(state.steps - config.steps_per_epoch, state.steps)
    return Record(state.epoch - 1, numbers, measures, evaluation, rollout, seconds, failures, faults)


def _refresh_reference(parts: Parts, config: Config, state: State) -> None:
    if not parts.uses("kl_coefficient"):
        return
    due = config.reference_period > 0 and state.epoch % config.reference_period == 0
    if due or state.reference is None:
        state.reference = frozen_copy(state.policy)


def _summed(losses: Tensor) -> Tensor:
    """Runs are independent, so the gradient of the sum of their losses gives every run its own.

    (Not `grad_outputs` of ones: its check of shapes is slow, and imports sympy for a third of a second at the first.)
    """
    return losses.sum() if losses.ndim else losses


def _update(parts: Parts, state: State, gradient: Tensor, rate: Number) -> None:
    state.steps += 1
    given = {"parameters": state.parameters, "gradient": gradient, "learning_rate": rate, "count": state.steps}
    apply(parts.update, given | state.moments, parts.knobs)


def _all_finite(norm: Tensor) -> bool:
    return math.isfinite(norm.item()) if norm.ndim == 0 else bool(norm.isfinite().all())


def _broken_by(
    parts: Parts,
    config: Config,
    state: State,
    rollout: Rollout,
    objective: Objective,
    norm: Tensor,
    faults: dict[int, Fault],
) -> Tensor:
    """Which runs this step must not move ([...], bool): their gradient is not finite, or they have stopped before.

    Notes why, and which of a stack's runs stop for good.
    """
    broken = ~norm.isfinite()
    stops = torch.zeros_like(broken)
    for run in np.flatnonzero(broken.cpu().numpy()).tolist():
        if run not in faults and (state.stopped is None or not state.stopped[run]):
            faults[run] = fault(parts, state, rollout, objective, norm, run if parts.stacked else None)
            stops.view(-1)[run] = config.on_nonfinite == "stop" or faults[run].spoilt
    if parts.stacked and stops.any():
        state.stopped = stops if state.stopped is None else state.stopped | stops
    return broken if state.stopped is None else broken | state.stopped


def _update_others(parts: Parts, state: State, gradient: Tensor, rate: Number, broken: Tensor) -> None:
    """Update the runs that are not broken; the others keep their parameters and what the update remembers of them."""
    moved = {"parameters": state.parameters} | state.moments
    before = {name: tensor[broken].clone() for name, tensor in moved.items()}
    _update(parts, state, gradient, rate)
    for name, tensor in moved.items():
        tensor[broken] = before[name]


def decayed(decay: str, epoch: int, epochs: int) -> float:
    """The factor of a schedule in an epoch: 1 for `none`; for `linear` from 1 to 0 at the last epoch."""
    return 1 - epoch / max(1, epochs - 1) if decay == "linear" else 1.0
