"""The training loop: a generator of records.

It writes no file, prints nothing, and knows no algorithm's name. Logs, progress, early stops and checkpoints are
plain loops around it; stopping between two records and going on later with the same State changes nothing.
"""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.policies.stack import joined
from pgrl_cli.registry import apply
from pgrl_cli.training.measures import Measures, evaluated, measured
from pgrl_cli.training.objectives import policy_gradient
from pgrl_cli.training.parts import Number, Parts, State
from pgrl_cli.training.rollouts import Rollout, collect


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

    def rows(self) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl: numpy values [] or [run]; `nonfinite` names those that are no number."""
        arrays = {name: None if m is None else m.cpu().numpy()[()] for name, m in self.measures.items()}
        last = {name: None if m is None else m.cpu().numpy()[()] for name, m in self.evaluation.items()}
        every = (arrays | last).items()
        doubtful = [name for name, array in every if array is not None and not np.isfinite(array).all()]
        axes = 0 if arrays["loss"] is None else arrays["loss"].ndim
        for index, step in enumerate(self.steps):
            row: dict[str, Any] = {"epoch": self.epoch, "step": step}
            for name, array in arrays.items():
                row[name] = array if array is None or array.ndim < axes else array[index]
            row |= {name: value if step == self.steps[-1] else None for name, value in last.items()}
            if wrong := [name for name in doubtful if row[name] is not None and not np.isfinite(row[name]).all()]:
                row["nonfinite"] = wrong
            yield row


def train(parts: Parts, config: Config, state: State) -> Iterator[Record]:
    """Yield a record per epoch, from the state's epoch to the last; whoever iterates decides what to keep."""
    while state.epoch < config.epochs:
        yield _epoch(parts, config, state)


def _epoch(parts: Parts, config: Config, state: State) -> Record:
    started = time.perf_counter()
    _refresh_reference(parts, config, state)
    rollout = collect(parts, config, state)
    sampled = time.perf_counter()
    factor = decayed(config.learning_rate_decay, state.epoch, config.epochs)
    rate = parts.knob("learning_rate", axes=1) * factor
    bonus = parts.knob("entropy_coefficient", axes=0) * decayed(config.entropy_decay, state.epoch, config.epochs)
    leaves = list(state.policy.parameters())
    steps, norms = [], []
    for _ in range(config.steps_per_epoch):
        objective = policy_gradient(parts, config, state.policy, rollout, bonus)
        gradients = torch.autograd.grad(_summed(objective.loss), leaves)
        with torch.no_grad():
            gradient = joined(gradients, parts.stacked)
            norms.append(torch.linalg.vector_norm(gradient, dim=-1))
            _update(parts, state, gradient, rate)
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
    return Record(state.epoch - 1, numbers, measures, evaluation, rollout, seconds)


def _refresh_reference(parts: Parts, config: Config, state: State) -> None:
    if not parts.uses("kl_coefficient"):
        return
    due = config.reference_period > 0 and state.epoch % config.reference_period == 0
    if due or state.reference is None:
        state.reference = copy.deepcopy(state.policy).requires_grad_(False)


def _summed(losses: Tensor) -> Tensor:
    """Runs are independent, so the gradient of the sum of their losses gives every run its own.

    (Not `grad_outputs` of ones: its check of shapes is slow, and imports sympy for a third of a second at the first.)
    """
    return losses.sum() if losses.ndim else losses


def _update(parts: Parts, state: State, gradient: Tensor, rate: Number) -> None:
    state.steps += 1
    given = {"parameters": state.parameters, "gradient": gradient, "learning_rate": rate, "count": state.steps}
    apply(parts.update, given | state.moments, parts.knobs)


def decayed(decay: str, epoch: int, epochs: int) -> float:
    """The factor of a schedule in an epoch: 1 for `none`; for `linear` from 1 to 0 at the last epoch."""
    return 1 - epoch / max(1, epochs - 1) if decay == "linear" else 1.0
