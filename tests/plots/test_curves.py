"""Curves show every run as it is: nothing stretched, dropped or smoothed without a word."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from by_hand import rewards, run_folder, sweep_folder
from plots.shown import assert_readable, caption_of, groups_in

from pgrl_cli.plots.curves import draw_curves, smoothed
from pgrl_cli.plots.tables import as_csv

STEPS = 6


def rows(seeds: int, level: float = 1.0, steps: int = STEPS) -> list[list[float]]:
    spread = np.linspace(-0.5, 0.5, seeds) if seeds > 1 else np.zeros(1)
    return [(level * (1 + step) + spread * (1 + 0.1 * step)).tolist() for step in range(steps)]


def drawn(folder: Path, figures: list, **more):
    """The table, the figure, and its lines by label."""
    words = {"title": "a title", "statistic": "mean"} | more
    metric = words.pop("metric", "mean_reward")
    table = draw_curves(groups_in(folder, metric), metric, folder / "picture.png", **words)
    figure = figures[-1]
    return table, figure, figure.axes[0]


def labelled(panel) -> dict[str, object]:
    return {line.get_label(): line for line in panel.lines if not line.get_label().startswith("_")}


def test_the_line_is_the_mean_of_the_runs_and_the_csv_has_the_drawn_numbers(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(8), rows(8), name="a")
    table, _, panel = drawn(tmp_path, figures)
    (line,) = panel.lines
    np.testing.assert_allclose(line.get_ydata(), [1, 2, 3, 4, 5, 6])
    read = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert [float(row["step"]) for row in read] == list(line.get_xdata())
    assert [float(row["value"]) for row in read] == list(line.get_ydata())
    (band,) = panel.collections
    edges = {round(float(y), 9) for y in band.get_paths()[0].vertices[:, 1]}
    assert {round(float(row[edge]), 9) for row in read for edge in ("low", "high")} == edges
    assert {row["runs"] for row in read} == {"8"}


def test_steps_are_counted_in_whole_numbers(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(8), rows(8, steps=20))
    _, _, panel = drawn(tmp_path, figures)
    assert all(float(place).is_integer() for place in panel.get_xticks())


def test_the_caption_names_how_many_runs_the_statistic_and_the_interval(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(8), rows(8))
    _, figure, _ = drawn(tmp_path, figures, statistic="iqm")
    assert caption_of(figure) == "interquartile mean over n = 8 runs; band: 95 % stratified bootstrap interval"


def test_fewer_than_five_runs_are_drawn_each_and_five_are_not(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "four" / "a", range(4), rows(4))
    rewards(tmp_path / "five" / "a", range(5), rows(5))
    table, figure, panel = drawn(tmp_path / "four", figures)
    assert len(panel.lines) == 5
    assert "thin: each run" in caption_of(figure)
    thin = [[row["value"] for row in table if row["statistic"] == "run" and row["seed"] == seed] for seed in range(4)]
    assert [list(line.get_ydata()) for line in panel.lines[:4]] == thin
    assert len(drawn(tmp_path / "five", figures)[2].lines) == 1


def test_one_run_has_no_band_and_the_caption_says_why(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", 5, [1.0, 2.0])
    table, figure, panel = drawn(tmp_path, figures)
    assert list(panel.lines[0].get_ydata()) == [1.0, 2.0]
    assert all(np.isnan(row["low"]) for row in table)
    assert "nothing is known of the spread" in caption_of(figure)


def test_runs_of_unequal_lengths_keep_their_own_and_a_strip_counts_them(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(8), rows(8))
    rewards(tmp_path / "b", [8, 9], rows(2, level=3.0, steps=3), epochs=STEPS, status="interrupted")
    table, figure, panel = drawn(tmp_path, figures)
    assert [row["runs"] for row in table] == [10, 10, 10, 8, 8, 8]
    (line,) = labelled(panel).values()
    np.testing.assert_allclose(line.get_ydata(), [1.4, 2.8, 4.2, 4, 5, 6])
    strip = figure.axes[1]
    assert strip.get_ylabel() == "runs"
    assert list(strip.lines[0].get_ydata()) == [10, 10, 10, 8, 8, 8]
    assert "n = 8 to 10 runs" in caption_of(figure)
    assert "2 runs are not finished" in caption_of(figure)


def test_groups_of_unequal_lengths_end_where_they_end(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(6), rows(6), delta_mode="rewards", name="a")
    rewards(tmp_path / "b", range(6), rows(6, steps=3), delta_mode="max_rewards", name="b")
    _, figure, panel = drawn(tmp_path, figures)
    assert [line.get_xdata()[-1] for line in labelled(panel).values()] == [5, 2]
    assert len(figure.axes) == 1


def test_a_failed_seed_is_named_and_its_curve_ends(tmp_path: Path, figures: list) -> None:
    values = rows(6)
    for step in range(3, STEPS):
        values[step][2] = None
    rewards(tmp_path / "a", range(6), values, failed=[2])
    table, figure, _ = drawn(tmp_path, figures)
    assert [row["runs"] for row in table] == [6, 6, 6, 5, 5, 5]
    assert "failed: seed 2" in caption_of(figure)
    assert "gaps" not in caption_of(figure)


def test_where_a_pooled_experiment_has_one_run_left_there_is_no_band_and_the_caption_says_so(
    tmp_path: Path, figures: list
) -> None:
    rewards(tmp_path / "a", range(6), rows(6), learning_rate=0.1)
    dying = [[level, level + 1 if step < 3 else None] for step, level in enumerate(range(STEPS))]
    rewards(tmp_path / "b", [0, 1], dying, learning_rate=0.2, failed=[1])
    groups = groups_in(tmp_path, by=("delta_mode",))
    table = draw_curves(groups, "mean_reward", tmp_path / "picture.png", title="pooled", statistic="mean")
    assert [np.isnan(row["low"]) for row in table] == [False] * 3 + [True] * 3
    assert "none where a pooled experiment has one run left" in caption_of(figures[-1])


def test_what_is_no_number_is_a_gap_and_a_note(tmp_path: Path, figures: list) -> None:
    run_folder(tmp_path / "a", 5, {"kl": [0.1, None, 0.3, None, 0.5]})
    run_folder(tmp_path / "b", [0, 1], {"kl": [[0.1, 0.1], [0.2, None], [0.3, 0.3], [0.4, 0.4], [0.5, 0.5]]}, name="b")
    table, figure, panel = drawn(tmp_path / "b", figures, metric="kl")
    assert "1 value is no finite number: a gap" in caption_of(figure)
    assert np.isnan(panel.lines[1].get_ydata()).tolist() == [False, True, False, False, False]
    assert table[1]["runs"] == 1


def test_smoothing_is_told_in_the_title_and_leaves_the_raw_numbers_in_the_table(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(6), rows(6))
    table, figure, panel = drawn(tmp_path, figures, smooth=2)
    assert "smoothed for the eye: each run averaged over its last 2 points" in figure.get_suptitle()
    np.testing.assert_allclose([row["value"] for row in table], [1, 2, 3, 4, 5, 6])
    np.testing.assert_allclose(panel.lines[0].get_ydata(), [1, 1.5, 2.5, 3.5, 4.5, 5.5])
    assert [row["smoothed_value"] for row in table] == list(panel.lines[0].get_ydata())


def test_each_run_is_smoothed_by_itself_and_a_gap_stays_a_gap() -> None:
    values = np.array([[1.0, 10.0], [3.0, np.nan], [5.0, 30.0], [7.0, 40.0]])
    expected = [[1.0, 10.0], [2.0, np.nan], [4.0, 30.0], [6.0, 35.0]]
    np.testing.assert_allclose(smoothed(values, 2), expected)
    np.testing.assert_allclose(smoothed(values, 99)[-1], [4.0, 80 / 3])
    np.testing.assert_array_equal(smoothed(values, 1), values)


def test_of_more_groups_than_styles_all_are_drawn_and_the_ends_are_told_apart(tmp_path: Path, figures: list) -> None:
    cells = sweep_folder(tmp_path / "sweep", [{"learning_rate": 0.1 * number} for number in range(12)])
    for number, cell in enumerate(cells):
        rewards(cell, range(5), rows(5, level=1 + (number * 5) % 12), learning_rate=0.1 * number)
    table, figure, panel = drawn(tmp_path, figures)
    assert len(panel.lines) == 12
    assert len({row["group"] for row in table}) == 12
    assert "in colour the 3 highest and the 2 lowest at the end, thin and grey the other 7" in caption_of(figure)
    ends = [line.get_ydata()[-1] for line in labelled(panel).values()]
    assert ends == pytest.approx([72, 66, 60, 12, 6])


def test_up_to_five_groups_have_bands_and_more_have_bars_at_the_end(tmp_path: Path, figures: list) -> None:
    for number in range(6):
        rewards(tmp_path / f"r{number}", range(5), rows(5, level=1 + number), learning_rate=number, name=f"r{number}")
    _, figure, panel = drawn(tmp_path, figures)
    assert not panel.collections
    assert "bars in the shaded margin, at no step: 95 %" in caption_of(figure)


def test_the_same_runs_make_the_same_numbers(tmp_path: Path, figures: list) -> None:
    rewards(tmp_path / "a", range(8), rows(8))
    assert as_csv(drawn(tmp_path, figures)[0]) == as_csv(drawn(tmp_path, figures)[0])


NAMES = [
    "$x_1$ and $\\alpha$",
    "a name of very many words that goes on and on until nobody wants to read it any more, not even at full width",
    "one_word_that_is_wider_than_any_column_of_any_paper_that_was_ever_printed_or_will_be",
]


@pytest.mark.parametrize("seeds", [1, 3, 30])
@pytest.mark.parametrize("groups", [1, 3, 8])
def test_everything_written_can_be_read(tmp_path: Path, figures: list, seeds: int, groups: int) -> None:
    for number in range(groups):
        name = NAMES[number] if number < len(NAMES) else f"r{number}"
        told = {"name": name, "learning_rate": 0.1 * number, "failed": [0] if seeds > 3 else []}
        values = rows(seeds, level=number)
        if seeds > 3:
            values[-1][0] = None
        rewards(tmp_path / f"r{number}", range(seeds), values, **told)
    assert_readable(drawn(tmp_path, figures, title=NAMES[1], smooth=2)[1])


def test_a_sweep_of_many_keys_can_be_read(tmp_path: Path, figures: list) -> None:
    deltas = ["rewards", "centered_rewards", "normalized_rewards", "max_rewards"]
    parameters = [
        {"delta_mode": delta, "reward_fn": reward, "kl_coefficient": weight}
        for delta in deltas
        for reward in ("sort_inclusion_ordering_reward", "sort_distance_reward")
        for weight in (0.0, 0.1)
    ]
    for number, cell in enumerate(sweep_folder(tmp_path / "sweep", parameters)):
        rewards(cell, range(6), rows(6, level=number), **parameters[number])
    assert_readable(drawn(tmp_path, figures)[1])


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 12345.6, 1e9])
def test_tiny_and_huge_numbers_can_be_read(tmp_path: Path, figures: list, scale: float) -> None:
    rewards(tmp_path / "a", range(6), (scale * np.array(rows(6))).tolist())
    assert_readable(drawn(tmp_path, figures)[1])


def test_a_pooled_group_names_what_is_pooled_in_it(tmp_path: Path, figures: list) -> None:
    grid = [{"delta_mode": delta, "kl_coefficient": kl} for delta in ("rewards", "max_rewards") for kl in (0.0, 0.1)]
    for cell, parameters in zip(sweep_folder(tmp_path / "sweep", grid), grid, strict=True):
        rewards(cell, range(6), rows(6), **parameters)
    groups = groups_in(tmp_path / "sweep", by=("delta_mode",))
    draw_curves(groups, "mean_reward", tmp_path / "pooled.png", title="a title", statistic="mean")
    assert "pooled over kl_coefficient 0, 0.1" in caption_of(figures[-1])


@pytest.mark.parametrize(("metric", "told"), [("mean_reward", True), ("loss", False)])
def test_rewards_that_differ_are_said_not_to_be_on_one_scale(
    tmp_path: Path, figures: list, metric: str, told: bool
) -> None:
    for name in ("a", "b"):
        run_folder(tmp_path / name, range(6), {metric: rows(6)}, name=name, reward_fn=name)
    _, figure, _ = drawn(tmp_path, figures, metric=metric)
    assert ("rewards differ: not on one scale" in caption_of(figure)) is told
