"""From words to objects: a config's parts and its first state. Here and nowhere else."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from pgrl_cli import draws
from pgrl_cli.config import Config
from pgrl_cli.config.problems import listed
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.equations.values import VALUE_TARGETS
from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.heads import CRITICS
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import lay_together, side_by_side
from pgrl_cli.registry import Function, apply, remembered
from pgrl_cli.registry import knobs as knobs_of
from pgrl_cli.starts import Start
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.own_rewards import UserReward
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.memory import first_coefficients
from pgrl_cli.training.outcomes import Outcomes
from pgrl_cli.training.parts import Learner, Parts, Share, State
from pgrl_cli.training.updates import FIRST_ORDER, OPTIMIZERS, moments_of
from pgrl_cli.words import TABLES
from pgrl_cli.workload import SMALL_WORK, multiplications

BROADCAST = (
    "learning_rate",
    "kl_coefficient",
    "kl_target",
    "kl_horizon",
    "old_kl_coefficient",
    "old_kl_target",
    "entropy_coefficient",
    "max_gradient_norm",
    "critic_learning_rate",
    "value_coefficient",
    "reward_scale",
    "reward_shift",
)
"""Keys that are numbers of the trainer; runs of one stack may differ in them, as in knobs that say so."""
APART = ("name", "seed", "seeds", "log_seeds", "log_every", "reward_fn", "reward_timeout", "delta_mode", "init_from")
"""Keys that runs of one stack may differ in because each run, or each share of runs, has its own."""


def assemble(configs: Sequence[Config]) -> tuple[Parts, State]:
    """Turn the words of configs into parts and a first state; here and nowhere else.

    One config of one seed makes one run. Several configs, or one of several seeds, are stacked: every tensor that
    training changes then has a leading run axis, the runs of each config side by side in their order. Raises
    ValueError for configs that cannot share a stack. Whoever asks the parts' rewards closes the parts.
    """
    first = configs[0]
    _refuse_what_cannot_share(configs)
    task: Task = apply(TASKS[first.task], {}, first.settings)
    starts = {place: Start(Path(place)) for place in {config.init_from for config in configs} if place is not None}
    policies = [_policy(config, seed, task, starts) for config in configs for seed in config.run_seeds]
    parts = _parts(configs, task, policies)
    policy = (side_by_side(policies) if parts.stacked else policies[0]).to(parts.device, parts.dtype)
    parameters = lay_together(policy, parts.stacked)
    moments = {name: torch.zeros_like(parameters) for name in moments_of(parts.update)}
    state = State(policy, parameters, moments, learner=_learner(first, parts, policies))
    state.coefficients = first_coefficients(parts)
    if any(remembered(share.advantage) for share in parts.shares):
        state.past_mean = torch.full(parameters.shape[:-1], torch.nan, device=parts.device, dtype=parts.dtype)
    return parts, state


def _parts(configs: Sequence[Config], task: Task, policies: Sequence[Policy]) -> Parts:
    """What the words of configs stand for, on the device and in the precision that they train with."""
    first = configs[0]
    device, dtype = _device(first, multiplications(first, task, policies)), getattr(torch, first.dtype)
    task = replace(task, prompts=task.prompts.to(device), held_out=task.held_out.to(device))
    knobs = _numbers(configs, device, dtype)
    return Parts(
        task=task,
        shares=tuple(_shares(configs, task, knobs, dtype)),
        loss=LOSSES[first.loss_mode],
        divergence=DIVERGENCES[str(first.kl_estimator)],
        average=AVERAGES[first.average],
        kl_average=AVERAGES[first.kl_average],
        update=OPTIMIZERS[first.optimizer],
        value_target=None if first.critic is None else VALUE_TARGETS[str(first.value_target)],
        critic_update=None if first.critic is None else FIRST_ORDER[str(first.critic_optimizer)],
        knobs=knobs,
        seeds=tuple(seed for config in configs for seed in config.run_seeds),
        prompts_seed=first.prompts_seed,
        stacked=stacked(configs),
        device=device,
        dtype=dtype,
    )


def _learner(config: Config, parts: Parts, policies: Sequence[Policy]) -> Learner | None:
    """The critic of a config that has one, of a stack every run's own, as its policies are by now."""
    if config.critic is None or parts.critic_update is None:
        return None
    critics = [CRITICS[config.critic](policy) for policy in policies]
    critic = (side_by_side(critics) if parts.stacked else critics[0]).to(parts.device, parts.dtype)
    parameters = lay_together(critic, parts.stacked)
    return Learner(critic, parameters, {name: torch.zeros_like(parameters) for name in moments_of(parts.critic_update)})


def stacked(configs: Sequence[Config]) -> bool:
    """Whether tensors carry a leading run axis."""
    return len(configs) > 1 or configs[0].seeds is not None


def must_agree(config: Config) -> dict[str, Any]:
    """What the configs of one stack must have in common, by key: words, counts and shapes."""
    broadcast = _broadcast(config)
    own = knobs_of(ADVANTAGES[config.delta_mode])
    agreed = {key: value for key, value in config.settings.items() if key not in {*broadcast, *APART, *own}}
    return agreed | {f"whether {key} is set": config.settings[key] is not None for key in broadcast}


def scored_by(config: Config) -> dict[str, Any]:
    """How a config's responses become advantages: configs that agree in it, side by side, are scored at once."""
    own = {name: config.knobs.get(name) for name in knobs_of(ADVANTAGES[config.delta_mode])}
    return {"reward_fn": config.weights(), "delta_mode": config.delta_mode, **own}


def _policy(config: Config, seed: int, task: Task, starts: Mapping[str, Start]) -> Policy:
    generator = draws.generator(seed, "policy")

    def normals(*shape: int) -> torch.Tensor:
        return torch.from_numpy(generator.standard_normal(shape))

    policy: Policy = apply(POLICIES[config.policy], {"task": task, "normals": normals}, config.settings)
    if config.init_from is not None and config.init_from in starts:
        starts[config.init_from].give(policy, seed)
    return policy


def _shares(configs: Sequence[Config], task: Task, knobs: Mapping[str, Any], dtype: torch.dtype) -> Iterator[Share]:
    """Neighbours that are scored alike, together; a reward of the user's own may fail, so it is scored for itself."""
    begin = 0
    own_rewards: dict[tuple[Path, str], UserReward] = {}
    known: dict[tuple[tuple[str, float], ...], Outcomes] = {}
    for _, alike in groupby(enumerate(configs), key=_share_of):
        together = [config for _, config in alike]
        first = together[0]
        end = begin + sum(len(config.run_seeds) for config in together)
        runs = slice(begin, end)
        here = {name: value[runs] if isinstance(value, torch.Tensor) else value for name, value in knobs.items()}
        own = {name: first.knobs[name] for name in knobs_of(ADVANTAGES[first.delta_mode]) if name in first.knobs}
        rewards = {word: (_reward(first, task, word, own_rewards), weight) for word, weight in first.weights().items()}
        outcomes = None
        if not first.sources:  # shares with the same reward have the same outcomes, scored once
            outcomes = known.setdefault(tuple(first.weights().items()), Outcomes(task, rewards, dtype))
        yield Share(runs, rewards, outcomes, ADVANTAGES[first.delta_mode], here | own)
        begin = end


def _share_of(numbered: tuple[int, Config]) -> Any:
    index, config = numbered
    return scored_by(config), index if config.sources else None


def _reward(config: Config, task: Task, word: str, own: dict[tuple[Path, str], UserReward]) -> Function:
    """A reward of the task, or the user's own; configs that share one of these share its answers and its process."""
    if word not in config.sources:
        return task.rewards[word]
    path, name = config.sources[word], word.rpartition(":")[2]
    return own.setdefault((path, name), UserReward(path, name)).within(
        config.reward_timeout, end=task.end, pad=task.pad
    )


def _broadcast(config: Config) -> list[str]:
    """The keys whose numbers may differ inside a stack."""
    named = [
        name
        for key, table in TABLES.items()
        if config.settings[key] in table
        for name, knob in knobs_of(table[config.settings[key]]).items()
        if knob.broadcasts
    ]
    return [*BROADCAST, *(name for name in dict.fromkeys(named) if name in config.knobs)]


def _numbers(configs: Sequence[Config], device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Knobs by name: as they are for one run, for a stack a column per knob that broadcasts ([run 1 1 1])."""
    first = configs[0].settings
    numbers = {name: first[name] for name in (*BROADCAST, *configs[0].knobs)}
    if not stacked(configs):
        return numbers
    for name in _broadcast(configs[0]):
        if any(config.settings[name] != first[name] for config in configs):  # a number that all share stays a number
            values = [config.settings[name] for config in configs for _ in config.run_seeds]
            numbers[name] = torch.tensor(values, device=device, dtype=dtype).view(-1, 1, 1, 1)
    return numbers


def _refuse_what_cannot_share(configs: Sequence[Config]) -> None:
    agreed = must_agree(configs[0])
    for other in configs[1:]:
        theirs = must_agree(other)
        if differ := [key for key in agreed | theirs if agreed.get(key) != theirs.get(key)]:
            raise ValueError(f"Runs of one stack must agree in {listed(differ)}.")


def _device(config: Config, work: float) -> torch.device:
    worth_it = work >= SMALL_WORK and torch.cuda.is_available()
    return torch.device("cuda" if config.device == "cuda" or (config.device == "auto" and worth_it) else "cpu")
