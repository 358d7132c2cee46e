"""A summary counts every run of every cell, hand-worked, and says what became of those without a number."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from by_hand import rewards, run_folder, sweep_folder

from pgrl_cli.cells import Sweep
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.report import COLUMNS, markdown, summarised, write_summary

DELTAS = ["rewards", "centered_rewards", "max_rewards"]


def cells_of(folder: Path, parameters=None) -> tuple[Sweep, list[Path]]:
    cells = sweep_folder(folder / "sweep", parameters or [{"delta_mode": delta} for delta in DELTAS])
    return Sweep(folder / "sweep"), cells


def test_a_cells_numbers_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    sweep, cells = cells_of(tmp_path)
    # last two epochs of each seed: 1, 2, 3, 10; the middle half of four is 2 and 3
    rewards(cells[0], range(4), [[9.0] * 4, [0.0, 1.0, 2.0, 9.0], [2.0, 3.0, 4.0, 11.0]])
    (row, *_), notes = summarised(sweep, Metric(over="last_2_epochs"))
    assert row.values.tolist() == [1.0, 2.0, 3.0, 10.0]
    assert (row.numbers["runs"], row.numbers["failed"]) == (4, 0)
    assert (row.numbers["mean"], row.numbers["iqm"], row.numbers["best"]) == (4.0, 2.5, 10.0)
    assert row.numbers["standard_deviation"] == pytest.approx(np.sqrt((9 + 4 + 1 + 36) / 3))
    assert 1.0 <= row.numbers["iqm_low"] < 2.5 < row.numbers["iqm_high"] <= 10.0
    assert notes == []


def test_the_best_cell_is_first_and_best_is_as_the_goal_says(tmp_path: Path) -> None:
    sweep, cells = cells_of(tmp_path)
    for cell, level in zip(cells, (2.0, 3.0, 1.0), strict=True):
        rewards(cell, [0, 1], [[level, level + 0.5]])
    assert [row.values[0] for row in summarised(sweep, Metric())[0]] == [3.0, 2.0, 1.0]
    rows, _ = summarised(sweep, Metric(goal="minimize"))
    assert [row.values[0] for row in rows] == [1.0, 2.0, 3.0]
    assert [row.numbers["best"] for row in rows] == [1.0, 2.0, 3.0]


def test_failed_seeds_are_counted_and_cells_without_a_result_are_listed_with_their_status(tmp_path: Path) -> None:
    sweep, cells = cells_of(tmp_path)
    rewards(cells[0], range(3), [[1.0, 2.0, 3.0], [1.0, None, 3.0]], failed=[1])
    rewards(cells[1], range(3), [[9.0, 9.0, 9.0]], status="failed")
    rows, _ = summarised(sweep, Metric())
    assert {row.numbers["missing"] for row in rows} == {0}
    assert [(row.status, row.numbers["runs"], row.numbers["failed"]) for row in rows] == [
        ("completed", 2, 1),
        ("failed", 0, 3),
        ("pending", 0, 0),
    ]
    assert "`delta_mode=centered_rewards` (failed) | 0 | 3 | 0 |  |" in markdown(rows, Metric())
    assert "`delta_mode=max_rewards` (pending) | 0 | 0 | 0 |  |" in markdown(rows, Metric())


def test_a_living_run_whose_last_value_is_null_is_missing_and_has_not_failed(tmp_path: Path) -> None:
    sweep, cells = cells_of(tmp_path)
    run_folder(cells[0], range(3), {"kl": [[0.1, 0.2, 0.3], [0.1, None, None]]}, failed=[1])
    (row, *_), _ = summarised(sweep, Metric(name="kl", over="last_1_epochs"))
    assert [row.numbers[name] for name in ("runs", "failed", "missing")] == [1, 1, 1]


def test_a_cell_that_cannot_be_read_is_unreadable_with_a_note_and_the_others_are_there(tmp_path: Path) -> None:
    sweep, cells = cells_of(tmp_path)
    for cell in cells:
        rewards(cell, [0, 1], [[1.0, 2.0]])
    (cells[2] / "metrics.jsonl").write_text("garbage\n")
    rows, notes = summarised(sweep, Metric())
    assert [row.status for row in rows] == ["completed", "completed", "unreadable"]
    (note,) = notes
    assert "metrics.jsonl:1: damaged" in note
    rows, notes = summarised(sweep, Metric("mean_rewards"))
    assert len(notes) == 2  # the same is told once


def test_the_files_hold_every_cell_with_its_keys_and_every_seeds_number(tmp_path: Path) -> None:
    parameters = [{"delta_mode": "rewards", "clip_epsilon": 0.1}, {"delta_mode": "max_rewards"}]
    sweep, cells = cells_of(tmp_path, parameters)
    rewards(cells[0], [3, 7], [[1.0, None]], failed=[7])
    rewards(cells[1], [3, 7], [[2.0, 4.0]])
    metric = Metric()
    rows, _ = summarised(sweep, metric)
    write_summary(sweep, rows, metric)
    table = list(csv.DictReader(io.StringIO((sweep.folder / "summary.csv").read_text())))
    assert [(row["delta_mode"], row["clip_epsilon"]) for row in table] == [("max_rewards", ""), ("rewards", "0.1")]
    assert [json.loads(row["values"]) for row in table] == [[2.0, 4.0], [1.0, None]]
    assert [json.loads(row["seeds"]) for row in table] == [[3, 7], [3, 7]]
    told = json.loads((sweep.folder / "summary.json").read_text())
    assert told["metric"] == {"name": "mean_reward", "over": "last_10_epochs", "goal": "maximize"}
    best, other = told["cells"]
    assert (best["cell"], best["parameters"], best["values"]) == ("delta_mode=max_rewards", parameters[1], [2.0, 4.0])
    assert {name: best[name] for name in ("runs", "mean", "best")} == {"runs": 2, "mean": 3.0, "best": 4.0}
    assert set(COLUMNS) < set(other)
    assert (other["standard_deviation"], other["iqm_low"]) == (None, None)  # one run says nothing of it
    lines = (sweep.folder / "summary.md").read_text().splitlines()
    assert lines[0].startswith("mean_reward, last 10 epochs, maximized.")
    assert len({line.count("|") for line in lines[2:]}) == 1


def test_exact_match_is_taken_where_it_was_measured(tmp_path: Path) -> None:
    sweep, cells = cells_of(tmp_path)
    rows = [[0.1, 0.2] if epoch == 1 else [0.5, 1.0] if epoch == 11 else None for epoch in range(12)]
    run_folder(cells[0], [0, 1], {"exact_match": rows})
    assert summarised(sweep, Metric("exact_match"))[0][0].values.tolist() == [0.5, 1.0]


def test_a_name_with_a_bar_does_not_break_the_table(tmp_path: Path) -> None:
    sweep, cells = cells_of(tmp_path, [{"reward_fn": "a|b"}])
    rewards(cells[0], [0, 1], [[1.0, 2.0]])
    (row,), _ = summarised(sweep, Metric())
    assert "a\\|b" in markdown([row], Metric())


def test_of_equal_interquartile_means_the_better_mean_is_first(tmp_path: Path) -> None:
    sweep, cells = cells_of(tmp_path)
    run_folder(cells[0], range(6), {"exact_match": [[0.5] + [1.0] * 5]})
    run_folder(cells[1], range(6), {"exact_match": [[1.0] * 6]})
    rows, _ = summarised(sweep, Metric("exact_match"))
    assert [row.numbers["mean"] for row in rows[:2]] == [1.0, pytest.approx(11 / 12)]
    rows, _ = summarised(sweep, Metric("exact_match", goal="minimize"))
    assert [row.numbers["mean"] for row in rows[:2]] == [pytest.approx(11 / 12), 1.0]
