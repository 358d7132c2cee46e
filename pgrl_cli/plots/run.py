"""The picture of a run, or of a config's runs side by side, over optimizer steps."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.problems import listed
from pgrl_cli.plots.style import (
    ACCENT,
    INK,
    LINES,
    QUIET,
    SMALL,
    caption,
    dressed,
    headline,
    height_of_caption,
    height_of_headline,
    new_figure,
    save,
    short_numbers,
    width_of,
)
from pgrl_cli.results import AT_ITS_END, ONCE_AN_EPOCH
from pgrl_cli.statistics import FEW

DRAWN = ("mean_reward", "shaped_reward", "exact_match", "held_out_exact_match", "kl", "loss")
COMPONENT = "reward/"
"""What the metrics of a reward's components begin with: all of them are drawn."""
BROAD, SAMPLE, ROW = 3.8, 0.5, 0.2
"""The width of a panel and of a name's sample of line, in inches; and a row of names, in heights of their panel."""
COMPONENTS = "components"
"""Stands for any of them."""


@dataclass(frozen=True)
class Series:
    """A metric along the optimizer steps at which it was measured."""

    steps: np.ndarray
    """[row]."""
    values: np.ndarray
    """[row seed]; NaN is a gap."""


Curves = Mapping[str, Series]
"""Series by metric: those of DRAWN that were measured."""


class Gathered:
    """What is drawn of a run, taken in while it goes on: few numbers of each line, so that no file is read again."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[int, Any]]] = {name: [] for name in DRAWN}
        self.epoch: int | None = None

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in lines of metrics.jsonl, or what they are made of: numbers, or arrays [seed]."""
        for row in rows:
            for name in (*DRAWN, *(name for name in row if name.startswith(COMPONENT))):
                once, at_its_end = name in ONCE_AN_EPOCH or name.startswith(COMPONENT), name in AT_ITS_END
                if (once and row["epoch"] == self.epoch) or (at_its_end and row[name] is None):
                    continue
                value = row[name].copy() if isinstance(row[name], np.ndarray) else row[name]
                self.rows.setdefault(name, []).append((row["step"], value))
            self.epoch = row["epoch"]

    def curves(self) -> Curves:
        """The series so far: a point per epoch for the reward, whose rollout all steps of an epoch share, one per step
        for KL and loss, and exact match where it was measured."""
        curves = {}
        for name, rows in self.rows.items():
            if any(value is not None for _, value in rows):
                seeds = max(np.size(value) for _, value in rows)
                values = [np.broadcast_to(np.array(value, dtype=float), (seeds,)) for _, value in rows]
                curves[name] = Series(np.array([step for step, _ in rows]), np.array(values))
        return curves


def title_of(config: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """What the picture of a run says above it."""
    reward = config["reward_fn"]
    weights = {reward: 1} if isinstance(reward, str) else reward
    rewards = " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in weights.items())
    who = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"{config['name']}: {config['delta_mode']}, {config['loss_mode']} loss, {who}\n{rewards}"


def draw(curves: Curves, path: Path, *, title: str, maximum: float | None, failed: Sequence[int] = ()) -> None:
    """The lecture's picture: mean reward with its known maximum, exact match, KL and loss over optimizer steps.

    A reward's components, exact match and KL have a panel where there are any. Of several seeds it is their mean with
    the 95 % bootstrap interval, of fewer than five also each one; `failed` seeds are named. What is not a number is a
    gap.
    """
    there = {*curves, *(COMPONENTS for name in curves if name.startswith(COMPONENT))}
    drawn = [panel for panel in PANELS if panel[0] is None or panel[0] in there]
    heights = [height for _, height, _ in drawn]
    told = _told(curves["mean_reward"], failed) if "mean_reward" in curves else ""
    below = height_of_caption(told) if told else 0.0
    above = max(0.55, height_of_headline(title))
    figure = new_figure(above + 0.55 + sum(heights) + below)
    panels = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0])
    top, bottom = above / figure.get_figheight(), (0.5 + below) / figure.get_figheight()
    figure.subplots_adjust(left=0.17, right=0.97, top=1 - top, bottom=bottom, hspace=0.22)
    for panel, (needs, _, put) in zip(panels, drawn, strict=True):
        put(dressed(panel), curves)
        panel.yaxis.set_label_coords(-0.145, 0.5)
        if needs != "exact_match":
            short_numbers(panel, "y")
    if maximum is not None:
        _mark_maximum(panels[0], maximum)
    panels[-1].set_xlabel("optimizer step")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    headline(figure, title)
    if told:
        caption(figure, told)
    save(figure, path)


def _told(series: Series, failed: Sequence[int]) -> str:
    """What the picture of several seeds shows."""
    seeds = series.values.shape[1]
    if seeds == 1:
        return ""
    told = f"mean of n = {seeds} seeds; band: 95 % bootstrap interval" + ("; thin: each seed" if seeds < FEW else "")
    if failed:
        left = int((~np.isnan(series.values[-1])).sum())
        told += f"; failed, and missing from there on: seed {listed(failed, 5)}; n = {left} at the end"
    return told


def _put(panel: Any, series: Series, **style: Any) -> None:
    """A line; of several seeds their mean, its interval and, if they are few, each one."""
    seeds = series.values.shape[1]
    if len(series.steps) == 1 and "marker" not in style:
        style["marker"] = "o"  # one point draws no line
    if seeds > 1:
        low, high = statistics.bootstrap_interval([series.values], statistics.mean)
        panel.fill_between(series.steps, low, high, color=style["color"], alpha=0.22, linewidth=0)
        if seeds < FEW:
            panel.plot(series.steps, series.values, color=style["color"], linewidth=0.5, alpha=0.6)
    panel.plot(series.steps, statistics.mean(series.values), **style)


def _draw_reward(panel: Any, curves: Curves) -> None:
    panel.set_ylabel("mean reward")
    if "mean_reward" not in curves:
        return
    _put(panel, curves["mean_reward"], color=ACCENT, linewidth=1.8)
    shaped = curves.get("shaped_reward")
    if shaped is not None and not np.array_equal(shaped.values, curves["mean_reward"].values, equal_nan=True):
        _put(panel, shaped, color=QUIET, linewidth=1.2, linestyle=(0, (4, 2)), label="shaped reward")
        panel.legend(frameon=False, fontsize=SMALL, loc="lower right")


def _mark_maximum(panel: Any, maximum: float) -> None:
    """A line at what right answers earn, its name above its left end, where curves are still low."""
    panel.axhline(maximum, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    low, high = panel.get_ylim()
    panel.set_ylim(low, max(high, maximum + 0.12 * (maximum - low)))
    place = {"xytext": (0, 2), "textcoords": "offset points", "ha": "left", "va": "bottom"}
    xy = (0.01, maximum)
    panel.annotate(f"maximum {maximum:g}", xy, xycoords=("axes fraction", "data"), fontsize=SMALL, color=INK, **place)


def _draw_components(panel: Any, curves: Curves) -> None:
    """Each component as it is paid, without its weight: one that rises while another falls is seen."""
    panel.set_ylabel("components")
    components = {name.removeprefix(COMPONENT): s for name, s in curves.items() if name.startswith(COMPONENT)}
    for (name, series), look in zip(components.items(), cycle(LINES), strict=False):
        _put(panel, series, label=name, color=look["color"], linestyle=look["linestyle"], linewidth=1.2)
    beside = max(1, int(BROAD / (SAMPLE + max(map(width_of, components)))))
    rows = -(-len(components) // beside)
    low, high = panel.get_ylim()
    panel.set_ylim(low, high + (high - low) * rows * ROW)  # room for the names above all lines
    place = {"loc": "upper left", "borderaxespad": 0.3, "borderpad": 0.0}
    panel.legend(frameon=False, fontsize=SMALL, ncols=beside, **place)


def _draw_match(panel: Any, curves: Curves) -> None:
    style = {"linewidth": 1.2, "markersize": 3.5, "clip_on": False}
    _put(panel, curves["exact_match"], color=ACCENT, marker="o", label="trained on", **style)
    if "held_out_exact_match" in curves:
        _put(panel, curves["held_out_exact_match"], color=QUIET, marker="s", label="held out", **style)
        panel.legend(frameon=False, fontsize=SMALL, loc="best")
    panel.set(ylabel="exact match", ylim=(-0.03, 1.03), yticks=(0, 0.5, 1))


def _draw_kl(panel: Any, curves: Curves) -> None:
    _put(panel, curves["kl"], color=QUIET, linewidth=1)
    panel.set_ylabel("KL (nats)")


def _draw_loss(panel: Any, curves: Curves) -> None:
    panel.set_ylabel("loss")
    if "loss" in curves:
        _put(panel, curves["loss"], color=INK, linewidth=0.9)


PANELS: tuple[tuple[str | None, float, Callable[[Any, Curves], None]], ...] = (
    (None, 2.2, _draw_reward),
    (COMPONENTS, 1.2, _draw_components),
    ("exact_match", 0.8, _draw_match),
    ("kl", 0.8, _draw_kl),
    (None, 1.2, _draw_loss),
)
"""Each panel with the metric that it needs, and its height in inches."""
