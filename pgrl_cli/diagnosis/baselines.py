"""What a baseline is worth: the total variance of one rollout's gradient with it, and with others in its place."""

from typing import Any

import torch
from torch import Tensor

from pgrl_cli.diagnosis.moments import Moments, moments
from pgrl_cli.diagnosis.population import Population


def baselines(population: Population) -> dict[str, dict[str, Any]]:
    """Each baseline's values [prompt] and total variance, for the config's group size.

    `optimal` is the constant of each prompt with the least variance, b* = E[|score|^2 R] / E[|score|^2] (Greensmith et
    al., 2004, "Variance reduction techniques for gradient estimates in reinforcement learning", JMLR 5). `group_mean`
    contains the response itself and shortens the expected gradient to (G-1)/G of the true one; `leave_one_out` does
    not. The old policy's value is that of the reference.
    """
    prompts = moments(population, ("rewards",))
    size = population.subject.group_size
    old = population.of_reference()
    constants = {
        "none": torch.zeros_like(population.weights[:, 0]),
        "expected_reward": population.mean(population.rewards),
        "old_policy_value": old.mean(old.rewards),
        "optimal": torch.stack([_optimal(prompt) for prompt in prompts]),
    }
    told: dict[str, dict[str, Any]] = {
        name: {
            "total_variance": _over_prompts([p.variance(b) / size for p, b in zip(prompts, values, strict=True)]),
            "values": values.tolist(),
        }
        for name, values in constants.items()
    }
    if size > 1:
        told["leave_one_out"] = {"total_variance": _over_prompts([_leave_one_out(p, size) for p in prompts])}
        shorter = ((size - 1) / size) ** 2
        told["group_mean"] = {"total_variance": told["leave_one_out"]["total_variance"] * shorter}
    return told


def _optimal(prompt: Moments) -> Tensor:
    total = prompt.squares.sum()
    return prompt.squares @ prompt.seen["rewards"] / total if total > 0 else prompt.value


def _leave_one_out(prompt: Moments, size: int) -> Tensor:
    """Of a group's mean of (R - the others' mean) score, in closed form.

    With the deviations A = R - V: one response has A less the others' mean error, whose variance is Var(R) / (G-1); two
    responses share the error that each makes of the other, whose product is E[A score]^2 / (G-1)^2.
    """
    advantages = prompt.seen["rewards"] - prompt.value
    spread = prompt.mass @ advantages.square()
    known = (advantages @ prompt.sums).square().sum()
    alone = advantages.square() @ prompt.squares - known
    shared = spread * prompt.squares.sum() + known
    return alone / size + shared / (size * (size - 1))


def _over_prompts(variances: list[Tensor]) -> float:
    """Prompts are independent, and the gradient is their mean."""
    return (torch.stack(variances).sum() / len(variances) ** 2).item()


def spread(population: Population) -> dict[str, float | None]:
    """The lecture's look at a baseline: the standard deviation (n-1) of all responses' deltas, each counted once.

    Before and after the mean reward of each prompt's responses is taken away; None where there is but one response.
    """
    rewards = population.rewards
    centered = rewards - rewards.mean(dim=-1, keepdim=True)
    before, after = (deltas.std().item() if deltas.numel() > 1 else None for deltas in (rewards, centered))
    return {"rewards": before, "centered": after, "responses": rewards.numel()}
