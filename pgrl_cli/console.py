"""What people see: progress, the summary of a run, and errors in a few lines."""

import json
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape

from pgrl_cli.config.problems import ConfigError, legible, short
from pgrl_cli.stopping import one_stop

if TYPE_CHECKING:
    from pgrl_cli.cells import Sweep
    from pgrl_cli.findings import Finding
    from pgrl_cli.runs import Run
    from pgrl_cli.summary import Summary

LONGEST_LINE = 4000
MOST_LINES = 20
MOST_PROBLEMS = 50
"""Of errors, on the screen."""
LONGEST_TOLD = 300
"""Characters of an error of a user's own code on the terminal."""
PIPED = 80
"""Columns of a table that no terminal shows."""
ROOM_FOR_A_BAR = 70
"""Columns; narrower terminals get the numbers alone."""
Watch = Callable[[int, float], None]
"""Sees, after each epoch of a run, how many are done and their last mean reward."""
Notice = Callable[["Finding"], None]
"""Hears of what stands out in a run."""
Tell = Callable[[str], None]
"""Hears what a person should hear, in a line."""


class Steady(Console):
    """A console whose reader may leave: what is told is then lost, but the run goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def out() -> Console:
    return Console(soft_wrap=True, highlight=False, emoji=False)


def shown_wide() -> Console:
    """For tables: as wide as the terminal; where there is none, as wide as a page."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=PIPED)


def err() -> Console:
    return Steady(stderr=True, soft_wrap=True, highlight=False, emoji=False)


@contextmanager
def failures_told(debug: bool) -> Iterator[None]:
    """Turn errors into a few lines and an exit code; with --debug also into a traceback."""
    with one_stop(), _errors_told(debug):
        yield


@contextmanager
def _errors_told(debug: bool) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of numbers beyond any use, drawn as far as they can be
            yield
    except typer.Exit:
        raise
    except KeyboardInterrupt as error:
        err().print(f"interrupted{_kept(error)}", markup=False)
        raise typer.Exit(128 + getattr(error, "signal", 2)) from None
    except ConfigError as error:
        _trace(debug)
        for problem in error.problems[:MOST_PROBLEMS]:
            err().print(f"error: {short(str(problem), LONGEST_LINE)}", markup=False)
        if (more := len(error.problems) - MOST_PROBLEMS) > 0:
            err().print(f"error: and {more} more of such problems")
        raise typer.Exit(2) from None
    except BrokenPipeError:  # whoever read our output has gone; the work is done
        _write_into_nothing()
        raise typer.Exit(0) from None
    except Exception as error:
        _trace(debug)
        told = "\n".join(short(legible(line), LONGEST_LINE) for line in _told(error).split("\n")[:MOST_LINES])
        err().print(f"error: {told}", markup=False)
        raise typer.Exit(1) from None


def note(text: str) -> None:
    """Tell what a person should hear."""
    _note(err(), text)


def _note(console: Console, text: str) -> None:
    console.print(f"note: {short(legible(text), LONGEST_LINE)}", markup=False, highlight=False, soft_wrap=True)


def _kept(error: KeyboardInterrupt) -> str:
    run: Run | None = getattr(error, "run", None)
    sweep: Sweep | None = getattr(error, "sweep", None)
    if sweep is not None:
        return f"; what was finished is kept; to go on: pgrl sweep --resume {shlex.quote(str(sweep.folder))}"
    return f"; what was finished is kept; to go on: pgrl train --resume {shlex.quote(str(run.folder))}" if run else ""


def _told(error: Exception) -> str:
    run: Run | None = getattr(error, "run", None)
    if run is not None:
        what = in_one_line(str(error))
        if not run.log_file.exists():
            return f"the run failed: {what}\n       its folder has gone, or cannot be read: {run.folder}"
        return f"the run failed: {what}\n       what was finished is kept; the traceback is in {run.log_file}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    from pgrl_cli.reward_calls import RewardError

    return str(error) if isinstance(error, RewardError) else f"{type(error).__name__}: {error}"


def _trace(debug: bool) -> None:
    if debug:
        traceback.print_exc()


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """What is being worked out, on a terminal, as long as it takes; elsewhere nothing."""
    console = Steady(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda what: None
        return
    with console.status("beginning") as status:
        yield lambda what: status.update(escape(short(legible(what), console.width - 5)))


@contextmanager
def progress(name: str, epochs: int, silent: bool) -> Iterator[tuple[Watch, Notice, Tell]]:
    """What watches a run: a bar on a terminal, else a line now and then; findings and notes at once, above it."""
    console = err()
    if silent:
        yield lambda done, mean_reward: None, lambda finding: None, note
    elif console.is_terminal and not console.is_dumb_terminal:
        with _bar(name, epochs) as (watch, beside):
            yield watch, partial(_tell_finding, beside), partial(_note, beside)
    else:
        yield partial(_line, console, epochs), partial(_tell_finding, console), note


def _tell_finding(console: Console, finding: "Finding") -> None:
    console.print(*finding.short_lines(), sep="\n", markup=False, highlight=False)


def _line(console: Console, epochs: int, done: int, mean_reward: float) -> None:
    if done % max(1, epochs // 10) == 0 or done == epochs:
        console.print(f"epoch {done}/{epochs}   mean reward {mean_reward:.3f}")


@contextmanager
def _bar(name: str, epochs: int) -> Iterator[tuple[Watch, Console]]:
    """A bar, and the console above it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

    console = Steady(stderr=True)
    columns: list[ProgressColumn] = [
        MofNCompleteColumn(),
        TextColumn("epochs  reward {task.fields[reward]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    ]
    if console.width >= ROOM_FOR_A_BAR:
        columns.insert(0, BarColumn(bar_width=20))
    if console.width >= ROOM_FOR_A_BAR + len(name):
        columns.insert(0, TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=epochs, reward="-")
        yield lambda done, mean_reward: bar.update(task, completed=done, reward=f"{mean_reward:.3f}"), console


def summary_lines(folder: "Run", summary: "Summary") -> Iterator[str]:
    ends = "ten" if summary.epochs >= 10 else str(summary.epochs)
    most = "" if summary.maximum_reward is None else f" of {summary.maximum_reward:g}"
    sure = "" if summary.last_interval is None else "   95 % interval {:.3f} to {:.3f}".format(*summary.last_interval)
    alive = [seed for seed in summary.seeds or () if seed["status"] != "failed"]
    rows = {
        f"mean reward, first {ends} epochs": _number(summary.first_mean_reward) + most,
        f"mean reward, last {ends} epochs": _number(summary.last_mean_reward) + most + sure,
        "mean reward, best epoch": _number(summary.best_mean_reward) + most,
        "exact match": _number(summary.exact_match),
        "exact match, held out": _number(summary.held_out_exact_match),
        "probability of the answer": _number(summary.solution_probability),
        "seeds": "-" if len(summary.seeds or ()) < 2 else f"{len(alive)}, the means of which stand above",
        "findings": _told_of(folder, summary),
        "seconds": f"{summary.seconds:.2f}",
        "picture": "-" if summary.picture_error else str(folder.curves_file),
        "folder": str(folder.folder),
    }
    return (f"{name:<31}{value}" for name, value in rows.items() if value != "-")


def _told_of(folder: "Run", summary: "Summary") -> str:
    """How many things stand out, and what tells of them."""
    count = len(summary.findings)
    return f"{count}; to read: pgrl explain {shlex.quote(str(folder.folder))}" if count else "-"


def print_json(value: Any, indent: int | None = None) -> None:
    say(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False))


def say(*lines: str) -> None:
    """Print results. Where whoever read them has gone they are lost, and what follows goes on: its exit code counts."""
    try:
        print(*lines, sep="\n", flush=True)
    except BrokenPipeError:
        _write_into_nothing()


def in_one_line(message: str) -> str:
    """A message of somebody else's code, as the terminal shows it: its first line, cut; the log has the whole."""
    first, *others = message.strip().splitlines() or [""]
    cut = short(first, LONGEST_TOLD)
    return f"{cut} …" if others and not cut.endswith("…") else cut


def _write_into_nothing() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
