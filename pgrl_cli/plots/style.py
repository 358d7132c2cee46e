"""How pictures look: told apart in grey and by the colour-blind, read at the width of a column. Lengths are inches."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from pgrl_cli.config.files import content
from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.folders import naming
from pgrl_cli.runs import write_whole

INK, ACCENT, QUIET, FAINT = "#1b1b1b", "#0b6fa4", "#8a8a8a", "#c4c4c4"
"""Dark, middle, light and lighter: told apart in grey as well."""
WIDTH = 4.8
"""Printed at the width of a column, the smallest letters still measure six points."""
SMALL, LARGE = 8.5, 9.5
"""Points."""
MARGIN = 0.1
LINE = 0.155
"""The height of a line of small letters."""
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
DRAWN_BY = "pgrl plot"
"""Written into pictures, so that a rerun overwrites its own, and nothing else."""


def new_figure(height: float, width: float = WIDTH) -> Any:
    """An empty figure that draws without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def place(figure: Any, left: float, bottom: float, width: float, height: float) -> Any:
    """A panel at a place measured from the figure's lower left corner."""
    wide, high = figure.get_size_inches()
    return figure.add_axes((left / wide, bottom / high, width / wide, height / high))


def dressed(panel: Any, axis: str = "y") -> Any:
    """A panel with little ink: two spines, a light grid."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis=axis, color="#e4e4e4", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=SMALL)
    return panel


def short_numbers(panel: Any, axis: str) -> None:
    """Tick labels of a few digits: powers of ten are written once, at the axis's end."""
    panel.ticklabel_format(axis=axis, scilimits=(-2, 4))
    getattr(panel, f"{axis}axis").get_offset_text().set_fontsize(SMALL)


def as_it_is(texts: Sequence[Any]) -> None:
    """Nothing in a name is mathematics."""
    for text in texts:
        text.set_parse_math(False)


@lru_cache(maxsize=4096)
def width_of(text: str, size: float = SMALL) -> float:
    """How wide a line of text is, at most."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with _whatever_glyphs():
        return float(text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)[0]) / 71


def wrapped(text: str, width: float, size: float = SMALL) -> list[str]:
    """A text in lines of at most this width, broken at spaces, and within a word that is wider by itself."""
    lines = []
    for line in text.splitlines() or [""]:
        lines.append("")
        for word in line.split():
            longer = f"{lines[-1]} {word}".lstrip()
            if width_of(longer, size) <= width:
                lines[-1] = longer
                continue
            lines = [*lines, *_pieces(word, width, size)] if lines[-1] else [*lines[:-1], *_pieces(word, width, size)]
    return lines


def _pieces(word: str, width: float, size: float) -> list[str]:
    """A word too wide for a line, broken behind its commas where it has any, else wherever it must be."""
    pieces = [""]
    for part in re.findall(r"[^,]*,|[^,]+", word):
        if width_of(pieces[-1] + part, size) <= width:
            pieces[-1] += part
        else:
            pieces += _letters(part, width, size)
    return [piece for piece in pieces if piece]


def _letters(word: str, width: float, size: float) -> list[str]:
    pieces = [""]
    for letter in word:
        if pieces[-1] and width_of(pieces[-1] + letter, size) > width:
            pieces.append("")
        pieces[-1] += letter
    return pieces


def headline(figure: Any, title: str) -> None:
    """The title, as it is."""
    lines = wrapped(title, WIDTH - 2 * MARGIN, LARGE)
    high = figure.get_figheight()
    text = figure.suptitle("\n".join(lines), fontsize=LARGE, color=INK, y=1 - MARGIN / high, va="top")
    as_it_is([text])


def height_of_headline(title: str) -> float:
    """The height that a title takes at the top."""
    return MARGIN + 0.17 * len(wrapped(title, WIDTH - 2 * MARGIN, LARGE)) + 0.08


def caption(figure: Any, text: str) -> None:
    """What the picture shows, below it: how many runs, which statistic, which interval."""
    lines = wrapped(text, WIDTH - 2 * MARGIN)
    high = figure.get_figheight()
    shown = figure.text(MARGIN / WIDTH, 0.06 / high, "\n".join(lines), fontsize=SMALL, color="#444444", va="bottom")
    shown.set(linespacing=1.25, gid="caption")
    as_it_is([shown])


def height_of_caption(text: str) -> float:
    """The height that a caption takes at the bottom."""
    return 0.1 + LINE * len(wrapped(text, WIDTH - 2 * MARGIN))


def save(figure: Any, path: Path) -> None:
    """Write a figure whole, in place of a link and not through it; the suffix says the format. Raises OSError."""
    import matplotlib

    who = {".png": "Software", ".svg": "Creator", ".pdf": "Creator"}[path.suffix]
    timeless = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[path.suffix]
    drawn = BytesIO()
    with naming(path), _whatever_glyphs(), matplotlib.rc_context({"svg.hashsalt": DRAWN_BY}):
        figure.savefig(drawn, format=path.suffix[1:], dpi=200, metadata={who: DRAWN_BY, **timeless})
        write_whole(path, [drawn.getvalue()])


def refuse_strangers(path: Path) -> None:
    """Refuse a picture's path where something else lies than a picture drawn here. Raises ConfigError."""
    if path.suffix not in SUFFIXES:
        told = f"came {str(path)!r}; the suffix is one of {', '.join(SUFFIXES)}"
        raise ConfigError([Problem(told, "--out")])
    if not path.parent.is_dir():
        raise ConfigError([Problem(f"there is no folder {path.parent}", "--out")])
    if path.is_dir() or (path.exists() and DRAWN_BY.encode() not in content(path)):
        told = "is there, and was not drawn by pgrl plot: name another file with --out, or move it away"
        raise ConfigError([Problem(told, str(path))])


@contextmanager
def _whatever_glyphs() -> Iterator[None]:
    """A name may hold what the font lacks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield
