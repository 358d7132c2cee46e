"""From configs to run folders: the whole story on one page."""

import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import torch

from pgrl_cli import runs
from pgrl_cli.config import Config, ConfigError, Problem, yaml12
from pgrl_cli.findings import Finding
from pgrl_cli.keeper import Keeper
from pgrl_cli.machine import memory
from pgrl_cli.notebook import LESS_MEMORY, Notebook
from pgrl_cli.provenance import provenance
from pgrl_cli.resolution import Resolved
from pgrl_cli.runs import Run
from pgrl_cli.secrecy import redacted
from pgrl_cli.stopping import Stop, stoppable
from pgrl_cli.summary import Summary
from pgrl_cli.together import Watch, train_together
from pgrl_cli.training.snapshots import Checkpoint
from pgrl_cli.words import written
from pgrl_cli.workload import bytes_of

HOPELESS = 4
"""Times the machine's memory: the estimate is rough, and memory may be swapped."""
Notice = Callable[[Finding], None]
"""Hears of what stands out, once each."""


class Interrupted(KeyboardInterrupt):
    """Asked to stop during a run; its folder keeps what was finished."""

    def __init__(self, run: Run, number: int = signal.SIGINT):
        super().__init__("interrupted")
        self.run, self.signal = run, number


class RunFailed(Exception):
    """A run that started and did not finish; its folder says how far it came."""

    def __init__(self, run: Run, message: str):
        super().__init__(message)
        self.run = run


def run(
    resolved: Resolved,
    runs_dir: Path,
    *,
    command: Sequence[str] = (),
    watch: Watch = lambda done, mean_reward: None,
    notice: Notice = lambda finding: None,
) -> tuple[Run, Summary]:
    """Train one config, with all its seeds side by side, and keep the evidence.

    Raises ConfigError before a folder is made, RunFailed after; a signal that asks to stop becomes Interrupted.
    """
    config = resolved.config
    refuse_a_missing_gpu(resolved)
    if told := too_large(bytes_of(config) * len(config.run_seeds)):
        raise ConfigError([Problem(told, config.name)])
    with stoppable() as stop:
        sources = list(dict.fromkeys(config.sources.values()))
        folder = runs.create(config.name, runs_dir, texts(resolved, command), sources)
        with runs.held(folder.folder):
            return trained(folder, config, stop, watch, notice)


def trained(
    folder: Run,
    config: Config,
    stop: Stop,
    watch: Watch,
    notice: Notice,
    resumed: Checkpoint | None = None,
    started: str | None = None,
) -> tuple[Run, Summary]:
    """Train a config into a folder that is held, from a checkpoint or from the start.

    `started` is when the run was first begun. Raises RunFailed and Interrupted.
    """
    book = Notebook(folder, config, started=started or runs.now(), notice=notice)
    with closing(Keeper(folder.checkpoints, config.checkpoint_keep)) as keeper:
        try:
            train_together([config], {0: book}, watch, stop=stop, keeper=keeper, resumed=resumed)
        except KeyboardInterrupt as error:
            raise Interrupted(folder, getattr(error, "signal", signal.SIGINT)) from error
    if book.error is not None:
        raise RunFailed(folder, book.told) from book.error
    return folder, book.summary()


def refuse_a_missing_gpu(resolved: Resolved) -> None:
    """Raise ConfigError where a config asks for a GPU that is not there."""
    if resolved.config.device == "cuda" and not torch.cuda.is_available():
        message = "device: came 'cuda', but torch sees no GPU here; write auto or cpu"
        raise ConfigError([resolved.places["device"].problem(message)])


def too_large(needed: int) -> str | None:
    """Why this machine, its GPUs not counted, holds no run of so many bytes; None where it may."""
    there = memory()
    if there is None or needed <= HOPELESS * there or torch.cuda.is_available():
        return None
    told = f"it would take about {needed / 1e9:,.0f} GB of memory, and there are {there / 1e9:,.0f}"
    return f"{told}; {LESS_MEMORY}"


def texts(resolved: Resolved, command: Sequence[str]) -> Mapping[str, str]:
    """The files of a run folder that are known before the run starts."""
    typed = {key: yaml12.read(text, key) for key, _, text in (line.partition("=") for line in resolved.overrides)}
    return {
        "config.yaml": written(resolved.config),
        "overrides.yaml": yaml12.write(typed) if typed else "",
        "command.txt": shlex.join(redacted(command)) + "\n",
        "provenance.json": runs.to_json(provenance(), indent=True).decode(),
    }
