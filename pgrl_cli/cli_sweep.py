"""`pgrl sweep`: a grid of configs trained side by side, and picked up again where it was left."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgrl_cli.config.problems import ConfigError, Problem, legible
from pgrl_cli.console import err, failures_told, note, print_json, sweep_progress

if TYPE_CHECKING:
    from pgrl_cli.cells import Cell, Sweep
    from pgrl_cli.config.sweep_spec import Spec
    from pgrl_cli.planning import Plan
    from pgrl_cli.report import Row
    from pgrl_cli.sweep import Standing

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
    runs_dir: Annotated[Path, typer.Option(help="Where the sweep's folder goes.", file_okay=False)] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the sweep folder's path alone.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print cells and stacks, and train nothing.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; one per core without it.")] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first cell that fails.")] = False,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Train what is missing in a sweep's folder.")
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
        from pgrl_cli.planning import planned

        if config is None and resume is None:
            told = "name the sweep: pgrl sweep --config my_sweep.yaml (or a config, with KEY=VALUE,VALUE)"
            raise ConfigError([Problem(told, "--config is missing")])
        if retry_failed and resume is None:
            raise ConfigError([Problem("goes with --resume DIR", "--retry-failed")])
        if overrides and config is None:
            raise ConfigError([Problem("a resumed sweep keeps its values; leave KEY=VALUE out", "--resume")])
        processes = jobs or _cores()
        spec = None if config is None else read_sweep(config, overrides or [])
        if resume is None:
            assert spec is not None
            plan = planned(spec, processes)
            for each in plan.notes:
                note(each)
            if dry_run:
                print(*_plan_lines(spec, plan), sep="\n")
                return
            folder = sweeps.begin(spec, plan, runs_dir, ["pgrl", *sys.argv[1:]])
        else:
            folder = sweeps.reopened(resume, spec, retry_failed)
        wanted = sweeps.missing(folder, retry_failed)
        if dry_run:
            print(*(f"{legible(cell.label)}   {folder.status(cell)['status']}" for cell in wanted), sep="\n")
            return
        metric, launcher = sweeps.asked(folder)
        with sweep_progress(folder.folder.name, quiet or as_json) as watch:
            standing = sweeps.work(
                folder,
                wanted,
                launcher=launcher,
                processes=processes,
                pictures=plot_cells,
                fail_fast=fail_fast,
                watch=watch,
            )
        rows, notes = sweeps.finish(folder, metric)
        for each in notes:
            note(each)
        left = sweeps.missing(folder, retry_failed=False)
        failed = [cell for cell in folder.cells if folder.status(cell)["status"] == "failed"]
        if as_json:
            counts = {"cells": len(folder.cells), "failed": len(failed), "left": len(left)}
            print_json({"sweep": str(folder.folder), **counts})
        else:
            if not quiet:
                print(*_summary_lines(folder, rows, standing, failed), sep="\n")
            print(folder.folder, flush=True)
        if failed or left:
            fix = f"pgrl sweep --resume {shlex.quote(str(folder.folder))}" + (" --retry-failed" if failed else "")
            err().print(f"to try again: {fix}", markup=False)
            raise typer.Exit(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _plan_lines(spec: "Spec", plan: "Plan") -> list[str]:
    stacks = sorted({cell.stack for cell in plan.cells})
    runs = sum(plan.runs.values())
    counts = [
        (len(plan.cells), "cell"),
        (runs, "run"),
        (len(stacks), "stack"),
        (sum(plan.work.values()), "optimizer step"),
    ]
    lines = [", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)]
    for number in stacks:
        members = [cell for cell in plan.cells if cell.stack == number]
        lines.append(f"stack {number}: {sum(plan.runs[cell.id] for cell in members)} runs")
        lines += [f"  {cell.folder}" for cell in members]
    return lines


def _summary_lines(folder: "Sweep", rows: Sequence["Row"], standing: "Standing", failed: Sequence["Cell"]) -> list[str]:
    width = max(len(row.cell.label) for row in rows)
    shown = rows[:ROWS_SHOWN]
    lines = [f"{'cell':<{width}}  runs    IQM  95 % interval"]
    for row in shown:
        n = row.numbers
        if n["iqm"] is None:
            lines.append(f"{legible(row.cell.label):<{width}}  {row.status}")
            continue
        interval = "" if n["iqm_low"] is None else f"{n['iqm_low']:.3f} to {n['iqm_high']:.3f}"
        lines.append(f"{legible(row.cell.label):<{width}}  {n['runs']:>4}  {n['iqm']:.3f}  {interval}")
    if len(rows) > len(shown):
        lines.append(f"… and {len(rows) - len(shown)} more in summary.md")
    speed = f"{standing.steps_per_second:,.0f} run-steps per second"
    lines += [
        f"cells    {len(folder.cells)}, {len(failed)} failed; {standing.done} trained now, {speed}",
        f"picture  {folder.folder / 'summary.png'}",
        f"tables   {folder.folder / 'summary.md'}, .csv, .json",
    ]
    return lines
