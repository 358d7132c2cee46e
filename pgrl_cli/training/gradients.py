"""From a rollout to gradients: of all its prompts at once, or of some at a time and added up."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.pieces import slices
from pgrl_cli.policies.stack import joined
from pgrl_cli.training.dropping import prompts_of
from pgrl_cli.training.likelihoods import Rollout
from pgrl_cli.training.objectives import Objective, Weights, critic_loss, policy_gradient
from pgrl_cli.training.parts import Number, Parts, State


class Gradients(NamedTuple):
    """Of an objective: [... parameter] each."""

    policy: Tensor
    critic: Tensor | None
    """None where there is no critic."""


def gradients_of(
    parts: Parts,
    config: Config,
    state: State,
    rollout: Rollout,
    bonus: Number,
    weights: Weights | None,
    known: Tensor | None = None,
) -> tuple[Objective, Gradients]:
    """The objective at the policy as it is now, and its gradients; with weights, `micro_batch` prompts at a time.

    known [... prompt response token vocab]: the policy's log pi with its gradient, where that is known; it can be used
    once, and only where all prompts are taken at a time.
    """
    if weights is None or config.micro_batch is None:
        return _at_once(parts, config, state, rollout, bonus, None, known)
    objectives: list[Objective] = []
    gradients: list[Gradients] = []
    for some in slices(len(rollout["prompts"]), config.micro_batch):
        weighed = Weights(*(each.narrow(-3, some.start, some.stop - some.start) for each in weights))
        objective, gradient = _at_once(parts, config, state, prompts_of(rollout, some), bonus, weighed)
        objectives.append(objective._replace(loss=objective.loss.detach()))
        gradients.append(gradient)
    of_critic = _added_where_known([each.critic for each in gradients])
    return _together(objectives), Gradients(_added([each.policy for each in gradients]), of_critic)


def _at_once(
    parts: Parts,
    config: Config,
    state: State,
    rollout: Rollout,
    bonus: Number,
    weights: Weights | None,
    known: Tensor | None = None,
) -> tuple[Objective, Gradients]:
    objective = policy_gradient(parts, config, state.policy, rollout, bonus, weights, known)
    leaves = list(state.policy.parameters())
    if state.learner is None:
        return objective, Gradients(joined(torch.autograd.grad(_summed(objective.loss), leaves), parts.stacked), None)
    critic = state.learner.critic
    value_loss = critic_loss(parts, config, critic, state.policy, rollout, weights)
    share = parts.knob("value_coefficient", axes=0) if config.critic == "shared" else 1.0
    every = leaves + list(critic.parameters())
    found = torch.autograd.grad(_summed(objective.loss + share * value_loss), every, materialize_grads=True)
    of_policy, of_critic = found[: len(leaves)], found[len(leaves) :]
    gradients = Gradients(joined(of_policy, parts.stacked), joined(of_critic, parts.stacked))
    return objective._replace(value_loss=value_loss.detach()), gradients


def _summed(losses: Tensor) -> Tensor:
    """Runs are independent, so the gradient of the sum of their losses gives every run its own.

    (Not `grad_outputs` of ones: its check of shapes is slow, and imports sympy for a third of a second at the first.)
    """
    return losses.sum() if losses.ndim else losses


def _together(objectives: Sequence[Objective]) -> Objective:
    """The objective of a whole rollout, from those of its parts."""
    return Objective(
        loss=_added([each.loss for each in objectives]),
        kl=_added_where_known([each.kl for each in objectives]),
        entropies=torch.cat([each.entropies for each in objectives], dim=-3),
        log_probs=torch.cat([each.log_probs for each in objectives], dim=-3),
        old_kl=_added_where_known([each.old_kl for each in objectives]),
        value_loss=_added_where_known([each.value_loss for each in objectives]),
    )


def _added_where_known(column: Sequence[Tensor | None]) -> Tensor | None:
    there = [each for each in column if each is not None]
    return _added(there) if there else None


def _added(column: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(column)).sum(dim=0)
