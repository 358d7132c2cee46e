"""`pgrl explain`: what stands out in a run or in a sweep's cells, what it means, and what usually helps."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from pgrl_cli.config.problems import ConfigError, Problem, legible, listed
from pgrl_cli.console import failures_told, note, out, print_json, say
from pgrl_cli.readings.numbers import counted

if TYPE_CHECKING:
    from pgrl_cli.explaining import Explanation, LookedAt
    from pgrl_cli.findings import Finding

MOST_SEEDS = 20
"""That are named."""
Cell = tuple[str, "Explanation"]
"""A cell's label, and what stands out in it."""


def explain(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run or a sweep: a path, an id, a unique name, or latest.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Where ids are looked up.", file_okay=False)] = Path("runs"),
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    """Say what stands out in a run, read anew from its metrics, with the numbers; of a sweep in all its cells."""
    with failures_told(debug):
        from pgrl_cli.catalogue import kind_of
        from pgrl_cli.explaining import explained
        from pgrl_cli.store import resolved

        path = resolved(run, runs_dir)
        if kind_of(path) == "sweep":
            cells = list(_explained_cells(path))
            if as_json:
                print_json({"sweep": str(path), "cells": [{"cell": label} | each.as_json() for label, each in cells]})
            else:
                say(*_in_width(_lines_of_sweep(path, cells)))
            return
        explanation = explained(path)
        if as_json:
            print_json(explanation.as_json())
        else:
            say(*_in_width(_lines_of_run(explanation)))


def _in_width(lines: Iterable[str]) -> Iterator[str]:
    """Lines as a terminal takes them: longer ones broken, and set in behind their labels; elsewhere as they are."""
    console = out()
    for line in lines:
        if not console.is_terminal or len(line) <= console.width:
            yield line
            continue
        label = re.match(r"\s*(\S+\s{2,})?", line)
        inset = min(label.end() if label else 0, console.width // 3)
        yield from wrap(line, console.width, subsequent_indent=" " * inset)


def _explained_cells(sweep: Path) -> Iterator[Cell]:
    """The cells that have begun, with a note on the others and on what cannot be read.

    Raises ConfigError where the sweep's cells are not known.
    """
    from pgrl_cli.cells import Sweep
    from pgrl_cli.explaining import explained

    try:
        cells = {cell.label: sweep / cell.folder for cell in Sweep(sweep).cells}
    except (OSError, ValueError, TypeError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise ConfigError([Problem(f"its cells cannot be read: {told}", str(sweep / "cells.jsonl"))]) from error
    begun = {label: folder for label, folder in cells.items() if folder.is_dir()}
    if waiting := len(cells) - len(begun):
        note(f"{waiting} of {len(cells)} cells have not begun")
    for label, folder in begun.items():
        try:
            yield label, explained(folder)
        except ConfigError as error:
            note(f"left out: {error.problems[0]}")


def _lines_of_run(explanation: "Explanation") -> Iterator[str]:
    """What stands out in a run, and then what does not, readable."""
    entry, findings = explanation.entry, explanation.findings
    yield legible(f"{entry.path}: {entry.status}, {explanation.epochs} of {explanation.facts.epochs} epochs")
    if not explanation.looked_at:
        yield _of_nothing(explanation)
        return
    yield "nothing stands out" if not findings else counted(len(findings), "finding")
    for finding in findings:
        yield ""
        yield f"{finding.kind.title} ({finding.kind.word}), after {finding.epoch + 1} epochs"
        yield f"  seen     {finding.seen}"
        yield from _advice(finding)
        if finding.places:
            yield f"  seeds    {listed(explanation.seeds_of(finding), MOST_SEEDS)}"
        yield f"  numbers  {_numbers(finding)}"
    said = {finding.kind.word for finding in findings}
    others = [each for each in explanation.looked_at if each.kind.word not in said]
    yield ""
    medians = "" if explanation.facts.seeds is None else ", medians over the living seeds"
    yield f"what {'else ' if findings else ''}was looked at (the last window{medians})"
    width = max(len(each.kind.word) for each in explanation.looked_at)
    for each in others:
        yield f"  {each.kind.word:<{width}}  {_looked_at(each, explanation)}"


def _of_nothing(explanation: "Explanation") -> str:
    """Why nothing was looked at."""
    from pgrl_cli.findings.course import LEAST

    if explanation.facts.epochs < LEAST:
        return f"too short to say: a run of less than {LEAST} epochs is not looked at"
    why = "too little is written" if explanation.entry.status == "completed" else "too early"
    return f"{why} to say: findings are looked for every ten epochs, and at the end"


def _lines_of_sweep(sweep: Path, cells: Sequence[Cell]) -> Iterator[str]:
    """What stands out in a sweep's cells, kind by kind, and where nothing does."""
    having = [label for label, each in cells if each.findings]
    yield legible(f"{sweep}: findings in {len(having)} of {counted(len(cells), 'cell')}")
    width = max((len(label) for label in having), default=0)
    kinds = {finding.kind.word: finding for _, each in cells for finding in each.findings}
    for word, first in kinds.items():
        found = [(label, f) for label, each in cells for f in each.findings if f.kind.word == word]
        yield ""
        yield f"{first.kind.title} ({word}): {counted(len(found), 'cell')}"
        yield from _advice(first)
        for label, finding in found:
            yield f"  {legible(label):<{width}}  after {finding.epoch + 1} epochs: {finding.seen}"
    if nothing := [legible(label) for label, each in cells if not each.findings]:
        yield ""
        yield f"nothing stands out in {counted(len(nothing), 'cell')}"
        yield from (f"  {label}" for label in nothing)


def _advice(finding: "Finding") -> Iterator[str]:
    yield f"  means    {finding.kind.means}"
    for place, help_ in enumerate(finding.kind.helps):
        yield f"  {'' if place else 'helps':<7}  {help_}"


def _looked_at(each: "LookedAt", explanation: "Explanation") -> str:
    if not each.is_there:
        return f"nothing to look at: {each.kind.absent}"
    few = explanation.facts.seeds is not None and each.having
    return each.kind.seen(each.numbers, explanation.facts) + (
        f" (seen in {counted(each.having, 'seed')}, which is too few to be said)" if few else ""
    )


def _numbers(finding: "Finding") -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in finding.numbers.items() if value == value)
