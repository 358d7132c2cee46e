"""How much work a run is: multiplications of a step, bytes of memory, and the threads that are worth their start."""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from pgrl_cli.config import Config
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.machine import processors
from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import apply, needs
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.updates import OPTIMIZERS

SMALL_WORK = 1e8
"""Multiplications per step below which one thread beats many, and a CPU a GPU: starting the work costs more than it."""
FEW = 2**16
"""Numbers of a parameter, below which they are made to be counted."""


def bytes_of(config: Config) -> int:
    """About how much memory a run takes while it trains in a stack."""
    task: Task = apply(TASKS[config.task], {}, config.settings)
    with torch.device("meta"):  # shapes alone: parameters that fit nowhere can be counted
        policy: Policy = apply(POLICIES[config.policy], {"task": task, "normals": _zeros}, config.settings)
    parameters = sum(p.numel() for p in policy.parameters()) * (2 if config.critic == "separate" else 1)
    prompts = config.prompts_per_epoch or len(task.prompts)
    positions = prompts * task.response_length
    per_token = config.num_responses * (2 * config.steps_per_epoch + 30 + task.vocab_size)
    numbers = 10 * parameters + positions * (per_token + 12 * task.vocab_size)
    numbers += int(_tokens(config, task) * policy.numbers_per_token * _graphs(config, prompts))
    if "true_values" in needs(ADVANTAGES[config.delta_mode]):
        pulled = config.kl_placement == "reward" and config.kl_coefficient > 0
        per_response = 3 + 6 * task.response_length * pulled
        rewards = len(task.prompts) // len(config.run_seeds)  # once for all seeds
        numbers += task.response_count * (prompts * per_response + rewards)
    return numbers * (4 if config.dtype == "float32" else 8)


def _zeros(*shape: int) -> torch.Tensor:
    """Zeros where they are few, else their shape alone: the first product of shapes costs torch a second of imports."""
    return torch.zeros(shape, device="cpu" if math.prod(shape) < FEW else "meta")


def _tokens(config: Config, task: Task) -> int:
    """How many tokens of prompts and responses a step reads, where each response is read by itself."""
    each = task.prompts.shape[-1] + config.num_responses * task.response_length
    return (config.prompts_per_epoch or len(task.prompts)) * each


def _graphs(config: Config, prompts: int) -> float:
    """How often at once a gradient keeps what it needs of a step's tokens: a critic and Fisher products keep their own.

    Micro-batches keep a part; sampling and scoring, which keep nothing, still need some of it for a while.
    """
    graphs = 1 if config.critic is None else 2
    if "fisher_product" in needs(OPTIMIZERS[config.optimizer]):
        return graphs + 3
    return graphs if config.micro_batch is None else max(graphs * min(1.0, config.micro_batch / prompts), 0.25)


def multiplications(config: Config, task: Task, policies: Sequence[Policy]) -> float:
    """About how many multiplications one step takes: what threads and devices are chosen by."""
    prompts = config.prompts_per_epoch or len(task.prompts)
    parameters = len(policies) * sum(p.numel() for p in policies[0].parameters())
    shared = policies[0].numbers_per_token == 0
    tokens = prompts * task.response_length if shared else _tokens(config, task)
    return 6.0 * parameters * tokens * (1 if config.critic is None else 2)


def _most_threads() -> int:
    """One for each processor; no more than OMP_NUM_THREADS, by which a sweep shares processors out."""
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(processors(), int(asked)) if asked.isdecimal() and int(asked) > 0 else processors()


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """As many threads as the work is worth: on small tensors one is up to ten times faster than two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if work < SMALL_WORK else _most_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)
