"""`pgrl runs`: what lies in a runs folder, listed, looked at, taken away, brought back, checked and exported."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pgrl_cli.config.problems import ConfigError, Problem, refuse_other_than
from pgrl_cli.console import PIPED, err, failures_told, out, print_json

FORMATS = ("jsonl", "csv", "npz")
runs_app = typer.Typer(help="Look at runs and sweeps, and tidy them up.", no_args_is_help=True)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
RunsDir = Annotated[Path, typer.Option("--runs-dir", help="Where run folders lie.", file_okay=False)]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A path, an id, a unique name, or latest.")]
RunNames = Annotated[list[str] | None, typer.Argument(metavar="RUN...", help="Paths, ids, unique names, or latest.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
RUNS = Path("runs")


@runs_app.command("ls")
def ls(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH...", help="Runs folders, runs, or sweeps, whose cells are meant."),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", help="Such as 'delta_mode=rewards and last_mean_reward>3'.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", "-s", metavar="KEY", help="Ascending by KEY; descending by -KEY.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="The first N alone.")] = None,
    cells: Annotated[bool, typer.Option("--cells", help="List the cells of sweeps, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list, with all keys.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with all keys.")] = False,
    runs_dir: RunsDir = RUNS,
    debug: Debug = False,
) -> None:
    """List runs and sweeps, the newest first; any key of a config or of status.json filters and sorts them."""
    with failures_told(debug):
        from pgrl_cli import run_table, store
        from pgrl_cli.selection import selected

        if as_json and as_csv:
            raise ConfigError([Problem("goes without --json; choose one of them", "--csv")])
        none_yet = not paths and runs_dir == RUNS and not RUNS.exists()
        entries = [] if none_yet else store.under(paths or [], runs_dir, cells)
        rows = selected(run_table.rows_of(entries), where, sort, limit)
        if as_json:
            print_json(rows)
        elif as_csv:
            print(run_table.as_csv(rows), end="")
        elif rows:
            screen = out()
            print(*run_table.lines_of(rows, screen.width if screen.is_terminal else PIPED), sep="\n")
        _tell_notes(len(entries), len(rows), [entry.problem for entry in entries if entry.problem is not None])


@runs_app.command("show")
def show(
    run: RunName,
    config: Annotated[bool, typer.Option("--config", help="The whole config, its defaults too.")] = False,
    as_json: Json = False,
    runs_dir: RunsDir = RUNS,
    debug: Debug = False,
) -> None:
    """Show a run at a glance: how it stands and why, its numbers, its config where that is no default, its files."""
    with failures_told(debug):
        from pgrl_cli import inspection, store

        seen = inspection.glance(store.resolved(run, runs_dir), config)
        if as_json:
            print_json(seen)
        else:
            print(*inspection.lines_of(seen), sep="\n")


@runs_app.command("diff")
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A path, an id, a unique name, or latest.")],
    b: Annotated[str, typer.Argument(metavar="B", help="What it is held against.")],
    as_json: Json = False,
    runs_dir: RunsDir = RUNS,
    debug: Debug = False,
) -> None:
    """Show what two runs differ in: config, versions, numbers."""
    with failures_told(debug):
        from pgrl_cli import inspection, store

        first, second = store.resolved(a, runs_dir), store.resolved(b, runs_dir)
        found = inspection.differences(first, second)
        if as_json:
            print_json({"a": str(first), "b": str(second), **found})
        else:
            print(f"A  {first}", f"B  {second}", *inspection.lines_of_differences(found), sep="\n")


@runs_app.command("rm")
def rm(
    runs: RunNames = None,
    yes: Yes = False,
    purge: Annotated[bool, typer.Option("--purge", help="Delete for good what is in the trash.")] = False,
    runs_dir: RunsDir = RUNS,
    debug: Debug = False,
) -> None:
    """Move runs to the trash of their folder, from which `restore` brings them back."""
    with failures_told(debug):
        from pgrl_cli import trash

        if purge == bool(runs):
            told = "takes no RUN: it empties the trash" if purge else "name a run, or --purge to empty the trash"
            raise ConfigError([Problem(told, "--purge" if purge else "RUN")])
        if purge:
            there = trash.discarded(runs_dir)
            if there:
                _agree(f"delete {_counted(len(there))} for good", yes)
            trash.purge(runs_dir)
            out().print(f"{_counted(len(there))} deleted for good", markup=False)
            return
        chosen = trash.removable(runs or [], runs_dir)
        _agree(f"move to the trash: {', '.join(path.name for path in chosen)}", yes)
        for path in chosen:
            print(trash.discard(path).folder, flush=True)
        err().print("note: `pgrl runs restore` brings back what is in the trash", markup=False)


@runs_app.command("restore")
def restore(runs: RunNames = None, runs_dir: RunsDir = RUNS, debug: Debug = False) -> None:
    """Bring runs back from the trash; without RUN, list what is there."""
    with failures_told(debug):
        from pgrl_cli import trash
        from pgrl_cli.run_table import visible

        if not runs:
            there = trash.discarded(runs_dir)
            for each in there:
                print(f"{each.token}  {visible(each.when) or '-':<25}  {visible(each.folder.name)}")
            if not there:
                err().print(f"note: nothing is in the trash of {runs_dir}", markup=False)
            return
        for each in trash.restorable(runs, runs_dir):
            print(trash.restore(each, runs_dir), flush=True)


@runs_app.command("verify")
def verify(runs: RunNames = None, runs_dir: RunsDir = RUNS, debug: Debug = False) -> None:
    """Check every file against what a run folder promises; all runs of the folder without RUN."""
    with failures_told(debug):
        from pgrl_cli import store, verification

        paths = [store.resolved(run, runs_dir) for run in runs or []]
        paths = paths or [entry.path for entry in store.entries_of(runs_dir)]
        damaged, whole = 0, 0
        for path in paths:
            faults = verification.faults_of(path)
            damaged += bool(faults)
            whole += 0 if faults else verification.runs_in(path)
            for fault in faults:
                print(fault, flush=True)
        if damaged:
            err().print(f"error: {damaged} of {len(paths)} are not whole", markup=False)
            raise typer.Exit(1)
        print(f"{_counted(whole)} {'is' if whole == 1 else 'are'} whole")


@runs_app.command("export")
def export(
    run: RunName,
    seed: Annotated[
        int | None, typer.Option("--seed", help="One seed of a stacked run, as if it had been alone.")
    ] = None,
    form: Annotated[str, typer.Option("--format", "-f", help="jsonl, csv or npz.")] = "jsonl",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file; standard output without it.")] = None,
    debug: Debug = False,
) -> None:
    """Write a run's metrics as lines of numbers: one per step, of a stacked run one per step and seed."""
    with failures_told(debug):
        from pgrl_cli import exports
        from pgrl_cli.folders import naming
        from pgrl_cli.store import path_or_id

        refuse_other_than("--format", form, FORMATS)
        if form == "npz" and out is None:
            raise ConfigError([Problem("npz is no text; name a file: --out metrics.npz", "--format")])
        data = exports.exported(Path(path_or_id(run)), seed, form)
        if out is None and sys.stdout is None:
            raise ConfigError([Problem("is closed; name a file: --out metrics.jsonl", "standard output")])
        if out is None:
            with naming("standard output"):
                for block in data:
                    sys.stdout.buffer.write(block)
                sys.stdout.flush()
            return
        exports.write(out, data)
        print(out)


def _tell_notes(there: int, shown: int, problems: list[str]) -> None:
    if not there:
        err().print("note: there is no run here yet; `pgrl train --config …` makes one", markup=False)
    elif not shown:
        err().print(f"note: none of {_counted(there)} is meant by --where", markup=False)
    if problems:
        told = f"note: {len(problems)} could not be read: {problems[0]}; `pgrl runs verify` says all"
        err().print(told, markup=False)


def _agree(question: str, yes: bool) -> None:
    """Ask before something goes. Raises ConfigError where nobody can answer; a no ends the command."""
    if yes:
        return
    if not _is_terminal():
        raise ConfigError([Problem(f"would {question}; there is no terminal to ask on, so say --yes", "rm")])
    try:
        agreed = typer.confirm(f"{question}?", err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        err().print("nothing is changed", markup=False)
        raise typer.Exit(1)


def _counted(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _is_terminal() -> bool:
    return sys.stdin.isatty()
