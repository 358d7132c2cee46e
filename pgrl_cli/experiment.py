"""From a config to a run folder: the whole story on one page."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from pgrl_cli import logs, runs
from pgrl_cli.assembly import assemble, multiplications, threads_for
from pgrl_cli.config import Config, ConfigError, yaml12
from pgrl_cli.plots import draw_curves
from pgrl_cli.resolution import Resolved
from pgrl_cli.runs import Lines, Run
from pgrl_cli.tasks.own_rewards import RewardError
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.trainer import Record, train
from pgrl_cli.words import written

NEEDED = ("loss", "gradient_norm", "mean_reward", "shaped_reward")
"""Measures without which a run cannot go on."""
HINT = "a learning_rate, a coefficient, a weight, reward_scale or reward_shift is too large; a clip may help too"
ENDS = 10
"""Epochs that the summary's first and last mean reward are taken over."""


class NotFinite(ArithmeticError):
    """A loss or a gradient that is no finite number: every parameter after it would be spoilt."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; its folder keeps what was finished."""

    def __init__(self, run: Run):
        super().__init__("interrupted")
        self.run = run


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
    watch: Callable[[Record], None] = lambda record: None,
) -> tuple[Run, Summary]:
    """Train one policy and keep the evidence; `watch` sees every record after it is written.

    Raises ConfigError before a folder is made, RunFailed after; Ctrl-C marks the run and becomes Interrupted.
    """
    config = resolved.config
    refuse_a_missing_gpu(resolved)
    folder = runs.create(config.name, runs_dir, _texts(resolved, command), list(dict.fromkeys(config.sources.values())))
    progress = Progress()
    try:
        folder.mark("running", started=progress.started)
        for record in _written_down(folder, config, progress):
            watch(record)
        _draw(folder, config, progress)
    except KeyboardInterrupt as error:
        with suppress(OSError):
            folder.mark("interrupted", exit_code=130, **progress.facts())
        raise Interrupted(folder) from error
    except BaseException as error:
        named = isinstance(error, RewardError | NotFinite)
        told = str(error) if named else f"{type(error).__name__}: {error}"
        with suppress(OSError):
            folder.mark("failed", exit_code=1, error=told, **progress.facts())
        folder.log_traceback()
        raise RunFailed(folder, told) from error
    try:
        folder.mark("completed", exit_code=0, **progress.facts())
    except OSError as error:
        raise RunFailed(folder, f"its last status could not be written: {error.strerror}") from error
    return folder, progress.summary()


def refuse_a_missing_gpu(resolved: Resolved) -> None:
    """Raise ConfigError where a config asks for a GPU that is not there."""
    if resolved.config.device == "cuda" and not torch.cuda.is_available():
        message = "device: came 'cuda', but torch sees no GPU here; write auto or cpu"
        raise ConfigError([resolved.places["device"].problem(message)])


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
            rows = list(record.rows())
            _write_down(lines, config, record, rows, before)
            progress.seconds = time.perf_counter() - started
            _refuse_what_is_not_finite(record, rows, config, state)
            yield record


def _draw(folder: Run, config: Config, progress: Progress) -> None:
    """Draw the picture; a run whose numbers are all there does not fail by it."""
    try:
        draw_curves(folder.metrics(), folder.curves_file, title=_title(config), maximum=progress.maximum_reward)
    except Exception as error:
        folder.log_traceback()
        progress.picture_error = f"{type(error).__name__}: {error}"


def _write_down(lines: Lines, config: Config, record: Record, rows: Sequence[Mapping[str, Any]], began: float) -> None:
    lines.metrics.write(b"".join(map(runs.to_json, rows)))
    lines.log.write(logs.epoch_line(record) + "\n")
    last = record.epoch == config.epochs - 1
    if last or (config.log_every > 0 and record.epoch % config.log_every == 0):
        for sample in logs.samples(record):
            lines.samples.write(runs.to_json(sample))
            lines.log.writelines(line + "\n" for line in logs.sample_lines(sample))
    seconds = {**record.seconds, "files": time.perf_counter() - began}
    lines.timing.write(runs.to_json({"epoch": record.epoch, "seconds": sum(seconds.values()), **seconds}))
    lines.flush()


def _refuse_what_is_not_finite(record: Record, rows: Sequence[Mapping[str, Any]], config: Config, state: State) -> None:
    """Raise NotFinite where an epoch's numbers, or the policy that the last one leaves, are of no use to go on with."""
    for row in rows:
        for name in row.get("nonfinite", ()):
            if name in NEEDED:
                raise NotFinite(f"{name} is {row[name]} at step {row['step']} (epoch {row['epoch']}); {HINT}")
    if record.epoch == config.epochs - 1:
        with torch.no_grad():
            left = state.policy.log_probs(record.rollout["prompts"], record.rollout["responses"])
        if not left.isfinite().all():
            raise NotFinite(f"the policy is not finite after step {record.steps[-1]}, the last; {HINT}")


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
