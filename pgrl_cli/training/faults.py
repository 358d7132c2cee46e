"""Why a gradient has no finite norm: which term of the objective is to blame, at which step, and made of what."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pgrl_cli.equations.averages import token_mean
from pgrl_cli.registry import apply
from pgrl_cli.training.likelihoods import OF_ALL_RUNS, Rollout
from pgrl_cli.training.objectives import Objective
from pgrl_cli.training.parts import Parts, State


class Fault(NamedTuple):
    """What made a run's gradient unusable."""

    told: str
    """The term and its values, in words."""
    spoilt: bool
    """Whether the policy itself, or its critic, is no longer finite: no skipping of steps helps then."""


@torch.no_grad()
def fault(parts: Parts, state: State, rollout: Rollout, objective: Objective, norm: Tensor, run: int | None) -> Fault:
    """What is not finite of a run of a stack, or alone: the policy, its critic, or what comes next on the way."""
    own: dict[str, Any] = {name: _of(tensor, run, name) for name, tensor in rollout.items()}
    own |= {"log_probs": _of(objective.log_probs, run), "mask": own.get("mask")}  # an equation may ask for it
    knobs = {name: _of(value, run) if isinstance(value, Tensor) else value for name, value in parts.knobs.items()}
    if not _finite(own["log_probs"]):
        parameters = _range(_of(state.parameters, run))
        when = "" if state.steps else " from the start"
        told = (
            f"the policy is not finite{when}: its log-probs are {_range(own['log_probs'])}, of parameters {parameters}"
        )
        return Fault(told, True)
    if "values" in own and not _finite(own["values"]):
        return Fault(f"{_critic(state, run)}: its values are {_range(own['values'])}", True)
    if state.learner is not None:
        values = state.learner.critic.values(state.policy, rollout["prompts"], rollout["responses"])
        own["now"] = _of(values, run)[..., :-1]
    terms = {name: _of(each, run) for name, each in objective._asdict().items() if each is not None}
    told = _told(parts, own, objective._replace(**terms), knobs, _of(norm, run))
    spoilt = state.learner is not None and not _finite(_of(state.learner.parameters, run))
    return Fault(f"{_critic(state, run)}; {told}" if spoilt else told, spoilt)


def _critic(state: State, run: int | None) -> str:
    assert state.learner is not None
    return f"the critic is not finite, of parameters {_range(_of(state.learner.parameters, run))}"


def _told(parts: Parts, own: Mapping[str, Any], objective: Objective, knobs: Mapping[str, object], norm: Tensor) -> str:
    """The first on the way from the reward to the gradient that is not finite, in words."""
    return _of_rewards(own) or _of_terms(parts, own, objective, knobs, norm)


def _of_rewards(own: Mapping[str, Any]) -> str | None:
    rewards, shaped, advantages = own["task_rewards"], own["rewards"], own["advantages"]
    if not _finite(rewards):
        return f"the reward is not finite: {_range(rewards)}"
    if not _finite(shaped):
        pulled = f", less a KL {_range(own['reward_kl'])}" if "reward_kl" in own else ""
        return f"the shaped reward is not finite: {_range(shaped)}, of rewards {_range(rewards)}{pulled}"
    if not _finite(advantages):
        return f"the advantages are not finite: {_range(advantages)}, of rewards {_range(shaped)}"
    return None


def _of_terms(
    parts: Parts, own: Mapping[str, Any], objective: Objective, knobs: Mapping[str, object], norm: Tensor
) -> str:
    kl, old_kl, value_loss, entropies = objective.kl, objective.old_kl, objective.value_loss, objective.entropies
    log_probs, mask = own["log_probs"], own["mask"]
    losses = apply(parts.loss, own, knobs)
    policy_loss = apply(parts.average, {"values": losses, "mask": mask}, knobs)
    moved = log_probs - own["old_log_probs"]
    if not _finite(policy_loss):
        of = f"advantages {_range(own['advantages'])}, log-ratios to the old policy {_range(moved)}"
        return f"the policy loss is {policy_loss.item():g}: token losses {_range(losses)}, {of}"
    if kl is not None and not _finite(kl):
        apart = log_probs - own["reference_log_probs"]
        return f"the KL is {kl.item():g}: log-ratios to the reference {_range(apart)}"
    if old_kl is not None and not _finite(old_kl):
        return f"the KL(old || policy) is {old_kl.item():g}: log-ratios to the old policy {_range(moved)}"
    if value_loss is not None and not _finite(value_loss):
        of = f"values {_range(own['now'])}, targets {_range(own['targets'])}"
        return f"the critic's loss is {value_loss.item():g}: {of}"
    entropy = token_mean(entropies.expand(log_probs.shape), mask)
    if not _finite(entropy):
        return f"the entropy is {entropy.item():g}: of tokens {_range(entropies)}"
    terms = [f"policy loss {policy_loss.item():g}"]
    terms += [] if kl is None else [f"{_weight(knobs, 'kl_coefficient')} times the KL {kl.item():g}"]
    terms += [] if old_kl is None else [f"{_weight(knobs, 'old_kl_coefficient')} times KL(old || policy) {old_kl:g}"]
    terms += [] if value_loss is None else [f"the critic's loss {value_loss:g}"]
    terms.append(f"{_weight(knobs, 'entropy_coefficient')} times the entropy {entropy.item():g}")
    return f"the gradient's norm is {norm.item():g}, though its terms are finite: {', '.join(terms)}"


def _weight(knobs: Mapping[str, object], name: str) -> str:
    value = knobs[name]
    return f"{value.item() if isinstance(value, Tensor) else value:g}"


def _of(tensor: Tensor, run: int | None, name: str = "") -> Tensor:
    return tensor if run is None or name in OF_ALL_RUNS or tensor.ndim == 0 else tensor[run]


def _finite(tensor: Tensor) -> bool:
    return bool(tensor.isfinite().all())


def _range(tensor: Tensor) -> str:
    """From the least to the largest number, and what else is among them."""
    numbers = tensor[~tensor.isnan()]
    told = f"from {numbers.min().item():g} to {numbers.max().item():g}" if numbers.numel() else "nan"
    missing = int(tensor.isnan().sum())
    return told + (f" and {missing} times nan" if missing and numbers.numel() else "")
