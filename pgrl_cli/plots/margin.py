"""The names beside the rows of a picture: a table of what tells them apart, in the left margin, or above each row."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from pgrl_cli.plots.names import Names
from pgrl_cli.plots.style import INK, LINE, MARGIN, SMALL, as_it_is, width_of

WIDEST = 3.15
"""The widest table of names that leaves room for the points."""
GAP = 0.13


def beside_of(names: Names) -> Names | None:
    """The names as a table that fits beside the points; None where none does."""
    return next((each for each in (names, names.shortened()) if sum(widths_of(each, bare=True)) <= WIDEST), None)


def widths_of(names: Names, bare: bool = False) -> list[float]:
    """The width of each column of the table, with the gap behind it; with its key over it where there is room."""
    words = [max(map(width_of, column)) + GAP for column in zip(*names.values, strict=True)]
    headed = [max(width, width_of(key) + GAP) for width, key in zip(words, names.keys, strict=False)]
    return headed if headed and not bare and sum(headed) <= WIDEST else words


def heads_of(names: Names) -> list[tuple[str, ...]]:
    """The keys over their columns: in one line where they fit, else as stairs, a line for each."""
    if not names.keys:
        return []
    if all(width_of(key) + GAP <= width for key, width in zip(names.keys, widths_of(names), strict=True)):
        return [names.keys]
    blank = [""] * len(names.keys)
    return [(*blank[:column], key, *blank[column + 1 :]) for column, key in enumerate(names.keys)]


def sparse(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The words of a table only where they change, if its rows are nested: what begins alike lies together."""
    last = len(rows[0]) - 1 if rows else 0
    for end in range(1, last + 1):
        beginnings = [row[:end] for row in rows]
        if len(list(groupby(beginnings))) > len(set(beginnings)):
            return list(rows)
    before = [None, *rows]
    return [
        tuple(
            "" if old is not None and column < last and old[: column + 1] == row[: column + 1] else word
            for column, word in enumerate(row)
        )
        for old, row in zip(before, rows, strict=False)
    ]


def write_beside(panel: Any, names: Names, heads: Sequence[tuple[str, ...]], gap: float) -> None:
    from matplotlib.transforms import blended_transform_factory

    figure = panel.figure
    where = blended_transform_factory(figure.dpi_scale_trans, panel.transData)
    lefts = MARGIN + np.cumsum([0.0, *widths_of(names)])
    for row, words in enumerate(sparse(names.values)):
        for left, word in zip(lefts, words, strict=False):
            if word:
                as_it_is([figure.text(left, row, word, transform=where, fontsize=SMALL, color=INK, va="center")])
    top = panel.get_position().y1 * figure.get_figheight()
    for line, keys in enumerate(heads):
        bottom = top + gap + LINE * (len(heads) - 1 - line)
        for left, key in zip(lefts, keys, strict=False):
            if key:
                look = {"transform": figure.dpi_scale_trans, "fontsize": SMALL, "color": "#555555", "va": "bottom"}
                as_it_is([figure.text(left, bottom, key, **look)])
                if len(heads) > 1:
                    _lead(figure, left + 0.02, bottom, top)


def _lead(figure: Any, x: float, top: float, bottom: float) -> None:
    from matplotlib.lines import Line2D

    look = {"color": "#bbbbbb", "linewidth": 0.7, "transform": figure.dpi_scale_trans}
    figure.add_artist(Line2D([x, x], [bottom, top], **look))


def write_above(panel: Any, names: Sequence[str]) -> None:
    for row, name in enumerate(names):
        where = {"xycoords": ("axes fraction", "data"), "xytext": (0, 4.5), "textcoords": "offset points"}
        as_it_is([panel.annotate(name, (0, row), fontsize=SMALL, color=INK, va="bottom", **where)])
