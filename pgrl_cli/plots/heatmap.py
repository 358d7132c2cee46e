"""A table of two swept keys, the numbers written into it, darker where they are lower."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli.config.sweep_spec import told as value_told
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.groups import Group
from pgrl_cli.plots.style import (
    MARGIN,
    QUIET,
    SMALL,
    WIDTH,
    as_it_is,
    caption,
    headline,
    height_of_caption,
    height_of_headline,
    new_figure,
    place,
    save,
    width_of,
)
from pgrl_cli.plots.tables import TOLD, Table, counted, points, provisos, titled, unmeasured

ROW = 0.3


def draw_heatmap(groups: Sequence[Group], metric: Metric, path: Path, *, title: str, statistic: str) -> Table:
    """A table of two keys, of groups that have both: the statistic of each; a pair without runs is empty.

    The numbers drawn, with their intervals.
    """
    down, across = groups[0].parts
    rows, columns = (_ordered([group.parts[key] for group in groups]) for key in (down, across))
    if len(columns) > len(rows) and _too_wide(rows, columns):
        down, across, rows, columns = across, down, columns, rows
    table = [points(group, metric, statistic)[0] for group in groups]
    grid = np.full((len(rows), len(columns)), np.nan)
    for group, point in zip(groups, table, strict=True):
        grid[rows.index(value_told(group.parts[down])), columns.index(value_told(group.parts[across]))] = point["value"]
    runs = [point["runs"] for point in table]
    told = [f"{titled(metric)}: {TOLD[statistic]} of n = {counted(runs)} each"]
    told += ["95 % bootstrap intervals are in the CSV"] if max(runs) > 1 else []
    told += ["blank: no run"] if np.isnan(grid).any() else []
    told += provisos(groups, metric.name) + unmeasured(sum(point["missing"] for point in table))
    panel = _panel(title, "; ".join(told), rows, columns)
    panel.imshow(np.ma.masked_invalid(grid), cmap="cividis", aspect="auto")
    _border(panel, grid)
    _write(panel, grid)
    _label(panel, rows, columns)
    panel.set_ylabel(down, fontsize=SMALL + 1).set_parse_math(False)
    panel.set_xlabel(across, fontsize=SMALL + 1).set_parse_math(False)
    save(panel.figure, path)
    return table


def _ordered(values: Sequence[Any]) -> list[str]:
    """Different values: numbers by size, words as they came."""
    there = {value_told(value): value for value in values}
    numbers = [value for value in there.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    return sorted(there, key=lambda name: there[name]) if len(numbers) == len(there) else list(there)


def _left(rows: Sequence[str]) -> float:
    return MARGIN + 0.32 + max(map(width_of, rows))


def _column(rows: Sequence[str], columns: Sequence[str]) -> float:
    return (WIDTH - _left(rows) - MARGIN) / len(columns)


def _too_wide(rows: Sequence[str], columns: Sequence[str]) -> bool:
    return max(map(width_of, [*columns, "0.00"])) + 0.08 > _column(rows, columns)


def _panel(title: str, told: str, rows: Sequence[str], columns: Sequence[str]) -> Any:
    upright = _too_wide(rows, columns)
    under = height_of_caption(told) + 0.32 + (max(map(width_of, columns)) if upright else 0.16)
    high = ROW * len(rows)
    figure = new_figure(height_of_headline(title) + high + under)
    headline(figure, title)
    caption(figure, told)
    return place(figure, _left(rows), under, WIDTH - _left(rows) - MARGIN, high)


def _label(panel: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    upright = {"rotation": 90} if _too_wide(rows, columns) else {}
    panel.set_xticks(range(len(columns)), columns, fontsize=SMALL, **upright)
    panel.set_yticks(range(len(rows)), rows, fontsize=SMALL)
    panel.tick_params(length=0)
    as_it_is([*panel.get_xticklabels(), *panel.get_yticklabels()])
    panel.spines[:].set_visible(False)


def _border(panel: Any, grid: np.ndarray) -> None:
    """A thin line around each cell, so that equal neighbours are two, and a blank one is seen."""
    rows, columns = grid.shape
    look = {"color": QUIET, "linewidth": 0.6}
    panel.hlines(np.arange(rows + 1) - 0.5, -0.5, columns - 0.5, **look)
    panel.vlines(np.arange(columns + 1) - 0.5, -0.5, rows - 0.5, **look)


def _write(panel: Any, grid: np.ndarray) -> None:
    """The numbers, in black or white, whichever is seen."""
    there = grid[~np.isnan(grid)]
    if len(there) == 0:
        return
    spread = float(there.max() - there.min()) or abs(float(there[0])) or 1.0
    digits = int(np.clip(1 - np.floor(np.log10(spread)), 2 if abs(there).max() < 100 else 0, 5))
    middle = (there.max() + there.min()) / 2
    for row, column in np.argwhere(~np.isnan(grid)):
        colour = "white" if grid[row, column] < middle else "black"
        style = {"ha": "center", "va": "center", "fontsize": SMALL, "color": colour}
        panel.text(column, row, f"{grid[row, column]:.{digits}f}", **style)
