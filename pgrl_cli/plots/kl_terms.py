"""Which KL each term pulls down: a table of cosines, darker where they are lower, with bias and variance beside it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli.plots.style import (
    INK,
    MARGIN,
    QUIET,
    SMALL,
    WIDTH,
    caption,
    headline,
    height_of_caption,
    height_of_headline,
    new_figure,
    place,
    save,
    width_of,
)
from pgrl_cli.readings.divergences import kl_terms, kl_terms_of_sequences
from pgrl_cli.readings.reading import Reading

ROW = 0.26
HEAD = 0.46
"""Above the table, for what its columns are."""
BESIDE = 0.66
"""The width of a column of numbers."""
COLUMNS = ("cosine_forward", "cosine_reverse")
HEADS = ("cosine to the\ngradient of\nKL(policy ∥ ref)", "cosine to the\ngradient of\nKL(ref ∥ policy)")


def draw_kl_terms(found: Mapping[str, Any], path: Path, *, title: str) -> None:
    """Every estimator in the loss and in the reward: its cosines to both KLs' gradients, its bias and variance.

    Where it makes a difference, also of estimators that see whole responses. Raises OSError.
    """
    blocks = [("token by token", "kl", kl_terms(found))]
    if (whole := kl_terms_of_sequences(found)) is not None:
        blocks.append(("whole response", "kl_sequence", whole))
    told = _told(found)
    rows = sum(len(reading.rows) + 1 for _, _, reading in blocks)
    under = height_of_caption(told) + 0.08
    figure = new_figure(height_of_headline(title) + HEAD + ROW * rows + under)
    words = [f"{row[0]} in the {row[1]}" for _, _, reading in blocks for row in reading.rows]
    left = MARGIN + max(map(width_of, [*words, *(name for name, _, _ in blocks)])) + 0.08
    panel = place(figure, left, under, WIDTH - left - MARGIN - 2 * BESIDE, ROW * rows)
    panel.set(xlim=(-0.5, len(COLUMNS) - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
    panel.spines[:].set_visible(False)
    first = 0
    for name, section, reading in blocks:
        _write_block(panel, first, name, found[section], reading)
        first += len(reading.rows) + 1
    _write_heads(panel)
    headline(figure, title)
    caption(figure, told)
    save(figure, path)


def _told(found: Mapping[str, Any]) -> str:
    if not found["truth"]["kl_forward"]:
        return "the policy is its reference: both KLs are zero, and no term has a direction"
    if found["subject"]["exact"]:
        none, doubt = "there is no gradient", ""
    else:
        none, doubt = "the sample tells of no gradient", "; diagnosis.md has the standard errors"
    return (
        f"expected gradients on fresh samples; none: {none}; bias and variance: of one response's value, in nats{doubt}"
    )


def _write_block(panel: Any, first: int, name: str, section: Mapping[str, Any], reading: Reading) -> None:
    """A heading, and under it a row for each term."""
    beside = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center", "fontsize": SMALL}
    panel.annotate(name, (0, first), xytext=(-6, 0), ha="right", color="#555555", style="italic", **beside)
    grid = np.array([[_or_nan(term[key]) for key in COLUMNS] for term in _terms(section)])
    extent = (-0.5, len(COLUMNS) - 0.5, first + len(grid) + 0.5, first + 0.5)
    panel.imshow(np.ma.masked_invalid(grid), cmap="cividis", vmin=-1, vmax=1, aspect="auto", extent=extent)
    look = {"color": QUIET, "linewidth": 0.6}
    panel.hlines(np.arange(len(grid) + 1) + first + 0.5, -0.5, len(COLUMNS) - 0.5, **look)
    panel.vlines(np.arange(len(COLUMNS) + 1) - 0.5, first + 0.5, first + len(grid) + 0.5, **look)
    for index, words in enumerate(reading.rows):
        row = first + 1 + index
        panel.annotate(f"{words[0]} in the {words[1]}", (0, row), xytext=(-6, 0), ha="right", color=INK, **beside)
        _write_cosines(panel, row, grid[index], words[4:6])
        for column, number in enumerate(words[2:4]):
            where = _beside(column)
            panel.annotate(number.partition(" ")[0], (1, row), xytext=(where, 0), ha="right", color=INK, **beside)


def _write_cosines(panel: Any, row: int, cosines: np.ndarray, words: Sequence[str]) -> None:
    for column, (cosine, word) in enumerate(zip(cosines, words, strict=True)):
        none = bool(np.isnan(cosine))
        colour = QUIET if none else "white" if cosine < 0 else "black"
        told = "none" if none else word.partition(" ")[0]
        panel.text(column, row, told, ha="center", va="center", fontsize=SMALL, color=colour)


def _write_heads(panel: Any) -> None:
    where = {
        "xycoords": ("data", "axes fraction"),
        "textcoords": "offset points",
        "fontsize": SMALL,
        "color": "#555555",
    }
    for column, head in enumerate(HEADS):
        panel.annotate(head, (column, 1), xytext=(0, -6), ha="center", va="bottom", **where)
    where |= {"xycoords": "axes fraction"}
    for column, head in enumerate(("bias", "variance")):
        panel.annotate(head, (1, 1), xytext=(_beside(column), -6), ha="right", va="bottom", **where)


def _beside(column: int) -> float:
    """Where a column of numbers ends, in points behind the panel."""
    return 72 * BESIDE * (column + 1)


def _terms(section: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [term for placements in section.values() for term in placements.values()]


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value
