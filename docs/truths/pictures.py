"""What the pictures share: panels beside each other under a headline, a legend and a caption below. Inches."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgrl_cli.plots.legend import add_legend, height_of_legend
from pgrl_cli.plots.style import (
    INK,
    LINES,
    SMALL,
    WIDTH,
    caption,
    dressed,
    headline,
    height_of_caption,
    height_of_headline,
    new_figure,
    place,
)

LEFT, RIGHT, BETWEEN, HEAD, AXIS = 0.52, 0.14, 0.52, 0.26, 0.46
"""Room left of the first panel and right of the last, between two, above each for its name, below for its axis."""
OFF_AXIS = 0.12
"""Below a panel whose axis is another's."""
SPREAD, STEP = 0.08, 0.26
"""Dots of seeds lie so far left and right of their age; series beside each other are a step apart."""
Look = Mapping[str, Any]


def grid(
    title: str,
    told: str,
    looks: Mapping[str, Look],
    *,
    columns: int,
    rows: int = 1,
    high: float = 1.7,
    left: float = LEFT,
) -> tuple[Any, list[list[Any]]]:
    """A figure and its panels [row column]: a headline above, a legend of the looks and a caption below."""
    entries = list(looks)
    below = height_of_caption(told) + (height_of_legend(entries, "") if entries else 0.0) + AXIS
    upper = (rows - 1) * (HEAD + high + OFF_AXIS)
    figure = new_figure(height_of_headline(title) + upper + HEAD + high + below)
    headline(figure, title)
    caption(figure, told)
    between = BETWEEN if rows == 1 else OFF_AXIS  # panels of several rows share their axes
    wide = (WIDTH - left - RIGHT - between * (columns - 1)) / columns
    panels = [
        [
            dressed(
                place(figure, left + c * (wide + between), below + upper - r * (HEAD + high + OFF_AXIS), wide, high)
            )
            for c in range(columns)
        ]
        for r in range(rows)
    ]
    if entries:
        for name, look in looks.items():
            panels[0][0].plot([], [], label=name, linewidth=1.4, markersize=3.8, **look)
        add_legend(panels[0][0], told, entries, "")
    return figure, panels


def named(panel: Any, name: str, across: str | None = None) -> None:
    """What a panel's numbers are, above it, and what they are drawn against."""
    panel.set_title(name, loc="left", fontsize=SMALL, color=INK, pad=5)
    if across is not None:
        panel.set_xlabel(across, fontsize=SMALL + 0.5)


def draw_ages(panel: Any, ages: Sequence[int], series: Sequence[tuple[Look, np.ndarray]]) -> None:
    """A dot for each seed, and a line through the medians: series of [age seed]."""
    for index, (look, values) in enumerate(series):
        centers = np.arange(len(ages)) + (index - (len(series) - 1) / 2) * STEP
        dots = np.linspace(-SPREAD, SPREAD, values.shape[1]) if values.shape[1] > 1 else np.zeros(1)
        marker = {"color": look["color"], "marker": look["marker"], "linestyle": "none"}
        panel.plot((centers[:, None] + dots).ravel(), values.ravel(), markersize=2.6, alpha=0.65, **marker)
        line = {"color": look["color"], "linestyle": look["linestyle"]}
        panel.plot(centers, np.median(values, axis=1), linewidth=1.3, **line)
    panel.set_xticks(range(len(ages)), list(map(str, ages)))
    panel.set_xlim(-0.5, len(ages) - 0.5)


def draw_line(panel: Any, x: Sequence[float], y: Sequence[float] | np.ndarray, look: Look) -> None:
    panel.plot(x, y, linewidth=1.4, markersize=3.8, label="_line", **look)


def plain_numbers(panel: Any, axis: str = "y") -> None:
    """Ticks of a logarithmic axis as numbers, at powers of ten (and threes where there are few)."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = getattr(panel, f"get_{axis}lim")()
    which = getattr(panel, f"{axis}axis")
    which.set_major_locator(LogLocator(subs=(1.0,) if high / low > 300 else (1.0, 3.0)))
    which.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    which.set_minor_locator(NullLocator())


def looks_of(*names: str) -> dict[str, Look]:
    """A look for each name, in the house's order."""
    return dict(zip(names, LINES, strict=False))
