"""The command line: parse, call one function, print. Only this file and `console` print.

Results go to standard output, everything else to standard error. Exit codes: 0; 1 the run failed; 2 usage or config;
130 Ctrl-C. torch and matplotlib are imported inside the commands that need them: --help should not wait for them.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from pgrl_cli import __version__, cli_diagnose, cli_explain, cli_results, cli_sample, cli_sweep
from pgrl_cli.cli_config import ConfigName, Overrides, config_names, resolved_config
from pgrl_cli.cli_runs import runs_app
from pgrl_cli.config.problems import ConfigError, Problem, short
from pgrl_cli.config.shipped import (
    copy,
    find,
    first_comment,
    is_sweep,
    shipped_folder,
    shipped_names,
    shipped_sweeps,
)
from pgrl_cli.console import failures_told, in_one_line, note, out, print_json, progress, summary_lines

if TYPE_CHECKING:
    from pgrl_cli.runs import Run
    from pgrl_cli.summary import Summary

app = typer.Typer(
    help="Policy-gradient experiments on language models, from a YAML to a picture.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Look at configs: the shipped ones and your own.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(runs_app, name="runs")


def _kinds(incomplete: str) -> list[str]:
    from pgrl_cli.config.schema import LISTS

    return [kind for kind in LISTS if kind.startswith(incomplete)]


def _version(wanted: bool) -> None:
    if wanted:
        out().print(f"pgrl {__version__}")
        raise typer.Exit


File = Annotated[str, typer.Argument(help="A YAML, or a shipped name.", autocompletion=config_names)]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an arrow must not end a run on a console without one


@app.command()
def train(
    config: ConfigName = None,
    overrides: Overrides = None,
    runs_dir: Annotated[Path, typer.Option(help="Where run folders go.", file_okay=False)] = Path("runs"),
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Go on with a run (a path, an id, latest); epochs=N: longer."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the run folder's path alone.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    debug: Debug = False,
) -> None:
    """Train one policy into a new run folder, or go on with one."""
    with failures_told(debug):
        from pgrl_cli.experiment import Interrupted, RunFailed

        _refuse_no_or_two_configs(config, resume, overrides or [])
        try:
            if resume is not None:
                folder, summary = _gone_on(resume, overrides, runs_dir, silent=quiet or as_json)
            else:
                folder, summary = _begun(str(config), overrides, runs_dir, silent=quiet or as_json)
        except (RunFailed, Interrupted) as ended:
            if as_json:
                status = "failed" if isinstance(ended, RunFailed) else "interrupted"
                print_json({"run": str(ended.run.folder), "status": status, "error": str(ended)})
            raise
        _tell_what_happened(folder, summary)
        if as_json:
            told = {} if summary is None else asdict(summary)
            print_json({"run": str(folder.folder), "status": "completed", **told})
        else:
            if summary is not None and not quiet:
                print(*summary_lines(folder, summary), sep="\n")
            print(folder.folder, flush=True)


def _refuse_no_or_two_configs(config: str | None, resume: str | None, words: list[str]) -> None:
    if resume is not None and config is not None:
        raise ConfigError([Problem("a run goes on with its own config; leave --config out", "--resume")])
    if config is None and resume is None:
        named = next((word for word in words if "=" not in word), None)
        what = "name the experiment" if named is None else f"put --config before {short(named)}"
        example = f"pgrl train --config {short(named or 'lecture/centered_clipped')}"
        message = f"{what}: {example} (`pgrl config ls` lists the shipped ones)"
        raise ConfigError([Problem(message, "--config is missing")])


def _begun(config: str, overrides: list[str] | None, runs_dir: Path, silent: bool) -> "tuple[Run, Summary]":
    """A new run, trained."""
    from pgrl_cli.experiment import run

    resolved = resolved_config(config, overrides)
    with progress(resolved.config.name, resolved.config.epochs, silent) as (watch, notice, _):
        return run(resolved, runs_dir, command=["pgrl", *sys.argv[1:]], watch=watch, notice=notice)


def _gone_on(word: str, overrides: list[str] | None, runs_dir: Path, silent: bool) -> "tuple[Run, Summary | None]":
    """A run that was begun, trained to its end; no summary where it was there already."""
    from pgrl_cli import resuming
    from pgrl_cli.runs import Run
    from pgrl_cli.store import resolved

    asked = resuming.asked_for(Run(resolved(word, runs_dir)), overrides or [])
    with progress(asked.config.name, asked.config.epochs, silent) as (watch, notice, tell):
        return resuming.resume(asked, command=["pgrl", *sys.argv[1:]], watch=watch, notice=notice, tell=tell)


def _tell_what_happened(folder: "Run", summary: "Summary | None") -> None:
    """Notes about a run that went to its end all the same."""
    if summary is None:
        return
    for seed in [seed for seed in summary.seeds or () if seed["status"] == "failed"]:
        note(f"seed {seed['seed']} ended early: {in_one_line(seed['error'])}")
    if summary.skipped_steps:
        note(f"{summary.skipped_steps} steps were skipped: their gradients had no finite norm (on_nonfinite: skip)")
    if summary.picture_error is not None:
        note(f"there is no picture ({summary.picture_error}); the traceback is in {folder.log_file}")


app.command(name="sample")(cli_sample.sample)
app.command(name="sweep")(cli_sweep.sweep)
app.command(name="diagnose")(cli_diagnose.diagnose)
app.command(name="plot")(cli_results.plot)
app.command(name="compare")(cli_results.compare)
app.command(name="explain")(cli_explain.explain)


@app.command(name="list")
def list_words(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="rewards, deltas, losses, divergences, averages, policies, tasks, critics, targets or optimizers, or "
            "the key that takes such a word; all of them without it.",
            autocompletion=_kinds,
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As the README's tables.")] = False,
) -> None:
    """List the words a config may use, with their knobs."""
    with failures_told(debug=False):
        from pgrl_cli import listing

        kinds = listing.kinds_named(kind)
    if markdown:
        print(listing.markdown(kinds), end="")
        return
    for name, key in kinds.items():
        table = Table(title=f"{name} ({key})", title_justify="left", show_edge=False, pad_edge=False, expand=False)
        table.add_column("word", no_wrap=True)
        table.add_column("meaning", overflow="fold")
        table.add_column("knobs", overflow="fold")
        for word in listing.words_of(name):
            table.add_row(word.name, word.meaning, word.knobs)
        Console(highlight=False).print(table, "")
    if "rewards" in kinds:
        out().print("A reward of your own: reward_fn: my_rewards.py:points, a function of (prompt, response).")


@config_app.command("ls")
def config_ls() -> None:
    """List the shipped configs."""
    table = Table(show_edge=False, pad_edge=False, box=None)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    for name in shipped_names():
        table.add_row(name, first_comment(shipped_folder() / f"{name}.yaml"))
    for name in shipped_sweeps():
        table.add_row(name, f"Sweep. {first_comment(shipped_folder() / f'{name}.yaml')}")
    Console(highlight=False).print(table)


@config_app.command("show")
def config_show(file: File, overrides: Overrides = None, debug: Debug = False) -> None:
    """Print a config fully resolved, every live default written out."""
    with failures_told(debug):
        resolved = resolved_config(file, overrides)
        from pgrl_cli.words import written

        print(written(resolved.config), end="")


@config_app.command("cp")
def config_cp(
    name: Annotated[str, typer.Argument(help="A shipped config's name.", autocompletion=config_names)],
    dest: Annotated[str, typer.Argument(help="A file, or a folder that is there.")] = ".",
) -> None:
    """Copy a shipped config, to build on."""
    with failures_told(debug=False):
        print(copy(name, dest))


@config_app.command("validate")
def config_validate(
    files: Annotated[list[str], typer.Argument(help="YAMLs, or shipped names.", autocompletion=config_names)],
    debug: Debug = False,
) -> None:
    """Say of each config whether it can run, and all that is wrong if not."""
    wrong = False
    for file in files:
        try:
            with failures_told(debug):
                if is_sweep(find(file, Path.cwd())):
                    _planned(file)
                else:
                    resolved_config(file, None)
            print(f"{file}: fine")
        except typer.Exit as ended:
            if ended.exit_code != 2:
                raise
            wrong = True
    raise typer.Exit(2 if wrong else 0)


@config_app.command("schema")
def config_schema() -> None:
    """Print a JSON Schema of configs, for editors."""
    from pgrl_cli.listing import json_schema

    print_json(json_schema(), indent=2)


def _planned(config: str) -> None:
    """Check every cell of a sweep."""
    from pgrl_cli.config.sweep_spec import read_sweep
    from pgrl_cli.planning import planned

    planned(read_sweep(config), processes=1)


if __name__ == "__main__":
    app(prog_name="pgrl")
