"""Where groups end: a row for each, in the order given, with the numbers of the table and readable names."""

from pathlib import Path

import numpy as np
import pytest
from by_hand import rewards, sweep_folder
from plots.shown import assert_readable, caption_of, groups_in

from pgrl_cli.cells import Sweep
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.plots.final import draw_final, draw_summary
from pgrl_cli.plots.margin import sparse
from pgrl_cli.plots.tables import as_csv
from pgrl_cli.report import summarised

METRIC = Metric(over="last_1_epochs")
DELTAS = ["rewards", "centered_rewards", "normalized_rewards", "max_rewards"]
REWARDS = ["sort_inclusion_ordering_reward", "sort_distance_reward"]


def drawn(folder: Path, figures: list, **more):
    table = draw_final(groups_in(folder), METRIC, folder / "picture.png", **({"title": "a title"} | more))
    return table, figures[-1], figures[-1].axes[0]


def dots(panel) -> list[tuple[float, float]]:
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in panel.lines if line.get_marker() == "o"]


def bars(panel) -> list[tuple[float, float]]:
    long = [line for line in panel.lines if line.get_linewidth() > 2]
    return [tuple(line.get_xdata()) for line in long]


def test_each_group_has_a_row_in_the_order_given_with_the_numbers_of_the_table(tmp_path: Path, figures: list) -> None:
    for name, level in (("b", 1.0), ("c", 3.0), ("a", 2.0)):
        rewards(tmp_path / name, range(6), [[level + 0.1 * seed for seed in range(6)]], name=name, epochs=level)
    table, figure, panel = drawn(tmp_path, figures)
    assert [row["group"] for row in table] == ["a", "b", "c"]
    assert dots(panel) == [(row["value"], place) for place, row in enumerate(table)]
    assert bars(panel) == [(row["low"], row["high"]) for row in table]
    assert [row["value"] for row in table] == pytest.approx([2.25, 1.25, 3.25])
    low, high = panel.get_ylim()
    assert low > high  # the first is at the top
    assert caption_of(figure) == "dot: interquartile mean of n = 6 runs each; bar: 95 % stratified bootstrap interval"


def test_fewer_than_five_runs_are_marked_each_and_are_in_the_table(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", [3, 4, 7], [[1.0, 2.0, 6.0]])
    table, figure, panel = drawn(tmp_path, figures, statistic="mean")
    assert [(row["statistic"], row["seed"], row["value"]) for row in table] == [
        ("mean", None, 3.0),
        ("run", 3, 1.0),
        ("run", 4, 2.0),
        ("run", 7, 6.0),
    ]
    (marks,) = [line for line in panel.lines if line.get_marker() == "|"]
    assert list(marks.get_xdata()) == [1.0, 2.0, 6.0]
    assert "small marks: each run" in caption_of(figure)
    assert as_csv(table).splitlines()[0] == "group,statistic,seed,runs,failed,missing,value,low,high"


def test_failed_runs_are_named_and_counted_beside_their_row(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(6), [[1.0] * 6], name="a", learning_rate=1)
    rewards(tmp_path / "b", range(6), [[2.0] * 5 + [None]], name="b", learning_rate=2, failed=[5])
    rewards(tmp_path / "c", range(6), [[2.0] * 6], name="c", learning_rate=3, status="failed")
    table, figure, panel = drawn(tmp_path, figures)
    assert [(row["runs"], row["failed"]) for row in table[:3]] == [(6, 0), (5, 1), (0, 6)]
    written = [text.get_text() for text in panel.texts]
    assert {"n", "6", "5", "0", "no run at its end"} <= set(written)
    assert "failed: seed 5 of b; seed 0, 1, 2, 3, 4, and 1 more of c" in caption_of(figure)
    assert_readable(figure)


def test_a_run_that_lives_without_a_number_is_no_failed_one(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(6), [[1.0] * 4 + [None] * 2], name="a", learning_rate=1, failed=[5])
    table, figure, _ = drawn(tmp_path, figures)
    assert [table[0][name] for name in ("runs", "failed", "missing")] == [4, 1, 1]
    assert "failed: seed 5; 1 run has no number there" in caption_of(figure)


@pytest.mark.parametrize("cells", [2, 6, 48])
def test_names_are_a_table_on_the_left_that_can_be_read(tmp_path: Path, figures: list, cells: int) -> None:
    every = [
        {"delta_mode": delta, "loss_mode": loss, "reward_fn": reward, "kl_coefficient": weight}
        for delta in DELTAS
        for loss in ("naive", "unclipped", "clipped")
        for reward in REWARDS
        for weight in (0.0, 0.1)
    ]
    for number, cell in enumerate(sweep_folder(tmp_path / "sweep", every)[:cells]):
        rewards(cell, range(6), [[number + 0.1 * seed for seed in range(6)]], **every[number])
    _, figure, panel = drawn(tmp_path, figures)
    assert len(dots(panel)) == cells
    assert_readable(figure)
    assert figure.get_figheight() < 12


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 12345.6, 1e9])
def test_tiny_and_huge_numbers_can_be_read(tmp_path: Path, figures: list, scale: float) -> None:
    for number in range(3):
        runs = [scale * (number + 0.1 * seed) for seed in range(6)]
        rewards(tmp_path / f"r{number}", range(6), [runs], learning_rate=number)
    assert_readable(drawn(tmp_path, figures)[1])


def test_names_that_leave_no_room_for_points_stand_above_them(tmp_path: Path, figures: list) -> None:
    for number, name in enumerate(
        ["a short one", "a name of very many words that goes on and on, beyond every margin"]
    ):
        rewards(tmp_path / f"r{number}", range(6), [[1.0 + seed for seed in range(6)]], name=name, learning_rate=number)
    _, figure, panel = drawn(tmp_path, figures)
    assert panel.get_position().width > 0.9
    assert_readable(figure)


def test_words_of_a_nested_table_are_written_where_they_change() -> None:
    nested = [("a", "x", "1"), ("a", "x", "2"), ("a", "y", "1"), ("b", "x", "1")]
    assert sparse(nested) == [("a", "x", "1"), ("", "", "2"), ("", "y", "1"), ("b", "x", "1")]
    ranked = [("a", "1"), ("b", "1"), ("a", "2")]
    assert sparse(ranked) == ranked
    assert sparse([]) == []


def test_a_summary_has_the_best_at_the_top_and_says_what_became_of_the_rest(tmp_path: Path, figures: list) -> None:
    parameters = [{"delta_mode": delta} for delta in DELTAS]
    cells = sweep_folder(tmp_path / "sweep", parameters)
    rewards(cells[0], range(6), [[1.0] * 6])
    rewards(cells[1], range(6), [[2.0] * 5 + [None]], failed=[5])
    rewards(cells[2], range(6), [[3.0] * 6], status="failed")
    rows, _ = summarised(Sweep(tmp_path / "sweep"), METRIC)
    table = draw_summary(rows, METRIC, tmp_path / "summary.png", title="sweep")
    figure = figures[-1]
    panel = figure.axes[0]
    assert dots(panel) == [(2.0, 0), (1.0, 1)]
    assert [row["group"] for row in table] == [f"delta_mode={DELTAS[place]}" for place in (1, 0, 2, 3)]
    assert {"failed", "pending"} <= {text.get_text() for text in panel.texts}
    assert "7 runs failed and are not counted" in caption_of(figure)
    assert_readable(figure)


def test_a_single_run_has_a_point_without_a_bar(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", 5, [2.0])
    table, figure, panel = drawn(tmp_path, figures)
    assert (dots(panel), bars(panel)) == ([(2.0, 0)], [])
    assert np.isnan(table[0]["low"])
    assert "nothing is known of the spread" in caption_of(figure)


def test_of_very_many_cells_the_best_and_the_worst_are_drawn_and_the_table_has_all(
    tmp_path: Path, figures: list
) -> None:
    parameters = [{"delta_mode": "rewards", "learning_rate": 0.001 * (1 + place)} for place in range(60)]
    for place, cell in enumerate(sweep_folder(tmp_path / "sweep", parameters)[:55]):
        rewards(cell, range(6), [[place + 0.1 * seed for seed in range(6)]])
    rows, _ = summarised(Sweep(tmp_path / "sweep"), METRIC)
    table = draw_summary(rows, METRIC, tmp_path / "summary.png", title="sweep")
    figure = figures[-1]
    panel = figure.axes[0]
    assert len(dots(panel)) == 40
    assert [round(x - 0.25) for x, _ in dots(panel)][19:21] == [35, 19]
    assert "15 cells between" in {text.get_text() for text in panel.texts}
    assert "the 20 best and the 20 worst; 5 cells have no number, and no row" in caption_of(figure)
    assert len({row["group"] for row in table}) == 60
    assert_readable(figure)
    assert figure.get_figheight() < 10


def test_a_number_beside_the_interquartile_mean_is_the_mean(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(6), [[0.0] + [1.0] * 5])
    table, _, _ = drawn(tmp_path, figures)
    assert (table[0]["value"], table[0]["mean"]) == (1.0, pytest.approx(5 / 6))
