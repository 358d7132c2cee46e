"""`pgrl diagnose`: what is true of a policy, and what its estimators make of it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from operator import gt
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pgrl_cli.cli_config import ConfigName, Overrides, resolved_config
from pgrl_cli.config.problems import ConfigError, Problem, listed, short
from pgrl_cli.console import failures_told, note, print_json, say, shown_wide, working

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pgrl_cli.diagnosis.subject import Subject
    from pgrl_cli.readings.reading import Reading

FEWEST, MOST = 20, 100_000
"""Samples: fewer have no standard error to speak of."""
MANY_PROMPTS = 20
"""More take minutes."""
NARROWEST = 20
"""Columns of a text; on a narrower screen its lines are broken anyhow."""
Watch = Callable[[str], None]
Begun = Callable[[Watch], "AbstractContextManager[Subject]"]
"""What is to be looked at, once somebody watches."""


def diagnose(
    config: ConfigName = None,
    overrides: Overrides = None,
    after: Annotated[
        int | None,
        typer.Option("--after", min=0, metavar="EPOCHS", help="Train so many epochs first; 10, or all, without it."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Instead of a config a run as it is: a path, an id, latest."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of several `seeds`; the first without it.")] = None,
    prompts: Annotated[int | None, typer.Option("--prompts", min=1, help="Look at the first N prompts alone.")] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            min=FEWEST,
            max=MOST,
            help="Rollouts drawn where no sum is exact, 4096 without it; where there are too many responses to go "
            "through, so many of them, too.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write JSON, a page and pictures there, too.", file_okay=False),
    ] = None,
    runs_dir: Annotated[Path, typer.Option(help="Where ids are looked up.", file_okay=False)] = Path("runs"),
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    """Say what is true of a policy, by going through every response, and what each estimator makes of it."""
    with failures_told(debug):
        _refuse_both_or_none(config, overrides or [], after, run)
        from pgrl_cli import diagnosed
        from pgrl_cli.diagnose import diagnosis

        if out is not None:
            diagnosed.refuse_strangers(out)
        heard: list[str] = []
        if run is None:
            begun = _trained(str(config), overrides, after, seed, prompts, samples)
        else:
            begun = _of_a_run(run, runs_dir, seed, prompts, heard.append)
        with working() as watch, begun(watch) as subject:
            found = diagnosis(subject, samples, watch)
        for told in heard:
            note(told)
        files = [] if out is None else diagnosed.write(out, found)
        if as_json:
            print_json(found)
        else:
            _show(found)
        if out is not None and as_json:
            note(f"written: {listed(files)}")
        elif out is not None:
            say("", str(out))


def _refuse_both_or_none(config: str | None, words: list[str], after: int | None, run: str | None) -> None:
    if run is None and config is None:
        named = next((word for word in words if "=" not in word), None)
        what = "name what to look at" if named is None else f"put --config, or --run, before {short(named)}"
        example = f"pgrl diagnose --config {short(named or 'lecture/centered_clipped')}"
        message = (
            f"{what}: {example} (`pgrl config ls` lists the shipped ones), or a run, --run {short(named or 'latest')}"
        )
        raise ConfigError([Problem(message, "--config is missing")])
    if run is None:
        return
    problems = [
        Problem("a run has its own config and is looked at as it is; leave this out, or leave --run out", option)
        for option, value in (("--config", config), ("--after", after))
        if value is not None
    ]
    if words:
        told = f"a run is looked at with its own config; leave {short(words[0])} out, or leave --run out"
        problems.append(Problem(told, "KEY=VALUE"))
    if problems:
        raise ConfigError(problems)


def _trained(
    config: str,
    overrides: list[str] | None,
    epochs: int | None,
    seed: int | None,
    prompts: int | None,
    samples: int | None,
) -> Begun:
    """A config's policy, to be trained for a while."""
    from pgrl_cli.diagnose import after, refuse_too_many

    ready = resolved_config(config, overrides).config
    count = refuse_too_many(ready, samples)
    if prompts is None and count > MANY_PROMPTS:
        note(f"all {count:,} prompts are looked at, each of which takes a while; --prompts 10 looks at the first ten")
    if seed is None and len(ready.run_seeds) > 1:
        note(f"of {len(ready.run_seeds)} seeds the first, {ready.run_seeds[0]}; --seed names another")
    return lambda watch: after(ready, epochs, seed, prompts, watch)


def _of_a_run(word: str, runs_dir: Path, seed: int | None, prompts: int | None, tell: Callable[[str], None]) -> Begun:
    """A run's policy as its last checkpoint has it."""
    from pgrl_cli.diagnose import at_run
    from pgrl_cli.runs import Run
    from pgrl_cli.store import resolved

    folder = Run(resolved(word, runs_dir, kind="run"))
    return lambda watch: at_run(folder, seed, prompts, tell)


def _show(found: dict[str, Any]) -> None:
    """All readings, one below the other."""
    from pgrl_cli.readings import page

    screen = shown_wide()
    with screen.capture() as shown:
        screen.print(page.title(found), style="bold", markup=False)
        _print_lines(screen, " ".join(page.opening(found)))
        for reading in page.readings(found):
            screen.print("", reading.question, "", sep="\n", style="bold underline", markup=False)
            screen.print(_table(reading, screen.width))
            screen.print()
            _print_lines(screen, reading.legend, style="dim")
            for sentence in reading.sentences:
                _print_lines(screen, sentence, before="* ")
    say(*(line.rstrip() for line in shown.get().rstrip("\n").split("\n")))


def _print_lines(screen: "Console", text: str, before: str = "", style: str | None = None) -> None:
    """A text in lines as wide as the screen."""
    lines = wrap(text, max(screen.width, NARROWEST), initial_indent=before, subsequent_indent=" " * len(before))
    screen.print("\n".join(lines), style=style, markup=False, soft_wrap=True)


def _table(reading: "Reading", room: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    widths, gap = _widths(reading, room)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for place, (column, width) in enumerate(zip(reading.columns, widths, strict=True)):
        justify: Literal["left", "right"] = "left" if place < reading.words else "right"
        table.add_column(Text(column), justify=justify, overflow="fold", width=width)
    for row in reading.rows:
        table.add_row(*map(Text, row))
    return table


def _widths(reading: "Reading", room: int) -> tuple[list[int], int]:
    """The width of each column, and the gap between two: headings are broken first, then numbers before errors,
    and at last whatever has spaces.
    """
    from rich.cells import cell_len

    def longest(texts: Iterable[str]) -> int:
        return max(map(cell_len, texts), default=0)

    columns = list(zip(*reading.rows, strict=True))
    whole = [max(cell_len(head), longest(cells)) for head, cells in zip(reading.columns, columns, strict=True)]
    if sum(whole) + 2 * (len(whole) - 1) <= room:
        return whole, 2
    heads = [longest(head.split()) for head in reading.columns]
    widths = [max(head, longest(cells)) for head, cells in zip(heads, columns, strict=True)]
    least = [
        max(head, longest(cells if place < reading.words else _pieces(cells)))
        for place, (head, cells) in enumerate(zip(heads, columns, strict=True))
    ]
    narrowest = [
        max(head, longest(word for cell in cells for word in cell.split()))
        for head, cells in zip(heads, columns, strict=True)
    ]
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= room else 1
    for narrower in (least, narrowest):
        while sum(widths) + gap * (len(widths) - 1) > room and any(map(gt, widths, narrower)):
            widest = max(range(len(widths)), key=lambda place: widths[place] - narrower[place])
            widths[widest] = narrower[widest]
    return widths, gap


def _pieces(cells: Iterable[str]) -> Iterator[str]:
    """Numbers and their errors."""
    for cell in cells:
        value, sign, error = cell.partition("±")
        yield from (value.rstrip(), f"{sign}{error}")
