"""What people see of a sweep while it goes on: a bar or lines, and a line for each cell that fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgrl_cli.config.problems import legible, short
from pgrl_cli.console import LONGEST_LINE, Steady, err

if TYPE_CHECKING:
    from pgrl_cli.standing import Failure, Standing


@contextmanager
def sweep_progress(name: str, silent: bool) -> Iterator[Callable[["Standing", "Failure | None"], None]]:
    """What watches a sweep: a bar on a terminal, else a line now and then; a cell that fails has a line at once."""
    console = err()
    if not silent and console.is_terminal and not console.is_dumb_terminal:
        with _sweep_bar(name) as watch_bar:
            yield watch_bar
        return
    tenths = 0

    def watch(standing: "Standing", failed: "Failure | None") -> None:
        nonlocal tenths
        if failed is not None:
            console.print(_failed_line(failed), markup=False)
        now = int(10 * standing.share)
        if not silent and now > tenths:
            tenths = now
            console.print(_standing_line(standing), markup=False)

    yield watch


@contextmanager
def _sweep_bar(name: str) -> Iterator[Callable[["Standing", "Failure | None"], None]]:
    from rich.progress import BarColumn, Progress, TextColumn

    console = Steady(stderr=True)
    with Progress(BarColumn(bar_width=20), TextColumn("{task.description}"), console=console, transient=True) as bar:
        task = bar.add_task(name, total=1.0)

        def watch(standing: "Standing", failed: "Failure | None") -> None:
            if failed is not None:
                console.print(_failed_line(failed), markup=False, highlight=False, soft_wrap=True)
            bar.update(task, completed=standing.share, description=_standing_line(standing))

        yield watch


def _failed_line(failed: "Failure") -> str:
    log = "" if failed.log is None else f" (log: {failed.log})"
    return f"failed: {short(legible(f'{failed.cell.label}: {failed.error}'), LONGEST_LINE)}{log}"


def _standing_line(standing: "Standing") -> str:
    left = standing.seconds_left
    ending = "" if left is None else f"   {left:.0f} s left"
    return f"{standing.done}/{standing.cells} cells   {standing.runs_per_second:.1f} runs per second{ending}"
