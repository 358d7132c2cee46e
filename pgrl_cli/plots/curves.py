"""Curves of groups of runs along the optimizer steps, with intervals; nothing is stretched, nothing is dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.groups import Group
from pgrl_cli.plots.legend import Cast, add_legend, cast, stage
from pgrl_cli.plots.style import FAINT, SMALL, save
from pgrl_cli.plots.tables import TOLD, Table, counted, named, provisos
from pgrl_cli.statistics import FEW

STRIP = 0.42
"""The height of the panel that counts runs."""


@dataclass(frozen=True)
class Curve:
    """What is drawn of a group."""

    steps: np.ndarray
    runs: np.ndarray
    """[step seed], smoothed if that was asked for."""
    count: np.ndarray
    """[step]: how many runs are behind the value."""
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def end(self) -> float:
        """The last value; NaN where there is none."""
        there = self.value[~np.isnan(self.value)]
        return float(there[-1]) if len(there) else float("nan")

    @property
    def few(self) -> bool:
        return 1 < self.runs.shape[1] < FEW

    @property
    def bare(self) -> bool:
        """Whether it has no interval somewhere, though several runs are there: one of its experiments has one left."""
        return bool(((self.count > 1) & np.isnan(self.low)).any())


def draw_curves(
    groups: Sequence[Group], metric: str, path: Path, *, title: str, statistic: str, smooth: int = 1
) -> Table:
    """The statistic over runs along the optimizer steps with its interval, a line for each group; the numbers drawn.

    Where the number of runs behind a line changes, a strip below counts them. Of more groups than can be told apart
    the highest and the lowest are in colour, the others thin and grey behind them. Smoothing is for the eye: the
    numbers have the raw values as well.
    """
    raw = [_curve(group, statistic, 1) for group in groups]
    curves = raw if smooth == 1 else [_curve(group, statistic, smooth) for group in groups]
    actors = cast(groups, [curve.end for curve in curves])
    entries = _entries(actors, curves)
    told = _caption(groups, curves, actors, statistic, metric)
    whole = title + (f"\nsmoothed for the eye: each run averaged over its last {smooth} points" if smooth > 1 else "")
    header = actors.names.header
    changes = any(len(np.unique(curve.count)) > 1 for curve in curves)
    panel, strip = stage(whole, told, entries, header, STRIP if changes else 0.0)
    every = np.concatenate([curve.steps for curve in curves])
    panel.xaxis.get_major_locator().set_params(integer=True)
    for index in actors.crowd:
        panel.plot(curves[index].steps, curves[index].value, color=FAINT, linewidth=0.7, zorder=1.5)
    if not actors.banded:
        _set_apart(panel, every, len(actors.told))
    for row, (index, _, style) in enumerate(actors.styles):
        _draw(panel, curves[index], style, entries[row], row, actors.banded, every)
    if strip is not None:
        _count(strip, curves, actors)
    (panel if strip is None else strip).set_xlabel("optimizer step", fontsize=SMALL + 1)
    panel.set_ylabel(metric.replace("_", " "), fontsize=SMALL + 1).set_parse_math(False)
    add_legend(panel, told, entries, header)
    save(panel.figure, path)
    drawn = zip(groups, raw, curves, strict=True)
    return [row for group, plain, curve in drawn for row in _rows(group, plain, curve, statistic)]


def smoothed(values: np.ndarray, points: int) -> np.ndarray:
    """Each run [step seed] averaged over its last so many points: for the eye only. A gap stays a gap."""
    if points <= 1 or len(values) == 0:
        return values
    points = min(points, len(values))
    there = ~np.isnan(values)
    earlier = np.zeros((points, values.shape[1]))
    totals = np.concatenate([earlier, np.cumsum(np.where(there, values, 0.0), axis=0)])
    counts = np.concatenate([earlier, np.cumsum(there, axis=0)])
    total, count = totals[points:] - totals[:-points], counts[points:] - counts[:-points]
    return np.where(there, total / np.maximum(count, 1), np.nan)


def _curve(group: Group, statistic: str, smooth: int) -> Curve:
    strata = [smoothed(values, smooth) for values in group.curves()]
    together = np.concatenate(strata, axis=1)
    low, high = statistics.bootstrap_interval(strata, statistics.STATISTICS[statistic])
    count = (~np.isnan(together)).sum(axis=1)
    return Curve(group.steps, together, count, statistics.STATISTICS[statistic](together), low, high)


def _draw(panel: Any, curve: Curve, style: Any, entry: str, row: int, banded: bool, all_steps: np.ndarray) -> None:
    colour = style["color"]
    steps = curve.steps
    if banded:
        panel.fill_between(steps, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    else:  # bars beside each other, behind the last step
        beside = _beside(all_steps, row)
        panel.plot([beside, beside], [curve.low[-1], curve.high[-1]], color=colour, linewidth=1.8)
    if curve.few:
        panel.plot(steps, curve.runs, color=colour, linewidth=0.5, alpha=0.7)
    there = np.flatnonzero(~np.isnan(curve.value))
    shown = there[_spread(len(there), row)]
    line = {"color": colour, "linestyle": style["linestyle"], "linewidth": 1.6}
    mark = {"marker": style["marker"], "markersize": 4.5, "markevery": shown.tolist(), "markeredgewidth": 0.0}
    panel.plot(steps, curve.value, label=entry, **line, **mark)


def _beside(steps: np.ndarray, row: float) -> float:
    """Where the bar of a row stands, behind the last step."""
    return float(steps.max() + (0.035 + 0.014 * row) * max(steps.max() - steps.min(), 1))


def _set_apart(panel: Any, steps: np.ndarray, rows: int) -> None:
    """Shade the margin in which bars stand: there are no steps in it, and no ticks."""
    from matplotlib.ticker import FixedLocator

    low, high, edge = steps.min(), steps.max(), _beside(steps, rows + 0.5)
    panel.axvspan(_beside(steps, -1.0), edge, color=FAINT, alpha=0.35, linewidth=0, zorder=0)
    room = 0.04 * max(high - low, 1)
    ticks = [tick for tick in panel.xaxis.get_major_locator().tick_values(low, high) if low <= tick <= high]
    panel.set_xlim(low - room, edge)
    panel.xaxis.set_major_locator(FixedLocator(ticks))


def _spread(points: int, row: int) -> np.ndarray:
    """Where markers go: all of a few points, else some, elsewhere for each line."""
    if points <= 12:
        return np.arange(points)
    return np.unique(np.linspace(0.02 + 0.025 * row, 0.82 + 0.025 * row, 5) * (points - 1)).astype(int)


def _count(strip: Any, curves: Sequence[Curve], actors: Cast) -> None:
    for index in actors.crowd:
        strip.plot(curves[index].steps, curves[index].count, color=FAINT, linewidth=0.7, drawstyle="steps-post")
    for index, _, style in actors.styles:
        look = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.3}
        strip.plot(curves[index].steps, curves[index].count, drawstyle="steps-post", **look)
    counts = [int(count) for curve in curves for count in curve.count]
    least, most = min(counts), max(counts)
    strip.set_ylim(least - 0.3 * (most - least), most + 0.3 * (most - least))
    strip.set_yticks([least, most])
    strip.set_ylabel("runs", fontsize=SMALL + 1)


def _entries(actors: Cast, curves: Sequence[Curve]) -> list[str]:
    """The names with how many runs each has, unless all have as many."""
    runs = [curve.count[curve.count > 0].tolist() for curve in curves]
    if len({count for counts in runs for count in counts}) == 1:
        return actors.names.lines
    return [f"{name}  ({counted(runs[index])})" for index, name, _ in actors.styles]


def _caption(groups: Sequence[Group], curves: Sequence[Curve], actors: Cast, statistic: str, metric: str) -> str:
    counts = [int(count) for curve in curves for count in curve.count if count > 0]
    told = [f"{TOLD[statistic]} over n = {counted(counts)}" + (" each" if len(groups) > 1 else "")]
    if max(counts, default=0) == 1:
        told = ["single runs, n = 1: nothing is known of the spread between seeds"]
    else:
        kind = "95 % stratified bootstrap interval"
        told += [f"band: {kind}" if actors.banded else f"bars in the shaded margin, at no step: {kind} at the end"]
        told += ["none where a pooled experiment has one run left"] if any(curves[i].bare for i in actors.told) else []
    told += ["thin: each run"] if any(curves[index].few for index in actors.told) else []
    told += actors.note("at the end")
    told += [f"all with {actors.names.everywhere}"] if actors.names.everywhere and not actors.crowd else []
    told += provisos(groups, metric)
    missing = sum(_holes(curve) for curve in curves)
    one = "1 value is no finite number: a gap"
    told += [one if missing == 1 else f"{missing} values are no finite numbers: gaps"] if missing else []
    return "; ".join(told)


def _holes(curve: Curve) -> int:
    """Missing values between a run's first and last."""
    there = ~np.isnan(curve.runs)
    begun = np.logical_or.accumulate(there, axis=0)
    going_on = np.logical_or.accumulate(there[::-1], axis=0)[::-1]
    return int((begun & going_on & ~there).sum())


def _rows(group: Group, raw: Curve, drawn: Curve, statistic: str) -> Table:
    names = named(group.label, group.parts)
    rows: Table = []
    for index, step in enumerate(raw.steps.tolist()):
        edges = {"value": raw.value[index], "low": raw.low[index], "high": raw.high[index]}
        row = {**names, "step": step, "statistic": statistic, "seed": None, "runs": int(raw.count[index]), **edges}
        if drawn is not raw:
            row |= {f"smoothed_{name}": getattr(drawn, name)[index] for name in edges}
        rows.append(row)
    if raw.few:
        seeds = [seed for stratum in group.strata for result in stratum for seed in result.seeds]
        for place, seed in enumerate(seeds):
            for index, step in enumerate(raw.steps.tolist()):
                value = {"runs": 1, "value": raw.runs[index, place]}
                smooth = {"smoothed_value": drawn.runs[index, place]} if drawn is not raw else {}
                rows.append({**names, "step": step, "statistic": "run", "seed": seed, **value, **smooth})
    return rows
