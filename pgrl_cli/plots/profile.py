"""Performance profiles: which share of a group's runs ends above a value (Agarwal et al., 2021, section 4.2)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.groups import Group
from pgrl_cli.plots.legend import add_legend, cast, stage
from pgrl_cli.plots.style import FAINT, SMALL, save
from pgrl_cli.plots.tables import Table, counted, fates, named, titled

MOST_THRESHOLDS = 400
"""Of more different values than this a grid is drawn."""


def draw_profile(groups: Sequence[Group], metric: Metric, path: Path, *, title: str) -> Table:
    """The share of each group's runs that end above a value, at every value that one of them has; the numbers drawn."""
    ends = [group.ends(metric.over, metric.goal) for group in groups]
    thresholds = _thresholds(np.concatenate([values for strata in ends for values in strata]))
    shares, lows, highs = [], [], []
    for strata in ends:
        share, low, high = statistics.performance_profile(strata, thresholds)
        shares.append(share)
        lows.append(low)
        highs.append(high)
    runs = [int(sum((~np.isnan(values)).sum() for values in strata)) for strata in ends]
    actors = cast(groups, [float(statistics.mean(np.concatenate(strata))) for strata in ends])
    names = actors.names.lines
    entries = (
        names if len(set(runs)) == 1 else [f"{name}  ({counted([runs[index]])})" for index, name, _ in actors.styles]
    )
    told = [f"share of n = {counted(runs)}{' each' if len(groups) > 1 else ''} that end above a value"]
    if max(runs) > 1:
        told += ["band: 95 % stratified bootstrap interval" if actors.banded else "95 % intervals are in the CSV"]
    told += [note.replace("at the end", "on average") for note in actors.note]
    told += fates(groups)
    header = actors.names.header
    panel, _ = stage(title, "; ".join(told), entries, header)
    for index in actors.crowd:
        panel.plot(thresholds, shares[index], color=FAINT, linewidth=0.5, drawstyle="steps-post", zorder=1.5)
    for row, (index, _, style) in enumerate(actors.styles):
        if actors.banded:
            band = {"color": style["color"], "alpha": 0.2, "linewidth": 0, "step": "post"}
            panel.fill_between(thresholds, lows[index], highs[index], **band)
        moving = np.flatnonzero((shares[index] > 0) & (shares[index] < 1))
        shown = moving[np.linspace(0, len(moving) - 1, 6).astype(int)][row % 2 :: 2] if len(moving) else []
        mark = {
            "marker": style["marker"],
            "markersize": 4.5,
            "markevery": list(map(int, shown)),
            "markeredgewidth": 0.0,
        }
        line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.6, "drawstyle": "steps-post"}
        panel.plot(thresholds, shares[index], label=entries[row], **line, **mark)
    panel.set_xlabel(titled(metric), fontsize=SMALL + 1).set_parse_math(False)
    panel.set_ylabel("share of runs above", fontsize=SMALL + 1)
    panel.set_ylim(-0.03, 1.03)
    add_legend(panel, "; ".join(told), entries, header)
    save(panel.figure, path)
    return [
        {
            **named(group.label, group.parts),
            "above": x,
            "statistic": "share",
            "runs": n,
            "value": v,
            "low": lo,
            "high": hi,
        }
        for group, n, *columns in zip(groups, runs, shares, lows, highs, strict=True)
        for x, v, lo, hi in zip(thresholds, *columns, strict=True)
    ]


def _thresholds(values: np.ndarray) -> np.ndarray:
    """Every value that occurs, and one on each side."""
    there = np.unique(values[~np.isnan(values)])
    low, high = (there[0], there[-1]) if len(there) else (0.0, 1.0)
    margin = 0.03 * (high - low) or 0.5
    if len(there) > MOST_THRESHOLDS:
        return np.linspace(low - margin, high + margin, MOST_THRESHOLDS)
    return np.concatenate([[low - margin], there, [high + margin]])
