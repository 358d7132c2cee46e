"""What the reward pays for: what can be earned without a right answer, and how often a group learns anything."""

from typing import Any

import torch
from torch import Tensor

from pgrl_cli.diagnosis.moments import ROUNDING, masses
from pgrl_cli.diagnosis.population import Population
from pgrl_cli.diagnosis.rollouts import Rollouts

SIZES = (2, 4, 8, 16, 32, 64)


def reward(population: Population, drawn: Rollouts) -> dict[str, Any]:
    """prompts: of each its right answer and what that earns, the most a response earns, and the best wrong response,
    what it earns and how likely it is (of equals the likeliest; None where there is none).
    observed_informative_groups: the share of the groups drawn whose rewards are not all equal, with its standard error.
    And `reward_in_numbers`.
    """
    several = drawn.task_rewards.amax(dim=-1) > drawn.task_rewards.amin(dim=-1)
    subject = population.subject
    earned = subject.task_rewards(subject.parts.task.solutions(subject.prompts)[:, None])[:, 0]
    shares = several.double().mean(dim=-1)
    return {
        "prompts": [_prompt(population, prompt, earned) for prompt in range(len(population.responses))],
        **reward_in_numbers(population),
        "observed_informative_groups": {
            "size": population.subject.group_size,
            "share": shares.mean().item(),
            "standard_error": (shares.std() / len(shares) ** 0.5).item(),
        },
    }


def reward_in_numbers(population: Population) -> dict[str, Any]:
    """exact_match: the probability of a right answer; correlation: of reward and being right, over the
    policy's responses to each prompt, None where either never changes; informative_groups: the expected share of groups
    whose rewards are not all equal, by size.
    """
    sizes = sorted({*SIZES, population.subject.group_size})
    return {
        "exact_match": population.mean(population.right.double()).mean().item(),
        "correlation": _correlation(population),
        "informative_groups": {str(size): informative(population, size) for size in sizes},
    }


def informative(population: Population, size: int) -> float:
    """The expected share of groups of so many responses in which not all earn the same, averaged over prompts."""
    equal = [mass.pow(size).sum() for mass in masses(population, ("task_rewards",))]
    return 1 - torch.stack(equal).mean().item()


def _prompt(population: Population, prompt: int, earned: Tensor) -> dict[str, Any]:
    """Of one prompt, when right answers earn so much: [prompt]."""
    rewards, wrong = population.task_rewards[prompt], ~population.right[prompt]
    subject = population.subject
    solution = subject.parts.task.solutions(subject.prompts)[prompt]
    told: dict[str, Any] = {
        "prompt": subject.prompts[prompt].tolist(),
        "solution": solution.tolist(),
        "solution_reward": earned[prompt].item(),
        "maximum_reward": rewards.max().item(),
        "best_wrong_response": None,
        "best_wrong_reward": None,
        "best_wrong_probability": None,
    }
    if not wrong.any():
        return told
    most = rewards[wrong].max()
    likeliest = torch.where(wrong & (rewards == most), population.log_probs[prompt], -torch.inf).argmax()
    return told | {
        "best_wrong_response": population.responses[prompt, likeliest].tolist(),
        "best_wrong_reward": most.item(),
        "best_wrong_probability": population.log_probs[prompt, likeliest].exp().item(),
    }


def _correlation(population: Population) -> float | None:
    """Within prompts: which prompt it is moves the reward, too, and says nothing of an answer."""
    right, rewards = (
        values - population.mean(values)[:, None] for values in (population.right.double(), population.task_rewards)
    )
    product, *spreads = (population.mean(p).mean() for p in (right * rewards, right.square(), rewards.square()))
    deviations = [spread.sqrt() for spread in spreads]
    for deviation, largest in zip(deviations, (1.0, population.task_rewards.abs().max().item()), strict=True):
        if deviation <= ROUNDING * torch.finfo(rewards.dtype).eps * largest:
            return None
    return (product / (deviations[0] * deviations[1])).item()
