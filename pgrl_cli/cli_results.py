"""`pgrl plot` and `pgrl compare`: looking at what runs have measured."""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgrl_cli.config.problems import ConfigError, Problem, listed, refuse_other_than, short
from pgrl_cli.console import failures_told, note, print_json

if TYPE_CHECKING:
    from pgrl_cli.config.sweep_words import Metric
    from pgrl_cli.plots.tables import Table as PlotTable
    from pgrl_cli.results import Result

USED_BY = {
    "curves": ("--metric", "--by", "--statistic", "--smooth"),
    "final": ("--metric", "--by", "--statistic", "--over", "--goal"),
    "heatmap": ("--metric", "--by", "--statistic", "--over", "--goal"),
    "profile": ("--metric", "--by", "--over", "--goal"),
    "run": (),
}
"""The options that say something of each kind of picture."""
KINDS = tuple(USED_BY)
LONGEST_NAME = 120
"""Characters of a picture's own name."""

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]
MetricName = Annotated[str, typer.Option("--metric", "-m", help="A metric of metrics.jsonl.")]
Over = Annotated[str, typer.Option("--over", help="last_N_epochs, all_epochs or best_epoch.")]
Goal = Annotated[
    str | None,
    typer.Option("--goal", help="Of best_epoch: maximize or minimize; maximize without it, where more is better."),
]


def plot(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Runs, sweeps, folders of them, globs, or ids.")
    ],
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", help="A metric of metrics.jsonl; mean_reward without it.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="Group by these keys of the configs: delta_mode, or two, as in a,b.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", "-k", help="curves, final, heatmap, profile or run. A run folder alone: run, else curves."
        ),
    ] = None,
    statistic: Annotated[
        str | None, typer.Option("--statistic", help="mean, or iqm: the interquartile mean; mean without it.")
    ] = None,
    over: Annotated[
        str | None,
        typer.Option("--over", help="last_N_epochs, all_epochs or best_epoch; last_10_epochs without it."),
    ] = None,
    goal: Goal = None,
    smooth: Annotated[
        int | None, typer.Option("--smooth", min=1, help="Average each run over N points, for the eye.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file: .png, .svg or .pdf.")] = None,
    debug: Debug = False,
) -> None:
    """Draw runs, stacked runs and sweeps, with the numbers beside the picture as CSV."""
    with failures_told(debug):
        from pgrl_cli.folders import naming
        from pgrl_cli.plots.style import refuse_strangers
        from pgrl_cli.plots.tables import as_csv, refuse_strange_table
        from pgrl_cli.runs import write_whole
        from pgrl_cli.statistics import STATISTICS
        from pgrl_cli.store import path_or_id

        paths = [path_or_id(path) for path in paths]
        chosen = {"--metric": metric, "--by": by, "--statistic": statistic, "--over": over, "--goal": goal}
        given = {option: value for option, value in (chosen | {"--smooth": smooth}).items() if value is not None}
        kind = kind or ("run" if not given and _is_one_run(paths) else "curves")
        refuse_other_than("--kind", kind, KINDS)
        _refuse_idle(kind, given)
        refuse_other_than("--statistic", statistic or "mean", tuple(STATISTICS))
        judged = _metric("mean_reward" if metric is None else metric, "last_10_epochs" if over is None else over, goal)
        keys = tuple(by.split(",")) if by is not None else ()
        name = _in_a_name("-".join([kind, judged.name, *(["by", *keys] if keys else [])]))
        path = out or _picture(paths, "curves.png" if kind == "run" else f"{name[:LONGEST_NAME]}.png")
        table_path = path.with_suffix(".csv")
        refuse_strangers(path)
        refuse_strange_table(table_path)
        if kind == "run":
            table = _draw_run(paths, path)
        else:
            table = _draw_groups(paths, kind, judged, keys, statistic or "mean", smooth or 1, path)
        with naming(table_path):
            write_whole(table_path, as_csv(table))
        print(table_path, path, sep="\n")


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A run or its id, or a glob of runs of one experiment.")],
    b: Annotated[str, typer.Argument(metavar="B", help="What it is compared with.")],
    metric: MetricName = "mean_reward",
    over: Over = "last_10_epochs",
    goal: Goal = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    debug: Debug = False,
) -> None:
    """Say whether B is better than A, on the seeds that both have."""
    with failures_told(debug):
        from pgrl_cli.comparison import compared
        from pgrl_cli.plots.tables import titled
        from pgrl_cli.store import path_or_id

        judged = _metric(metric, over, goal)
        left, right = (_read([path_or_id(side)], metric) for side in (a, b))
        answer = compared(left, right, judged.name, judged.over, (a, b), goal=judged.goal)
        for each in answer.notes():
            note(each)
        if as_json:
            print_json(answer.as_json())
            return
        n = answer.numbers.n
        if n:
            print(f"A  {answer.mean_a:.3f}   {a}")
            print(f"B  {answer.mean_b:.3f}   {b}")
            print(f"{titled(judged)}, mean over {n} common seed{'' if n == 1 else 's'}")
        print(answer.sentence())


def _draw_groups(
    paths: list[str], kind: str, metric: "Metric", keys: tuple[str, ...], statistic: str, smooth: int, path: Path
) -> "PlotTable":
    from pgrl_cli.groups import grouped, telling
    from pgrl_cli.plots.curves import draw_curves
    from pgrl_cli.plots.final import draw_final
    from pgrl_cli.plots.heatmap import draw_heatmap
    from pgrl_cli.plots.profile import draw_profile

    results = _read(paths, metric.name)
    if kind == "heatmap":
        keys = _two_keys(keys, telling(results))
    groups = grouped(results, keys)
    title = f"{metric.name.replace('_', ' ')}: {_shown(paths)}"
    if kind == "curves":
        return draw_curves(groups, metric.name, path, title=title, statistic=statistic, smooth=smooth)
    if kind == "profile":
        return draw_profile(groups, metric, path, title=title)
    draw = draw_final if kind == "final" else draw_heatmap
    return draw(groups, metric, path, title=title, statistic=statistic)


def _draw_run(paths: list[str], path: Path) -> "PlotTable":
    from pgrl_cli.folders import found
    from pgrl_cli.plots.own import draw_own

    runs = found(paths)
    if len(runs) != 1:
        told = f"draws one run folder by itself, and {len(runs)} are named; curves draws several together"
        raise ConfigError([Problem(told, "--kind run")])
    return draw_own(runs[0], path)


def _is_one_run(paths: list[str]) -> bool:
    return len(paths) == 1 and (Path(paths[0]) / "metrics.jsonl").is_file()


def _refuse_idle(kind: str, given: Collection[str]) -> None:
    """Refuse the options that a kind of picture does nothing with."""
    if idle := [option for option in given if option not in USED_BY[kind]]:
        used = f"it uses {listed(USED_BY[kind])}" if USED_BY[kind] else "it uses none of these options"
        raise ConfigError([Problem(f"does nothing with --kind {kind}; {used}", option) for option in idle])


def _read(paths: list[str], metric: str) -> "list[Result]":
    """One metric of all runs under some paths; what cannot be read is told, and left out."""
    from pgrl_cli.groups import distinct
    from pgrl_cli.results import gathered

    results, notes = gathered(paths, metric)
    results, doubles = distinct(results)
    for each in [*notes, *doubles]:
        note(each)
    return results


def _two_keys(keys: tuple[str, ...], found: list[str]) -> tuple[str, ...]:
    if len(keys) == 2:
        return keys
    if keys or len(found) != 2:
        they = f"these runs differ in {listed(found)}" if found else "these runs differ in nothing"
        such = ",".join(found[:2]) if len(found) > 1 else "delta_mode,learning_rate"
        raise ConfigError([Problem(f"a heatmap has two keys, such as {such}; {they}", "--by")])
    return found[0], found[1]


def _shown(paths: list[str]) -> str:
    """What a title says of the paths."""
    from pgrl_cli.folders import title_of

    names = [title_of(Path(path)) for path in paths[:2]]
    return ", ".join(names) + (f" and {len(paths) - 2} more" if len(paths) > 2 else "")


def _picture(paths: list[str], name: str) -> Path:
    """Where a picture goes: into the folder that was named, of several into the working folder."""
    return Path(paths[0]) / name if len(paths) == 1 and Path(paths[0]).is_dir() else Path(name)


def _in_a_name(metric: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", metric)


def _metric(name: str, over: str, goal: str | None) -> "Metric":
    """What runs are judged by. A best epoch is the highest only of metrics of which that is known to be the best."""
    from pgrl_cli.comparison import more_is_better
    from pgrl_cli.config.sweep_words import GOALS, metric_of

    metric, wrong = metric_of({"name": name, "over": over})
    if wrong:
        said = [message.removeprefix("metric: ").partition(": ") for message in wrong]
        options = {"name": "--metric", "over": "--over"}
        raise ConfigError([Problem(message, options[key]) for key, _, message in said])
    if goal is not None:
        refuse_other_than("--goal", goal, GOALS)
        if over != "best_epoch":
            raise ConfigError([Problem("goes with --over best_epoch", "--goal")])
    elif over == "best_epoch" and not more_is_better(name):
        told = (
            f"best_epoch: is the best {short(name)} the highest or the lowest? Add --goal maximize or --goal minimize"
        )
        raise ConfigError([Problem(told, "--over")])
    return replace(metric, goal=goal or metric.goal)
