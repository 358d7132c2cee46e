"""`pgrl plot`, `pgrl compare` and `pgrl runs`: looking at what runs have measured."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgrl_cli.config.problems import ConfigError, Problem, listed, nearest, short
from pgrl_cli.console import err, failures_told, print_json

if TYPE_CHECKING:
    from pgrl_cli.config.sweep_words import Metric
    from pgrl_cli.results import Result

KINDS = ("curves", "final", "heatmap", "profile")
FORMATS = ("jsonl", "csv", "npz")
runs_app = typer.Typer(help="Look at finished runs.", no_args_is_help=True)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]
MetricName = Annotated[str, typer.Option("--metric", "-m", help="A metric of metrics.jsonl.")]
Over = Annotated[str, typer.Option("--over", help="last_N_epochs, all_epochs or best_epoch.")]


def plot(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Runs, sweeps, folders of them, or globs.")],
    metric: MetricName = "mean_reward",
    by: Annotated[
        str | None, typer.Option("--by", help="Group by this key of the configs; two, as in a,b, for a heatmap.")
    ] = None,
    kind: Annotated[str, typer.Option("--kind", "-k", help="curves, final, heatmap or profile.")] = "curves",
    statistic: Annotated[str, typer.Option("--statistic", help="mean, or iqm: the interquartile mean.")] = "mean",
    over: Over = "last_10_epochs",
    smooth: Annotated[int, typer.Option("--smooth", min=1, help="Average each run over N points, for the eye.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file: .png, .svg or .pdf.")] = None,
    debug: Debug = False,
) -> None:
    """Draw runs, stacked runs and sweeps, with the numbers beside the picture as CSV."""
    with failures_told(debug):
        from pgrl_cli.plots import comparison
        from pgrl_cli.plots.style import SUFFIXES
        from pgrl_cli.runs import write_whole
        from pgrl_cli.statistics import STATISTICS

        _one_of("--kind", kind, KINDS)
        _one_of("--statistic", statistic, tuple(STATISTICS))
        judged = _metric(metric, over)
        if out is not None and out.suffix not in SUFFIXES:
            raise ConfigError([Problem(f"came {short(str(out))!r}; the suffix is one of {listed(SUFFIXES)}", "--out")])
        keys = tuple(by.split(",")) if by is not None else ()
        if kind != "heatmap" and len(keys) > 1:
            raise ConfigError([Problem(f"{kind} is grouped by one key; two are for --kind heatmap", "--by")])
        results = _read(paths, metric)
        path = out or _picture(paths, kind, metric)
        title = f"{metric.replace('_', ' ')}: {', '.join(Path(path).name for path in paths[:2])}" + (
            " …" if paths[2:] else ""
        )
        if kind == "heatmap":
            first, second = _two_keys(keys, results)
            from pgrl_cli.results import grouped_by_two

            groups = grouped_by_two(results, first, second)
            table = comparison.draw_heatmap(groups, (first, second), judged, path, title=title, statistic=statistic)
        else:
            from pgrl_cli.results import grouped

            groups = grouped(results, keys[0] if keys else None)
            if kind == "curves":
                told = {"title": title, "statistic": statistic}
                table = comparison.draw_curves(groups, metric, path, smooth=smooth, **told)
            elif kind == "final":
                table = comparison.draw_final(groups, judged, path, title=title, statistic=statistic)
            else:
                table = comparison.draw_profile(groups, judged, path, title=title)
        write_whole(path.with_suffix(".csv"), comparison.as_csv(table))
        print(path.with_suffix(".csv"), path, sep="\n")


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A run, or a glob of runs of one experiment.")],
    b: Annotated[str, typer.Argument(metavar="B", help="What it is compared with.")],
    metric: MetricName = "mean_reward",
    over: Over = "last_10_epochs",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    debug: Debug = False,
) -> None:
    """Say whether B is better than A, on the seeds that both have."""
    with failures_told(debug):
        from dataclasses import asdict

        from pgrl_cli.report import compared

        judged = _metric(metric, over)
        answer = compared(_read([a], metric), _read([b], metric), judged.name, judged.over, (a, b))
        if answer.apart:
            err().print(f"note: not on both sides, and left out: seed {listed(answer.apart, 10)}", markup=False)
        if answer.numbers.left_out:
            err().print(f"note: {answer.numbers.left_out} seeds ended early on a side, and are left out", markup=False)
        if as_json:
            told = {key: None if value != value else value for key, value in asdict(answer.numbers).items()}
            means = {"mean_a": answer.mean_a, "mean_b": answer.mean_b}
            facts = {"a": a, "b": b, "metric": metric, "over": over, **means, **told, "seeds": list(answer.common)}
            print_json({**facts, "sentence": answer.sentence()})
            return
        print(f"A  {a}   {answer.mean_a:.3f}")
        print(f"B  {b}   {answer.mean_b:.3f}")
        print(f"{metric.replace('_', ' ')}, {over.replace('_', ' ')}, mean over {answer.numbers.n} common seeds")
        print(answer.sentence())


@runs_app.command("export")
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
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

        _one_of("--format", form, FORMATS)
        if form == "npz" and out is None:
            raise ConfigError([Problem("npz is no text; name a file: --out metrics.npz", "--format")])
        data = exports.exported(run, seed, form)
        if out is None:
            for block in data:
                sys.stdout.buffer.write(block)
            sys.stdout.flush()
            return
        exports.write(out, data)
        print(out)


def _read(paths: list[str], metric: str) -> "list[Result]":
    """One metric of all runs under some paths; what cannot be read is told, and left out."""
    from pgrl_cli.results import found, read

    results: list[Result] = []
    problems: list[Problem] = []
    for run in found(paths):
        try:
            result = read(run, metric)
        except ConfigError as error:
            problems += error.problems
            continue
        for note in result.notes:
            err().print(f"note: {note}", markup=False)
        if len(result.steps):
            results.append(result)
    if not results:
        raise ConfigError(problems or [Problem(f"no run there has a value of {metric}", " ".join(paths))])
    for problem in problems:
        err().print(f"note: left out: {problem}", markup=False)
    return results


def _two_keys(keys: tuple[str, ...], results: "list[Result]") -> tuple[str, str]:
    from pgrl_cli.results import differing

    if len(keys) == 2:
        return keys[0], keys[1]
    found = differing(results)
    if keys or len(found) != 2:
        told = (
            f"a heatmap has two keys: --by delta_mode,learning_rate; these runs differ in {listed(found) or 'nothing'}"
        )
        raise ConfigError([Problem(told, "--by")])
    return found[0], found[1]


def _picture(paths: list[str], kind: str, metric: str) -> Path:
    """Where a picture goes: into the folder that was named, of several into the working folder."""
    name = f"{kind}-{metric.replace('/', '-').replace(':', '-')}.png"
    return Path(paths[0]) / name if len(paths) == 1 and Path(paths[0]).is_dir() else Path(name)


def _metric(name: str, over: str) -> "Metric":
    from pgrl_cli.config.sweep_words import metric_of

    metric, wrong = metric_of({"name": name, "over": over})
    if wrong:
        raise ConfigError([Problem(message.removeprefix("metric: over: "), "--over") for message in wrong])
    return metric


def _one_of(option: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise ConfigError([Problem(f"came {short(word)!r}; possible: {listed(known)}.{nearest(word, known)}", option)])
