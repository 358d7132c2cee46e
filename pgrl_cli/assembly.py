"""From words to objects: a config's parts, its first state, and how much work a step is. Here and nowhere else."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from pgrl_cli import draws
from pgrl_cli.config import Config
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import lay_together, side_by_side
from pgrl_cli.registry import Function, apply, knobs
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.own_rewards import own_reward
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.updates import OPTIMIZERS, moments_of
from pgrl_cli.words import TABLES

SMALL_WORK = 1e8
"""Multiplications per step below which one thread beats many, and a CPU a GPU: starting the work costs more than it."""
BROADCAST = ("learning_rate", "kl_coefficient", "entropy_coefficient", "reward_scale", "reward_shift")
"""Keys that are numbers of the trainer; runs of one stack may differ in them, as in knobs that say so."""


def assemble(configs: Sequence[Config]) -> tuple[Parts, State]:
    """Turn the words of configs into parts and a first state; here and nowhere else.

    One config makes one run; several, which may differ in seeds and in numbers that broadcast, are stacked: every
    tensor that training changes then has a leading run axis. Raises RewardError for a reward file that fails to load.
    """
    first = configs[0]
    task: Task = apply(TASKS[first.task], {}, first.settings)
    policies = [_policy(config, task) for config in configs]
    device, dtype = _device(first, multiplications(first, task, policies)), getattr(torch, first.dtype)
    parts = Parts(
        task=replace(task, prompts=task.prompts.to(device), held_out=task.held_out.to(device)),
        rewards={word: (_reward(first, task, word), weight) for word, weight in first.weights().items()},
        advantage=ADVANTAGES[first.delta_mode],
        loss=LOSSES[first.loss_mode],
        divergence=DIVERGENCES[str(first.kl_estimator)],
        average=AVERAGES[first.average],
        kl_average=AVERAGES[first.kl_average],
        update=OPTIMIZERS[first.optimizer],
        knobs=_numbers(configs, device, dtype),
        seeds=tuple(config.seed for config in configs),
        prompts_seed=first.prompts_seed,
        stacked=len(configs) > 1,
        device=device,
        dtype=dtype,
    )
    policy = side_by_side(policies).to(device, dtype)
    parameters = lay_together(policy, parts.stacked)
    moments = {name: torch.zeros_like(parameters) for name in moments_of(parts.update)}
    return parts, State(policy, parameters, moments)


def multiplications(config: Config, task: Task, policies: Sequence[Policy]) -> float:
    """About how many multiplications one step takes: what threads and devices are chosen by."""
    prompts = config.prompts_per_epoch or len(task.prompts)
    parameters = sum(p.numel() for policy in policies for p in policy.parameters())
    return 6.0 * parameters * prompts * task.response_length


def _cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """As many threads as the work is worth: on small tensors one is up to ten times faster than two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if work < SMALL_WORK else _cores())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _policy(config: Config, task: Task) -> Policy:
    generator = draws.generator(config.seed, "policy")

    def normals(*shape: int) -> torch.Tensor:
        return torch.from_numpy(generator.standard_normal(shape))

    return apply(POLICIES[config.policy], {"task": task, "normals": normals}, config.settings)


def _reward(config: Config, task: Task, word: str) -> Function:
    if word in config.sources:
        return own_reward(config.sources[word], word.rpartition(":")[2])
    return task.rewards[word]


def _numbers(configs: Sequence[Config], device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Knobs by name: as they are for one run, for a stack a column per knob that broadcasts ([run 1 1 1])."""
    settings = [config.settings for config in configs]
    first = settings[0]
    functions = [table[first[key]] for key, table in TABLES.items()]
    broadcast = {name for function in functions for name, knob in knobs(function).items() if knob.broadcasts}
    numbers = {name: first[name] for name in (*BROADCAST, *configs[0].knobs)}
    if len(configs) == 1:
        return numbers
    columns = {}
    for name in (*BROADCAST, *sorted(broadcast & numbers.keys())):
        values = [each[name] for each in settings]
        if None not in values:
            columns[name] = torch.tensor(values, device=device, dtype=dtype).view(-1, 1, 1, 1)
        elif any(value is not None for value in values):
            raise ValueError(f"Runs of one stack must all set {name}, or none may.")
    _refuse_other_differences(settings, {*columns, "seed", "name"})
    return numbers | columns


def _refuse_other_differences(settings: Sequence[Mapping[str, Any]], may_differ: set[str]) -> None:
    for name, value in settings[0].items():
        if name not in may_differ and any(each.get(name) != value for each in settings):
            raise ValueError(f"Runs of one stack must agree in {name}.")


def _device(config: Config, work: float) -> torch.device:
    worth_it = work >= SMALL_WORK and torch.cuda.is_available()
    return torch.device("cuda" if config.device == "cuda" or (config.device == "auto" and worth_it) else "cpu")
