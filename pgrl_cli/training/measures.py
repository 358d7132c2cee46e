"""What is recorded of an epoch's rollout and of its steps; `evaluation` has what is of the policy that it leaves.

Each measure is over the whole step, never over a part of the batch, and has the shape [step ...]: one value per
optimizer step (and run), taken at the parameters before that step.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.equations.averages import TOKENS, masked, token_mean
from pgrl_cli.equations.categorical import LOG_RATIO_BOUND, bounded
from pgrl_cli.equations.values import explained_variance
from pgrl_cli.registry import Function, apply, cut_off
from pgrl_cli.training.group_measures import Measures, group_measures
from pgrl_cli.training.objectives import Objective
from pgrl_cli.training.parts import Number, Parts, State
from pgrl_cli.training.rollouts import Rollout
from pgrl_cli.training.steps import Step

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
LENGTHS_BY_ANSWER = ("wrong_response_length", "right_response_length")
"""Those that follow where responses have lengths of their own."""
OF_SOME = (
    *LENGTHS_BY_ANSWER,
    "value_loss",
    "explained_variance",
    "old_kl",
    "step_kl",
    "kl_coefficient",
    "old_kl_coefficient",
    "kept_groups",
    "sampled_responses",
)
"""Measures that only some configs have."""
IN_DOUBLE = ("exact_match", "held_out_exact_match")
"""Measures that are float64 whatever the dtype of the policy."""
MAY_BE_UNKNOWN = ("explained_variance", *LENGTHS_BY_ANSWER)
"""Measures that are NaN where there is nothing to measure."""
OF_KEPT = (
    "kl",
    "entropy",
    "clip_fraction",
    "ratio_max",
    "effective_sample_size",
    "value_loss",
    "old_kl",
    "epoch_kl",
)
"""Means over the tokens that steps learn from: NaN where all groups were dropped."""
MANY_TOKENS = 10_000
"""In all runs of a stack, from which on a step is measured by itself."""


@torch.no_grad()
def measured(parts: Parts, state: State, rollout: Rollout, taken: Sequence[Step]) -> Measures:
    """The measures of an epoch by the names of `metrics.jsonl`; None where one was not computed."""
    steps = [step.objective for step in taken]
    groups = groups_of(rollout)
    kl = None if steps[0].kl is None else torch.stack([step.kl for step in steps if step.kl is not None])
    measures: Measures = {
        "loss": torch.stack([step.loss.detach() for step in steps]),
        "mean_reward": groups["mean_reward"],
        "shaped_reward": groups["shaped_reward"],
        "kl": kl,
        "entropy": token_mean(torch.stack([step.entropies for step in steps]), rollout.get("mask")),
        **moved(parts, rollout, steps),
        "gradient_norm": torch.stack([step.norm for step in taken]),
        "zero_variance_groups": groups["zero_variance_groups"],
        "reward_std": groups["reward_std"],
        "response_length": groups["response_length"],
        **{name: groups[name] for name in LENGTHS_BY_ANSWER if name in groups},
    }
    if any(len(share.rewards) > 1 for share in parts.shares):
        measures |= {name: value for name, value in groups.items() if name.startswith("reward/")}
    measures |= {name: groups[name] for name in ("kept_groups", "sampled_responses") if name in groups}
    measures = known(measures | _of_the_critic(rollout, steps) | _of_moves(parts, state, taken), rollout)
    return measures | ({"kl": groups["kl_at_sampling"]} if "reward_kl" in rollout else {})


def known(measures: Measures, rollout: Rollout) -> Measures:
    """The measures, with NaN for what there was nothing to measure of, since all groups were dropped."""
    kept = rollout.get("group/kept_groups")
    if kept is None:
        return measures
    of_kept = {name: measures[name] for name in OF_KEPT if name in measures}
    spoilt = {name: torch.where(kept == 0, torch.nan, m) for name, m in of_kept.items() if m is not None}
    return measures | spoilt


def groups_of(rollout: Rollout) -> Measures:
    """What the groups are like that were sampled, also those that were dropped."""
    known = {name.removeprefix("group/"): value for name, value in rollout.items() if name.startswith("group/")}
    return {"reward_std": None} | known if known else group_measures(rollout)


def _of_the_critic(rollout: Rollout, steps: Sequence[Objective]) -> Measures:
    """The critic's loss before each step, and how much of its targets it had explained at sampling."""
    losses = [step.value_loss for step in steps if step.value_loss is not None]
    if not losses:
        return {}
    explained = explained_variance(rollout["values"][..., :-1], rollout["targets"], rollout.get("mask"))
    return {"value_loss": torch.stack(losses), "explained_variance": explained}


def _of_moves(parts: Parts, state: State, taken: Sequence[Step]) -> Measures:
    """How far steps have gone, and the coefficients that follow it, as they were in this epoch."""
    moves: Measures = {}
    if taken[0].objective.old_kl is not None:
        moves["old_kl"] = torch.stack([step.objective.old_kl for step in taken if step.objective.old_kl is not None])
    if taken[0].kl is not None:
        moves["step_kl"] = torch.stack([step.kl for step in taken if step.kl is not None])
    return moves | {name: value.clone() for name, value in state.coefficients.items()}


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
    foreign = {"old_kl"} if config.old_kl_coefficient == 0 else set()  # a neighbour's may pull
    return [name for name in names if not name.startswith("reward/") and name not in foreign] + components


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
    squares = tokens * torch.linalg.vector_norm(ratios, dim=-1).square()
    effective = ratios.sum(dim=-1).square() / squares
    if mask is not None:
        effective = torch.where(squares == 0, 0.0, effective)  # of a run whose groups were all dropped: `known` tells
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
    mask = rollout.get("mask")
    tensors: dict[str, Any] = {**rollout, "log_probs": log_probs, "mask": mask}  # an equation may ask for it
    return token_mean(apply(which, tensors, knobs).to(log_probs.dtype), mask)
