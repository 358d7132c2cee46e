"""How pictures look: told apart in grey and by the colour-blind, read at the width of a column."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

INK, ACCENT, QUIET = "#1b1b1b", "#0b6fa4", "#8a8a8a"
"""Dark, middle and light: told apart in grey as well."""
WIDTH = 4.8
"""Inches; printed at the width of a column, the smallest letters still measure six points."""
SMALL = 8.5
LINES: tuple[Mapping[str, Any], ...] = (
    {"color": "#000000", "linestyle": "-", "marker": "o"},
    {"color": "#d55e00", "linestyle": (0, (5, 2)), "marker": "s"},
    {"color": "#0072b2", "linestyle": (0, (1, 1.2)), "marker": "^"},
    {"color": "#cc79a7", "linestyle": (0, (4, 1.5, 1, 1.5)), "marker": "D"},
    {"color": "#009e73", "linestyle": "-", "marker": "v"},
    {"color": "#e69f00", "linestyle": (0, (5, 2)), "marker": "P"},
    {"color": "#56b4e9", "linestyle": (0, (1, 1.2)), "marker": "X"},
    {"color": "#7a7a7a", "linestyle": (0, (4, 1.5, 1, 1.5)), "marker": "*"},
)
"""Okabe and Ito's colours (2008), each with a dash and a marker of its own for print in grey."""
SUFFIXES = (".png", ".svg", ".pdf")


def new_figure(height: float, width: float = WIDTH) -> Any:
    """An empty figure that draws without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def dressed(panel: Any, axis: str = "y") -> Any:
    """A panel with little ink: two spines, a light grid."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis=axis, color="#e4e4e4", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=SMALL)
    return panel


def headline(figure: Any, title: str) -> None:
    """The title, as it is: nothing in it is mathematics."""
    high = figure.get_figheight()
    figure.suptitle(title, fontsize=9.5, color=INK, y=1 - 0.1 / high, va="top").set_parse_math(False)


def caption(figure: Any, text: str) -> None:
    """What the picture shows, below it: how many runs, which statistic, which interval."""
    high = figure.get_figheight()
    shown = figure.text(0.02, 0.06 / high, text, fontsize=SMALL - 0.5, color="#444444", va="bottom", ha="left")
    shown.set_parse_math(False)


def save(figure: Any, path: Path) -> None:
    """Write a figure; the suffix says the format. Raises OSError."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name may hold what the font lacks
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)
