"""A profile says which share of the runs ends above a value."""

from pathlib import Path

import numpy as np
from by_hand import rewards, sweep_folder
from plots.shown import assert_readable, caption_of, groups_in

from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.plots.profile import MOST_THRESHOLDS, draw_profile

METRIC = Metric(over="last_1_epochs")


def drawn(folder: Path, figures: list):
    table = draw_profile(groups_in(folder), METRIC, folder / "picture.png", title="a title")
    return table, figures[-1], figures[-1].axes[0]


def test_shares_are_those_counted_by_hand_and_step_where_a_run_ends(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(4), [[1.0, 2.0, 2.0, 4.0]])
    table, figure, panel = drawn(tmp_path, figures)
    assert [(round(row["above"], 2), row["value"]) for row in table] == [
        (0.91, 1.0),
        (1.0, 0.75),
        (2.0, 0.25),
        (4.0, 0.0),
        (4.09, 0.0),
    ]
    (line,) = panel.lines
    assert list(line.get_ydata()) == [row["value"] for row in table]
    assert line.get_drawstyle() == "steps-post"
    assert "share of n = 4 runs that end above a value; band: 95 %" in caption_of(figure)


def test_a_failed_run_counts_neither_way_and_is_named(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(5), [[1.0, 2.0, 3.0, 4.0, None]], failed=[4])
    table, figure, _ = drawn(tmp_path, figures)
    assert {row["runs"] for row in table} == {4}
    assert table[1]["value"] == 0.75
    assert "failed: seed 4" in caption_of(figure)


def test_of_very_many_values_a_grid_is_drawn(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(600), [np.linspace(0, 1, 600).tolist()])
    assert len(drawn(tmp_path, figures)[0]) == MOST_THRESHOLDS


def test_many_groups_can_be_read(tmp_path: Path, figures: list) -> None:
    parameters = [
        {"delta_mode": delta, "learning_rate": rate} for delta in ("rewards", "max_rewards") for rate in range(6)
    ]
    for number, cell in enumerate(sweep_folder(tmp_path / "sweep", parameters)):
        rewards(cell, range(6), [[number + seed for seed in range(6)]], **parameters[number])
    table, figure, panel = drawn(tmp_path, figures)
    assert len(panel.lines) == len({row["group"] for row in table}) == 12
    assert_readable(figure)
