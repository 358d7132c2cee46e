"""A sweep from its plan to its summary: the folder is written first, then whatever is not done in it is done."""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pgrl_cli import cells, runs
from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.config import ConfigError, Problem, yaml12
from pgrl_cli.config.files import content
from pgrl_cli.config.kinds import misfit
from pgrl_cli.config.problems import listed, short
from pgrl_cli.config.sweep_spec import Spec, differences
from pgrl_cli.config.sweep_words import SPEC_KEYS, Metric, metric_of
from pgrl_cli.launchers import Enough, Event, Job, launch
from pgrl_cli.planning import Plan
from pgrl_cli.plots.final import draw_summary
from pgrl_cli.report import Row, summarised, write_summary
from pgrl_cli.runs import Run
from pgrl_cli.secrecy import redacted
from pgrl_cli.stacks import config_of

FINISHED = ("completed", "failed")


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep: what was finished is kept, and the rest can be resumed."""

    def __init__(self, sweep: Sweep):
        super().__init__("interrupted")
        self.sweep = sweep


@dataclass
class Standing:
    """How far a sweep has come, for those who watch it."""

    cells: int
    """How many there are to do now."""
    runs: int
    steps: int
    """Optimizer steps of all their runs."""
    folder: Path
    """The sweep's."""
    done: int = 0
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    steps_done: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    @property
    def steps_per_second(self) -> float:
        """Optimizer steps of single runs per second, since the start."""
        return self.steps_done / max(time.perf_counter() - self.began, 1e-9)

    @property
    def runs_per_second(self) -> float:
        """Whole runs per second, since the start."""
        return self.steps_per_second * self.runs / max(self.steps, 1)

    @property
    def seconds_left(self) -> float | None:
        """At this pace; None before anything was done."""
        return (self.steps - self.steps_done) / self.steps_per_second if self.steps_done else None


Watch = Callable[[Standing, Cell | None], None]
"""Sees how a sweep stands after every epoch of a stack, and the cell that has just failed, if one has."""


def begin(spec: Spec, plan: Plan, runs_dir: Path, command: Sequence[str]) -> Sweep:
    """The sweep's folder with everything in it that is known before the first cell starts. Raises OSError."""
    texts = {
        "sweep.yaml": yaml12.write(spec.as_mapping()),
        "cells.jsonl": cells.lines_of(plan.cells),
        "command.txt": shlex.join(redacted(command)) + "\n",
        "provenance.json": runs.to_json(runs.provenance(), indent=True).decode(),
    }
    folder = runs.create(spec.name, runs_dir, texts).folder
    (folder / "cells").mkdir()
    return Sweep(folder)


def reopened(path: Path, spec: Spec | None, retry_failed: bool = False) -> Sweep:
    """A sweep that was begun.

    Raises ConfigError where there is none, its files are damaged, it is in use, another one is asked for, or a reward
    of the user's own has changed (unless the failed cells are to be tried again: then that may be the mend).
    """
    sweep = Sweep(path)
    shown = str(path)
    if not path.is_dir():
        raise ConfigError([Problem("there is no such folder", shown)])
    try:
        known = len(sweep.cells)
        written = _written(sweep)
        asked(sweep)
        _refuse_strange_cells(sweep, written)
    except OSError as error:
        missing_file = Path(str(error.filename)).name
        raise ConfigError([Problem(f"is no sweep's folder: {missing_file}: {error.strerror}", shown)]) from error
    except ValueError as error:
        raise ConfigError([Problem(f"cannot be resumed: {error}", shown)]) from error
    if known == 0:
        raise ConfigError([Problem("cannot be resumed: cells.jsonl is empty", shown)])
    _refuse_links(sweep)
    _refuse_one_in_use(sweep)
    if spec is not None and (changed := differences(written, spec.as_mapping())):
        fix = "leave --config out to go on as before, or start a new sweep"
        raise ConfigError([Problem(f"is another sweep: {'; '.join(changed)}; {fix}", shown)])
    if not retry_failed:
        _refuse_changed_rewards(sweep)
    return sweep


def _refuse_strange_cells(sweep: Sweep, written: Mapping[str, Any]) -> None:
    """Raise ValueError where a cell's config cannot be one, or another sweep's keys are swept."""
    parameters = written.get("parameters", {})
    lists = parameters if isinstance(parameters, list) else [parameters]
    keys = {key for each in lists if isinstance(each, dict) for key in each}
    for cell in sweep.cells:
        try:
            config_of(cell.config)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            told = f"cells.jsonl is damaged: the config of {short(cell.label)}: {where}: {first['msg']}"
            raise ValueError(told) from error
        if not cell.parameters.keys() <= keys:
            told = f"its cells vary {listed(cell.parameters, 5)}, but sweep.yaml varies {listed(keys, 5) or 'nothing'}"
            raise ValueError(f"{told}: it is another sweep's")


def _refuse_links(sweep: Sweep) -> None:
    """What is trained replaces what lies in a cell's folder: a link must not lead that out of the sweep's."""
    logs = sweep.folder / "logs"
    folders = [sweep.folder / "cells", logs, *(sweep.folder / cell.folder for cell in sweep.cells)]
    if links := [str(path) for path in folders if path.is_symlink()]:
        told = (
            f"cannot be resumed: {listed(links, 3)} leads out of it, being a link; put what it stands for in its place"
        )
        raise ConfigError([Problem(told, str(sweep.folder))])


def _refuse_one_in_use(sweep: Sweep) -> None:
    try:
        status = Run(sweep.folder).status()
        in_use = runs.is_alive(status)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return  # a status that cannot be read is nobody's
    if in_use:
        told = f"is in use by process {status['pid']} on {short(status['host'])}; wait for it, or stop it first"
        raise ConfigError([Problem(told, str(sweep.folder))])


def _refuse_changed_rewards(sweep: Sweep) -> None:
    sources = {path: digest for cell in sweep.cells for path, digest in cell.sources.items()}
    if changed := [path for path, digest in sources.items() if cells.digest_of(Path(path)) != digest]:
        fix = "put it back, start a new sweep, or train the failed cells with it as it is now: --retry-failed"
        told = f"{listed(changed)} is not what it was when the sweep began; {fix}"
        raise ConfigError([Problem(told, str(sweep.folder))])


def missing(sweep: Sweep, retry_failed: bool) -> list[Cell]:
    """The cells that are not done: not completed, and not failed unless those are to be tried again."""
    finished = ("completed",) if retry_failed else FINISHED
    return [cell for cell in sweep.cells if sweep.status(cell)["status"] not in finished]


def asked(sweep: Sweep) -> tuple[Metric, str]:
    """What a sweep's cells are judged by, and who trains them. Raises OSError, and ValueError where it is not said."""
    written = _written(sweep)
    metric, wrong = metric_of(written["metric"])
    kind = SPEC_KEYS["launcher"][0]
    if message := misfit(kind, written["launcher"]):
        wrong.append(f"launcher: {message}")
    if wrong:
        raise ValueError(f"sweep.yaml: {wrong[0]}")
    return metric, str(written["launcher"])


def _written(sweep: Sweep) -> Mapping[str, Any]:
    """What sweep.yaml says. Raises OSError, ConfigError, and ValueError where it lacks what every sweep says."""
    path = sweep.folder / "sweep.yaml"
    written = yaml12.read(content(path).decode(), str(path))
    lacks = [key for key in ("metric", "launcher") if not isinstance(written, dict) or key not in written]
    if lacks:
        raise ValueError(f"sweep.yaml lacks {listed(lacks)}")
    return written


def finish(sweep: Sweep, metric: Metric) -> tuple[list[Row], list[str]]:
    """Write the summary's tables and its picture; the rows, the best first, and notes. Raises OSError."""
    rows, notes = summarised(sweep, metric)
    write_summary(sweep, rows, metric)
    draw_summary(rows, metric, sweep.folder / "summary.png", title=sweep.folder.name)
    return rows, notes


def work(
    sweep: Sweep,
    wanted: Sequence[Cell],
    *,
    launcher: str,
    processes: int,
    pictures: bool,
    fail_fast: bool,
    watch: Watch,
) -> Standing:
    """Train the wanted cells, each in its stack, and mark the sweep. Ctrl-C becomes SweepInterrupted."""
    folder = Run(sweep.folder)
    started = runs.now()
    jobs = _jobs(sweep, wanted)
    steps = sum(_steps(cell) for cell in wanted)
    standing = Standing(len(wanted), sum(_runs(cell) for cell in wanted), steps, sweep.folder)
    see = _seen_by(wanted, standing, watch, fail_fast)
    folder.mark("running", started=started)
    try:
        if launcher == "ray":
            from pgrl_cli.on_ray import launch_on_ray

            launch_on_ray(sweep, jobs, see, pictures=pictures)
        else:
            launch(sweep, jobs, see, processes=processes, pictures=pictures, own_process=launcher == "processes")
    except KeyboardInterrupt as error:
        _mark(sweep, "interrupted", started, 130)
        raise SweepInterrupted(sweep) from error
    except Enough:
        pass
    except BaseException as error:
        _mark(sweep, "failed", started, 1, error=f"{type(error).__name__}: {error}")
        raise
    everything = missing(sweep, retry_failed=False)
    failed = [cell for cell in sweep.cells if sweep.status(cell)["status"] == "failed"]
    status = "interrupted" if everything else "failed" if failed else "completed"
    _mark(sweep, status, started, 1 if everything or failed else 0)
    return standing


def _jobs(sweep: Sweep, wanted: Sequence[Cell]) -> list[Job]:
    """A job for each stack that has wanted cells, the longest first."""
    ids = {cell.id for cell in wanted}
    jobs = []
    for number in sorted({cell.stack for cell in wanted}):
        stack = sweep.stack(number)
        names = [cell.id for cell in stack if cell.id in ids]
        jobs.append((sum(_steps(cell) for cell in stack), Job(number, tuple(names), Path(stack[0].folder).name)))
    return [job for _, job in sorted(jobs, key=lambda sized: -sized[0])]


def _seen_by(wanted: Sequence[Cell], standing: Standing, watch: Watch, fail_fast: bool) -> Callable[[Event], None]:
    by_id = {cell.id: cell for cell in wanted}
    by_stack: dict[int, list[Cell]] = {}
    for cell in wanted:
        by_stack.setdefault(cell.stack, []).append(cell)
    epochs: dict[int, int] = {}

    def see(event: Event) -> None:
        failed = None
        if event["event"] == "epoch":
            stack = by_stack[event["stack"]]
            epochs[event["stack"]] = event["done"]
            share = 1 / stack[0].config["epochs"]
            standing.steps_done += share * sum(_steps(cell) for cell in stack)
        elif event["event"] == "cell":
            standing.done += 1
            if event["status"] == "failed":
                failed = by_id[event["id"]]
                standing.failed.append((failed, event["error"]))
        watch(standing, failed)
        if failed is not None and fail_fast:
            raise Enough

    return see


def _runs(cell: Cell) -> int:
    seeds = cell.config["seeds"]
    return 1 if seeds is None else seeds if isinstance(seeds, int) else len(seeds)


def _steps(cell: Cell) -> int:
    return int(_runs(cell) * cell.config["epochs"] * cell.config["steps_per_epoch"])


def _mark(sweep: Sweep, status: str, started: str, exit_code: int, **facts: Any) -> None:
    counts: dict[str, int] = {}
    for cell in sweep.cells:
        name = sweep.status(cell)["status"]
        counts[name] = counts.get(name, 0) + 1
    with suppress(OSError):
        Run(sweep.folder).mark(status, started=started, finished=runs.now(), exit_code=exit_code, cells=counts, **facts)
