"""What is measured of the policy that an epoch leaves, where it is that epoch's turn."""

from collections.abc import Iterator

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.pieces import slices
from pgrl_cli.policies.policy import Policy
from pgrl_cli.training.expectations import expected_zero_variance_groups
from pgrl_cli.training.group_measures import Measures
from pgrl_cli.training.measures import known
from pgrl_cli.training.natural import mean_kl
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.rollouts import Rollout

EVALUATED = (
    "exact_match",
    "held_out_exact_match",
    "solution_probability",
    "lowest_solution_probability",
    "expected_zero_variance_groups",
    "epoch_kl",
)
"""Measures of the policy that an epoch leaves: null but in the last line of an epoch in which they were measured."""
NOT_OF_OWN_REWARDS = ("expected_zero_variance_groups",)
"""Measures that ask what every response there is earns: null where a reward is the user's own."""
AT_ONCE = 2**27
"""Numbers that answers to prompts may take at a time: half a gigabyte of float32."""


def exact_match(parts: Parts, policy: Policy, prompts: Tensor) -> Tensor | None:
    """The share of prompts whose greedy answer is right: [...].

    None where there are no prompts; NaN for a run whose policy is no longer finite: its answers would be nobody's.
    """
    if len(prompts) == 0:
        return None
    right, alive = [], []
    for some in _pieces(parts, policy, prompts):
        answers = policy.respond(some, None)
        alive.append(policy.log_probs(some, answers).isfinite().flatten(-2).all(dim=-1))
        right.append(parts.task.is_right(some, answers).squeeze(-1))
    share = torch.cat(right, dim=-1).double().mean(dim=-1)
    return torch.where(torch.cat(alive, dim=-1).all(dim=-1), share, torch.nan)


def solution_probabilities(parts: Parts, policy: Policy) -> Tensor:
    """The policy's own probability of the solution of each prompt that is trained on: [... prompt]."""
    found = []
    for prompts in _pieces(parts, policy, parts.task.prompts):
        solutions = parts.task.solutions(prompts)[:, None, :]
        if parts.stacked:
            solutions = solutions.expand(len(parts.seeds), *solutions.shape)
        found.append(policy.response_log_probs(prompts, solutions).squeeze(-1))
    return torch.cat(found, dim=-1).exp()


def _pieces(parts: Parts, policy: Policy, prompts: Tensor) -> Iterator[Tensor]:
    """Prompts [prompt token], as many at a time as fit into memory beside each other in all runs."""
    tokens = prompts.shape[-1] + parts.task.response_length
    each = len(parts.seeds) * tokens * (policy.numbers_per_token + tokens + parts.task.vocab_size)
    few = AT_ONCE // each if policy.numbers_per_token else len(prompts)  # else it holds as much by itself
    if len(prompts) <= few:
        yield prompts
        return
    for some in slices(len(prompts), few):
        yield prompts[some]


def is_due(config: Config, epoch: int) -> bool:
    """Whether it is an epoch's turn to have its policy measured; it always is the last's."""
    return epoch == config.epochs - 1 or (config.eval_period > 0 and (epoch + 1) % config.eval_period == 0)


@torch.no_grad()
def evaluated(parts: Parts, config: Config, state: State, rollout: Rollout, old: Tensor | None) -> Measures:
    """What is measured of the policy as it is, where it is this epoch's turn (or the last).

    old [... prompt response token vocab]: log pi before the epoch's steps, where it is known; then also how far they
    have led: KL(before || after) in nats per token of the rollout.
    """
    policy = state.policy
    moved = None
    if old is not None:
        moved = mean_kl(old, policy.vocab_log_probs(rollout["prompts"], rollout["responses"]), rollout.get("mask"))
        moved = known({"epoch_kl": moved}, rollout)["epoch_kl"]
    if not is_due(config, state.epoch):
        return dict.fromkeys(EVALUATED) | {"epoch_kl": moved}
    probabilities = solution_probabilities(parts, policy)
    return {
        "exact_match": exact_match(parts, policy, parts.task.prompts),
        "held_out_exact_match": exact_match(parts, policy, parts.task.held_out),
        "solution_probability": probabilities.mean(dim=-1),
        "lowest_solution_probability": probabilities.amin(dim=-1),
        "expected_zero_variance_groups": expected_zero_variance_groups(parts, config.num_responses, policy),
        "epoch_kl": moved,
    }
