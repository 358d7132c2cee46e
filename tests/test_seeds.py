"""`seeds`: many runs of one config side by side, in one folder."""

import json

import numpy as np
import pytest

from pgrl_cli.config.layers import layers_from, layers_of
from pgrl_cli.experiment import RunFailed, run
from pgrl_cli.resolution import resolve

pytestmark = pytest.mark.usefixtures("undrawn")
SHORT = {"epochs": 3, "steps_per_epoch": 4, "eval_period": 1, "log_every": 1, "name": "short", "dtype": "float64"}


def trained(tmp_path, **keys):
    return run(resolve(layers_from(SHORT | keys)), tmp_path)


def metrics_of(folder):
    return [json.loads(line) for line in (folder.folder / "metrics.jsonl").read_text().splitlines()]


def test_each_metric_is_a_list_with_a_number_per_seed_in_their_order(tmp_path):
    folder, _ = trained(tmp_path, seeds=[7, 0, 3], kl_coefficient=0.1)
    alone, _ = trained(tmp_path, seed=7, kl_coefficient=0.1)
    for together, own in zip(metrics_of(folder), metrics_of(alone), strict=True):
        assert together.keys() == own.keys()
        for name, value in own.items():
            if name in ("epoch", "step") or value is None:
                assert together[name] == value
            else:
                assert len(together[name]) == 3
                assert together[name][0] == pytest.approx(value, abs=1e-9)


def test_one_seed_of_seeds_is_still_a_list_and_a_plain_seed_is_a_number(tmp_path):
    assert len(metrics_of(trained(tmp_path, seeds=1)[0])[0]["loss"]) == 1
    assert isinstance(metrics_of(trained(tmp_path, seed=0)[0])[0]["loss"], float)


def test_the_status_tells_how_every_seed_went(tmp_path):
    folder, summary = trained(tmp_path, seeds=3)
    seeds = folder.status()["seeds"]
    assert [seed["seed"] for seed in seeds] == [0, 1, 2]
    assert {seed["status"] for seed in seeds} == {"completed"}
    assert summary.last_mean_reward == pytest.approx(np.mean([seed["last_mean_reward"] for seed in seeds]))
    assert trained(tmp_path, seed=1)[1].seeds is None


@pytest.mark.parametrize(("logged", "shown"), [(None, [0, 1]), ([2], [2]), ([], [])])
def test_samples_and_log_are_of_the_first_two_seeds_unless_told_otherwise(tmp_path, logged, shown):
    keys = {} if logged is None else {"log_seeds": logged}
    folder, _ = trained(tmp_path, seeds=4, **keys)
    samples = [json.loads(line) for line in (folder.folder / "samples.jsonl").read_text().splitlines()]
    assert sorted({sample["seed"] for sample in samples}) == shown
    log = folder.log_file.read_text()
    assert "(means of 4 seeds)" in log
    assert all((f"seed {seed}   prompt" in log) == (seed in shown) for seed in range(4))


def test_samples_of_a_seed_are_those_of_the_run_alone(tmp_path):
    together, _ = trained(tmp_path, seeds=[5, 6], log_seeds=[6])
    alone, _ = trained(tmp_path, seed=6)
    for ours, theirs in zip(*(_lines(folder, "samples.jsonl") for folder in (together, alone)), strict=True):
        assert ours.pop("seed") == 6
        assert ours["responses"] == theirs["responses"]
        assert ours["advantages"] == pytest.approx(np.array(theirs["advantages"]), abs=1e-9)


def _lines(folder, name):
    return [json.loads(line) for line in (folder.folder / name).read_text().splitlines()]


def test_a_seed_that_diverges_ends_alone_is_null_from_then_on_and_the_others_go_on_as_they_would_have(tmp_path):
    keys = {"learning_rate": 5e153, "optimizer": "sgd", "epochs": 3, "reward_fn": "sort_exact_reward", "seeds": 40}
    folder, summary = trained(tmp_path, **keys)
    failed = [seed for seed in folder.status()["seeds"] if seed["status"] == "failed"]
    assert 0 < len(failed) < 40, "the test needs some seeds that meet a reward, and some that do not"
    assert folder.status()["status"] == "completed"
    assert all("at step" in seed["error"] or "after step" in seed["error"] for seed in failed)
    rows = metrics_of(folder)
    for seed in failed:
        end = seed["step"] // 4
        later = [row for row in rows if row["epoch"] > end]
        assert all(row["mean_reward"][seed["seed"]] is None for row in later)
    alive = [seed["seed"] for seed in summary.seeds if seed["status"] == "completed"]
    assert all(row["mean_reward"][seed] is not None for row in rows for seed in alive)
    alone, _ = trained(tmp_path, **keys | {"seeds": None, "seed": alive[0]})
    for row, own in zip(rows, metrics_of(alone), strict=True):
        assert row["gradient_norm"][alive[0]] == pytest.approx(own["gradient_norm"], abs=1e-9)


def test_where_every_seed_fails_the_run_has_failed(tmp_path):
    with pytest.raises(RunFailed, match=r"the policy is not finite: .* at step 1|not finite after step"):
        trained(tmp_path, seeds=3, learning_rate=1e200, optimizer="sgd")
    (folder,) = tmp_path.iterdir()
    status = json.loads((folder / "status.json").read_text())
    assert status["status"] == "failed"
    assert {seed["status"] for seed in status["seeds"]} == {"failed"}
    assert (status["last_mean_reward"], status["best_mean_reward"], status["last_interval"]) == (None, None, None)


def test_a_run_alone_that_fails_keeps_the_numbers_it_had(tmp_path):
    with pytest.raises(RunFailed):
        trained(tmp_path, seed=3, learning_rate=1e200, optimizer="sgd")
    (folder,) = tmp_path.iterdir()
    status = json.loads((folder / "status.json").read_text())
    assert (status["status"], status["last_interval"]) == ("failed", None)
    assert status["last_mean_reward"] is not None


def test_seeds_that_a_failing_reward_ends_together_have_no_interval(tmp_path):
    source = tmp_path / "mine.py"
    source.write_text(
        "calls = 0\n\n\ndef points(prompt, response):\n    global calls\n    calls += 1\n"
        "    return 1.0 if calls < 56 else None\n"
    )
    with pytest.raises(RunFailed):
        trained(tmp_path / "runs", seeds=3, reward_fn=f"{source}:points")
    (folder,) = (tmp_path / "runs").iterdir()
    status = json.loads((folder / "status.json").read_text())
    assert status["epochs"] > 0, "the test needs a reward that fails after the first epoch"
    assert (status["status"], status["last_interval"]) == ("failed", None)


def test_a_config_with_seeds_can_be_fed_back(tmp_path):
    folder, _ = trained(tmp_path, seeds=[2, 4])
    again, _ = run(resolve(layers_of(str(folder.folder / "config.yaml"))), tmp_path / "again")
    for name in ("metrics.jsonl", "samples.jsonl", "train.log", "config.yaml"):
        assert (folder.folder / name).read_bytes() == (again.folder / name).read_bytes()
