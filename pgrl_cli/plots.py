"""Pictures of runs, as PNG files. matplotlib's object interface, imported only when a picture is drawn."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

INK, ACCENT, QUIET = "#1b1b1b", "#0b6fa4", "#8a8a8a"
"""Dark, middle and light: told apart in grey as well."""


def draw_curves(metrics: Sequence[dict[str, Any]], path: Path, *, title: str, maximum: float | None) -> None:
    """The lecture's picture: mean reward (with its known maximum), exact match if there is any, and loss, over steps.

    One point per epoch for the reward, since all steps of an epoch share a rollout; one per step for the loss. What
    is not a number is a gap.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    matches = [(row["step"], row["exact_match"]) for row in metrics if row["exact_match"] is not None]
    heights = [3.0, 1.1, 1.8] if matches else [3.0, 1.8]
    figure = Figure(figsize=(6.4, 1.3 * sum(heights) * 0.82), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
    _draw_reward(panels[0], metrics, maximum)
    if matches:
        _draw_match(panels[1], metrics, matches)
    _draw_loss(panels[-1], metrics)
    panels[-1].set_xlabel("optimizer step")
    figure.suptitle(title, fontsize=11, color=INK).set_parse_math(False)  # a name may hold a $
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        panel.set_axisbelow(True)
    figure.align_ylabels(panels)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name may hold what the font lacks
        figure.savefig(path, dpi=150)


def _draw_reward(panel: Any, metrics: Sequence[dict[str, Any]], maximum: float | None) -> None:
    starts = {row["epoch"]: row for row in reversed(metrics)}
    epochs = sorted(starts)
    steps = [starts[epoch]["step"] for epoch in epochs]
    panel.plot(steps, _numbers(starts[epoch]["mean_reward"] for epoch in epochs), color=ACCENT, linewidth=1.8)
    shaped = [starts[epoch]["shaped_reward"] for epoch in epochs]
    if shaped != [starts[epoch]["mean_reward"] for epoch in epochs]:
        panel.plot(steps, _numbers(shaped), color=QUIET, linewidth=1.2, linestyle=(0, (4, 2)), label="shaped reward")
        panel.legend(frameon=False, fontsize=8, loc="lower right")
    if maximum is not None:
        panel.axhline(maximum, color=INK, linewidth=1, linestyle=(0, (1, 2)))
        panel.annotate(
            f"maximum {maximum:g}",
            (0.995, maximum),
            xycoords=("axes fraction", "data"),
            xytext=(0, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8,
            color=INK,
        )
    panel.set_ylabel("mean reward")


def _draw_match(panel: Any, metrics: Sequence[dict[str, Any]], matches: Sequence[tuple[int, float]]) -> None:
    style = {"color": ACCENT, "linewidth": 1.2, "marker": "o", "markersize": 3.5, "clip_on": False}
    panel.plot(*zip(*matches, strict=True), **style)
    held_out = [
        (row["step"], row["held_out_exact_match"]) for row in metrics if row["held_out_exact_match"] is not None
    ]
    if held_out:
        panel.lines[0].set_label("trained on")
        panel.plot(*zip(*held_out, strict=True), color=QUIET, linewidth=1.2, marker="s", markersize=3, label="held out")
        panel.legend(frameon=False, fontsize=8, loc="best")
    panel.set(ylabel="exact match", ylim=(-0.03, 1.03), yticks=(0, 0.5, 1))


def _draw_loss(panel: Any, metrics: Sequence[dict[str, Any]]) -> None:
    panel.plot([row["step"] for row in metrics], _numbers(row["loss"] for row in metrics), color=INK, linewidth=0.9)
    panel.set_ylabel("loss")


def _numbers(values: Any) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]
