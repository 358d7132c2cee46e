"""Where groups of runs end: a row for each, with a table of what tells them apart on the left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.groups import Group
from pgrl_cli.plots.margin import beside_of, heads_of, widths_of, write_above, write_beside
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
    short_numbers,
    wrapped,
)
from pgrl_cli.plots.tables import TOLD, Table, counted, named, points, points_of, provisos, scales, titled, unmeasured
from pgrl_cli.report import Row
from pgrl_cli.statistics import FEW

PITCH = 0.19
"""From row to row, where names are beside the points."""
EACH_END = 20
"""Of more than twice as many cells the picture of a sweep has so many of the best and of the worst."""
TALL = 24
"""More rows than this have their numbers above them as well."""


@dataclass(frozen=True)
class Line:
    """A row of the picture."""

    numbers: Table
    """The statistic's row, then those of its runs."""
    remark: str = ""
    """What stands there instead of a point."""
    gap: bool = False
    """Whether it stands for rows that are not drawn."""


def draw_final(groups: Sequence[Group], metric: Metric, path: Path, *, title: str, statistic: str = "iqm") -> Table:
    """A point with its interval for each group, one below the other, as given; the numbers drawn."""
    lines = [Line(points(group, metric, statistic), "no run at its end") for group in groups]
    names = names_of([(group.label, group.parts) for group in groups])
    told = [f"all with {names.everywhere}"] if names.everywhere else []
    told += provisos(groups, metric.name) + unmeasured(sum(line.numbers[0]["missing"] for line in lines))
    _draw(lines, names, path, title=title, axis=titled(metric), statistic=statistic, told=told)
    return [number for line in lines for number in line.numbers]


def draw_summary(rows: Sequence[Row], metric: Metric, path: Path, *, title: str) -> Table:
    """A sweep's cells, the best at the top: the interquartile mean with its interval; the numbers of all.

    Of very many cells the best and the worst are drawn.
    """
    every = [
        Line(
            points_of(
                named(row.cell.label, row.cell.parameters),
                row.seeds,
                [row.values],
                "iqm",
                failed=row.numbers["failed"],
            ),
            row.status,
        )
        for row in rows
    ]
    lines, shown, told = _ends(every, rows)
    names = names_of([(row.cell.label, row.cell.parameters) for row in shown])
    if lines != every:
        blank = tuple("" for _ in names.values[0])
        names = replace(names, values=(*names.values[:EACH_END], blank, *names.values[EACH_END:]))
    told += [f"all with {names.everywhere}"] if names.everywhere else []
    told += scales([row.cell.config for row in rows], metric.name)
    failed = sum(row.numbers["failed"] for row in rows)
    told += [f"{failed} run{' failed and is' if failed == 1 else 's failed and are'} not counted"] if failed else []
    told += unmeasured(sum(row.numbers["missing"] for row in rows))
    _draw(lines, names, path, title=title, axis=titled(metric), statistic="iqm", told=told)
    return [number for line in every for number in line.numbers]


def _ends(every: Sequence[Line], rows: Sequence[Row]) -> tuple[Sequence[Line], Sequence[Row], list[str]]:
    """What is drawn of a sweep: all, or of too many cells the best and the worst, a gap between them; and a remark."""
    if len(rows) <= 2 * EACH_END:
        return every, rows, []
    ranked = [place for place, row in enumerate(rows) if row.numbers["iqm"] is not None]
    without = len(rows) - len(ranked)
    told = [f"{without} cell{' has' if without == 1 else 's have'} no number, and no row"] if without else []
    if len(ranked) <= 2 * EACH_END:
        few = [*ranked, *range(len(ranked), 2 * EACH_END)][: max(len(ranked), 1)]
        return [every[place] for place in few], [rows[place] for place in few], told
    shown = [*ranked[:EACH_END], *ranked[-EACH_END:]]
    lines = [every[place] for place in shown]
    between = f"{len(ranked) - len(shown)} cells between"
    lines.insert(EACH_END, Line([{"runs": 0, "missing": 0, "value": np.nan}], between, gap=True))
    return lines, [rows[place] for place in shown], [f"the {EACH_END} best and the {EACH_END} worst", *told]


def _draw(
    lines: Sequence[Line], names: Names, path: Path, *, title: str, axis: str, statistic: str, told: Sequence[str]
) -> None:
    counts = [None if line.gap else line.numbers[0]["runs"] for line in lines]
    known = [count for count in counts if count is not None]
    text = "; ".join([*_told(known, statistic), *told])
    beside = beside_of(names)
    heads = heads_of(beside) if beside is not None else []
    numbered, tall = len(set(known)) > 1, len(lines) > TALL
    broken = [wrapped(name, WIDTH - 2 * MARGIN - 0.15) for name in names.lines]
    pitch = PITCH if beside is not None else 0.21 + LINE * max(map(len, broken), default=1)
    left = MARGIN + 0.05 if beside is None else MARGIN + sum(widths_of(beside)) + 0.06
    under, rows = height_of_caption(text) + 0.5, pitch * len(lines) + 0.06
    above = 0.22 * tall + LINE * max(len(heads), numbered) + 0.05
    figure = new_figure(height_of_headline(title) + above + rows + under)
    panel = dressed(place(figure, left, under, WIDTH - left - (0.42 if numbered else 0.15), rows), axis="x")
    lower = 0.0 if beside is not None else 0.5 - 0.1 / pitch  # names above their points need room over the first
    panel.set_ylim(len(lines) - 0.5 - lower + 0.03 / pitch, -0.5 - lower - 0.03 / pitch)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.locator_params(axis="x", nbins=5)
    short_numbers(panel, "x")
    if tall:
        panel.tick_params(top=True, labeltop=True)
        panel.spines["top"].set_visible(True)
    for row, line in enumerate(lines):
        _draw_line(panel, row, line)
    if beside is None:
        write_above(panel, ["\n".join(parts) for parts in broken])
    else:
        write_beside(panel, beside, heads, 0.26 if tall else 0.04)
    if numbered:
        _write_counts(panel, counts)
    power = 0.45 if _wide_numbers(panel) else 0.0
    label = figure.text(WIDTH - 0.12 - power, height_of_caption(text) + 0.1, axis, transform=figure.dpi_scale_trans)
    label.set(fontsize=SMALL + 1, ha="right", va="bottom")
    as_it_is([label])
    headline(figure, title)
    caption(figure, text)
    save(figure, path)


def _wide_numbers(panel: Any) -> bool:
    """Whether the axis writes a power of ten at its end."""
    largest = max(map(abs, panel.get_xlim()))
    return bool(largest < 0.05 or largest >= 10_000)


def _told(counts: Sequence[int], statistic: str) -> list[str]:
    there = [count for count in counts if count]
    if max(there, default=0) == 1:
        return ["single runs, n = 1: nothing is known of the spread between seeds"]
    told = [f"dot: {TOLD[statistic]} of n = {counted(there)}" + (" each" if len(there) > 1 else "")]
    told += ["bar: 95 % stratified bootstrap interval"]
    return told + (["small marks: each run"] if any(1 < count < FEW for count in there) else [])


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
    panel.plot(point["value"], row, marker="o", markersize=3.6, color=INK)


def _write_counts(panel: Any, counts: Sequence[int | None]) -> None:
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": SMALL, "ha": "right"}
    for row, count in enumerate(counts):
        panel.annotate(
            "" if count is None else str(count), (1, row), xytext=(22, 0), va="center", color="#555555", **where
        )
    where |= {"xycoords": "axes fraction"}
    panel.annotate("n", (1, 1), xytext=(22, 3), va="bottom", color="#555555", **where)
