"""A supervised start: a policy that never meets a reward never learns, so it is first shown right responses."""

from typing import NamedTuple

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations.averages import token_mean
from pgrl_cli.equations.categorical import log_probs_of
from pgrl_cli.policies.stack import joined
from pgrl_cli.registry import apply
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.updates import adam, moments_of


class Warmth(NamedTuple):
    """How a warm start went: nats per token of the solutions, [...] each."""

    first: Tensor
    last: Tensor


def warm_up(parts: Parts, config: Config, state: State) -> Warmth:
    """Teach the policy the task's own solutions, by Adam on their mean negative log-probability per token.

    Its runs see the same prompts, as in an epoch. A critic with a body of its own begins where the policy does then.
    """
    assert config.warm_start is not None
    leaves = list(state.policy.parameters())
    moments = {name: torch.zeros_like(state.parameters) for name in moments_of(adam)}
    losses: list[Tensor] = []
    for step in range(config.warm_start.epochs):
        loss = _cross_entropy(parts, config, state, step)
        gradients = torch.autograd.grad(loss.sum(), leaves)
        with torch.no_grad():
            gradient = joined(gradients, parts.stacked)
            given = {"parameters": state.parameters, "gradient": gradient, "count": step + 1}
            apply(adam, given | moments | {"learning_rate": config.warm_start.learning_rate}, {})
        losses = [losses[0] if losses else loss.detach(), loss.detach()]
    if state.learner is not None:
        state.learner.critic.start_as(state.policy)
    return Warmth(*losses)


def _cross_entropy(parts: Parts, config: Config, state: State, step: int) -> Tensor:
    """Of the solutions to the prompts of a step: [...]."""
    assert config.warm_start is not None
    task = parts.task
    places = parts.drawn_prompts(config.warm_start.prompts, step, "prompts of the warm start")
    prompts = task.prompts if places is None else task.prompts[places]
    solutions = task.solutions(prompts)[:, None, :]
    if parts.stacked:
        solutions = solutions.expand(len(parts.seeds), *solutions.shape)
    log_probs = log_probs_of(solutions, state.policy.vocab_log_probs(prompts, solutions))
    return token_mean(-log_probs, task.mask(solutions))
