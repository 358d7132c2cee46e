"""`pgrl sweep`: a grid of configs trained side by side, and picked up again where it was left."""

import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgrl_cli.config.problems import ConfigError, Problem, legible
from pgrl_cli.console import err, failures_told, note, print_json, say
from pgrl_cli.console_sweep import sweep_progress
from pgrl_cli.machine import processors

if TYPE_CHECKING:
    from pgrl_cli.cells import Cell, Sweep
    from pgrl_cli.config.sweep_spec import Spec
    from pgrl_cli.planning import Plan
    from pgrl_cli.report import Row
    from pgrl_cli.standing import Standing

OF_TRAINING = ("--quiet", "--json", "--fail-fast", "--plot-cells")
"""Options that say how to train, or what to tell of it."""
ROWS_SHOWN = 20
"""Of a summary, on the screen; summary.md has them all."""


def sweep(
    config: Annotated[
        str | None, typer.Option("--config", "-c", help="A sweep's YAML; or a config, with KEY=VALUE,VALUE to sweep.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Values that win over the file's; KEY=VALUE,VALUE sweeps a key."),
    ] = None,
    runs_dir: Annotated[
        Path | None, typer.Option(help="Where the sweep's folder goes; runs without it.", file_okay=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the sweep folder's path alone.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print cells and stacks, and train nothing.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; one per core without it.")] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first cell that fails.")] = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="SWEEP", help="Train what is missing of a sweep: a path, or an id."),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="With --resume: the failed, too.")] = False,
    plot_cells: Annotated[bool, typer.Option("--plot-cells", help="Draw every cell's picture, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    """Train a grid of configs, with all their seeds, and summarise them."""
    with failures_told(debug):
        from pgrl_cli import sweep as sweeps
        from pgrl_cli.config.sweep_spec import read_sweep
        from pgrl_cli.reopening import asked
        from pgrl_cli.runs import Run, held, refuse_one_in_use
        from pgrl_cli.stopping import raising

        switches = {"--retry-failed": retry_failed, "--dry-run": dry_run, "--quiet": quiet, "--json": as_json}
        switches |= {"--fail-fast": fail_fast, "--plot-cells": plot_cells, "KEY=VALUE": bool(overrides)}
        valued = {"--config": config, "--resume": resume, "--runs-dir": runs_dir, "--jobs": jobs}
        given = {*(name for name in switches if switches[name]), *(name for name in valued if valued[name] is not None)}
        _refuse_contradictions(given)
        spec = None if config is None else read_sweep(config, overrides or [])
        folder = _begun_or_reopened(spec, resume, given, runs_dir or Path("runs"), jobs or processors())
        if folder is None:
            return
        metric, launcher = asked(folder)
        with raising(), held(folder.folder) as holding, _folder_told(folder, as_json):
            refuse_one_in_use(Run(folder.folder))
            with sweep_progress(folder.folder.name, quiet or as_json) as watch:
                standing = sweeps.work(
                    folder,
                    sweeps.missing(folder, retry_failed),
                    launcher=launcher,
                    processes=jobs or processors(),
                    pictures=plot_cells,
                    fail_fast=fail_fast,
                    watch=watch,
                    holding=holding,
                )
            rows, notes = sweeps.finish(folder, metric)
        _tell_notes(notes)
        left = len(sweeps.missing(folder, retry_failed=False))
        _tell_end(folder, rows, standing, left, given)


def _refuse_contradictions(given: set[str]) -> None:
    """Refuse what is missing, and options that would do nothing beside the others. Raises ConfigError with all."""
    problems = []
    if given.isdisjoint({"--config", "--resume"}):
        told = "name the sweep: pgrl sweep --config my_sweep.yaml (or a config, with KEY=VALUE,VALUE)"
        problems.append(Problem(told, "--config is missing"))
    elif "KEY=VALUE" in given and "--config" not in given:
        problems.append(Problem("a resumed sweep keeps its values; leave KEY=VALUE out", "--resume"))
    if "--resume" not in given and "--retry-failed" in given:
        problems.append(Problem("goes with --resume DIR", "--retry-failed"))
    if {"--resume", "--runs-dir"} <= given:
        problems.append(Problem("does nothing with --resume: the sweep stays in its folder", "--runs-dir"))
    if "--dry-run" in given:
        idle = [option for option in (*OF_TRAINING, *(["--jobs"] if "--resume" in given else [])) if option in given]
        problems += [Problem("does nothing with --dry-run, which trains nothing", option) for option in idle]
    if problems:
        raise ConfigError(problems)


def _begun_or_reopened(
    spec: "Spec | None", resume: str | None, given: set[str], runs_dir: Path, processes: int
) -> "Sweep | None":
    """The folder of a new sweep, or of one that was begun; none of a dry run, which prints what there is to do."""
    from pgrl_cli import sweep as sweeps
    from pgrl_cli.reopening import asked, reopened
    from pgrl_cli.store import path_or_id

    if resume is not None:
        retry_failed = "--retry-failed" in given
        folder = reopened(Path(path_or_id(resume)), spec, retry_failed)
        _refuse_jobs_on_ray(asked(folder)[1], given)
        if "--dry-run" not in given:
            return folder
        wanted = sweeps.missing(folder, retry_failed)
        print(*(f"{legible(cell.label)}   {folder.status(cell)['status']}" for cell in wanted), sep="\n")
        return None

    from pgrl_cli.planning import planned

    assert spec is not None
    _refuse_jobs_on_ray(spec.launcher, given)
    plan = planned(spec, processes)
    _tell_notes(plan.notes)
    if "--dry-run" not in given:
        return sweeps.begin(spec, plan, runs_dir, ["pgrl", *sys.argv[1:]])
    print(*_plan_lines(spec, plan), sep="\n")
    return None


def _refuse_jobs_on_ray(launcher: str, given: set[str]) -> None:
    if launcher == "ray" and "--jobs" in given:
        told = "does nothing with launcher: ray, which starts what its cluster has room for"
        raise ConfigError([Problem(told, "--jobs")])


def _tell_end(folder: "Sweep", rows: Sequence["Row"], standing: "Standing", left: int, given: set[str]) -> None:
    """Print how a sweep ended; where something failed or is left, how to go on, and exit with 1."""
    failed = [cell for cell in folder.cells if folder.status(cell)["status"] == "failed"]
    if "--json" in given:
        counts = {"cells": len(folder.cells), "failed": len(failed), "left": left}
        print_json({"sweep": str(folder.folder), **counts})
    else:
        if "--quiet" not in given:
            say(*_summary_lines(folder, rows, standing, failed))
        say(str(folder.folder))
    if failed or left:
        _tell_how_to_go_on(folder, bool(failed))
        raise typer.Exit(1)


def _tell_how_to_go_on(folder: "Sweep", failed: bool) -> None:
    fix = f"pgrl sweep --resume {shlex.quote(str(folder.folder))}" + (" --retry-failed" if failed else "")
    err().print(f"to try again: {fix}", markup=False)


@contextmanager
def _folder_told(folder: "Sweep", quiet: bool) -> Iterator[None]:
    """Where a sweep ends before its end, its folder and how to go on are told nevertheless."""
    from pgrl_cli.sweep import SweepInterrupted

    try:
        yield
    except SweepInterrupted:
        raise
    except KeyboardInterrupt as error:
        raise SweepInterrupted(folder, getattr(error, "signal", signal.SIGINT)) from error
    except OSError as error:
        name = f"{error.filename}: " if error.filename is not None else ""
        err().print(f"error: {name}{error.strerror or error}", markup=False)
        _tell_how_to_go_on(folder, failed=any(folder.status(cell)["status"] == "failed" for cell in folder.cells))
        if not quiet:
            say(str(folder.folder))
        raise typer.Exit(1) from error


def _tell_notes(notes: Iterable[str]) -> None:
    for each in notes:
        note(each)


def _plan_lines(spec: "Spec", plan: "Plan") -> list[str]:
    stacks = sorted({cell.stack for cell in plan.cells})
    runs = sum(cell.runs for cell in plan.cells)
    counts = [
        (len(plan.cells), "cell"),
        (runs, "run"),
        (len(stacks), "stack"),
        (sum(cell.work for cell in plan.cells), "optimizer step"),
    ]
    lines = [", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)]
    for number in stacks:
        members = [cell for cell in plan.cells if cell.stack == number]
        together = sum(cell.runs for cell in members)
        lines.append(f"stack {number}: {together} run{'' if together == 1 else 's'}")
        lines += [f"  {cell.folder}" for cell in members]
    return lines


def _summary_lines(folder: "Sweep", rows: Sequence["Row"], standing: "Standing", failed: Sequence["Cell"]) -> list[str]:
    from pgrl_cli.report import in_short

    width = max(len(row.cell.label) for row in rows)
    shown = rows[:ROWS_SHOWN]
    iqms = [in_short(row.numbers["iqm"]) for row in shown]
    broad = max(map(len, [*iqms, "IQM"]))
    means = [in_short(row.numbers["mean"]) for row in shown]
    wide = max(map(len, [*means, "mean"]))
    lines = [f"{'cell':<{width}}  runs  {'IQM':>{broad}}  {'mean':>{wide}}  95 % interval of the IQM"]
    for row, iqm, mean in zip(shown, iqms, means, strict=True):
        n = row.numbers
        if n["iqm"] is None:
            lines.append(f"{legible(row.cell.label):<{width}}  {row.status}")
            continue
        interval = "" if n["iqm_low"] is None else f"{in_short(n['iqm_low'])} to {in_short(n['iqm_high'])}"
        lines.append(f"{legible(row.cell.label):<{width}}  {n['runs']:>4}  {iqm:>{broad}}  {mean:>{wide}}  {interval}")
    if len(rows) > len(shown):
        lines.append(f"… and {len(rows) - len(shown)} more in summary.md")
    speed = f"{standing.steps_per_second:,.0f} run-steps per second"
    lines += [
        f"cells    {len(folder.cells)}, {len(failed)} failed; {standing.done} trained now, {speed}",
        f"picture  {folder.folder / 'summary.png'}",
        f"tables   {folder.folder / 'summary.md'}, .csv, .json",
    ]
    return lines
