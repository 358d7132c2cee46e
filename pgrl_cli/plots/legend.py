"""A panel with a legend below it: who is drawn in which style, and who only in the background."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgrl_cli.groups import Group
from pgrl_cli.plots.names import Names, names_of
from pgrl_cli.plots.style import (
    LINE,
    LINES,
    MARGIN,
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
    short_numbers,
    width_of,
    wrapped,
)

MOST_BANDS = 5
"""More bands than this would hide each other."""
HIGHEST, LOWEST = 3, 2
"""Of more groups than there are styles, those that are told apart."""
PANEL, LEFT, AXIS = 2.2, 0.68, 0.48
HANDLE = 0.52
POWER = 0.1
"""Room above a panel for a power of ten."""


@dataclass(frozen=True)
class Cast:
    """Who is told apart, in the order of the legend, and who is drawn thin and grey."""

    told: tuple[int, ...]
    crowd: tuple[int, ...]
    names: Names
    """Of those in `told`."""

    @property
    def banded(self) -> bool:
        return len(self.told) <= MOST_BANDS

    @property
    def styles(self) -> list[tuple[int, str, Mapping[str, Any]]]:
        """Index, name and style of those that are told apart."""
        return [
            (index, name, LINES[i]) for i, (index, name) in enumerate(zip(self.told, self.names.lines, strict=True))
        ]

    def note(self, where: str) -> list[str]:
        """In words, how those that are told apart were chosen: the highest and lowest `where`, such as at the end."""
        if not self.crowd:
            return []
        others = f"thin and grey the other {len(self.crowd)}"
        return [f"in colour the {HIGHEST} highest and the {LOWEST} lowest {where}, {others}"]


def cast(groups: Sequence[Group], ends: Sequence[float]) -> Cast:
    """All groups if there is a style for each; else the highest and the lowest, and the others behind them."""
    everyone = range(len(groups))
    if len(groups) <= len(LINES):
        told = tuple(everyone)
    else:
        order = sorted(everyone, key=lambda index: -np.nan_to_num(ends[index], nan=-np.inf))
        told = (*order[:HIGHEST], *order[-LOWEST:])
    labelled = [(groups[index].label, groups[index].parts) for index in told]
    names = names_of(labelled).fitted(WIDTH - 2 * MARGIN - HANDLE - width_of("  (n = 1000)"))
    return Cast(told, tuple(index for index in everyone if index not in told), names)


def stage(title: str, told: str, entries: Sequence[str], header: str, strip: float = 0.0) -> tuple[Any, Any]:
    """A panel with room for a legend and a caption below it, and a strip under it where one is asked for."""
    room = height_of_legend(entries, header)
    below = height_of_caption(told) + room
    under = strip + 0.12 if strip else 0.0
    figure = new_figure(height_of_headline(title) + POWER + PANEL + under + AXIS + below)
    headline(figure, title)
    caption(figure, told)
    width = WIDTH - LEFT - 0.15
    panel = dressed(place(figure, LEFT, below + AXIS + under, width, PANEL))
    short_numbers(panel, "y")
    lower = dressed(place(figure, LEFT, below + AXIS, width, strip)) if strip else None
    if lower is not None:
        lower.sharex(panel)
        panel.tick_params(labelbottom=False)
    return panel, lower


def add_legend(panel: Any, told: str, entries: Sequence[str], header: str) -> None:
    """The legend in its room above the caption."""
    lines = [line for line in panel.lines if not line.get_label().startswith("_")]
    top = height_of_caption(told) + height_of_legend(entries, header)
    where = {
        "loc": "upper left",
        "bbox_to_anchor": (MARGIN, top),
        "bbox_transform": panel.figure.dpi_scale_trans,
        "borderaxespad": 0.0,
        "borderpad": 0.0,
    }
    look = {"frameon": False, "fontsize": SMALL, "title_fontsize": SMALL, "handlelength": 3.2, "labelspacing": 0.25}
    shape = {"ncols": _columns(entries), "columnspacing": 1.4, "alignment": "left"}
    labels = ["\n".join(_broken(line.get_label())) for line in lines]
    head = "\n".join(_headed(header)) or None
    legend = panel.legend(lines, labels, title=head, **look, **where, **shape)
    as_it_is([legend.get_title(), *legend.get_texts()])


def _broken(entry: str) -> list[str]:
    return wrapped(entry, WIDTH - 2 * MARGIN - HANDLE)


def _headed(header: str) -> list[str]:
    return wrapped(header, WIDTH - 2 * MARGIN) if header else []


def _columns(entries: Sequence[str]) -> int:
    """Two where the names are short."""
    room = (WIDTH - 2 * MARGIN) / 2 - HANDLE - 0.15
    return 2 if len(entries) > 2 and max(map(width_of, entries)) <= room else 1


def height_of_legend(entries: Sequence[str], header: str) -> float:
    """The height that a legend takes above the caption."""
    lines = sum(len(_broken(entry)) for entry in entries)
    columns = _columns(entries)
    return 0.06 + LINE * (-(-lines // columns) + len(_headed(header)))
