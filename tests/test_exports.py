"""An export is the run's own numbers: one seed's lines are those that it would have written alone."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from by_hand import rewards, run_folder

from pgrl_cli.config import ConfigError
from pgrl_cli.config.layers import layers_of
from pgrl_cli.experiment import run
from pgrl_cli.exports import exported
from pgrl_cli.resolution import resolve
from pgrl_cli.runs import to_json, write_whole

pytestmark = pytest.mark.usefixtures("undrawn")
METRICS = {"loss": [[0.5, 0.25], [0.125, 1.5]], "exact_match": [None, [0.0, 1.0]], "kl": [None, None]}


def lines(folder: Path, seed: int | None = None) -> list[dict]:
    return [json.loads(line) for line in b"".join(exported(folder, seed, "jsonl")).splitlines()]


def test_a_plain_run_is_exported_as_it_was_written(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 5, {"loss": [0.5, None]})
    assert b"".join(exported(folder, None, "jsonl")) == (folder / "metrics.jsonl").read_bytes()
    assert lines(folder, 5) == lines(folder)


def test_a_stacked_run_has_a_line_for_each_step_and_seed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", [3, 7], METRICS)
    assert lines(folder) == [
        {"seed": 3, "epoch": 0, "step": 0, "loss": 0.5, "exact_match": None, "kl": None},
        {"seed": 7, "epoch": 0, "step": 0, "loss": 0.25, "exact_match": None, "kl": None},
        {"seed": 3, "epoch": 1, "step": 1, "loss": 0.125, "exact_match": 0.0, "kl": None},
        {"seed": 7, "epoch": 1, "step": 1, "loss": 1.5, "exact_match": 1.0, "kl": None},
    ]
    assert lines(folder, 7) == [{k: v for k, v in line.items() if k != "seed"} for line in lines(folder)[1::2]]


@pytest.mark.parametrize("name", ["lecture/centered_clipped_kl", "lecture/rewards_naive"])
def test_one_seed_of_a_stack_reads_as_the_run_that_trained_alone(tmp_path: Path, name: str) -> None:
    short = ["epochs=3", "steps_per_epoch=2", "eval_period=2", "dtype=float64"]
    alone, _ = run(resolve(layers_of(name, [*short, "seed=7"])), tmp_path, command=[])
    stack, _ = run(resolve(layers_of(name, [*short, "seeds=[3,7]"])), tmp_path, command=[])
    mine, its = alone.metrics(), lines(stack.folder, 7)
    assert [list(line) for line in its] == [list(line) for line in mine]
    for left, right in zip(its, mine, strict=True):
        numbers = {name: value for name, value in right.items() if value is not None}
        assert {name for name, value in left.items() if value is not None} == set(numbers)
        assert {name: left[name] for name in numbers} == pytest.approx(numbers, rel=1e-9, abs=1e-9)


def test_where_a_seed_failed_its_lines_end_and_name_only_what_was_not_finite_in_them(tmp_path: Path) -> None:
    folder = rewards(tmp_path / "run", [3, 7], [[1.0, 2.0]])
    rows = [
        {"epoch": 0, "step": 0, "loss": [0.5, None], "kl": [0.1, 0.2], "nonfinite": ["loss"]},
        {"epoch": 1, "step": 1, "loss": [0.25, None], "kl": [None, None], "nonfinite": ["kl"]},
    ]
    (folder / "metrics.jsonl").write_bytes(b"".join(map(to_json, rows)))
    assert lines(folder, 7) == [{"epoch": 0, "step": 0, "loss": None, "kl": 0.2, "nonfinite": ["loss"]}]
    assert lines(folder, 3)[0] == {"epoch": 0, "step": 0, "loss": 0.5, "kl": 0.1}
    assert lines(folder, 3)[1]["nonfinite"] == ["kl"]
    assert [line["seed"] for line in lines(folder)] == [3, 7, 3]


def test_csv_has_the_same_numbers_and_nothing_for_null(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", [3, 7], METRICS)
    table = list(csv.DictReader(io.StringIO(b"".join(exported(folder, None, "csv")).decode())))
    expected = [{name: "" if value is None else str(value) for name, value in row.items()} for row in lines(folder)]
    assert table == expected


@pytest.mark.parametrize(("seed", "places"), [(None, [0, 1]), (7, [1])])
def test_npz_has_an_array_of_steps_and_seeds_for_each_metric(tmp_path: Path, seed: int, places: list[int]) -> None:
    folder = run_folder(tmp_path / "run", [3, 7], METRICS)
    arrays = np.load(io.BytesIO(b"".join(exported(folder, seed, "npz"))))
    assert arrays["seeds"].tolist() == [[3, 7][place] for place in places]
    assert (arrays["steps"].tolist(), arrays["epochs"].tolist()) == ([0, 1], [0, 1])
    np.testing.assert_equal(arrays["loss"], np.array(METRICS["loss"])[:, places])
    np.testing.assert_equal(arrays["exact_match"], np.array([[np.nan, np.nan], [0.0, 1.0]])[:, places])


def test_npz_of_a_plain_run_has_one_seed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 5, {"loss": [0.5, None]})
    arrays = np.load(io.BytesIO(b"".join(exported(folder, None, "npz"))))
    assert arrays["loss"].shape == (2, 1)
    assert arrays["seeds"].tolist() == [5]


def test_a_seed_that_is_not_there_is_an_error_that_lists_those_that_are(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", [3, 7], METRICS)
    with pytest.raises(ConfigError, match="has no seed 5; it has 3, 7"):
        exported(folder, 5, "jsonl")


def test_a_torn_last_line_is_left_out_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 5, {"loss": [0.5, 0.25]})
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch":2')
    assert len(lines(folder)) == 2
    (folder / "metrics.jsonl").write_text("garbage\n")
    with pytest.raises(ConfigError, match=r"metrics.jsonl:1: damaged"):
        lines(folder)


def test_a_folder_without_a_run_and_a_run_that_has_not_begun_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no run folder"):
        exported(tmp_path, None, "jsonl")
    folder = run_folder(tmp_path / "run", 5, {"loss": [0.5]})
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(ConfigError, match="the run has not begun"):
        lines(folder)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", 5, {"loss": [0.5, 0.25]})
    lines_of_file = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text(lines_of_file[0] + "\ngarbage\n")
    (tmp_path / "out.jsonl").write_text("before")
    with pytest.raises(ConfigError):
        write_whole(tmp_path / "out.jsonl", exported(folder, None, "jsonl"))
    assert (tmp_path / "out.jsonl").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "run"]
