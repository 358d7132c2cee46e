"""What people see of a sweep while it goes on: a bar or lines, and a line for each cell that fails."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgrl_cli.config.problems import legible
from pgrl_cli.console import Steady, err, in_one_line

if TYPE_CHECKING:
    from pgrl_cli.standing import Failure, Standing

PAUSE = 2.0
"""Seconds between two lines about how a sweep stands."""
STOPPING = "waiting for the epoch being written; Ctrl-C again ends it now"


@contextmanager
def sweep_progress(name: str, silent: bool) -> Iterator[Callable[["Standing", "Failure | None"], None]]:
    """What watches a sweep: a bar on a terminal, else a line now and then; a cell that fails has a line at once."""
    console = err()
    if not silent and console.is_terminal and not console.is_dumb_terminal:
        with _sweep_bar(name) as watch_bar:
            yield watch_bar
        return
    tenths, last, stopping = 0, 0.0, False

    def watch(standing: "Standing", failed: "Failure | None") -> None:
        nonlocal tenths, last, stopping
        if failed is not None:
            console.print(_failed_line(failed), markup=False)
        if standing.stopping and not stopping:
            stopping = True
            console.print(STOPPING, markup=False)
        at_its_end = standing.done == standing.cells
        now = 10 if at_its_end else min(int(10 * standing.share), 9)
        told = now > tenths and not standing.stopping  # a cell that stops counts as done
        if not silent and told and (at_its_end or time.monotonic() - last >= PAUSE):
            tenths, last = now, time.monotonic()
            console.print(_standing_line(standing), markup=False)

    yield watch


@contextmanager
def _sweep_bar(name: str) -> Iterator[Callable[["Standing", "Failure | None"], None]]:
    from rich.progress import BarColumn, Progress, TextColumn

    console = Steady(stderr=True)
    with Progress(BarColumn(bar_width=20), TextColumn("{task.description}"), console=console, transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        told: set[int] = set()

        def watch(standing: "Standing", failed: "Failure | None") -> None:
            if failed is not None:
                console.print(_failed_line(failed), markup=False, highlight=False, soft_wrap=True)
            if standing.stopping and not bar.finished and task not in told:
                told.add(task)
                console.print(STOPPING, markup=False, highlight=False)
            if not standing.stopping:  # a cell that stops counts as done
                bar.update(task, completed=standing.share, description=_standing_line(standing))

        yield watch


def _failed_line(failed: "Failure") -> str:
    log = "" if failed.log is None else f" (log: {failed.log})"
    return f"failed: {legible(failed.cell.label)}: {in_one_line(failed.error)}{log}"


def _standing_line(standing: "Standing") -> str:
    left = standing.seconds_left
    ending = "" if left is None else f"   {left:.0f} s left"
    done = min(int(100 * standing.share), 99) if standing.done < standing.cells else 100
    return f"{done} %, {standing.done}/{standing.cells} cells   {standing.runs_per_second:.1f} runs per second{ending}"
