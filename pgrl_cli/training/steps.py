"""Optimizer steps: from gradients to new parameters, in place, for every run whose gradient is one."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.registry import apply, needs
from pgrl_cli.training.faults import Fault, fault
from pgrl_cli.training.gradients import Gradients, gradients_of
from pgrl_cli.training.likelihoods import Rollout
from pgrl_cli.training.natural import fisher_products, mean_kl
from pgrl_cli.training.objectives import Objective, policy_gradient, weights_of
from pgrl_cli.training.parts import Learner, Number, Parts, State
from pgrl_cli.training.updates import clipped_by_norm


class Step(NamedTuple):
    """How a step went."""

    objective: Objective
    norm: Tensor
    """[...]: of the policy's gradient, before it is cut back; NaN also where the critic's is none."""
    kl: Tensor | None
    """[...]: how far the policy went, in nats per token, where the update knows."""


@dataclass
class Steps:
    """The steps of one epoch."""

    parts: Parts
    config: Config
    state: State
    rollout: Rollout
    factor: float
    """What the epoch's schedule makes of learning rates."""
    bonus: Number
    """The weight of the entropy."""
    faults: dict[int, Fault] = field(default_factory=dict)
    """Why runs had a gradient without a finite norm, the first time in the epoch; a run alone is number 0."""

    def take_all(self, ahead: Tensor | None = None) -> list[Step]:
        """Take them, one after the other; how each went.

        ahead is the first one's log pi over the vocabulary, with its gradient, where that is known.
        """
        parts, config, state = self.parts, self.config, self.state
        weights = None if config.micro_batch is None else weights_of(parts, config, self.rollout)
        taken = []
        for _ in range(config.steps_per_epoch):
            found = gradients_of(parts, config, state, self.rollout, self.bonus, weights, ahead)
            ahead = None  # the next one sees another policy
            with torch.no_grad():
                taken.append(self.take(*found))
        return taken

    def take(self, objective: Objective, gradients: Gradients) -> Step:
        """Take one, along the gradients of an objective."""
        norm = torch.linalg.vector_norm(gradients.policy, dim=-1)
        if gradients.critic is not None:
            norm = torch.where(torch.linalg.vector_norm(gradients.critic, dim=-1).isfinite(), norm, torch.nan)
        if self.state.stopped is None and _all_finite(norm):
            return Step(objective, norm, self.update(gradients, norm))
        broken = self.broken_by(objective, norm)
        return Step(objective, norm, self.update_others(gradients, norm, broken))

    def update(self, gradients: Gradients, norm: Tensor) -> Tensor | None:
        """Move the policy, and the critic; how far the policy went, where that is known."""
        parts, state = self.parts, self.state
        state.steps += 1
        given: dict[str, Any] = {
            "parameters": state.parameters,
            "gradient": self.shortened(gradients.policy, norm),
            "learning_rate": parts.knob("learning_rate", axes=1) * self.factor,
            "count": state.steps,
        }
        if "fisher_product" in needs(parts.update):
            given |= self.of_the_natural_gradient()
        step = apply(parts.update, given | state.moments, parts.knobs)
        if state.learner is not None and gradients.critic is not None:
            self.update_critic(state.learner, gradients.critic)
        return None if step is None else step.kl

    def update_critic(self, learner: Learner, gradient: Tensor) -> None:
        """Move the critic along its gradient [... parameter]."""
        parts = self.parts
        assert parts.critic_update is not None
        given: dict[str, Any] = {
            "parameters": learner.parameters,
            "gradient": self.shortened(gradient, torch.linalg.vector_norm(gradient, dim=-1)),
            "learning_rate": parts.knob("critic_learning_rate", axes=1) * self.factor,
            "count": self.state.steps,
        }
        apply(parts.critic_update, given | learner.moments, parts.knobs)

    def shortened(self, gradient: Tensor, norm: Tensor) -> Tensor:
        """A gradient [... parameter] with no longer a norm [...] than `max_gradient_norm`."""
        most = self.parts.knobs["max_gradient_norm"]
        return gradient if most is None else clipped_by_norm(gradient, norm, most)

    def of_the_natural_gradient(self) -> dict[str, Callable[..., Any]]:
        """What an update asks for that measures its steps by how far they move the policy."""
        parts, policy, rollout = self.parts, self.state.policy, self.rollout
        prompts, responses, mask = rollout["prompts"], rollout["responses"], rollout.get("mask")
        before = policy.vocab_log_probs(prompts, responses)

        def trial() -> tuple[Tensor, Tensor]:
            objective = policy_gradient(parts, self.config, policy, rollout, self.bonus)
            return objective.loss, mean_kl(before, policy.vocab_log_probs(prompts, responses), mask)

        return {"fisher_product": fisher_products(policy, prompts, responses, mask), "trial": trial}

    def broken_by(self, objective: Objective, norm: Tensor) -> Tensor:
        """Which runs this step must not move ([...], bool): their gradient is not finite, or they have stopped before.

        Notes why, and which of a stack's runs stop for good.
        """
        parts, state = self.parts, self.state
        broken = ~norm.isfinite()
        stops = torch.zeros_like(broken)
        for run in np.flatnonzero(broken.cpu().numpy()).tolist():
            if run not in self.faults and (state.stopped is None or not state.stopped[run]):
                self.faults[run] = fault(parts, state, self.rollout, objective, norm, run if parts.stacked else None)
                stops.view(-1)[run] = self.config.on_nonfinite == "stop" or self.faults[run].spoilt
        if parts.stacked and stops.any():
            state.stopped = stops if state.stopped is None else state.stopped | stops
        return broken if state.stopped is None else broken | state.stopped

    def update_others(self, gradients: Gradients, norm: Tensor, broken: Tensor) -> Tensor | None:
        """Update the runs that are not broken; the others keep their parameters and what the updates remember."""
        state = self.state
        moved = [state.parameters, *state.moments.values()]
        if state.learner is not None:
            moved += [state.learner.parameters, *state.learner.moments.values()]
        before = [tensor[broken].clone() for tensor in moved]
        kl = self.update(gradients, norm)
        for tensor, kept in zip(moved, before, strict=True):
            tensor[broken] = kept
        return kl


def _all_finite(norm: Tensor) -> bool:
    return math.isfinite(norm.item()) if norm.ndim == 0 else bool(norm.isfinite().all())
