"""From a config to a run folder: the whole story on one page."""

import os
import shlex
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from pgrl_cli import draws, logs, runs
from pgrl_cli.config import Config, ConfigError, yaml12
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.plots import draw_curves
from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import laid_together, side_by_side
from pgrl_cli.registry import Function, apply, knobs
from pgrl_cli.resolution import Resolved
from pgrl_cli.runs import Lines, Run
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.own_rewards import RewardError, own_reward
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.trainer import Record, train
from pgrl_cli.training.updates import OPTIMIZERS, moments_of
from pgrl_cli.words import TABLES, written

SMALL_WORK = 1e8
"""Multiplications per step below which one thread beats many, and a CPU a GPU: starting the work costs more than it."""
ENDS = 10
"""Epochs that the summary's first and last mean reward are taken over."""
BROADCAST = ("learning_rate", "kl_coefficient", "entropy_coefficient", "reward_scale", "reward_shift")
"""Keys that are numbers of the trainer; runs of one stack may differ in them, as in knobs that say so."""


class NotFinite(ArithmeticError):
    """A loss or a gradient that is no finite number: every parameter after it would be spoilt."""


class RunFailed(Exception):
    """A run that started and did not finish; its folder says how far it came."""

    def __init__(self, run: Run, message: str):
        super().__init__(message)
        self.run = run


@dataclass(frozen=True)
class Summary:
    """How a run went, in a few numbers."""

    first_mean_reward: float | None = None
    """Of the first ten epochs."""
    last_mean_reward: float | None = None
    """Of the last ten epochs."""
    best_mean_reward: float | None = None
    """Of the best epoch."""
    exact_match: float | None = None
    held_out_exact_match: float | None = None
    maximum_reward: float | None = None
    """What right answers earn on average, where that is known."""
    epochs: int = 0
    """Epochs done."""
    seconds: float = 0.0
    """Training with its log files, without imports and picture."""
    picture_error: str | None = None
    """Why there is no picture, where there is none."""


def run(
    resolved: Resolved,
    runs_dir: Path,
    *,
    command: Sequence[str] = (),
    watch: Callable[[Run, Record], None] = lambda run, record: None,
) -> tuple[Run, Summary]:
    """Train one policy and keep the evidence; `watch` sees every record after it is written.

    Raises ConfigError before a folder is made, RunFailed after. Ctrl-C marks the run and passes on.
    """
    config = resolved.config
    refuse_a_missing_gpu(resolved)
    folder = runs.create(config.name, runs_dir, _texts(resolved, command), list(dict.fromkeys(config.sources.values())))
    progress = Progress()
    try:
        folder.mark("running", started=progress.started)
        for record in _written_down(folder, config, progress):
            watch(folder, record)
        _draw(folder, config, progress)
    except KeyboardInterrupt:
        folder.mark("interrupted", exit_code=130, **progress.facts())
        raise
    except Exception as error:
        _log_traceback(folder)
        told = str(error) if isinstance(error, RewardError | NotFinite) else f"{type(error).__name__}: {error}"
        folder.mark("failed", exit_code=1, error=told, **progress.facts())
        raise RunFailed(folder, told) from error
    folder.mark("completed", exit_code=0, **progress.facts())
    return folder, progress.summary()


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
    parameters = laid_together(policy, parts.stacked)
    moments = {name: torch.zeros_like(parameters) for name in moments_of(parts.update)}
    return parts, State(policy, parameters, moments)


def refuse_a_missing_gpu(resolved: Resolved) -> None:
    """Raise ConfigError where a config asks for a GPU that is not there."""
    if resolved.config.device == "cuda" and not torch.cuda.is_available():
        message = "device: came 'cuda', but torch sees no GPU here; write auto or cpu"
        raise ConfigError([resolved.places["device"].problem(message)])


def multiplications(config: Config, task: Task, policies: Sequence[Policy]) -> float:
    """About how many multiplications one step takes: what threads and devices are chosen by."""
    prompts = config.prompts_per_epoch or len(task.prompts)
    parameters = sum(p.numel() for policy in policies for p in policy.parameters())
    return 6.0 * parameters * prompts * task.response_length


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """As many threads as the work is worth: on small tensors one is up to ten times faster than two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if work < SMALL_WORK else os.cpu_count() or 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class Progress:
    """What is known of a run while it goes on."""

    started: str = field(default_factory=runs.now)
    mean_rewards: list[float] = field(default_factory=list)
    """One per epoch."""
    evaluation: dict[str, float | None] = field(default_factory=dict)
    maximum_reward: float | None = None
    seconds: float = 0.0
    picture_error: str | None = None

    def note(self, record: Record) -> None:
        """Take in an epoch's record of one run."""
        mean_reward = record.measures["mean_reward"]
        assert mean_reward is not None
        self.mean_rewards.append(mean_reward.item())
        self.evaluation |= {name: value.item() for name, value in record.evaluation.items() if value is not None}

    def summary(self) -> Summary:
        rewards = self.mean_rewards
        return Summary(
            first_mean_reward=_mean(rewards[:ENDS]),
            last_mean_reward=_mean(rewards[-ENDS:]),
            best_mean_reward=max(rewards, default=None),
            exact_match=self.evaluation.get("exact_match"),
            held_out_exact_match=self.evaluation.get("held_out_exact_match"),
            maximum_reward=self.maximum_reward,
            epochs=len(rewards),
            seconds=self.seconds,
            picture_error=self.picture_error,
        )

    def facts(self) -> dict[str, Any]:
        return {"started": self.started, "finished": runs.now(), **asdict(self.summary())}


def _written_down(folder: Run, config: Config, progress: Progress) -> Iterator[Record]:
    """Train, writing each record down before it is handed on."""
    parts, state = assemble([config])
    progress.maximum_reward = _maximum_reward(config, parts)
    with threads_for(multiplications(config, parts.task, [state.policy])), Lines(folder) as lines:
        started = time.perf_counter()
        for record in train(parts, config, state):
            before = time.perf_counter()
            progress.note(record)
            _write_down(lines, config, record, before)
            progress.seconds = time.perf_counter() - started
            _refuse_what_is_not_finite(record)
            yield record


def _draw(folder: Run, config: Config, progress: Progress) -> None:
    """Draw the picture; a run whose numbers are all there does not fail by it."""
    try:
        draw_curves(folder.metrics(), folder.curves_file, title=_title(config), maximum=progress.maximum_reward)
    except Exception as error:
        _log_traceback(folder)
        progress.picture_error = f"{type(error).__name__}: {error}"


def _log_traceback(folder: Run) -> None:
    with folder.log_file.open("a", encoding="utf-8") as log:
        log.write(traceback.format_exc())


def _write_down(lines: Lines, config: Config, record: Record, began: float) -> None:
    lines.metrics.write(b"".join(map(runs.to_json, record.rows())))
    lines.log.write(logs.epoch_line(record) + "\n")
    last = record.epoch == config.epochs - 1
    if last or (config.log_every > 0 and record.epoch % config.log_every == 0):
        for sample in logs.samples(record):
            lines.samples.write(runs.to_json(sample))
            lines.log.writelines(line + "\n" for line in logs.sample_lines(sample))
    seconds = {**record.seconds, "files": time.perf_counter() - began}
    lines.timing.write(runs.to_json({"epoch": record.epoch, "seconds": sum(seconds.values()), **seconds}))
    lines.flush()


def _refuse_what_is_not_finite(record: Record) -> None:
    for name in ("loss", "gradient_norm"):
        values = record.measures[name]
        assert values is not None
        if not values.isfinite().all():
            wrong = (~values.isfinite()).nonzero()
            step = record.steps[int(wrong[0, 0])]
            hint = "a smaller learning_rate, or a clip, usually helps"
            raise NotFinite(f"{name} is {values[tuple(wrong[0])].item()} at step {step} (epoch {record.epoch}); {hint}")


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
    first = configs[0].settings
    functions = [table[first[key]] for key, table in TABLES.items()]
    broadcast = {name for function in functions for name, knob in knobs(function).items() if knob.broadcasts}
    numbers = {name: first[name] for name in (*BROADCAST, *configs[0].knobs)}
    if len(configs) == 1:
        return numbers
    columns = {}
    for name in (*BROADCAST, *sorted(broadcast & numbers.keys())):
        values = [config.settings[name] for config in configs]
        if None not in values:
            columns[name] = torch.tensor(values, device=device, dtype=dtype).view(-1, 1, 1, 1)
        elif any(value is not None for value in values):
            raise ValueError(f"Runs of one stack must all set {name}, or none may.")
    _refuse_other_differences(configs, {*columns, "seed", "name"})
    return numbers | columns


def _refuse_other_differences(configs: Sequence[Config], may_differ: set[str]) -> None:
    for name, value in configs[0].settings.items():
        if name not in may_differ and any(config.settings.get(name) != value for config in configs):
            raise ValueError(f"Runs of one stack must agree in {name}.")


def _device(config: Config, work: float) -> torch.device:
    worth_it = work >= SMALL_WORK and torch.cuda.is_available()
    return torch.device("cuda" if config.device == "cuda" or (config.device == "auto" and worth_it) else "cpu")


def _maximum_reward(config: Config, parts: Parts) -> float | None:
    """What right answers earn on average; None where a reward is the user's own or a weight is negative."""
    if config.sources or any(weight < 0 for _, weight in parts.rewards.values()):
        return None
    prompts = parts.task.prompts
    right = parts.task.solutions(prompts)[:, None, :]
    return sum(reward(prompts, right).mean().item() * weight for reward, weight in parts.rewards.values())


def _texts(resolved: Resolved, command: Sequence[str]) -> Mapping[str, str]:
    """The files that are known before the run starts."""
    typed = {key: yaml12.read(text, key) for key, _, text in (line.partition("=") for line in resolved.overrides)}
    return {
        "config.yaml": written(resolved.config),
        "overrides.yaml": yaml12.write(typed) if typed else "",
        "command.txt": shlex.join(runs.redacted(command)) + "\n",
        "provenance.json": runs.to_json(runs.provenance(), indent=True).decode(),
    }


def _title(config: Config) -> str:
    reward = " + ".join(config.weights())
    return f"{config.name}: {config.delta_mode}, {config.loss_mode} loss, seed {config.seed}\n{reward}"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
