"""What a diagnosis says of delta modes: how noisy one rollout's gradient is, and how it lies to the true one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgrl_cli.plots.style import (
    ACCENT,
    INK,
    MARGIN,
    QUIET,
    SMALL,
    WIDTH,
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
from pgrl_cli.readings.deltas import least_variance

PITCH = 0.24
"""From mode to mode."""
BETWEEN = 0.22
AXIS = 0.52
"""Room below the panels for their numbers and names."""
FAR = 500
"""From the largest to the smallest variance of an axis with numbers between powers of ten."""


def draw_delta_modes(found: Mapping[str, Any], path: Path, *, title: str) -> None:
    """Total variance, and the cosine of one rollout's gradient to the true one, for each delta mode. Raises OSError."""
    modes: Mapping[str, Mapping[str, Any]] = found["delta_modes"]
    told = _told(found)
    under, rows = height_of_caption(told) + AXIS, PITCH * len(modes) + 0.08
    figure = new_figure(height_of_headline(title) + rows + under)
    left = MARGIN + max(map(width_of, modes)) + 0.1
    wide = (WIDTH - left - BETWEEN - 0.2) / 2
    panels = [place(figure, left + side * (wide + BETWEEN), under, wide, rows) for side in (0, 1)]
    for panel in panels:
        dressed(panel, axis="x")
        panel.set_ylim(len(modes) - 0.5, -0.5)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
        for row in range(len(modes)):
            panel.axhline(row, color="#ececec", linewidth=0.7, zorder=0.5)
    panels[0].set_yticks(range(len(modes)), list(modes), fontsize=SMALL)
    panels[0].tick_params(axis="y", length=0)
    _draw_variances(panels[0], modes)
    _draw_cosines(panels[1], modes)
    headline(figure, title)
    caption(figure, told)
    save(figure, path)


def _told(found: Mapping[str, Any]) -> str:
    subject = found["subject"]
    sampled = any(each["standard_error"] for each in found["delta_modes"].values())
    doubt = "; bar of a variance: two standard errors either way" if sampled else ""
    none = "; there is no true gradient here" if found["truth"]["gradient_norm"] == 0 else ""
    return (
        f"groups of {subject['group_size']}; cosine of one rollout's gradient to the true one: median, and from 5 to "
        f"95 % of {subject['rollouts']:,} rollouts{doubt}{none}"
    )


def _draw_variances(panel: Any, modes: Mapping[str, Mapping[str, Any]]) -> None:
    """On a logarithmic axis; of a mode without noise it is written that it has none."""
    least = least_variance(modes)
    drawn = [row for row, each in enumerate(modes.values()) if (each["total_variance"] or 0.0) > least]
    if drawn:
        panel.set_xscale("log")
    for row, each in enumerate(modes.values()):
        variance = each["total_variance"]
        if row not in drawn:
            where = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": SMALL, "color": QUIET}
            told = "no number" if variance is None else "none" if each["exact"] else "none was drawn"
            panel.annotate(told, (0.02, row), **where)
            continue
        error = 2 * ((each["standard_error"] or {}).get("total_variance") or 0.0)
        if error:
            panel.plot([max(variance - error, variance / 100), variance + error], [row, row], color=ACCENT, linewidth=2)
        panel.plot(variance, row, marker="o", markersize=4.2, color=INK)
    if not drawn:
        panel.set_xticks([])
    _widen(panel)
    panel.set_xlabel("total variance", fontsize=SMALL + 1)


def _widen(panel: Any) -> None:
    """At least a power of ten on a logarithmic axis, and numbers that are easily read."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if panel.get_xscale() != "log":
        return
    low, high = panel.get_xlim()
    while high / low < 30:
        low, high = low / 1.5, high * 1.5
    panel.set_xlim(low, high)
    wide = high / low > FAR
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0,), numticks=5) if wide else LogLocator(subs=(1.0, 3.0)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    panel.xaxis.set_minor_locator(NullLocator())


def _draw_cosines(panel: Any, modes: Mapping[str, Mapping[str, Any]]) -> None:
    panel.set(xlim=(-1.05, 1.05), xticks=(-1, 0, 1))
    panel.axvline(0, color=QUIET, linewidth=0.8, zorder=0.6)
    for row, each in enumerate(modes.values()):
        low, middle, high = (each["cosine"][name] for name in ("p05", "p50", "p95"))
        panel.plot([low, high], [row, row], color=ACCENT, linewidth=2.2, solid_capstyle="butt")
        panel.plot(middle, row, marker="o", markersize=4.2, color=INK)
    panel.set_xlabel("cosine to the truth", fontsize=SMALL + 1)
