"""How far a sweep has come: what its launchers tell, added up for those who watch it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.launchers import Enough, Event


@dataclass(frozen=True)
class Failure:
    """A cell that has failed."""

    cell: Cell
    error: str
    log: str | None
    """The file that says more."""


@dataclass
class Standing:
    """How far a sweep has come."""

    cells: int
    """How many there are to do now."""
    runs: int
    steps: int
    """Optimizer steps of all their runs."""
    folder: Path
    """The sweep's."""
    done: int = 0
    failed: list[Failure] = field(default_factory=list)
    steps_done: float = 0.0
    steps_dropped: float = 0.0
    """Of cells that failed: they are not to come."""
    stopping: bool = False
    """Whether it has been asked to end: the epochs being written are waited for."""
    began: float = field(default_factory=time.perf_counter)

    @property
    def share(self) -> float:
        """Of the steps, what is done or not to come."""
        return (self.steps_done + self.steps_dropped) / max(self.steps, 1)

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
        left = max(self.steps - self.steps_done - self.steps_dropped, 0.0)
        return left / self.steps_per_second if self.steps_done else None


Watch = Callable[[Standing, Failure | None], None]
"""Sees how a sweep stands after every event, and the failure that has just come, if one has."""


def watched(
    sweep: Sweep, wanted: Sequence[Cell], watch: Watch, fail_fast: bool
) -> tuple[Standing, Callable[[Event], None]]:
    """How wanted cells stand, and what takes in the events of their launcher.

    A launcher that tells of no epochs moves it on when cells end.
    """
    steps = {cell.id: float(cell.work) for cell in wanted}
    standing = Standing(len(wanted), sum(cell.runs for cell in wanted), sum(cell.work for cell in wanted), sweep.folder)
    open_cells = {cell.id: cell for cell in wanted}
    left = dict(steps)

    def see(event: Event) -> None:
        failed = None
        if event["event"] == "epoch":
            for cell in [cell for cell in open_cells.values() if cell.stack == event["stack"]]:
                still = steps[cell.id] * (1 - event["done"] / cell.config["epochs"])
                standing.steps_done += left[cell.id] - still
                left[cell.id] = still
        elif event["event"] == "stopping":
            standing.stopping = True
        elif event["event"] == "cell":
            standing.done += 1
            cell = open_cells.pop(event["id"])
            if event["status"] == "completed":
                standing.steps_done += left[cell.id]
            else:
                standing.steps_dropped += left[cell.id]
            if event["status"] == "failed":
                failed = Failure(cell, event["error"], event["log"])
                standing.failed.append(failed)
        watch(standing, failed)
        if failed is not None and fail_fast:
            raise Enough

    return standing, see
