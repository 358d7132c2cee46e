"""How stale a rollout gets: what a diagnosis says of each loss, along the steps of an epoch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli.plots.legend import add_legend, height_of_legend
from pgrl_cli.plots.style import (
    LINES,
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
    short_numbers,
)

LEFT, AXIS, BETWEEN = 0.9, 0.48, 0.14
PANELS = (
    ("cosine", "cosine to\nthe truth", 1.9),
    ("effective_sample_size", "effective\nsample", 0.85),
    ("expected_reward", "expected\nreward", 0.85),
)
"""What is drawn of every step, its name, and the height of its panel in inches."""
MOST_MARKS = 20
"""Of a line; more hide it."""


def draw_losses(found: Mapping[str, Any], path: Path, *, title: str) -> None:
    """Cosine, effective sample size and expected reward of each loss before each step of an epoch. Raises OSError."""
    losses: Mapping[str, Sequence[Mapping[str, Any]]] = found["losses"]
    entries = list(losses)
    told = (
        "cosine of each loss's gradient to the true one before each step, mean over rollouts that each train a copy of "
        "the policy; band: two standard errors either way"
    )
    under = height_of_caption(told) + height_of_legend(entries, "") + AXIS
    high = sum(height + BETWEEN for _, _, height in PANELS)
    figure = new_figure(height_of_headline(title) + high + under)
    bottom = under + high - BETWEEN
    panels = []
    for name, label, height in PANELS:
        bottom -= height
        panel = dressed(place(figure, LEFT, bottom, WIDTH - LEFT - 0.15, height))
        bottom -= BETWEEN
        _draw(panel, name, losses)
        panel.set_ylabel(label, fontsize=SMALL + 1)
        panel.yaxis.set_label_coords(-0.145, 0.5)
        panel.locator_params(axis="y", nbins=3 if height < 1 else 5)
        panel.tick_params(labelbottom=False)
        short_numbers(panel, "y")
        panels.append(panel)
    panels[0].axhline(0, color=QUIET, linewidth=0.8, zorder=0.6)
    panels[-1].tick_params(labelbottom=True)
    panels[-1].set_xlabel("step of the epoch", fontsize=SMALL + 1)
    add_legend(panels[0], told, entries, "")
    headline(figure, title)
    caption(figure, told)
    save(figure, path)


def _draw(panel: Any, name: str, losses: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Lines of all losses; of the cosine with their bands."""
    from matplotlib.ticker import MaxNLocator

    for index, (loss, steps) in enumerate(losses.items()):
        look = LINES[index % len(LINES)]
        x = np.arange(1, len(steps) + 1)
        values = np.array([step[name] for step in steps], dtype=float)
        if name == "cosine":
            doubt = 2 * np.array([step["standard_error"] for step in steps], dtype=float)
            panel.fill_between(x, values - doubt, values + doubt, color=look["color"], alpha=0.2, linewidth=0)
        every = max(1, -(-len(steps) // MOST_MARKS))
        label = loss if name == "cosine" else f"_{loss}"
        panel.plot(x, values, label=label, linewidth=1.4, markersize=3.8, markevery=every, **look)
    panel.set_xlim(0.5, len(next(iter(losses.values()))) + 0.5)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))
