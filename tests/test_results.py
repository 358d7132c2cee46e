"""Results are found wherever runs lie, and read as they are: torn, damaged, failed, or still growing."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import orjson
import pytest
from by_hand import rewards, run_folder, sweep_folder

from pgrl_cli.config import ConfigError
from pgrl_cli.folders import Found, found
from pgrl_cli.machine import process_started
from pgrl_cli.results import gathered, read
from pgrl_cli.runs import Run


def names(runs: list[Found]) -> list[str]:
    return [run.path.name for run in runs]


def read_at(folder: Path, metric: str = "mean_reward"):
    return read(Found(folder), metric)


# Where runs are found


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A runs folder: a plain run, a stacked one, and a sweep of two cells of which one has started."""
    rewards(tmp_path / "runs" / "plain", 5, [1.0])
    rewards(tmp_path / "runs" / "stacked", [0, 1], [[1.0, 2.0]])
    first, _ = sweep_folder(tmp_path / "runs" / "sweep", [{"delta_mode": "rewards"}, {"delta_mode": "max_rewards"}])
    rewards(first, [0, 1], [[3.0, 4.0]])
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    return tmp_path / "runs"


CELLS = ["delta_mode=rewards-00000000", "delta_mode=max_rewards-00000001"]


def test_a_path_is_a_run_a_sweep_a_folder_of_both_or_a_glob(house: Path) -> None:
    assert names(found([house / "plain"])) == ["plain"]
    assert names(found([house / "sweep"])) == CELLS
    assert names(found([house])) == ["plain", "stacked", *CELLS]
    assert names(found([f"{house}/s*"])) == ["stacked", *CELLS]


def test_a_run_that_is_named_twice_is_found_once(house: Path) -> None:
    assert names(found([house / "plain", house, f"{house}/p*"])) == ["plain", "stacked", *CELLS]


def test_a_cell_knows_what_was_swept_even_when_it_is_named_alone(house: Path) -> None:
    (cell,) = found([house / "sweep" / "cells" / CELLS[0]])
    assert cell.parameters == {"delta_mode": "rewards"}


def test_a_folder_whose_name_looks_like_a_pattern_is_a_folder(tmp_path: Path) -> None:
    rewards(tmp_path / "lr=[1,2]*", 5, [1.0])
    assert names(found([tmp_path / "lr=[1,2]*"])) == ["lr=[1,2]*"]


def test_a_path_that_holds_no_run_is_an_error_that_says_what_is_there(house: Path) -> None:
    (house / "empty").mkdir()
    (house / "other").mkdir()
    (house / "other" / "a.txt").write_text("")
    with pytest.raises(ConfigError) as told:
        found([house / "nowhere", house / "notes.txt", house / "empty", house / "other", house / "plain"])
    assert [problem.message for problem in told.value.problems] == [
        "there is no such folder, and no folder of that pattern",
        "is a file; name the run folder that it lies in",
        "holds no run; in it is nothing",
        "holds no run; in it there is a.txt",
    ]


def test_a_sweep_whose_cells_cannot_be_read_is_an_error_and_no_traceback(house: Path) -> None:
    (house / "sweep" / "cells.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(ConfigError, match=r"cells.jsonl is damaged"):
        found([house])


# What is read


def test_a_metric_of_the_rollout_is_read_once_an_epoch_and_others_at_every_step(tmp_path: Path) -> None:
    metrics = {"loss": [0.1, 0.2, 0.3, 0.4], "mean_reward": [1.0, 1.0, 2.0, 2.0]}
    folder = run_folder(tmp_path / "run", 5, metrics, steps_per_epoch=2)
    reward, loss = read_at(folder), read_at(folder, "loss")
    assert (reward.steps.tolist(), reward.epochs.tolist()) == ([0, 2], [0, 1])
    assert reward.values.tolist() == [[1.0], [2.0]]
    assert (loss.steps.tolist(), loss.values[:, 0].tolist()) == ([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4])


def test_exact_match_is_read_where_it_was_measured(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", [0, 1], {"exact_match": [None, [0.0, 0.5], None, [1.0, 0.5]]})
    result = read_at(folder, "exact_match")
    assert result.steps.tolist() == [1, 3]
    assert result.values.tolist() == [[0.0, 0.5], [1.0, 0.5]]


def test_null_is_not_a_number_and_stays_in_its_place(tmp_path: Path) -> None:
    result = read_at(rewards(tmp_path / "run", [0, 1, 2], [[1.0, 2.0, 3.0], [1.5, None, 3.5]]))
    np.testing.assert_equal(result.values, [[1.0, 2.0, 3.0], [1.5, np.nan, 3.5]])


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    folder = rewards(tmp_path / "run", 5, [1.0, 2.0])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch":2,"step":2,"mean_rew')
    assert read_at(folder).values[:, 0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("line", ["garbage", "7", '{"epoch":1}', '{"epoch":1,"step":1,"mean_reward":[1.0,2.0]}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    folder = rewards(tmp_path / "run", 5, [1.0, 2.0, 3.0])
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join([lines[0], line, lines[2], ""]))
    with pytest.raises(ConfigError, match=r"metrics.jsonl:2: damaged"):
        read_at(folder)


def test_an_unknown_metric_is_an_error_with_the_nearest_and_a_list(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 5, {"loss": [0.0], "mean_reward": [1.0]})
    with pytest.raises(ConfigError, match=r"'mean_rewards'; possible: loss, mean_reward. Did you mean 'mean_reward'"):
        read_at(folder, "mean_rewards")
    with pytest.raises(ConfigError, match="no metric 'step'"):
        read_at(folder, "step")


def test_a_run_whose_process_has_gone_is_lost_and_one_that_goes_on_is_running(tmp_path: Path) -> None:
    folder = rewards(tmp_path / "run", 5, [1.0, 2.0])
    Run(folder).mark("running")
    assert read_at(folder).status == "running"
    told = Run(folder).status()
    assert told["process_started"] == process_started(os.getpid())
    (folder / "status.json").write_bytes(orjson.dumps(told | {"process_started": 1}))
    result = read_at(folder)
    assert result.status == "lost"
    assert result.notes == ("run is lost: its last epoch is 1",)
    assert result.values[:, 0].tolist() == [1.0, 2.0]


def test_a_run_that_has_not_begun_is_empty_and_says_so(tmp_path: Path) -> None:
    folder = rewards(tmp_path / "run", [0, 1], [[1.0, 2.0]], status="pending")
    (folder / "metrics.jsonl").unlink()
    result = read_at(folder)
    assert result.values.shape == (0, 2)
    assert result.notes == ("run has no value of mean_reward (pending)",)


def test_a_file_of_a_thousand_seeds_is_read_in_little_memory(tmp_path: Path) -> None:
    seeds, rows = 1024, 60
    folder = rewards(tmp_path / "run", range(seeds), [[0.0] * seeds])
    values = np.random.default_rng(0).standard_normal(seeds)
    blob = {f"metric_{number}": values for number in range(5)} | {"loss": values}
    with (folder / "metrics.jsonl").open("wb") as file:
        for step in range(rows):
            row = {"epoch": step, "step": step} | blob
            file.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
    tracemalloc.start()
    result = read_at(folder, "loss")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.values.shape == (rows, seeds)
    assert peak < 3_000_000 < (folder / "metrics.jsonl").stat().st_size / 2


# Many at once


def test_what_cannot_be_read_is_left_out_with_a_note_and_the_rest_is_there(house: Path) -> None:
    (house / "plain" / "metrics.jsonl").write_text("garbage\n")
    results, notes = gathered([house], "mean_reward")
    assert [result.path.name for result in results] == ["stacked", CELLS[0]]
    assert notes[0] == "1 cell has not started"
    assert "left out" in notes[1]
    assert "plain/metrics.jsonl:1: damaged" in notes[1]


def test_a_metric_that_no_run_has_is_told_once(house: Path) -> None:
    with pytest.raises(ConfigError) as told:
        gathered([house], "mean_rewards")
    assert len(told.value.problems) == 1


def test_a_sweep_that_has_not_started_says_so(tmp_path: Path) -> None:
    sweep_folder(tmp_path / "sweep", [{"delta_mode": "rewards"}, {"delta_mode": "max_rewards"}])
    with pytest.raises(ConfigError, match="2 cells, and none has started"):
        gathered([tmp_path / "sweep"], "mean_reward")


def test_of_many_notes_the_first_are_told_and_the_others_counted(tmp_path: Path) -> None:
    for number in range(9):
        rewards(tmp_path / f"run{number}", number, [1.0], status="interrupted")
    _, notes = gathered([tmp_path], "mean_reward")
    assert notes[-1] == "… and 3 more of the kind"
    assert len(notes) == 7


# Where runs end


def test_ends_are_means_over_the_last_or_all_epochs_or_the_best_epoch(tmp_path: Path) -> None:
    result = read_at(rewards(tmp_path / "run", [0, 1], [[1.0, 9.0], [2.0, 8.0], [6.0, 1.0]]))
    assert result.ends("last_2_epochs").tolist() == [4.0, 4.5]
    assert result.ends("last_10_epochs").tolist() == result.ends("all_epochs").tolist() == [3.0, 6.0]
    assert result.ends("best_epoch").tolist() == [6.0, 9.0]
    assert result.ends("best_epoch", "minimize").tolist() == [1.0, 1.0]


def test_the_end_of_exact_match_is_over_those_of_the_last_epochs_where_it_was_measured(tmp_path: Path) -> None:
    rows = [0.1 if epoch == 0 else 0.5 if epoch == 5 else 0.9 if epoch == 11 else None for epoch in range(12)]
    folder = run_folder(tmp_path / "run", 5, {"exact_match": rows})
    assert read_at(folder, "exact_match").ends("last_10_epochs")[0] == pytest.approx(0.7)


def test_a_seed_that_failed_has_no_end_not_even_a_best_one(tmp_path: Path) -> None:
    rows = [[1.0, 9.0], [2.0, None]]
    result = read_at(rewards(tmp_path / "run", [0, 1], rows, failed=[1]))
    for over in ("last_1_epochs", "last_10_epochs", "all_epochs", "best_epoch"):
        assert np.isnan(result.ends(over)).tolist() == [False, True]
    assert result.notes == ("run: seed 1 failed, of 2",)


def test_a_plain_run_that_failed_has_no_end_as_it_would_have_none_in_a_stack(tmp_path: Path) -> None:
    result = read_at(rewards(tmp_path / "run", 5, [1.0, 2.0], status="failed"))
    assert result.failed == (5,)
    assert np.isnan(result.ends("last_10_epochs")).all()


def test_an_interrupted_run_ends_where_it_is(tmp_path: Path) -> None:
    result = read_at(rewards(tmp_path / "run", 5, [1.0, 3.0], status="interrupted", epochs=100))
    assert result.ends("last_10_epochs").tolist() == [2.0]


def test_a_number_that_is_not_finite_is_a_gap_in_a_run_alone_as_in_a_stack(tmp_path: Path) -> None:
    run_folder(tmp_path / "alone", 3, {"kl": [0.1, None, 0.3], "nonfinite": [[], ["kl"], []]})
    run_folder(tmp_path / "stacked", [3], {"kl": [[0.1], [None], [0.3]]})
    alone, stacked = (read(Found(tmp_path / name), "kl") for name in ("alone", "stacked"))
    np.testing.assert_array_equal(alone.values, stacked.values)
    np.testing.assert_array_equal(alone.ends("last_2_epochs"), [np.nan])
    assert alone.notes == ("alone: seed 3 has a value of kl that is no finite number",)
    assert stacked.notes == ("stacked: seed 3 has a value of kl that is no finite number",)


@pytest.mark.parametrize("line", ["[1,2]", '{"epoch":0,"step":0,"kl":[1.0,"x"]}', '{"epoch":"0","step":0,"kl":[1,2]}'])
def test_a_line_that_is_no_record_is_told_with_its_file_and_number(tmp_path: Path, line: str) -> None:
    run = run_folder(tmp_path / "run", [0, 1], {"kl": [[0.1, 0.2]]})
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ConfigError, match=r"metrics\.jsonl:2: damaged: "):
        read(Found(run), "kl")
