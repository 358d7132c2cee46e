"""A gradient without a finite norm: the run stops before it is spoilt, and says which term was to blame."""

import json
import re

import pytest
import torch

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from
from pgrl_cli.experiment import RunFailed, run
from pgrl_cli.resolution import resolve
from pgrl_cli.runs import Run
from pgrl_cli.training import checkpoints
from pgrl_cli.training.trainer import train

pytestmark = pytest.mark.usefixtures("undrawn")
SHORT = {"epochs": 6, "steps_per_epoch": 4, "name": "x"}


def configured(**keys):
    return resolve(layers_from(SHORT | keys)).config


def trained(tmp_path, **keys):
    return run(resolve(layers_from(SHORT | keys)), tmp_path)


def first_fault(**keys):
    """The first fault of a run, and whether the step that it befell has moved the parameters."""
    config = configured(**keys)
    parts, state = assemble([config])
    for record in train(parts, config, state):
        if record.faults:
            return record.faults[0], bool(state.parameters.isfinite().all())
    raise AssertionError("no fault")


def test_a_policy_that_its_warm_start_has_spoilt_was_so_from_the_start():
    fault, _ = first_fault(warm_start={"epochs": 3, "learning_rate": 1e38}, learning_rate=1e-3)
    assert fault.told.startswith("the policy is not finite from the start")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"reward_scale": 3e38}, "the shaped reward is not finite: from .* to inf, of rewards from"),
        ({"reward_scale": 1e38, "delta_mode": "rewards"}, "the policy loss is -?inf|the gradient's norm is inf"),
        ({"kl_coefficient": 3e38, "kl_estimator": "k2"}, "the gradient's norm is (inf|nan).* 3e\\+38 times the KL"),
        ({"entropy_coefficient": 3e38}, "the gradient's norm is (inf|nan).* 3e\\+38 times the entropy"),
        ({"kl_coefficient": 1e38, "kl_placement": "reward"}, "the (shaped reward|gradient|policy|advantages)"),
        ({"learning_rate": 1e30, "optimizer": "sgd"}, "the policy is not finite: its log-probs are nan, of parameters"),
    ],
)
def test_the_term_that_is_to_blame_is_named_with_its_values(keys, told):
    fault, finite = first_fault(**keys)
    assert re.search(told, fault.told), fault.told
    assert finite
    assert fault.spoilt == fault.told.startswith("the policy is not finite")


def test_the_run_stops_with_parameters_that_are_finite_and_keeps_its_last_good_checkpoint(tmp_path):
    with pytest.raises(RunFailed, match=r"at step \d+ \(epoch \d+\)") as failure:
        # at first the reference is the policy itself, so that the term begins to pull in the second step
        trained(tmp_path, kl_coefficient=3e38, kl_estimator="k2", reference_period=0, learning_rate=1e-3)
    folder = failure.value.run
    assert folder.status()["status"] == "failed"
    assert "times the KL" in folder.status()["error"]
    failed_at = folder.metrics()[-1]["epoch"]
    if failed_at > 0:
        (place,) = folder.checkpoints.iterdir()
        tensors = checkpoints.read(place).tensors
        assert place.name == f"epoch-{failed_at:06d}"
        assert all(tensor.isfinite().all() for tensor in tensors.values())


def test_a_failure_in_a_later_epoch_leaves_the_epochs_before_it_as_a_checkpoint(tmp_path):
    source = "calls = []\n\ndef points(prompt, response):\n    calls.append(1)\n"
    source += "    return 1e30 if len(calls) > 30 else sum(response)\n"
    (tmp_path / "mine.py").write_text(source)
    keys = SHORT | {"reward_fn": "mine.py:points", "reward_scale": 1e9, "delta_mode": "centered_rewards"}
    with pytest.raises(RunFailed) as failure:
        run(resolve(layers_from(keys, folder=tmp_path)), tmp_path / "runs")
    folder = failure.value.run
    failed_at = folder.metrics()[-1]["epoch"]
    assert [place.name for place in folder.checkpoints.iterdir()] == [f"epoch-{failed_at:06d}"]


def rates(*values):
    """A sweep's stack: configs that differ in their weight of the KL."""
    return [configured(kl_coefficient=value, kl_estimator="k2", dtype="float32", seeds=2) for value in values]


def states(configs):
    parts, state = assemble(configs)
    faults = {}
    for record in train(parts, configs[0], state):
        for number, fault in record.faults.items():
            faults.setdefault(number, fault)
    return state, faults


def test_in_a_stack_only_the_broken_runs_stop_and_the_others_go_on_exactly_as_they_would_have():
    broken, faults = states(rates(0.1, 3e38, 0.2))
    whole, nothing = states(rates(0.1, 0.3, 0.2))
    assert sorted(faults) == [2, 3]
    assert not nothing
    assert broken.stopped.tolist() == [False, False, True, True, False, False]
    for others in (slice(0, 2), slice(4, 6)):
        assert torch.equal(broken.parameters[others], whole.parameters[others])
    assert broken.parameters.isfinite().all()


def test_a_run_that_has_stopped_does_not_move_any_more():
    configs = rates(0.1, 3e38)
    parts, state = assemble(configs)
    records = train(parts, configs[0], state)
    next(records)
    stopped = state.stopped.clone()
    assert stopped.any()
    before = state.parameters[stopped].clone(), {name: m[stopped].clone() for name, m in state.moments.items()}
    for _ in records:
        pass
    assert torch.equal(state.parameters[stopped], before[0])
    assert all(torch.equal(state.moments[name][stopped], kept) for name, kept in before[1].items())


def test_a_failed_seed_has_nulls_from_there_on_and_a_reason(tmp_path):
    folder, _ = trained(tmp_path, seeds=[1, 2])
    assert "stopped" not in (folder.checkpoints / "epoch-000006" / "state.json").read_text()
    source = "def points(prompt, response):\n    return 3e29 if response == [0, 0, 0] else float(sum(response))\n"
    (tmp_path / "mine.py").write_text(source)
    keys = SHORT | {"reward_fn": "mine.py:points", "reward_scale": 1e9, "seeds": 12, "num_responses": 4, "epochs": 3}
    folder, summary = run(resolve(layers_from(keys, folder=tmp_path)), tmp_path / "runs")
    dead = {seed["seed"]: seed for seed in summary.seeds if seed["status"] == "failed"}
    assert 0 < len(dead) < 12
    rows = folder.metrics()
    for number, told in dead.items():
        assert re.search("the advantages are not finite: from -inf to|the gradient's norm is inf", told["error"])
        assert all(row["loss"][number] is None for row in rows if row["step"] >= told["step"] // 4 * 4 + 4)
    assert all(rows[-1]["loss"][seed] is not None for seed in range(12) if seed not in dead)


def test_skipping_goes_on_without_the_step_and_counts_it(tmp_path):
    source = "def points(prompt, response):\n    return 3e29 if response[:2] == [0, 0] else float(sum(response))\n"
    (tmp_path / "mine.py").write_text(source)
    keys = SHORT | {"reward_fn": "mine.py:points", "reward_scale": 1e9, "on_nonfinite": "skip", "epochs": 30}
    folder, summary = run(resolve(layers_from(keys, folder=tmp_path)), tmp_path / "runs")
    rows = folder.metrics()
    skipped = sum(row["gradient_norm"] is None for row in rows)
    assert len(rows) == 120
    assert 0 < skipped < 120
    assert summary.skipped_steps == folder.status()["skipped_steps"] == skipped
    assert all("gradient_norm" in row["nonfinite"] for row in rows if row["gradient_norm"] is None)


def test_a_policy_that_is_spoilt_stops_even_where_steps_are_skipped(tmp_path):
    with pytest.raises(RunFailed, match="the policy is not finite"):
        trained(tmp_path, learning_rate=1e30, optimizer="sgd", on_nonfinite="skip")


def test_the_log_and_the_status_say_the_same(tmp_path):
    with pytest.raises(RunFailed) as failure:
        trained(tmp_path, reward_scale=3e38)
    folder: Run = failure.value.run
    error = json.loads((folder.folder / "status.json").read_text())["error"]
    assert error == str(failure.value)
    assert error in folder.log_file.read_text()
