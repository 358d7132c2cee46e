"""A heat map has the numbers written into it, each where its two keys meet."""

from pathlib import Path

import pytest
from by_hand import rewards
from plots.shown import assert_readable, caption_of, groups_in

from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.plots.heatmap import draw_heatmap

METRIC = Metric(over="last_1_epochs")


def drawn(folder: Path, figures: list, keys: tuple[str, str], statistic: str = "mean"):
    groups = groups_in(folder, by=keys)
    table = draw_heatmap(groups, METRIC, folder / "picture.png", title="a title", statistic=statistic)
    return table, figures[-1], figures[-1].axes[0]


def written(panel) -> dict[tuple[str, str], str]:
    """The numbers by the names of their row and column."""
    rows, columns = (
        [label.get_text() for label in labels] for labels in (panel.get_yticklabels(), panel.get_xticklabels())
    )
    places = {text.get_position(): text.get_text() for text in panel.texts}
    return {(rows[row], columns[column]): number for (column, row), number in places.items()}


def test_each_number_stands_where_its_keys_meet_and_is_the_tables(tmp_path: Path, figures: list) -> None:
    level = {("rewards", 0.1): 1.0, ("rewards", 0.01): 2.0, ("max_rewards", 0.1): 3.0, ("max_rewards", 0.01): 4.5}
    for number, ((delta, rate), value) in enumerate(level.items()):
        rewards(tmp_path / f"r{number}", [0, 1], [[value - 0.25, value + 0.25]], delta_mode=delta, learning_rate=rate)
    table, figure, panel = drawn(tmp_path, figures, ("delta_mode", "learning_rate"))
    assert written(panel) == {(delta, f"{rate:g}"): f"{value:.2f}" for (delta, rate), value in level.items()}
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0.01", "0.1"]  # numbers by size
    assert {(row["delta_mode"], row["learning_rate"]): row["value"] for row in table} == {
        (delta, f"{rate:g}"): value for (delta, rate), value in level.items()
    }
    assert "mean of n = 2 runs each; 95 % bootstrap intervals are in the CSV" in caption_of(figure)


def test_a_pair_without_a_run_is_blank_and_the_caption_says_so(tmp_path: Path, figures: list) -> None:
    for number, (delta, rate) in enumerate([("rewards", 0.1), ("max_rewards", 0.2), ("rewards", 0.2)]):
        rewards(tmp_path / f"r{number}", [0, 1], [[1.0, number]], delta_mode=delta, learning_rate=rate)
    _, figure, panel = drawn(tmp_path, figures, ("delta_mode", "learning_rate"))
    assert len(panel.texts) == 3
    assert "blank: no run" in caption_of(figure)


@pytest.mark.parametrize("values", [2, 14])
def test_everything_written_can_be_read_however_many_values_a_key_has(
    tmp_path: Path, figures: list, values: int
) -> None:
    for number in range(values):
        for delta in ("centered_rewards", "normalized_rewards", "max_rewards"):
            told = {"delta_mode": delta, "learning_rate": 0.0001 * 2**number}
            rewards(tmp_path / f"{delta}{number}", [0, 1], [[number, number + 0.5]], **told)
    for keys in (("delta_mode", "learning_rate"), ("learning_rate", "delta_mode")):
        _, figure, panel = drawn(tmp_path, figures, keys)
        assert len(panel.texts) == 3 * values
        assert_readable(figure)


def test_words_too_wide_for_their_columns_stand_upright(tmp_path: Path, figures: list) -> None:
    words = ["rewards", "centered_rewards", "normalized_rewards", "leave_one_out_rewards"]
    for delta in words:
        for loss in words:
            rewards(tmp_path / f"{delta}{loss}", [0, 1], [[1.0, 2.0]], delta_mode=delta, loss_mode=loss)
    _, figure, panel = drawn(tmp_path, figures, ("loss_mode", "delta_mode"))
    assert panel.get_xticklabels()[0].get_rotation() == 90
    assert_readable(figure)
