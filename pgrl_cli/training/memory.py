"""What training remembers beside parameters: coefficients that follow a target, and past rewards."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from pgrl_cli.registry import apply, remembered
from pgrl_cli.training.coefficients import adapted, steered
from pgrl_cli.training.likelihoods import Rollout
from pgrl_cli.training.measures import known
from pgrl_cli.training.natural import mean_kl
from pgrl_cli.training.parts import Number, Parts, State

TARGETS = {"kl_coefficient": "kl_target", "old_kl_coefficient": "old_kl_target"}
"""Coefficients that may follow a target, and the key of each one's target."""


def first_coefficients(parts: Parts) -> dict[str, Tensor]:
    """Those that follow a target, as the config gives them: [...] each."""
    runs = (len(parts.seeds),) if parts.stacked else ()

    def spread(value: Number) -> Tensor:
        whole = torch.as_tensor(value, dtype=parts.dtype, device=parts.device)
        return whole.reshape(-1).expand(*runs).clone() if runs else whole.clone()

    return {name: spread(parts.knobs[name]) for name, target in TARGETS.items() if parts.knobs[target] is not None}


def following(parts: Parts, state: State) -> Parts:
    """The parts with the coefficients as they are by now."""
    if not state.coefficients:
        return parts
    now: dict[str, Number] = {
        name: value.view(-1, 1, 1, 1) if parts.stacked else value.item() for name, value in state.coefficients.items()
    }
    shares = tuple(replace(share, knobs={**share.knobs, **_of_runs(now, share.runs)}) for share in parts.shares)
    return replace(parts, knobs={**parts.knobs, **now}, shares=shares)


def _of_runs(knobs: Mapping[str, Number], runs: slice) -> dict[str, Number]:
    return {name: value[runs] if isinstance(value, Tensor) else value for name, value in knobs.items()}


@torch.no_grad()
def follow(parts: Parts, state: State, kl: Tensor | None, old_kl: Tensor | None, responses: int | Tensor) -> None:
    """Lead the coefficients to the next epoch's.

    kl [...] of whole responses to the reference, at sampling, none where none was sampled; old_kl [...], per token, of
    what all steps on a rollout have moved, none before the last of them; both in nats. responses is how many each run
    has sampled, one number or [...].
    """
    now = state.coefficients
    if "kl_coefficient" in now and kl is not None:
        target, horizon = parts.knobs["kl_target"], parts.knobs["kl_horizon"]
        now["kl_coefficient"] = steered(
            now["kl_coefficient"], kl, kl_target=target, kl_horizon=horizon, responses=responses
        )
    if "old_kl_coefficient" in now and old_kl is not None:
        target = parts.knobs["old_kl_target"]
        now["old_kl_coefficient"] = adapted(now["old_kl_coefficient"], old_kl, old_kl_target=target)


@torch.no_grad()
def led_by(state: State, rollout: Rollout) -> Tensor | None:
    """KL(old || policy) [...] in nats per token: how far the policy is from the one that sampled a rollout.

    None where no coefficient follows it; NaN for a run that learned from no group of it.
    """
    if "old_kl_coefficient" not in state.coefficients:
        return None
    now = state.policy.vocab_log_probs(rollout["prompts"], rollout["responses"])
    led = mean_kl(rollout["old_vocab_log_probs"], now, rollout.get("mask"))
    return known({"epoch_kl": led}, rollout)["epoch_kl"]


@torch.no_grad()
def look_back(parts: Parts, state: State, rollout: Rollout) -> None:
    """Let the delta modes that remember rewards see an epoch's; of one that has dropped groups, the mean of all."""
    assert state.past_mean is not None
    dropped = rollout.get("group/shaped_reward")
    rewards = rollout["rewards"] if dropped is None else dropped[..., None, None]
    for share in parts.shares:
        update = remembered(share.advantage)
        if update is None:
            continue
        runs = share.runs if parts.stacked else ...
        seen = {"past_mean": state.past_mean[runs], "rewards": rewards[runs]}
        state.past_mean[runs] = apply(update, seen, share.knobs)
