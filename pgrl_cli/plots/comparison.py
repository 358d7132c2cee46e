"""Pictures of several experiments: curves, final values, heat maps, performance profiles. Each returns what it drew."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.sweep_spec import told as value_told
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.plots.style import ACCENT, INK, LINES, SMALL, caption, dressed, headline, new_figure, save
from pgrl_cli.report import Row
from pgrl_cli.results import Group

FEW = 5
"""Fewer runs than this are drawn one by one."""
MOST_CURVES = len(LINES)
TOLD = {"mean": "mean", "iqm": "interquartile mean"}
MOST_BANDS = 5
"""More bands than this would hide each other."""
WIDE = 30
"""Characters of a name that fit beside a panel."""
PROFILE_POINTS = 101
Table = list[dict[str, Any]]
"""The plotted numbers, a row for each point."""


def draw_final(groups: Sequence[Group], metric: Metric, path: Path, *, title: str, statistic: str = "iqm") -> Table:
    """A point with its interval for each group, one below the other, as given."""
    points = [_point(group.label, group.ends(metric.over, metric.goal), statistic) for group in groups]
    header, names = short_names([(group.label, group.parts) for group in groups])
    _dots(points, names, header, path, title=title, told=_named(metric), statistic=statistic)
    return points


def draw_summary(rows: Sequence[Row], metric: Metric, path: Path, *, title: str) -> None:
    """A sweep's cells, the best at the top: the interquartile mean with its interval, and the runs behind it."""
    drawn = [row for row in rows if row.numbers["iqm"] is not None]
    points = [_point(row.cell.label, [row.values], "iqm") for row in drawn]
    header, names = short_names([(row.cell.label, row.cell.parameters) for row in drawn])
    missing = len(rows) - len(drawn)
    _dots(points, names, header, path, title=title, told=_named(metric), statistic="iqm", missing=missing)


def short_names(labelled: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[str, list[str]]:
    """Names without their keys where all have the same ones, and those keys; else the labels as they are."""
    keys = {tuple(parts) for _, parts in labelled}
    if len(keys) == 1 and (shared := next(iter(keys))):
        return ", ".join(shared), [", ".join(map(value_told, parts.values())) for _, parts in labelled]
    return "", [label for label, _ in labelled]


def _dots(
    points: Table,
    names: Sequence[str],
    header: str,
    path: Path,
    *,
    title: str,
    told: str,
    statistic: str,
    missing: int = 0,
) -> None:
    longest = max(map(len, names), default=0)
    wide = longest > WIDE  # labels above the points instead of beside them
    height = 1.4 + 0.18 * bool(header) + (0.36 if wide else 0.22) * max(len(points), 1)
    figure = new_figure(height)
    left = 0.04 if wide else 0.06 + 0.0138 * longest
    panel = dressed(
        figure.add_axes((left, 0.92 / height, 0.96 - left, 1 - (1.32 + 0.18 * bool(header)) / height)), axis="x"
    )
    for place, point in enumerate(points):
        row = len(points) - 1 - place
        for value in point["values"] if len(point["values"]) < FEW else []:
            panel.plot(value, row, marker="|", color="#666666", markersize=7, linestyle="none")
        if not np.isnan(point["low"]):
            panel.plot([point["low"], point["high"]], [row, row], color=ACCENT, linewidth=2.2, solid_capstyle="butt")
        panel.plot(point["value"], row, marker="o", markersize=4.5, color=INK)
        if wide:
            where = {"xycoords": ("axes fraction", "data"), "xytext": (0, 5), "textcoords": "offset points"}
            text = panel.annotate(names[place], (0, row), fontsize=SMALL - 1.5, color="#333333", **where)
            text.set_parse_math(False)
    panel.set_ylim(-0.7, len(points) - 0.2)
    if wide:
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
    else:
        panel.set_yticks(range(len(points)), list(reversed(names)), fontsize=SMALL)
        for label in panel.get_yticklabels():
            label.set_parse_math(False)
    panel.set_xlabel(told, fontsize=SMALL + 1)
    headline(figure, title + (f"\n{header}" if header else ""))
    caption(figure, _caption(points, statistic, missing))
    save(figure, path)


def draw_curves(
    groups: Sequence[Group], metric: str, path: Path, *, title: str, statistic: str, smooth: int = 1
) -> Table:
    """The statistic over runs along the optimizer steps with its interval, a line for each group.

    Nothing is stretched or dropped: where the number of runs behind a line changes, it is written there. More groups
    than can be told apart are drawn in the order given, as many as there are styles; the caption says how many are not.
    """
    shown, left_out = groups[:MOST_CURVES], groups[MOST_CURVES:]
    header, names = short_names([(group.label, group.parts) for group in shown])
    panel = _panel_over_legend(len(shown) + bool(header))
    figure = panel.figure
    table: Table = []
    gaps = 0
    for style, group, name in zip(LINES, shown, names, strict=False):
        strata = [smoothed(curves, smooth) for curves in group.curves()]
        table += _draw_group(panel, group, name, strata, style, statistic, band=len(shown) <= MOST_BANDS)
        gaps += int(np.isnan(np.concatenate(strata, axis=1)).any(axis=1).sum())
    panel.set_xlabel("optimizer step", fontsize=SMALL + 1)
    panel.set_ylabel(metric.replace("_", " "), fontsize=SMALL + 1)
    _add_legend(panel, header)
    headline(figure, title + (f"\nsmoothed: each run averaged over {smooth} points" if smooth > 1 else ""))
    told = [f"{TOLD[statistic]} over runs, {_banded(shown)}"]
    told += [f"{gaps} points lack some of the runs"] if gaps else []
    told += [f"{len(left_out)} more groups are not drawn: name fewer, or use --kind final"] if left_out else []
    caption(figure, "; ".join(told))
    save(figure, path)
    return table


def _draw_group(
    panel: Any,
    group: Group,
    name: str,
    strata: Sequence[np.ndarray],
    style: Mapping[str, Any],
    statistic: str,
    band: bool,
) -> Table:
    steps = group.steps
    together = np.concatenate(strata, axis=1)
    count = (~np.isnan(together)).sum(axis=1)
    value = statistics.STATISTICS[statistic](together)
    low, high = statistics.bootstrap_interval(strata, statistics.STATISTICS[statistic])
    runs = together.shape[1]
    line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.6}
    mark = {"marker": style["marker"], "markersize": 4.5, "markevery": (0.03, 0.16), "markeredgewidth": 0.0}
    if band:
        panel.fill_between(steps, low, high, color=style["color"], alpha=0.2, linewidth=0)
    else:
        beside = steps[-1] + (0.02 + 0.012 * LINES.index(style)) * (
            steps[-1] - steps[0]
        )  # each bar at a place of its own
        panel.plot([beside, beside], [low[-1], high[-1]], color=style["color"], linewidth=1.8)
    if 1 < runs < FEW:
        panel.plot(steps, together, color=style["color"], linewidth=0.5, alpha=0.6)
    panel.plot(steps, value, label=f"{name}  (n = {_range(count)})", **line, **mark)
    for index in np.flatnonzero(np.diff(count)) + 1:
        if count[index] > 0:
            where = {"xytext": (2, 4), "textcoords": "offset points", "fontsize": SMALL - 1.5}
            panel.annotate(f"n={count[index]}", (steps[index], value[index]), color=style["color"], **where)
            panel.plot(steps[index], value[index], marker="|", markersize=9, color=style["color"])
    numbers = zip(steps.tolist(), count.tolist(), value.tolist(), low.tolist(), high.tolist(), strict=True)
    return [
        {"group": group.label, "step": s, "runs": c, "value": v, "low": lo, "high": hi} for s, c, v, lo, hi in numbers
    ]


def draw_heatmap(
    groups: Sequence[Group], keys: tuple[str, str], metric: Metric, path: Path, *, title: str, statistic: str
) -> Table:
    """A table of two swept keys, each cell its statistic, written into it; a cell without runs is empty."""
    firsts = [group.results[0].config for group in groups]
    rows, columns = (list(dict.fromkeys(str(first.get(key)) for first in firsts)) for key in keys)
    grid = np.full((len(rows), len(columns)), np.nan)
    table: Table = []
    for group, first in zip(groups, firsts, strict=True):
        point = _point(group.label, group.ends(metric.over, metric.goal), statistic)
        row, column = (str(first.get(key)) for key in keys)
        grid[rows.index(row), columns.index(column)] = point["value"]
        table.append({keys[0]: row, keys[1]: column} | point)
    height = 1.5 + 0.42 * len(rows)
    figure = new_figure(height)
    left = 0.08 + 0.0142 * max(map(len, rows))
    panel = figure.add_axes((left, 0.95 / height, 0.97 - left, 1 - 1.4 / height))
    panel.imshow(np.ma.masked_invalid(grid), cmap="cividis", aspect="auto")
    middle = np.nanmean([np.nanmin(grid), np.nanmax(grid)]) if not np.isnan(grid).all() else 0.0
    for row, column in np.argwhere(~np.isnan(grid)):
        colour = "white" if grid[row, column] <= middle else "black"
        panel.text(column, row, f"{grid[row, column]:.2f}", ha="center", va="center", fontsize=SMALL, color=colour)
    for axis, names in ((panel.xaxis, columns), (panel.yaxis, rows)):
        axis.set_ticks(range(len(names)), names, fontsize=SMALL)
        for label in axis.get_ticklabels():
            label.set_parse_math(False)
    panel.set(xlabel=keys[1], ylabel=keys[0])
    headline(figure, title)
    caption(figure, f"{_named(metric)}: {_caption(table, statistic, 0).partition(',')[0]}")
    save(figure, path)
    return table


def draw_profile(groups: Sequence[Group], metric: Metric, path: Path, *, title: str) -> Table:
    """The share of each group's runs that end above a value, for every value (Agarwal et al., 2021, section 4.2)."""
    shown, left_out = groups[:MOST_CURVES], groups[MOST_CURVES:]
    ends = [group.ends(metric.over, metric.goal) for group in shown]
    everything = np.concatenate([values for strata in ends for values in strata])
    low, high = (np.nanmin(everything), np.nanmax(everything)) if not np.isnan(everything).all() else (0.0, 1.0)
    margin = 0.03 * (high - low) or 0.5
    thresholds = np.linspace(low - margin, high + margin, PROFILE_POINTS)
    header, names = short_names([(group.label, group.parts) for group in shown])
    panel = _panel_over_legend(len(shown) + bool(header))
    figure = panel.figure
    table: Table = []
    for style, group, name, strata in zip(LINES, shown, names, ends, strict=False):
        shares = [statistics.above(values, thresholds) for values in strata]
        share = statistics.mean(np.concatenate(shares, axis=1))
        bottom, top = statistics.bootstrap_interval(shares, statistics.mean)
        runs = int(sum((~np.isnan(values)).sum() for values in strata))
        if len(shown) <= MOST_BANDS:
            panel.fill_between(thresholds, bottom, top, color=style["color"], alpha=0.2, linewidth=0)
        line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.6, "marker": style["marker"]}
        panel.plot(thresholds, share, label=f"{name}  (n = {runs})", markersize=4.5, markevery=0.16, **line)
        numbers = zip(thresholds.tolist(), share.tolist(), bottom.tolist(), top.tolist(), strict=True)
        table += [
            {"group": group.label, "above": x, "runs": runs, "value": v, "low": lo, "high": hi}
            for x, v, lo, hi in numbers
        ]
    panel.set_xlabel(_named(metric), fontsize=SMALL + 1)
    panel.set_ylabel("share of runs above", fontsize=SMALL + 1)
    panel.set_ylim(-0.03, 1.03)
    _add_legend(panel, header)
    headline(figure, title)
    told = f"; {len(left_out)} more groups are not drawn" if left_out else ""
    bands = ", band: 95 % stratified bootstrap interval" if len(shown) <= MOST_BANDS else ", intervals are in the CSV"
    caption(figure, f"share of runs{bands}{told}")
    save(figure, path)
    return table


def _panel_over_legend(lines: int) -> Any:
    """A panel with room below it for a legend of so many lines, and a caption."""
    below = 0.95 + 0.162 * lines
    figure = new_figure(2.15 + 0.5 + below)
    high = figure.get_figheight()
    return dressed(figure.add_axes((0.14, below / high, 0.83, 2.15 / high)))


def _add_legend(panel: Any, header: str) -> None:
    where = {"loc": "upper left", "bbox_to_anchor": (-0.12, -0.21), "borderaxespad": 0.0, "alignment": "left"}
    look = {"frameon": False, "fontsize": SMALL, "title_fontsize": SMALL, "handlelength": 3.2, "labelspacing": 0.2}
    legend = panel.legend(title=header or None, **look, **where)
    for text in [legend.get_title(), *legend.get_texts()]:
        text.set_parse_math(False)


def _banded(shown: Sequence[Group]) -> str:
    kind = "95 % stratified bootstrap interval"
    return f"band: {kind}" if len(shown) <= MOST_BANDS else f"bar at the end: {kind}"


def smoothed(values: np.ndarray, points: int) -> np.ndarray:
    """Each run [step seed] averaged over the last so many points: for the eye only. A gap stays a gap."""
    if points <= 1:
        return values
    there = ~np.isnan(values)
    totals = np.cumsum(np.where(there, values, 0.0), axis=0)
    counts = np.cumsum(there, axis=0)
    earlier = np.zeros((min(points, len(values)), values.shape[1]))
    totals = totals - np.concatenate([earlier, totals[:-points]])
    counts = counts - np.concatenate([earlier, counts[:-points]])
    return np.where(there, totals / np.maximum(counts, 1), np.nan)


def as_csv(table: Table) -> str:
    """The plotted numbers as text; what is not a number is empty."""
    columns = [name for name in table[0] if name != "values"] if table else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in table:
        writer.writerow(["" if isinstance(row[name], float) and np.isnan(row[name]) else row[name] for name in columns])
    return text.getvalue()


def _point(label: str, strata: Sequence[np.ndarray], statistic: str) -> dict[str, Any]:
    together = np.concatenate(strata)
    low, high = statistics.bootstrap_interval(strata, statistics.STATISTICS[statistic])
    there = together[~np.isnan(together)]
    value = float(statistics.STATISTICS[statistic](together))
    numbers = {"runs": len(there), "failed": len(together) - len(there), "value": value}
    return {"group": label} | numbers | {"low": float(low), "high": float(high), "values": there.tolist()}


def _caption(points: Table, statistic: str, missing: int) -> str:
    runs = _range(np.array([point["runs"] for point in points]))
    failed = sum(point["failed"] for point in points)
    told = [f"{TOLD[statistic]} of n = {runs} runs", "bar: 95 % bootstrap interval"]
    told += [f"{failed} runs ended early and are not counted"] if failed else []
    told += [f"{missing} cells have no result"] if missing else []
    return ", ".join(told)


def _range(counts: np.ndarray) -> str:
    if len(counts) == 0:
        return "0"
    return f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def _named(metric: Metric) -> str:
    return f"{metric.name.replace('_', ' ')}, {metric.over.replace('_', ' ')}"
