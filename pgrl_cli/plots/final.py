"""Where groups of runs end: a row for each, with a table of what tells them apart on the left."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.groups import Group
from pgrl_cli.plots.names import Names, names_of
from pgrl_cli.plots.style import (
    ACCENT,
    INK,
    LINE,
    MARGIN,
    QUIET,
    SMALL,
    WIDTH,
    as_it_is,
    caption,
    dressed,
    headline,
    height_of_caption,
    height_of_headline,
    new_figure,
    place,
    save,
    width_of,
)
from pgrl_cli.plots.tables import FEW, Table, counted, fates, named, points, points_of, titled
from pgrl_cli.report import Row

PITCH, HIGH_PITCH = 0.19, 0.36
"""From row to row: names beside the points, or above them."""
WIDEST = 3.15
"""The widest table of names that leaves room for the points."""
GAP = 0.14
TALL = 24
"""More rows than this have their numbers above them as well."""


@dataclass(frozen=True)
class Line:
    """A row of the picture."""

    numbers: Table
    """The statistic's row, then those of its runs."""
    remark: str = ""
    """What stands there instead of a point."""


def draw_final(groups: Sequence[Group], metric: Metric, path: Path, *, title: str, statistic: str = "iqm") -> Table:
    """A point with its interval for each group, one below the other, as given; the numbers drawn."""
    lines = [Line(points(group, metric, statistic), "no run at its end") for group in groups]
    names = names_of([(group.label, group.parts) for group in groups])
    told = [f"all with {names.everywhere}"] if names.everywhere else []
    told += fates(groups, [group.label for group in groups])
    _draw(lines, names, path, title=title, axis=titled(metric), statistic=statistic, told=told)
    return [number for line in lines for number in line.numbers]


def draw_summary(rows: Sequence[Row], metric: Metric, path: Path, *, title: str) -> Table:
    """A sweep's cells, the best at the top: the interquartile mean with its interval; the numbers drawn."""
    lines = [
        Line(points_of(named(row.cell.label, row.cell.parameters), row.seeds, [row.values], "iqm"), row.status)
        for row in rows
    ]
    names = names_of([(row.cell.label, row.cell.parameters) for row in rows])
    told = [f"all with {names.everywhere}"] if names.everywhere else []
    failed = sum(row.numbers["failed"] for row in rows)
    told += [f"{failed} runs failed and are not counted"] if failed else []
    _draw(lines, names, path, title=title, axis=titled(metric), statistic="iqm", told=told)
    return [number for line in lines for number in line.numbers]


def _draw(
    lines: Sequence[Line], names: Names, path: Path, *, title: str, axis: str, statistic: str, told: Sequence[str]
) -> None:
    beside = _beside(names)
    counts = [line.numbers[0]["runs"] for line in lines]
    there = [count for count in counts if count]
    whole = [f"{statistics.TOLD[statistic]} of n = {counted(there)} runs"]
    whole += ["bar: 95 % bootstrap interval"] if max(there, default=0) > 1 else []
    whole += ["small marks: each run"] if any(1 < count < FEW for count in there) else []
    text = "; ".join([*whole, *told])
    heads = _heads(beside) if beside is not None else []
    pitch = HIGH_PITCH if beside is None else PITCH
    left = MARGIN + 0.05 if beside is None else MARGIN + sum(_widths(beside)) + GAP
    numbered = len(set(counts)) > 1
    right = 0.42 if numbered else 0.15
    tall = 0.2 if len(lines) > TALL else 0.0
    under, rows = height_of_caption(text) + 0.5, pitch * len(lines) + 0.06
    above = LINE * max(len(heads), numbered) + 0.05
    figure = new_figure(height_of_headline(title) + max(above, tall + 0.05 if tall else 0.0) + rows + under)
    panel = dressed(place(figure, left, under, WIDTH - left - right, rows), axis="x")
    panel.set_ylim(len(lines) - 0.5 + 0.03 / pitch, -0.5 - 0.03 / pitch)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    if tall:
        panel.tick_params(top=True, labeltop=True)
        panel.spines["top"].set_visible(True)
    for row, line in enumerate(lines):
        _draw_line(panel, row, line)
    if beside is None:
        _write_above(panel, names.lines)
    else:
        _write_beside(figure, panel, beside, heads, tall)
    if numbered:
        _write_counts(panel, counts)
    panel.set_xlabel(axis, fontsize=SMALL + 1).set_parse_math(False)
    headline(figure, title)
    caption(figure, text)
    save(figure, path)


def _draw_line(panel: Any, row: int, line: Line) -> None:
    point, *runs = line.numbers
    panel.axhline(row, color="#ececec", linewidth=0.7, zorder=0.5)
    if np.isnan(point["value"]):
        where = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": SMALL}
        as_it_is([panel.annotate(line.remark, (0.01, row), color=QUIET, style="italic", **where)])
        return
    if len(runs) > 1:
        panel.plot([run["value"] for run in runs], [row] * len(runs), marker="|", color=QUIET, linestyle="none")
    if not np.isnan(point["low"]):
        panel.plot([point["low"], point["high"]], [row, row], color=ACCENT, linewidth=2.2, solid_capstyle="butt")
    panel.plot(point["value"], row, marker="o", markersize=4.5, color=INK)


def _beside(names: Names) -> Names | None:
    """The names as a table that fits beside the points; None where none does."""
    return next((each for each in (names, names.shortened()) if sum(_widths(each)) <= WIDEST), None)


def _widths(names: Names) -> list[float]:
    """The width of each column of the table, with the gap behind it."""
    return [max(map(width_of, column)) + GAP for column in zip(*names.values, strict=True)]


def _heads(names: Names) -> list[tuple[str, ...]]:
    """The keys over their columns: in one line where they fit, else as stairs, a line for each."""
    if not names.keys:
        return []
    widths = _widths(names)
    fits = all(width_of(key) + GAP <= width for key, width in zip(names.keys, widths, strict=True))
    if fits:
        return [names.keys]
    blank = [""] * len(names.keys)
    return [(*blank[:place], key, *blank[place + 1 :]) for place, key in enumerate(names.keys)]


def _write_beside(figure: Any, panel: Any, names: Names, heads: Sequence[tuple[str, ...]], tall: float) -> None:
    from matplotlib.transforms import blended_transform_factory

    where = blended_transform_factory(figure.dpi_scale_trans, panel.transData)
    lefts = MARGIN + np.cumsum([0.0, *_widths(names)])
    for row, words in enumerate(names.values):
        for left, word in zip(lefts, words, strict=False):
            text = figure.text(left, row, word, transform=where, fontsize=SMALL, color=INK, va="center")
            as_it_is([text])
    top = panel.get_position().y1 * figure.get_figheight() + 0.04
    for line, keys in enumerate(heads):
        bottom = top + LINE * (len(heads) - 1 - line)
        for left, key in zip(lefts, keys, strict=False):
            if key:
                place_of = {"transform": figure.dpi_scale_trans, "fontsize": SMALL, "color": "#555555", "va": "bottom"}
                as_it_is([figure.text(left, bottom, key, **place_of)])
                if bottom > top:
                    _lead(figure, left + 0.02, bottom, top)


def _lead(figure: Any, x: float, top: float, bottom: float) -> None:
    from matplotlib.lines import Line2D

    look = {"color": "#bbbbbb", "linewidth": 0.7, "transform": figure.dpi_scale_trans}
    figure.add_artist(Line2D([x, x], [bottom, top], **look))


def _write_above(panel: Any, names: Sequence[str]) -> None:
    for row, name in enumerate(names):
        where = {"xycoords": ("axes fraction", "data"), "xytext": (0, 5.5), "textcoords": "offset points"}
        as_it_is([panel.annotate(name, (0, row), fontsize=SMALL, color=INK, va="bottom", **where)])


def _write_counts(panel: Any, counts: Sequence[int]) -> None:
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": SMALL, "ha": "right"}
    for row, count in enumerate(counts):
        panel.annotate(str(count), (1, row), xytext=(22, 0), va="center", color="#555555", **where)
    where |= {"xycoords": "axes fraction"}
    panel.annotate("n", (1, 1), xytext=(22, 3), va="bottom", color="#555555", **where)
