"""Runs that go on: from their last good checkpoint to the same bytes, longer if asked, refused where they must be."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
import torture
from nursery import Child, finished
from processes import wait_until
from said import pgrl

from pgrl_cli import keeper, notebook, resuming, runs, sampling, summary
from pgrl_cli.config import ConfigError
from pgrl_cli.config.layers import layers_from
from pgrl_cli.experiment import Interrupted, RunFailed, run
from pgrl_cli.exports import exported
from pgrl_cli.plots.run import draw
from pgrl_cli.resolution import resolve
from pgrl_cli.results import gathered
from pgrl_cli.runs import InUse, Run
from pgrl_cli.stopping import Stopped
from pgrl_cli.training import evaluation, trainer
from pgrl_cli.verification import faults_of

pytestmark = pytest.mark.usefixtures("undrawn")
KEYS = {
    "name": "short",
    "epochs": 9,
    "steps_per_epoch": 3,
    "kl_coefficient": 0.1,
    "loss_mode": "clipped",
    "reference_period": 2,
    "entropy_coefficient": 0.1,
    "eval_period": 4,
    "log_every": 5,
    "checkpoint_period": 1,
    "checkpoint_keep": 3,
}


def trained(folder, **keys):
    return run(resolve(layers_from(KEYS | keys)), folder)[0]


def stopped(folder, after, error=KeyboardInterrupt, **keys):
    """A run that was stopped after so many epochs."""

    def watch(done, mean_reward):
        written(folder, done, keys)
        if done == after:
            raise error

    with pytest.raises((Interrupted, RunFailed)) as failure:
        run(resolve(layers_from(KEYS | keys)), folder, watch=watch)
    return failure.value.run


def written(folder, done, keys=KEYS):
    """Wait for the checkpoint of an epoch, so that none is passed over."""
    due = (KEYS | keys)["checkpoint_period"] == 1 and done < (KEYS | keys)["epochs"]
    deadline = time.monotonic() + 20
    while due and not list(folder.glob(f"*/checkpoints/epoch-{done:06d}")) and time.monotonic() < deadline:
        time.sleep(0.001)


def assert_soon(took):
    """Within two seconds, on a machine that starts Python with torch within one; under load as much longer."""
    if took >= 2:
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        assert took < 2 * max(1.0, time.monotonic() - began)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """Runs that nobody stopped, by what their keys add: each is made once, for all to compare theirs with."""
    made = {}

    def untouched(**keys):
        name = repr(sorted(keys.items()))
        if name not in made:
            made[name] = trained(tmp_path_factory.mktemp("untouched"), **keys)
        return made[name]

    return untouched


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    """The run that was stopped after the fifth epoch, made once, of which each test has a copy."""
    made = []

    def stopped_once(folder):
        if not made:
            made.append(stopped(tmp_path_factory.mktemp("stopped"), 5))
        name = made[0].folder.name
        return Run(shutil.copytree(made[0].folder, folder / name, copy_function=shutil.copy))

    return stopped_once


def resumed(folder, *overrides, notes=None):
    tell = (lambda note: None) if notes is None else notes.append
    return resuming.resume(resuming.asked_for(folder, overrides), tell=tell)


def same(one, other, *, but=()):
    """Whether two run folders hold the same evidence."""
    return torture.differences(torture.evidence(one.folder), torture.evidence(other.folder)) == list(but)


def lose(folder):
    """Make it look as if the process had been killed: running, of a process that is no more."""
    status = folder.status() | {"status": "running", "pid": 2**22 + 1, "process_started": 1}
    runs.write_whole(folder.folder / "status.json", {k: v for k, v in status.items() if k != "files"})


@pytest.mark.parametrize("keys", [{}, {"seeds": 3}, {"seeds": [4, 2], "dtype": "float64"}, {"optimizer": "sgd"}])
@pytest.mark.parametrize("after", [1, 4, 8, 9])
def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path, keys, after, untouched):
    whole = untouched(**keys)
    broken = stopped(tmp_path / "broken", after, **keys)
    assert broken.status()["status"] == "interrupted"
    resumed(broken)
    assert same(whole, broken)
    told = {name: value for name, value in broken.status().items() if name in whole.status()}
    varying = ("pid", "process_started", "started", "finished", "seconds", "segment")
    assert {k: v for k, v in told.items() if k not in varying} == {
        k: v for k, v in whole.status().items() if k not in varying
    }
    assert broken.curves_file.read_bytes() == whole.curves_file.read_bytes()


FAMILY = {
    "delta_mode": "gae",
    "critic": "shared",
    "warm_start": {"epochs": 2},
    "kl_target": 0.1,
    "old_kl_coefficient": 0.1,
    "old_kl_target": 0.01,
    "rollout_reuse": 3,
    "drop_zero_variance_groups": True,
    "resampling_rounds": 1,
    "num_responses": 2,
}
"""All that a state may hold beside a policy."""


DROPPING = {"drop_zero_variance_groups": True, "rollout_reuse": 3, "num_responses": 3}


@pytest.mark.parametrize(
    "keys",
    [FAMILY, {"delta_mode": "old_policy_baseline", "seeds": 2}, DROPPING | {"prompts": [[0, 1], [1, 0]], "seeds": 4}],
    ids=["critic", "previous", "groups"],
)
def test_what_a_state_holds_beside_its_policy_survives_a_stop_and_becoming_longer(tmp_path, keys, untouched):
    whole = untouched(**keys)
    for after in (2, 6):
        broken = stopped(tmp_path / f"{after}", after, **keys)
        resumed(broken)
        assert same(whole, broken)
    short = trained(tmp_path / "short", **keys | {"epochs": 5})
    resumed(short, "epochs=9")
    assert same(whole, short)


def test_a_stopped_run_goes_on_to_the_same_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(notebook, "draw", draw)
    whole, broken = trained(tmp_path / "whole"), stopped(tmp_path / "broken", 4)
    resumed(broken)
    assert whole.curves_file.stat().st_size > 10_000
    assert broken.curves_file.read_bytes() == whole.curves_file.read_bytes()


def test_two_segments_are_visible_in_the_timing_alone(tmp_path):
    broken = stopped(tmp_path, 4)
    resumed(broken)
    lines = [json.loads(line) for line in (broken.folder / "timing.jsonl").read_text().splitlines()]
    assert [(line["segment"], line["epoch"]) for line in lines] == [(1, e) for e in range(4)] + [
        (2, e) for e in range(4, 9)
    ]
    assert broken.status()["segment"] == 2


def test_it_is_said_from_where_a_run_goes_on(tmp_path):
    notes = []
    broken = stopped(tmp_path, 4)
    resumed(broken, notes=notes)
    assert notes == ["going on after 4 of 9 epochs"]
    again = []
    assert resumed(broken, notes=again)[1] is None
    assert again == ["it is complete, with 9 epochs; epochs=18 would make it longer"]


def test_a_run_without_a_checkpoint_starts_over_and_says_so(tmp_path, untouched):
    whole = untouched(checkpoint_period=0)
    broken = stopped(tmp_path / "broken", 4, checkpoint_period=0)
    shutil.rmtree(broken.checkpoints)
    lose(broken)
    notes = []
    resumed(broken, notes=notes)
    assert notes == ["from the start: there is no checkpoint to go on from"]
    assert same(whole, broken)


def test_what_was_written_after_the_checkpoint_is_cut_back(tmp_path, untouched, stopped_once):
    whole = untouched()
    broken = stopped_once(tmp_path / "broken")
    lose(broken)
    for name in ("metrics.jsonl", "samples.jsonl", "train.log"):
        with (broken.folder / name).open("ab") as file:
            file.write(b'{"epoch":5,"torn')
    resumed(broken)
    assert same(whole, broken)


@pytest.mark.parametrize("name", ["metrics.jsonl", "samples.jsonl", "train.log"])
@pytest.mark.parametrize("damage", ["gone", "empty", "a byte"])
def test_a_run_whose_files_are_damaged_goes_on_from_where_they_are_whole(
    tmp_path, name, damage, untouched, stopped_once
):
    whole = untouched()
    broken = stopped_once(tmp_path / "broken")
    file = broken.folder / name
    data = file.read_bytes()
    file.unlink()
    if damage != "gone":
        file.write_bytes(b"" if damage == "empty" else b"?" + data[1:])
    notes = []
    resumed(broken, notes=notes)
    assert notes[0].startswith("not from epoch-000005: ")
    assert name in notes[0]
    assert notes[-2] == "from the start: there is no checkpoint to go on from"
    assert same(whole, broken)


def test_a_metrics_file_that_is_too_short_for_one_checkpoint_serves_an_older_one(tmp_path, untouched, stopped_once):
    whole = untouched()
    broken = stopped_once(tmp_path / "broken")
    lines = (broken.folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (broken.folder / "metrics.jsonl").write_bytes(b"".join(lines[:13]))  # one line of the fifth epoch
    notes = []
    resumed(broken, notes=notes)
    assert notes[-1] == "going on after 4 of 9 epochs"
    assert same(whole, broken)


def test_a_damaged_checkpoint_is_named_and_an_older_one_serves(tmp_path, untouched, stopped_once):
    whole = untouched()
    broken = stopped_once(tmp_path / "broken")
    file = broken.checkpoints / "epoch-000005" / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    notes = []
    resumed(broken, notes=notes)
    assert "tensors.safetensors is damaged" in notes[0]
    assert notes[1] == "going on after 4 of 9 epochs"
    assert same(whole, broken)


@pytest.mark.parametrize("status", [b"", b"[]", b"{", b"null", b'{"status": 3}'])
def test_a_status_that_cannot_be_read_is_nobodys(tmp_path, status, untouched, stopped_once):
    whole = untouched()
    broken = stopped_once(tmp_path / "broken")
    (broken.folder / "status.json").write_bytes(status)
    resumed(broken)
    assert same(whole, broken)


def test_a_clock_that_goes_backwards_changes_nothing(tmp_path, monkeypatch, untouched, stopped_once):
    whole = untouched()
    broken = stopped_once(tmp_path / "broken")
    monkeypatch.setattr(runs, "now", lambda: "1999-12-31T23:59:59+00:00")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    resumed(broken)
    assert same(whole, broken)


# Longer runs


@pytest.mark.parametrize("keys", [{}, {"seeds": 2}, {"checkpoint_period": 0}, {"checkpoint_keep": 1}])
def test_a_finished_run_made_longer_is_the_run_that_was_that_long_from_the_start(tmp_path, keys, untouched):
    whole = untouched(epochs=14, **keys)
    short = trained(tmp_path / "short", **keys)
    resumed(short, "epochs=14")
    assert same(whole, short)
    assert short.status()["epochs"] == 14


@pytest.mark.parametrize("keys", [{}, {"seeds": 2}])
def test_a_run_of_an_older_version_keeps_the_metrics_that_its_lines_have(tmp_path, monkeypatch, keys, untouched):
    new = "expected_zero_variance_groups"
    with monkeypatch.context() as older:
        older.setattr(evaluation, "EVALUATED", tuple(name for name in evaluation.EVALUATED if name != new))
        older.setattr(summary, "EVALUATED", evaluation.EVALUATED)
        older.setattr(
            trainer, "evaluated", lambda *given: {n: m for n, m in evaluation.evaluated(*given).items() if n != new}
        )
        broken = stopped(tmp_path / "runs", 5, **keys)
    whole = untouched(**keys)
    resumed(broken)
    rows, others = broken.metrics(), whole.metrics()
    assert rows == [{name: value for name, value in row.items() if name != new} for row in others]
    assert faults_of(broken.folder) == []
    resumed(broken, "epochs=12")
    assert {frozenset(row) for row in broken.metrics()} == {frozenset(rows[0])}
    assert faults_of(broken.folder) == []
    assert all(new not in json.loads(line) for line in b"".join(exported(broken.folder, None, "jsonl")).splitlines())
    with pytest.raises(ConfigError, match=f"there is no metric '{new}'"):
        gathered([broken.folder], new)
    results, notes = gathered([broken.folder, whole.folder], new)
    assert [result.path for result in results] == [whole.folder]
    assert any("there is no metric" in note for note in notes)


def test_an_interrupted_run_can_be_made_longer_too(tmp_path, untouched, stopped_once):
    whole = untouched(epochs=14)
    broken = stopped_once(tmp_path / "broken")
    resumed(broken, "epochs=14")
    assert same(whole, broken)


@pytest.mark.parametrize(
    ("keys", "override", "told"),
    [
        ({}, "epochs=5", "came 5, but the run was made for 9: it can only be made longer"),
        ({}, "learning_rate=0.1", "made with another learning_rate"),
        ({}, "clip_epsilon=0.3", "made with another clip_epsilon"),
        ({}, "seeds=3", "made with another seeds"),
        ({"learning_rate_decay": "linear"}, "epochs=20", "learning_rate_decay: linear cannot be made longer"),
        ({"entropy_decay": "linear"}, "epochs=20", "entropy_decay: linear cannot be made longer"),
        ({}, "epochz=20", "unknown key 'epochz'"),
    ],
)
def test_a_run_that_would_become_another_is_refused_with_the_reason(tmp_path, keys, override, told):
    short = trained(tmp_path, **keys)
    before = torture.evidence(short.folder)
    with pytest.raises(ConfigError, match="(?s).*" + told):
        resumed(short, override)
    assert torture.evidence(short.folder) == before


def test_a_config_that_was_changed_by_hand_is_refused_and_nothing_is_thrown_away(tmp_path, stopped_once):
    broken = stopped_once(tmp_path)
    file = broken.folder / "config.yaml"
    file.write_text(file.read_text().replace("learning_rate: 0.001", "learning_rate: 0.002"))
    before = torture.evidence(broken.folder)
    with pytest.raises(ConfigError, match="is not what the run was made with: put it back"):
        resumed(broken)
    with pytest.raises(ConfigError, match="is not what epoch-000005 was made with"), sampling.trained(broken):
        pass
    assert torture.evidence(broken.folder) == before


def test_a_run_that_starts_over_and_is_stopped_goes_on_from_its_new_checkpoints(tmp_path, untouched):
    whole = untouched()
    broken = stopped(tmp_path / "broken", 7)
    metrics = broken.folder / "metrics.jsonl"
    metrics.write_bytes(b"?" + metrics.read_bytes()[1:])

    def watch(done, mean_reward):
        written(tmp_path / "broken", done)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        resuming.resume(resuming.asked_for(broken, []), watch=watch)
    notes = []
    resumed(broken, notes=notes)
    assert notes == ["going on after 3 of 9 epochs"]
    assert same(whole, broken)


def test_a_run_outlives_the_one_that_it_started_from(tmp_path):
    first = trained(tmp_path / "first")
    keys = {"init_from": str(first.folder)}
    whole, broken = trained(tmp_path / "whole", **keys), stopped(tmp_path / "broken", 4, **keys)
    shutil.rmtree(first.folder)
    resumed(broken)
    assert same(whole, broken)
    assert faults_of(broken.folder) == []
    with sampling.trained(broken) as policy:
        assert policy.state.epoch == 9


def test_a_run_that_was_killed_when_it_began_to_be_longer_goes_on_to_that_length(tmp_path, untouched):
    whole = untouched(epochs=14)
    short = trained(tmp_path / "short")
    file = short.folder / "config.yaml"
    file.write_text(file.read_text().replace("epochs: 9", "epochs: 14"))  # all that it came to
    notes = []
    resumed(short, notes=notes)
    assert notes == ["going on after 8 of 14 epochs"]
    assert same(whole, short)


def test_what_another_process_has_made_of_a_run_meanwhile_counts(tmp_path, untouched):
    run_, whole = trained(tmp_path / "run"), untouched(epochs=14)
    second = resuming.asked_for(run_, ["epochs=12"])
    resumed(run_, "epochs=14")
    with pytest.raises(ConfigError, match="came 12, but the run was made for 14"):
        resuming.resume(second)
    assert same(whole, run_)


@pytest.mark.parametrize("damage", ["torn", "a byte", "no key", "gone"])
def test_the_times_may_be_damaged_and_the_run_goes_on_again_and_again(tmp_path, damage, untouched, stopped_once):
    whole = untouched(epochs=14)
    short = stopped_once(tmp_path / "short")
    timing = short.folder / "timing.jsonl"
    data = timing.read_bytes()
    damaged = {"torn": data + b'{"segment":1,"epo', "a byte": b"?" + data[1:], "no key": b"{}\n" + data}
    timing.unlink() if damage == "gone" else timing.write_bytes(damaged[damage])
    resumed(short)
    resumed(short, "epochs=14")
    assert same(whole, short)


@pytest.mark.parametrize("name", ["metrics.jsonl", "train.log", "checkpoints/epoch-000005/state.json"])
def test_a_pipe_in_the_place_of_a_file_hangs_nothing(tmp_path, name, untouched, stopped_once):
    whole = untouched()
    broken = stopped_once(tmp_path / "broken")
    (broken.folder / name).unlink()
    os.mkfifo(broken.folder / name)
    notes = []
    resumed(broken, notes=notes)
    assert "is a pipe or a device" in notes[0]
    assert same(whole, broken)


def test_a_run_that_cannot_start_over_keeps_the_policy_that_it_had(tmp_path):
    origin = trained(tmp_path / "origin")
    folder = trained(tmp_path / "after", init_from=str(origin.folder))
    before = {place.name: (place / "tensors.safetensors").read_bytes() for place in folder.checkpoints.iterdir()}
    shutil.rmtree(origin.folder)
    (folder.folder / "metrics.jsonl").write_bytes(b"")
    notes = []
    with pytest.raises(RunFailed, match="cannot be read"):
        resuming.resume(resuming.asked_for(folder, ["epochs=12"]), tell=notes.append)
    aside = folder.folder / "damaged"
    assert notes[-1] == f"what it had written is kept in {aside}"
    assert {place.name: (place / "tensors.safetensors").read_bytes() for place in aside.glob("epoch-*")} == before
    assert not list(folder.checkpoints.iterdir())


def test_what_had_been_written_is_kept_when_a_run_has_to_start_over(tmp_path, stopped_once):
    broken = stopped_once(tmp_path)
    metrics = broken.folder / "metrics.jsonl"
    damaged = b"?" + metrics.read_bytes()[1:]
    metrics.write_bytes(damaged)
    notes = []
    resumed(broken, notes=notes)
    assert notes[-1] == f"what it had written is kept in {broken.folder / 'damaged'}"
    assert (broken.folder / "damaged" / "metrics.jsonl").read_bytes() == damaged
    assert faults_of(broken.folder) == []


# Whose run it is


def test_a_run_that_another_process_has_is_refused(tmp_path, stopped_once):
    broken = stopped_once(tmp_path)
    with runs.held(broken.folder), pytest.raises(InUse, match="in use by another process"):
        resumed(broken)


@pytest.mark.parametrize("apart", [-2, 1000], ids=["long ago", "by a clock that went backwards since"])
def test_a_run_that_another_machine_still_writes_is_left_to_it_and_a_lost_one_is_not(tmp_path, apart, stopped_once):
    broken = stopped_once(tmp_path)
    runs.write_whole(broken.folder / "status.json", broken.status() | {"status": "running", "host": "otherbox"})
    with pytest.raises(InUse, match=r"in use by process .* on otherbox"):
        resumed(broken)
    when = time.time() + apart * runs.RECENT
    for file in broken.folder.iterdir():
        os.utime(file, (when, when))
    resumed(broken)
    assert broken.status()["status"] == "completed"


def test_of_two_that_go_on_with_one_run_one_wins_and_the_other_says_so(tmp_path, untouched):
    whole = untouched(epochs=200, log_every=0)
    broken = stopped(tmp_path / "broken", 5, epochs=200, log_every=0)
    metrics = broken.folder / "metrics.jsonl"
    before = metrics.stat().st_size
    winner = Child(["-m", "pgrl_cli", "train", "--resume", str(broken.folder), "-q"])
    wait_until(lambda: metrics.stat().st_size > before)
    winner.send_signal(signal.SIGSTOP)  # or it would have ended before the other begins
    with pytest.raises(InUse, match="in use by another process"):
        resuming.resume(resuming.asked_for(broken, []))
    winner.send_signal(signal.SIGCONT)
    told = winner.communicate(timeout=120)
    assert winner.returncode == 0, told
    assert same(whole, broken)


@pytest.mark.parametrize(
    ("path", "told"),
    [("nowhere", "there is no such run folder"), ("empty", "it has no config.yaml"), ("sweep", "pgrl sweep --resume")],
)
def test_what_is_no_run_is_refused(tmp_path, path, told):
    (tmp_path / "empty").mkdir()
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "cells.jsonl").write_text("")
    with pytest.raises(ConfigError, match=told):
        resuming.asked_for(Run(tmp_path / path), [])


def test_an_own_reward_goes_on_with_the_source_that_the_run_has(tmp_path):
    (tmp_path / "mine.py").write_text("def points(prompt, response):\n    return float(len(set(response)))\n")
    config = resolve(layers_from(KEYS | {"reward_fn": "mine.py:points"}, folder=tmp_path))
    whole, _ = run(config, tmp_path / "whole")

    def watch(done, mean_reward):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as failure:
        run(config, tmp_path / "broken", watch=watch)
    (tmp_path / "mine.py").write_text("def points(prompt, response):\n    return 0.0\n")
    resumed(failure.value.run)
    assert same(whole, failure.value.run)


def test_a_run_without_config_is_told_where_to_put_it_and_two_are_refused(tmp_path):
    for words, told in (
        (["lecture/two_state"], "put --config before lecture/two_state: pgrl train --config lecture/two_state"),
        (["--resume", "x", "--config", "lecture/two_state"], "leave --config out"),
    ):
        said = pgrl("train", *words)
        assert (said.code, told in said.err) == (2, True)


# Signals


def wait_for_epochs(folder, child, epochs=3):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        with suppress(OSError):
            found = next(iter(folder.glob("*/timing.jsonl")), None)
            if found is not None and found.read_bytes().count(b"\n") >= epochs:
                return
        time.sleep(0.01)
    raise AssertionError(child.communicate()[1])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("seeds", [None, 64])
def test_a_signal_ends_a_run_within_two_seconds_with_a_checkpoint(tmp_path, number, code, seeds):
    words = ["train", "-c", "lecture/centered_clipped", "epochs=100000", "--runs-dir", str(tmp_path)]
    words += [] if seeds is None else [f"seeds={seeds}"]
    child = Child(["-m", "pgrl_cli", *words])
    wait_for_epochs(tmp_path, child)
    asked = time.monotonic()
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    assert_soon(time.monotonic() - asked)
    (folder,) = tmp_path.iterdir()
    assert (child.returncode, out) == (code, "")
    assert err.splitlines()[-1] == f"interrupted; what was finished is kept; to go on: pgrl train --resume {folder}"
    status = Run(folder).status()
    assert (status["status"], status["exit_code"]) == ("interrupted", code)
    (last,) = [place.name for place in (folder / "checkpoints").iterdir()]
    assert last == f"epoch-{status['epochs']:06d}"
    assert len(Run(folder).metrics()) == 10 * status["epochs"]


def test_a_signal_breaks_an_epoch_off_that_does_not_end_and_what_was_before_it_goes_on(tmp_path):
    slow = "import os, time\n\ndef points(prompt, response):\n    time.sleep(0 if os.path.exists('go') else 30)\n"
    slow += "    return 1.0\n"
    (tmp_path / "mine.py").write_text(slow)
    words = ["train", "-c", "lecture/centered_naive", "reward_fn=mine.py:points", "epochs=3"]
    child = Child(["-m", "pgrl_cli", *words], cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("runs/*/metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)
    asked = time.monotonic()
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=30)
    assert (child.returncode, "Traceback" in err) == (143, False)
    assert_soon(time.monotonic() - asked)
    (folder,) = (tmp_path / "runs").iterdir()
    assert Run(folder).status()["status"] == "interrupted"
    (tmp_path / "go").touch()
    again = finished(["-m", "pgrl_cli", "train", "--resume", str(folder), "-q"], cwd=tmp_path)
    assert again.returncode == 0


def test_a_signal_in_the_middle_of_an_epoch_goes_back_to_the_last_whole_one(tmp_path, monkeypatch, untouched):
    from pgrl_cli import notebook

    whole = untouched(checkpoint_period=0)
    taken, lines = [], notebook.Notebook._write_down

    def half(self, *given):
        lines(self, *given)
        taken.append(1)
        if len(taken) == 6:
            raise Stopped(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(notebook.Notebook, "_write_down", half)
        with pytest.raises(Interrupted) as failure:
            run(resolve(layers_from(KEYS | {"checkpoint_period": 0})), tmp_path / "broken")
    assert failure.value.signal == signal.SIGTERM
    broken = failure.value.run
    assert len(broken.metrics()) == 15
    notes = []
    resumed(broken, notes=notes)
    assert notes == ["going on after 5 of 9 epochs"]
    assert same(whole, broken)


def test_more_signals_while_a_run_stops_change_nothing(tmp_path):
    words = ["train", "-c", "lecture/centered_clipped", "epochs=100000", "--runs-dir", str(tmp_path)]
    child = subprocess.Popen(torture.pgrl(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_epochs(tmp_path, child)
    for _ in range(6):
        child.send_signal(signal.SIGTERM)
        time.sleep(0.01)
    _, err = child.communicate(timeout=30)
    (folder,) = tmp_path.iterdir()
    assert Run(folder).status()["status"] == "interrupted"
    assert child.returncode in (143, -signal.SIGTERM)  # one may come when all is done
    assert "to go on: pgrl train --resume" in err


# Faults


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError("no more")])
def test_a_checkpoint_that_cannot_be_written_fails_the_run_and_hangs_nothing(tmp_path, monkeypatch, error):
    def broken(given, counting_on):
        raise error

    monkeypatch.setattr(keeper.checkpoints, "write", broken)
    with pytest.raises(RunFailed, match=r"No space|no more"):
        trained(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert Run(folder).status()["status"] == "failed"


def test_a_failed_run_keeps_its_last_good_checkpoint(tmp_path, untouched):
    whole = untouched()
    broken = stopped(tmp_path / "broken", 5, error=RuntimeError("the sky fell"), checkpoint_period=0)
    assert broken.status()["status"] == "failed"
    resumed(broken, "checkpoint_period=1")
    assert same(whole, broken)


def test_a_policy_that_its_last_step_spoilt_does_not_become_a_completed_run_by_going_on(tmp_path):
    keys = {"epochs": 1, "steps_per_epoch": 1, "learning_rate": 1e30, "prompts": [[0, 0, 0]], "vocab_size": 3}
    with pytest.raises(RunFailed, match="not finite after step 0, the last") as failure:
        trained(tmp_path, **keys, kl_coefficient=0, delta_mode="rewards")
    assert not list(failure.value.run.checkpoints.glob("epoch-000001"))
    with pytest.raises(RunFailed, match="not finite after step 0, the last"):
        resumed(failure.value.run)
    assert failure.value.run.status()["status"] == "failed"


def test_a_full_disk_damages_nothing_and_with_space_again_the_run_goes_on(tmp_path):
    whole = trained(tmp_path / "whole", epochs=30, checkpoint_period=2)
    size = (whole.folder / "metrics.jsonl").stat().st_size
    words = [f"{key}={value}" for key, value in (KEYS | {"epochs": 30, "checkpoint_period": 2}).items()]
    config = ["train", "-c", str(whole.folder / "config.yaml"), *words, "--runs-dir", str(tmp_path / "broken")]
    limited = f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({size // 2}, {size // 2})); "
    limited += f"sys.argv = {['pgrl', *config]!r}; runpy.run_module('pgrl_cli', run_name='__main__')"
    said = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=False)
    (folder,) = (tmp_path / "broken").iterdir()
    assert said.returncode == 1
    assert "File too large" in said.stderr
    assert "Traceback" not in said.stderr
    assert Run(folder).status()["status"] == "failed"
    notes = []
    resumed(Run(folder), notes=notes)
    assert notes[-1].startswith("going on after 1")
    assert same(whole, Run(folder))


def test_a_deleted_folder_ends_the_run_and_does_not_come_back(tmp_path):
    def delete(done, mean_reward):
        if done == 2:
            folder = next(tmp_path.iterdir())
            while folder.exists():  # a checkpoint may be on its way into it
                shutil.rmtree(folder, ignore_errors=True)

    with pytest.raises(RunFailed, match="No such file"):
        run(resolve(layers_from(KEYS | {"epochs": 200})), tmp_path, watch=delete)
    assert list(tmp_path.iterdir()) == []


def born(words, log):
    """A child that tells nobody but its log, in a session of its own."""
    return Child(["-m", "pgrl_cli", *words], log=log, start_new_session=True)


@pytest.mark.parametrize(("kind", "kills"), [("run", 2), ("seeds", 1)])
def test_a_run_that_is_killed_at_any_instant_goes_on_to_the_same_bytes(tmp_path, kind, kills):
    assert torture.tortured(kind, kills, tmp_path, seed=1, start=born) > 0  # died before their end


def test_a_sweep_that_is_killed_goes_on_from_its_checkpoints_to_the_same_bytes(tmp_path):
    assert torture.tortured("sweep", 1, tmp_path, seed=2, start=born) > 0
