"""What is true of the policy itself: no estimate, where all responses can be gone through."""

from typing import Any

import torch
from torch import Tensor

from pgrl_cli.diagnosis.moments import gradient, moments
from pgrl_cli.diagnosis.population import Population


def truth(population: Population) -> dict[str, Any]:
    """Means over prompts, in units of the task's reward, and in nats for whole responses.

    gradient_norm: of `true_gradient`, and so of the reward as the delta mode sees it; of a sample, freed of what noise
    adds to its square. kl_forward is KL(policy || reference), kl_reverse KL(reference || policy). Of a sample,
    maximum_reward is the most that a sampled response earned.
    """
    apart = population.log_probs - population.reference_log_probs
    others = population.of_reference()
    return {
        "expected_reward": _over_prompts(population.mean(population.task_rewards)),
        "maximum_reward": _over_prompts(population.task_rewards.amax(dim=-1)),
        "gradient_norm": _gradient_norm(population),
        "entropy": _over_prompts(population.mean(-population.log_probs)),
        "kl_forward": _over_prompts(population.mean(apart)),
        "kl_reverse": _over_prompts(others.mean(others.reference_log_probs - others.log_probs)),
    }


def true_gradient(population: Population) -> Tensor:
    """[parameter]: of the expected reward as the delta mode sees it, averaged over prompts."""
    return gradient(moments(population, ("rewards",)))


def _gradient_norm(population: Population) -> float:
    prompts = moments(population, ("rewards",))
    square = gradient(prompts).square().sum()
    if not population.exact:
        noise = torch.stack([prompt.variance(prompt.value) for prompt in prompts]).sum() / population.count
        square = square - noise / len(prompts) ** 2
    return square.clamp(min=0).sqrt().item()


def _over_prompts(values: Tensor) -> float:
    return values.mean().item()
