"""What is known of a config before it trains: what right answers earn, and what findings are judged by."""

import math

import torch

from pgrl_cli.config import Config
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.findings import Facts
from pgrl_cli.registry import apply, needs, smallest_group
from pgrl_cli.tasks.task import Task, total


def facts_of(config: Config, task: Task) -> Facts:
    """What findings know of a config's runs. Nothing is sampled, and no reward of the user's own is asked."""
    pulls = config.kl_coefficient > 0
    push = _token_weight(config.average, config, task)
    pull = _token_weight(config.kl_average, config, task)
    rewarded = config.kl_placement == "reward"
    return Facts(
        epochs=config.epochs,
        steps_per_epoch=config.steps_per_epoch,
        num_responses=config.num_responses,
        seeds=None if config.seeds is None else len(config.run_seeds),
        maximum_reward=maximum_reward(config, task),
        uniform_entropy=math.log(task.vocab_size),
        compares=smallest_group(ADVANTAGES[config.delta_mode]) > 1,
        drops=config.drop_zero_variance_groups and config.when_unfilled == "fewer",
        scaled=config.reward_scale if rewarded or _keeps_the_scale(config.delta_mode) else None,
        push_weight=push,
        pull_weight=config.kl_coefficient * (push if rewarded else pull) if pulls else 0.0,
        kl_weight=1.0 if rewarded else pull,
    )


def maximum_reward(config: Config, task: Task) -> float | None:
    """What right answers earn on average; None where a reward is the user's own or a weight is negative."""
    weights = config.weights()
    if config.sources or any(weight < 0 for weight in weights.values()):
        return None
    right = task.solutions(task.prompts)[:, None, :]
    paid = {word: total(task.rewards[word](task.prompts, right), right).mean().item() for word in weights}
    return sum(paid[word] * weight for word, weight in weights.items())


def _token_weight(average: str, config: Config, task: Task) -> float:
    """What a way of averaging multiplies a token by, in a batch of one response."""
    ones = torch.ones(1, 1, task.response_length)
    mean = apply(AVERAGES[average], {"values": ones, "mask": None}, config.settings)
    return float(mean) / task.response_length


def _keeps_the_scale(delta_mode: str) -> bool:
    """Whether advantages are in units of reward: twice the reward, twice the advantage."""
    mode = ADVANTAGES[delta_mode]
    if needs(mode) != ("rewards",):
        return True
    rewards = torch.tensor([[0.0, 1.0]])
    return bool((mode(2 * rewards) > 1.5 * mode(rewards)).any())
