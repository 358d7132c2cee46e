"""Runs of one experiment are one curve; nothing in a group is stretched, dropped or counted twice."""

from pathlib import Path

import numpy as np
import pytest
from by_hand import rewards, run_folder, sweep_folder

from pgrl_cli.config import ConfigError
from pgrl_cli.groups import differing, distinct, grouped
from pgrl_cli.results import gathered


def results_in(folder: Path, metric: str = "mean_reward"):
    return distinct(gathered([folder], metric)[0])[0]


def test_single_runs_of_one_config_are_one_group_whatever_their_names_and_logs(tmp_path: Path) -> None:
    for seed in range(3):
        rewards(tmp_path / f"run{seed}", seed, [1.0 * seed], name=f"mine{seed}", log_every=seed)
    (group,) = grouped(results_in(tmp_path))
    (stratum,) = group.curves()
    assert stratum.tolist() == [[0.0, 1.0, 2.0]]


def test_experiments_are_named_by_the_keys_in_which_they_differ(tmp_path: Path) -> None:
    rewards(tmp_path / "a", 0, [1.0], learning_rate=0.1)
    rewards(tmp_path / "b", 0, [2.0], learning_rate=0.2)
    assert [group.label for group in grouped(results_in(tmp_path))] == ["learning_rate=0.1", "learning_rate=0.2"]
    assert differing(results_in(tmp_path)) == ["learning_rate"]


def test_experiments_with_names_of_their_own_are_called_by_them(tmp_path: Path) -> None:
    rewards(tmp_path / "a", 0, [1.0], learning_rate=0.1, name="slow")
    rewards(tmp_path / "b", 0, [2.0], learning_rate=0.2, name="fast")
    assert [group.label for group in grouped(results_in(tmp_path))] == ["slow", "fast"]


def test_two_sweeps_of_the_same_keys_are_told_apart(tmp_path: Path) -> None:
    for number in (1, 2):
        (cell,) = sweep_folder(tmp_path / f"sweep{number}", [{"delta_mode": "rewards"}])
        rewards(cell, [0], [[1.0 * number]], learning_rate=0.1 * number)
    labels = [group.label for group in grouped(results_in(tmp_path))]
    assert labels == ["learning_rate=0.1", "learning_rate=0.2"]


def test_grouping_by_a_key_pools_the_rest_as_strata_and_a_missing_key_is_null(tmp_path: Path) -> None:
    rewards(tmp_path / "a", [0, 1], [[1.0, 2.0]], delta_mode="rewards", clip_epsilon=0.1)
    rewards(tmp_path / "b", [0, 1], [[3.0, 4.0]], delta_mode="max_rewards", clip_epsilon=0.1)
    rewards(tmp_path / "c", [0, 1], [[5.0, 6.0]], delta_mode="rewards")
    groups = grouped(results_in(tmp_path), ["clip_epsilon"])
    assert [group.label for group in groups] == ["clip_epsilon=0.1", "clip_epsilon=null"]
    assert [stratum.tolist() for stratum in groups[0].ends("last_1_epochs")] == [[1.0, 2.0], [3.0, 4.0]]
    labels = [group.label for group in grouped(results_in(tmp_path), ["delta_mode", "clip_epsilon"])]
    assert labels[0] == "delta_mode=rewards,clip_epsilon=0.1"


def test_grouping_by_a_key_that_no_config_has_is_an_error_with_the_nearest(tmp_path: Path) -> None:
    rewards(tmp_path / "a", 0, [1.0])
    with pytest.raises(ConfigError, match="Did you mean 'delta_mode'"):
        grouped(results_in(tmp_path), ["delta_modes"])


def test_the_same_seed_of_the_same_config_counts_once_and_the_longer_run_is_kept(tmp_path: Path) -> None:
    rewards(tmp_path / "a", [0, 1], [[1.0, 1.0]], status="interrupted", epochs=3)
    rewards(tmp_path / "b", 1, [2.0, 2.0, 2.0])
    kept, notes = distinct(gathered([tmp_path], "mean_reward")[0])
    assert notes == ["1 run repeats a seed of the same config: each seed counts once"]
    assert [(result.path.name, result.seeds) for result in kept] == [("a", (0,)), ("b", (1,))]
    assert kept[0].values.tolist() == [[1.0]]


def test_shorter_runs_are_neither_stretched_nor_dropped(tmp_path: Path) -> None:
    rewards(tmp_path / "a", [0, 1], [[1.0, 2.0]] * 4)
    rewards(tmp_path / "b", 2, [3.0, 3.0], status="interrupted", epochs=4)
    (group,) = grouped(results_in(tmp_path))
    (values,) = group.curves()
    assert group.steps.tolist() == [0, 1, 2, 3]
    np.testing.assert_equal(values, [[1, 2, 3], [1, 2, 3], [1, 2, np.nan], [1, 2, np.nan]])
    assert group.unfinished == 1


def test_a_reward_holds_for_its_epoch_so_that_runs_of_other_epoch_lengths_meet(tmp_path: Path) -> None:
    run_folder(tmp_path / "a", 0, {"mean_reward": [1.0, 1.0, 2.0, 2.0]}, steps_per_epoch=2)
    run_folder(tmp_path / "b", 0, {"mean_reward": [5.0, 6.0, 7.0]}, steps_per_epoch=1)
    (group,) = grouped(results_in(tmp_path), ["delta_mode"])
    assert group.steps.tolist() == [0, 1, 2]
    np.testing.assert_equal(np.concatenate(group.curves(), axis=1), [[1, 5], [1, 6], [2, 7]])


def test_single_runs_of_many_experiments_are_resampled_together(tmp_path: Path) -> None:
    for number in range(3):
        rewards(tmp_path / f"r{number}", 0, [1.0 * number], learning_rate=0.1 * (number + 1))
    (group,) = grouped(results_in(tmp_path), ["delta_mode"])
    assert [len(stratum) for stratum in group.strata] == [3]
    rewards(tmp_path / "many", [0, 1], [[7.0, 8.0]], learning_rate=0.9)
    (group,) = grouped(results_in(tmp_path), ["delta_mode"])
    assert [stratum.tolist() for stratum in group.ends("all_epochs")] == [[7.0, 8.0], [0.0, 1.0, 2.0]]
