"""What is recorded of an epoch: numbers about its rollout, its steps, and the policy it leaves.

Each measure is over the whole step, never over a part of the batch, and has the shape [step ...]: one value per
optimizer step (and run), taken at the parameters before that step.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations.averages import TOKENS, masked, token_mean
from pgrl_cli.equations.categorical import LOG_RATIO_BOUND, bounded
from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import Function, apply, cut_off
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.expectations import expected_zero_variance_groups
from pgrl_cli.training.objectives import Objective
from pgrl_cli.training.parts import Number, Parts, State
from pgrl_cli.training.rollouts import Rollout

GROUPS = (-2, -1)
"""The axes prompt and response."""
METRICS = (
    "loss",
    "mean_reward",
    "shaped_reward",
    "kl",
    "entropy",
    "clip_fraction",
    "ratio_max",
    "effective_sample_size",
    "bounded_ratios",
    "gradient_norm",
    "zero_variance_groups",
    "reward_std",
    "response_length",
)
"""Measures of a step, in their order; a reward of several components adds each one's own."""
EVALUATED = (
    "exact_match",
    "held_out_exact_match",
    "solution_probability",
    "lowest_solution_probability",
    "expected_zero_variance_groups",
)
"""Measures of the policy that an epoch leaves: null but in the last line of an epoch in which they were measured."""
IN_DOUBLE = ("exact_match", "held_out_exact_match")
"""Measures that are float64 whatever the dtype of the policy."""
NOT_OF_OWN_REWARDS = ("expected_zero_variance_groups",)
"""Measures that ask what every response there is earns: null where a reward is the user's own."""
MANY_TOKENS = 10_000
"""In all runs of a stack, from which on a step is measured by itself."""
Measures = dict[str, Tensor | None]


@torch.no_grad()
def measured(parts: Parts, rollout: Rollout, steps: Sequence[Objective], norms: Sequence[Tensor]) -> Measures:
    """The measures of an epoch by the names of `metrics.jsonl`; None where one was not computed."""
    kl = None
    if "reward_kl" in rollout:
        kl = rollout["reward_kl"].mean(dim=GROUPS)
    elif steps[0].kl is not None:
        kl = torch.stack([step.kl for step in steps if step.kl is not None])
    groups = group_measures(rollout)
    measures: Measures = {
        "loss": torch.stack([step.loss.detach() for step in steps]),
        "mean_reward": groups["mean_reward"],
        "shaped_reward": groups["shaped_reward"],
        "kl": None if kl is None else kl.detach(),
        "entropy": token_mean(torch.stack([step.entropies for step in steps]), rollout.get("mask")),
        **moved(parts, rollout, steps),
        "gradient_norm": torch.stack(list(norms)),
        "zero_variance_groups": groups["zero_variance_groups"],
        "reward_std": groups["reward_std"],
        "response_length": groups["response_length"],
    }
    if any(len(share.rewards) > 1 for share in parts.shares):
        measures |= {name: rollout[name].mean(dim=GROUPS) for name in rollout if name.startswith("reward/")}
    return measures


def moved(parts: Parts, rollout: Rollout, steps: Sequence[Objective]) -> Measures:
    """How far each step's policy is from the one that sampled: of all steps at once, or, in large stacks, one by one.

    At once there are fewer operations; one by one they stay within the processor's cache.
    """
    if steps[0].log_probs.numel() < MANY_TOKENS:
        log_probs = torch.stack([step.log_probs for step in steps])
        return {"clip_fraction": clip_fraction(parts.loss, parts.knobs, rollout, log_probs)} | ratio_measures(
            rollout, log_probs
        )
    each = [
        {"clip_fraction": clip_fraction(parts.loss, parts.knobs, rollout, step.log_probs)}
        | ratio_measures(rollout, step.log_probs)
        for step in steps
    ]
    columns = {name: [m for measures in each if (m := measures[name]) is not None] for name in each[0]}
    return {name: torch.stack(column) if column else None for name, column in columns.items()}


def measured_for(config: Config, names: Iterable[str]) -> list[str]:
    """Of a stack's measures those that a config has alone: components of the reward are its own, in its order."""
    weights = config.weights()
    components = [f"reward/{name}" for name in weights] if len(weights) > 1 else []
    return [name for name in names if not name.startswith("reward/")] + components


def group_measures(rollout: Rollout) -> Measures:
    """What the rewards of the prompts' groups are like, before the delta mode: [...] each."""
    rewards = rollout["task_rewards"]
    equal = rewards.amax(dim=-1) == rewards.amin(dim=-1)
    mask = rollout.get("mask")
    lengths = torch.full_like(rewards, rollout["responses"].shape[-1]) if mask is None else mask.sum(dim=-1)
    alone = rewards.shape[-1] == 1  # a group of one has no spread
    return {
        "mean_reward": rewards.mean(dim=GROUPS),
        "shaped_reward": rollout["rewards"].mean(dim=GROUPS),
        "zero_variance_groups": equal.to(rewards.dtype).mean(dim=-1),
        "reward_std": None if alone else rewards.std(dim=-1).mean(dim=-1),
        "response_length": lengths.to(rewards.dtype).mean(dim=GROUPS),
    }


def ratio_measures(rollout: Rollout, log_probs: Tensor) -> Measures:
    """How far the policy has moved from the one that sampled: log_probs [step ... prompt response token].

    The effective sample size is a share: (sum w)^2 / (n sum w^2) of the n tokens' ratios w (Kong, 1992).
    """
    mask = rollout.get("mask")
    log_ratios = masked(log_probs - rollout["old_log_probs"], mask).flatten(-3)
    nearest, farthest = log_ratios.amin(dim=-1), log_ratios.amax(dim=-1)
    hits = torch.zeros_like(farthest)
    if not ((farthest <= LOG_RATIO_BOUND) & (nearest >= -LOG_RATIO_BOUND)).all():
        hits = (log_ratios.abs() > LOG_RATIO_BOUND).sum(dim=-1, dtype=hits.dtype)
        log_ratios = bounded(log_ratios)
    ratios = log_ratios.exp()
    if mask is not None:
        ratios = masked(ratios, mask.expand(log_probs.shape).flatten(-3))
    tokens = log_probs.shape[-3:].numel() if mask is None else mask.sum(dim=TOKENS)
    effective = ratios.sum(dim=-1).square() / (tokens * torch.linalg.vector_norm(ratios, dim=-1).square())
    return {
        "ratio_max": ratios.amax(dim=-1) if mask is not None else bounded(farthest).exp(),
        "effective_sample_size": effective.clamp(max=1),
        "bounded_ratios": hits,
    }


def clip_fraction(loss: Function, knobs: Mapping[str, Number], rollout: Rollout, log_probs: Tensor) -> Tensor | None:
    """The share of tokens whose gradient the loss cuts off; None for a loss that cuts off none.

    log_probs [step ... prompt response token] -> [step ...].
    """
    which = cut_off(loss)
    if which is None:
        return None
    cut = apply(which, rollout | {"log_probs": log_probs}, knobs)
    return token_mean(cut.to(log_probs.dtype), rollout.get("mask"))


def exact_match(task: Task, policy: Policy, prompts: Tensor) -> Tensor | None:
    """The share of prompts whose greedy answer is right: [...].

    None where there are no prompts; NaN for a run whose policy is no longer finite: its answers would be nobody's.
    """
    if len(prompts) == 0:
        return None
    answers = policy.respond(prompts, None)
    alive = policy.log_probs(prompts, answers).isfinite().flatten(-3).all(dim=-1)
    right = task.is_right(prompts, answers).squeeze(-1).double().mean(dim=-1)
    return torch.where(alive, right, torch.nan)


def solution_probabilities(parts: Parts, policy: Policy) -> Tensor:
    """The policy's own probability of the solution of each prompt that is trained on: [... prompt]."""
    prompts = parts.task.prompts
    solutions = parts.task.solutions(prompts)[:, None, :]
    if parts.stacked:
        solutions = solutions.expand(len(parts.seeds), *solutions.shape)
    return policy.response_log_probs(prompts, solutions).squeeze(-1).exp()


@torch.no_grad()
def evaluated(parts: Parts, config: Config, state: State) -> Measures:
    """What is measured of the policy as it is, where it is this epoch's turn (or the last)."""
    epoch, policy = state.epoch, state.policy
    due = epoch == config.epochs - 1 or (config.eval_period > 0 and (epoch + 1) % config.eval_period == 0)
    if not due:
        return dict.fromkeys(EVALUATED)
    probabilities = solution_probabilities(parts, policy)
    return {
        "exact_match": exact_match(parts.task, policy, parts.task.prompts),
        "held_out_exact_match": exact_match(parts.task, policy, parts.task.held_out),
        "solution_probability": probabilities.mean(dim=-1),
        "lowest_solution_probability": probabilities.amin(dim=-1),
        "expected_zero_variance_groups": expected_zero_variance_groups(parts, config.num_responses, policy),
    }
