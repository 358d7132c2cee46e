"""Pictures of runs, as PNG files. matplotlib's object interface, imported only when a picture is drawn."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

INK, ACCENT, QUIET = "#1b1b1b", "#0b6fa4", "#8a8a8a"
"""Dark, middle and light: told apart in grey as well."""
WIDTH = 4.8
"""Inches; printed at the width of a column, the smallest letters still measure six points."""
Rows = Sequence[dict[str, Any]]


def draw_curves(metrics: Rows, path: Path, *, title: str, maximum: float | None) -> None:
    """The lecture's picture over optimizer steps: mean reward with its known maximum, exact match, KL and loss.

    Exact match and KL have a panel where they were measured. One point per epoch for the reward, since all steps of an
    epoch share a rollout; one per step for KL and loss. What is not a number is a gap.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = [(height, draw) for name, height, draw in PANELS if name is None or _any(metrics, name)]
    heights = [height for height, _ in drawn]
    figure = Figure(figsize=(WIDTH, 1.1 + sum(heights)))
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0])
    top, bottom = 0.55 / figure.get_figheight(), 0.5 / figure.get_figheight()
    figure.subplots_adjust(left=0.17, right=0.97, top=1 - top, bottom=bottom, hspace=0.22)
    for panel, (_, draw) in zip(panels, drawn, strict=True):
        draw(panel, metrics)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.yaxis.set_label_coords(-0.145, 0.5)
    if maximum is not None:
        _mark_maximum(panels[0], maximum)
    panels[-1].set_xlabel("optimizer step")
    figure.suptitle(title, fontsize=9.5, color=INK, y=1 - 0.1 / figure.get_figheight(), va="top").set_parse_math(False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name may hold what the font lacks
        figure.savefig(path, dpi=200)


def _draw_reward(panel: Any, metrics: Rows) -> None:
    first = {row["epoch"]: row for row in reversed(metrics)}
    rows = [first[epoch] for epoch in sorted(first)]
    steps = [row["step"] for row in rows]
    marker = "o" if len(rows) == 1 else None  # one point draws no line
    panel.plot(steps, _numbers(rows, "mean_reward"), color=ACCENT, linewidth=1.8, marker=marker)
    if any(row["shaped_reward"] != row["mean_reward"] for row in rows):
        style = {"color": QUIET, "linewidth": 1.2, "linestyle": (0, (4, 2)), "marker": marker}
        panel.plot(steps, _numbers(rows, "shaped_reward"), label="shaped reward", **style)
        panel.legend(frameon=False, fontsize=8.5, loc="lower right")
    panel.set_ylabel("mean reward")


def _mark_maximum(panel: Any, maximum: float) -> None:
    """A line at what right answers earn, its name above its left end, where curves are still low."""
    panel.axhline(maximum, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    low, high = panel.get_ylim()
    panel.set_ylim(low, max(high, maximum + 0.12 * (maximum - low)))
    place = {"xytext": (0, 2), "textcoords": "offset points", "ha": "left", "va": "bottom"}
    xy = (0.01, maximum)
    panel.annotate(f"maximum {maximum:g}", xy, xycoords=("axes fraction", "data"), fontsize=8.5, color=INK, **place)


def _draw_match(panel: Any, metrics: Rows) -> None:
    style = {"linewidth": 1.2, "markersize": 3.5, "clip_on": False}
    panel.plot(*_measured(metrics, "exact_match"), color=ACCENT, marker="o", label="trained on", **style)
    if _any(metrics, "held_out_exact_match"):
        panel.plot(*_measured(metrics, "held_out_exact_match"), color=QUIET, marker="s", label="held out", **style)
        panel.legend(frameon=False, fontsize=8.5, loc="best")
    panel.set(ylabel="exact match", ylim=(-0.03, 1.03), yticks=(0, 0.5, 1))


def _draw_kl(panel: Any, metrics: Rows) -> None:
    panel.plot([row["step"] for row in metrics], _numbers(metrics, "kl"), color=QUIET, linewidth=1)
    panel.set_ylabel("KL (nats)")


def _draw_loss(panel: Any, metrics: Rows) -> None:
    marker = "o" if len(metrics) == 1 else None
    panel.plot([row["step"] for row in metrics], _numbers(metrics, "loss"), color=INK, linewidth=0.9, marker=marker)
    panel.set_ylabel("loss")


PANELS: tuple[tuple[str | None, float, Callable[[Any, Rows], None]], ...] = (
    (None, 2.2, _draw_reward),
    ("exact_match", 0.8, _draw_match),
    ("kl", 0.8, _draw_kl),
    (None, 1.2, _draw_loss),
)
"""Each panel with the metric that it needs, and its height in inches."""


def _any(metrics: Rows, name: str) -> bool:
    return any(row[name] is not None for row in metrics)


def _measured(metrics: Rows, name: str) -> tuple[list[int], list[float]]:
    rows = [row for row in metrics if row[name] is not None]
    return [row["step"] for row in rows], [row[name] for row in rows]


def _numbers(rows: Iterable[dict[str, Any]], name: str) -> list[float]:
    return [float("nan") if row[name] is None else float(row[name]) for row in rows]
