"""Performance profiles: which share of a group's runs ends above a value (Agarwal et al., 2021, section 4.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.groups import Group
from pgrl_cli.plots.legend import Cast, add_legend, cast, stage
from pgrl_cli.plots.style import FAINT, SMALL, save
from pgrl_cli.plots.tables import Table, counted, named, provisos, titled

MOST_THRESHOLDS = 400
"""Of more different values than this a grid is drawn."""


@dataclass(frozen=True)
class Profile:
    """The share of a group's runs above each threshold: [threshold]."""

    runs: int
    """How many have a number."""
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


def draw_profile(groups: Sequence[Group], metric: Metric, path: Path, *, title: str) -> Table:
    """The share of each group's runs that end above a value, at every value that one of them has; the numbers drawn."""
    ends = [group.ends(metric.over, metric.goal) for group in groups]
    thresholds = _thresholds(np.concatenate([values for strata in ends for values in strata]))
    profiles = [_profile(strata, thresholds) for strata in ends]
    actors = cast(groups, [float(statistics.mean(np.concatenate(strata))) for strata in ends])
    entries, told, header = _entries(actors, profiles), _caption(groups, profiles, actors, metric), actors.names.header
    panel, _ = stage(title, told, entries, header)
    for index in actors.crowd:
        share = profiles[index].share
        panel.plot(thresholds, share, color=FAINT, linewidth=0.5, drawstyle="steps-post", zorder=1.5)
    for row, (index, _, style) in enumerate(actors.styles):
        _draw(panel, thresholds, profiles[index], style, entries[row], row, actors.banded)
    panel.set_xlabel(titled(metric), fontsize=SMALL + 1).set_parse_math(False)
    panel.set_ylabel("share of runs above", fontsize=SMALL + 1)
    panel.set_ylim(-0.03, 1.03)
    add_legend(panel, told, entries, header)
    save(panel.figure, path)
    return [row for group, profile in zip(groups, profiles, strict=True) for row in _rows(group, profile, thresholds)]


def _profile(strata: Sequence[np.ndarray], thresholds: np.ndarray) -> Profile:
    runs = int(sum((~np.isnan(values)).sum() for values in strata))
    return Profile(runs, *statistics.performance_profile(strata, thresholds))


def _entries(actors: Cast, profiles: Sequence[Profile]) -> list[str]:
    """The names with how many runs each has, unless all have as many."""
    if len({profile.runs for profile in profiles}) == 1:
        return actors.names.lines
    return [f"{name}  ({counted([profiles[index].runs])})" for index, name, _ in actors.styles]


def _caption(groups: Sequence[Group], profiles: Sequence[Profile], actors: Cast, metric: Metric) -> str:
    runs = [profile.runs for profile in profiles]
    told = [f"share of n = {counted(runs)}{' each' if len(groups) > 1 else ''} that end above a value"]
    if max(runs) > 1:
        told += ["band: 95 % stratified bootstrap interval" if actors.banded else "95 % intervals are in the CSV"]
    return "; ".join([*told, *actors.note("on average"), *provisos(groups, metric.name)])


def _draw(
    panel: Any, thresholds: np.ndarray, profile: Profile, style: Mapping[str, Any], entry: str, row: int, banded: bool
) -> None:
    if banded:
        band = {"color": style["color"], "alpha": 0.2, "linewidth": 0, "step": "post"}
        panel.fill_between(thresholds, profile.low, profile.high, **band)
    moving = np.flatnonzero((profile.share > 0) & (profile.share < 1))
    shown = moving[np.linspace(0, len(moving) - 1, 6).astype(int)][row % 2 :: 2].tolist() if len(moving) else []
    mark = {"marker": style["marker"], "markersize": 4.5, "markevery": shown, "markeredgewidth": 0.0}
    line = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1.6, "drawstyle": "steps-post"}
    panel.plot(thresholds, profile.share, label=entry, **line, **mark)


def _rows(group: Group, profile: Profile, thresholds: np.ndarray) -> Table:
    names = named(group.label, group.parts)
    rows: Table = []
    for threshold, share, low, high in zip(thresholds, profile.share, profile.low, profile.high, strict=True):
        value = {"runs": profile.runs, "value": share, "low": low, "high": high}
        rows.append({**names, "above": threshold, "statistic": "share", **value})
    return rows


def _thresholds(values: np.ndarray) -> np.ndarray:
    """Every value that occurs, and one on each side."""
    there = np.unique(values[~np.isnan(values)])
    low, high = (there[0], there[-1]) if len(there) else (0.0, 1.0)
    margin = 0.03 * (high - low) or 0.5
    if len(there) > MOST_THRESHOLDS:
        return np.linspace(low - margin, high + margin, MOST_THRESHOLDS)
    return np.concatenate([[low - margin], there, [high + margin]])
