"""A sweep from its plan to its summary: the folder is written first, then whatever is not done in it is done."""

import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrl_cli import cells, runs
from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.config import yaml12
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.folders import title_of
from pgrl_cli.launchers import Enough, Job, launch
from pgrl_cli.plots.final import draw_summary
from pgrl_cli.provenance import provenance
from pgrl_cli.report import Row, summarised, write_summary
from pgrl_cli.runs import Run
from pgrl_cli.secrecy import redacted
from pgrl_cli.standing import Standing, Watch, watched

if TYPE_CHECKING:
    from pgrl_cli.config.sweep_spec import Spec
    from pgrl_cli.planning import Plan

FINISHED = ("completed", "failed")


class SweepInterrupted(KeyboardInterrupt):
    """Asked to stop during a sweep: what was finished is kept, and the rest can be resumed."""

    def __init__(self, sweep: Sweep, number: int = signal.SIGINT):
        super().__init__("interrupted")
        self.sweep, self.signal = sweep, number


def begin(spec: "Spec", plan: "Plan", runs_dir: Path, command: Sequence[str]) -> Sweep:
    """The sweep's folder with everything in it that is known before the first cell starts. Raises OSError."""
    texts = {
        "sweep.yaml": yaml12.write(spec.as_mapping()),
        "cells.jsonl": cells.lines_of(plan.cells),
        "command.txt": shlex.join(redacted(command)) + "\n",
        "provenance.json": runs.to_json(provenance(), indent=True).decode(),
    }
    sweep = Sweep(runs.create(spec.name, runs_dir, texts).folder)
    sweep.make()
    return sweep


def missing(sweep: Sweep, retry_failed: bool) -> list[Cell]:
    """The cells that are not done: not completed, and not failed unless those are to be tried again."""
    finished = ("completed",) if retry_failed else FINISHED
    return [cell for cell in sweep.cells if sweep.status(cell)["status"] not in finished]


def finish(sweep: Sweep, metric: Metric) -> tuple[list[Row], list[str]]:
    """Write the summary's tables and its picture; the rows, the best first, and notes. Raises OSError."""
    rows, notes = summarised(sweep, metric)
    write_summary(sweep, rows, metric)
    draw_summary(rows, metric, sweep.folder / "summary.png", title=title_of(sweep.folder))
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
    holding: int | None = None,
) -> Standing:
    """Train the wanted cells, each in its stack, and mark the sweep. KeyboardInterrupt becomes SweepInterrupted.

    `holding` is the descriptor that holds the sweep's folder; who trains in it holds it too.
    """
    started = runs.now()
    jobs = _jobs(sweep, wanted)
    standing, see = watched(sweep, wanted, watch, fail_fast)
    Run(sweep.folder).mark("running", started=started)
    try:
        if launcher == "ray":
            from pgrl_cli.on_ray import launch_on_ray

            launch_on_ray(sweep, jobs, see, pictures=pictures)
        else:
            launch(
                sweep,
                jobs,
                see,
                processes=processes,
                pictures=pictures,
                own_process=launcher == "processes",
                holding=holding,
            )
    except KeyboardInterrupt as error:
        number = getattr(error, "signal", signal.SIGINT)
        _mark(sweep, "interrupted", started, 128 + number)
        raise SweepInterrupted(sweep, number) from error
    except Enough:
        pass
    except BaseException as error:
        _mark(sweep, "failed", started, 1, error=f"{type(error).__name__}: {error}")
        raise
    _mark_as_it_is(sweep, started)
    return standing


def _jobs(sweep: Sweep, wanted: Sequence[Cell]) -> list[Job]:
    """A job for each stack that has wanted cells, the longest first."""
    ids = {cell.id for cell in wanted}
    jobs = []
    for number in sorted({cell.stack for cell in wanted}):
        stack = sweep.stack(number)
        names = [cell.id for cell in stack if cell.id in ids]
        jobs.append((sum(cell.work for cell in stack), Job(number, tuple(names), Path(stack[0].folder).name)))
    return [job for _, job in sorted(jobs, key=lambda sized: -sized[0])]


def _mark_as_it_is(sweep: Sweep, started: str) -> None:
    """Mark a sweep whose launcher has come to its end by how its cells stand."""
    left = missing(sweep, retry_failed=False)
    failed = any(sweep.status(cell)["status"] == "failed" for cell in sweep.cells)
    status = "interrupted" if left else "failed" if failed else "completed"
    _mark(sweep, status, started, 1 if left or failed else 0)


def _mark(sweep: Sweep, status: str, started: str, exit_code: int, **facts: Any) -> None:
    counts: dict[str, int] = {}
    for cell in sweep.cells:
        name = sweep.status(cell)["status"]
        counts[name] = counts.get(name, 0) + 1
    with suppress(OSError):
        Run(sweep.folder).mark(status, started=started, finished=runs.now(), exit_code=exit_code, cells=counts, **facts)
