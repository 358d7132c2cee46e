"""A checkpoint holds all that changes, every byte is checked, and training goes on from it as if nothing had been."""

import copy
import os
from pathlib import Path

import orjson
import pytest
import torch

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from
from pgrl_cli.resolution import resolve
from pgrl_cli.training.checkpoints import epoch_of, places, problems_of, read, thin_out, write
from pgrl_cli.training.snapshots import CheckpointError, part_of, restore, snapshot
from pgrl_cli.training.trainer import train

KL = {"kl_coefficient": 0.1, "loss_mode": "clipped", "reference_period": 3, "epochs": 8, "steps_per_epoch": 3}


def configured(**keys):
    return resolve(layers_from(KL | {"name": "x"} | keys)).config


def after(epochs, config):
    """Parts, and the state after so many epochs."""
    parts, state = assemble([config])
    records = train(parts, config, state)
    for _ in range(epochs):
        next(records)
    return parts, state


def equal(one, other):
    tensors = [one.parameters, *one.moments.values(), *(one.reference or one.policy).parameters()]
    others = [other.parameters, *other.moments.values(), *(other.reference or other.policy).parameters()]
    return all(torch.equal(a, b) for a, b in zip(tensors, others, strict=True))


@pytest.fixture
def whole(tmp_path):
    """A checkpoint on the disk."""
    _, state = after(4, configured())
    folder = tmp_path / "checkpoints"
    write([(folder, snapshot(state, {"books": {}}))])
    return folder / "epoch-000004"


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("seeds", [None, 3])
def test_training_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(tmp_path, optimizer, seeds):
    config = configured(optimizer=optimizer, seeds=seeds, entropy_coefficient=0.1)
    parts, state = after(4, config)
    write([(tmp_path / "c", snapshot(state, {}))])
    for _ in train(parts, config, state):
        pass
    parts, again = assemble([config])
    restore(again, read(tmp_path / "c" / "epoch-000004"))
    assert (again.epoch, again.steps) == (4, 12)
    for _ in train(parts, config, again):
        pass
    assert equal(state, again)


def test_a_snapshot_does_not_change_when_training_goes_on():
    config = configured()
    parts, state = after(2, config)
    taken = snapshot(state, {})
    before = copy.deepcopy(dict(taken.tensors))
    next(train(parts, config, state))
    assert all(torch.equal(before[name], tensor) for name, tensor in taken.tensors.items())


def test_the_same_run_writes_the_same_bytes(tmp_path):
    for name in "ab":
        _, state = after(3, configured())
        write([(tmp_path / name, snapshot(state, {"books": {"0": {"x": 1}}}))])
    for file in ("state.json", "tensors.safetensors"):
        one, other = (tmp_path / name / "epoch-000003" / file for name in "ab")
        assert one.read_bytes() == other.read_bytes()


def test_a_part_of_a_stack_is_the_checkpoint_of_the_run_alone(tmp_path):
    _, state = after(3, configured(seeds=[4, 5, 6], dtype="float64"))
    _, alone = after(3, configured(seed=5, dtype="float64"))
    part, own = part_of(snapshot(state, {}), 1, {}), snapshot(alone, {})
    assert part.tensors.keys() == own.tensors.keys()
    for name, tensor in own.tensors.items():
        assert part.tensors[name].shape == tensor.shape
        assert torch.allclose(part.tensors[name], tensor, atol=1e-9, rtol=0)
    assert part_of(snapshot(state, {}), slice(1, 3), {}).tensors["policy.embedding"].shape[0] == 2


@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors"])
def test_one_flipped_bit_anywhere_is_found_and_the_file_is_named(whole, file):
    path = whole / file
    data = path.read_bytes()
    for place in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(CheckpointError, match=file):
            read(whole)
    path.write_bytes(data)
    assert problems_of(whole) == []


@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors"])
@pytest.mark.parametrize("damage", ["gone", "empty", "half", "longer", "a folder", "a link"])
def test_a_damaged_file_is_refused_by_name(whole, file, damage):
    path = whole / file
    data = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage == "a link":
        elsewhere = whole.parent / "elsewhere"
        elsewhere.write_bytes(data)
        path.symlink_to(elsewhere)
    elif damage != "gone":
        path.write_bytes({"empty": b"", "half": data[: len(data) // 2], "longer": data + b"\n"}[damage])
    (problem,) = problems_of(whole)
    assert damage == "a link" or file in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    "state",
    [
        b"[]",
        b"null",
        b"1",
        b"{}",
        b'{"format": 2}',
        b'{"format": 1}',
        b'{"format": 1, "sha256": "x"}',
        b"[" * 5000,
        b'{"format": NaN}',
        b"\xff\xfe",
        b"\x00" * 100,
    ],
)
def test_a_foreign_state_is_refused(whole, state):
    (whole / "state.json").write_bytes(state)
    with pytest.raises(CheckpointError, match=r"state\.json"):
        read(whole)


@pytest.mark.parametrize("key", ["epoch", "steps", "tensors"])
@pytest.mark.parametrize("value", [None, -1, "4", [], {"bytes": -5}])
def test_a_state_that_is_sealed_but_makes_no_sense_is_refused(whole, key, value):
    from pgrl_cli.training import checkpoints

    state = orjson.loads((whole / "state.json").read_bytes())
    del state["sha256"]
    state[key] = value
    (whole / "state.json").write_bytes(checkpoints._sealed(state))
    with pytest.raises(CheckpointError):
        read(whole)


@pytest.mark.parametrize("header", [b"\xff" * 8, (2**40).to_bytes(8, "little"), (10).to_bytes(8, "little") + b"{}" * 5])
def test_hostile_tensors_are_refused_even_with_a_digest_that_fits(whole, header):
    from hashlib import sha256

    from pgrl_cli.training import checkpoints

    data = header + b"x" * 100
    (whole / "tensors.safetensors").write_bytes(data)
    state = orjson.loads((whole / "state.json").read_bytes())
    del state["sha256"]
    state["tensors"] = {"bytes": len(data), "sha256": sha256(data).hexdigest(), "file": "../../../etc/passwd"}
    (whole / "state.json").write_bytes(checkpoints._sealed(state))
    with pytest.raises(CheckpointError, match=r"tensors\.safetensors"):
        read(whole)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"width": 11}, "policy.embedding is float32"),
        ({"dtype": "float64"}, "should be float64"),
        ({"optimizer": "sgd"}, "does not fit this config: moments.means"),
        ({"policy": "table"}, "does not fit this config"),
        ({"seeds": 2}, "does not fit this config"),
    ],
)
def test_a_checkpoint_of_another_config_is_refused_and_changes_nothing(whole, keys, told):
    _, state = assemble([configured(**keys)])
    reference, stopped = state.reference, state.stopped
    before = state.parameters.clone()
    with pytest.raises(CheckpointError, match=told):
        restore(state, read(whole))
    assert torch.equal(state.parameters, before)
    assert (state.epoch, state.reference, state.stopped) == (0, reference, stopped)


def test_the_newest_stay_and_remains_of_broken_writes_go(tmp_path):
    config = configured()
    parts, state = assemble([config])
    folder = tmp_path / "c"
    for _ in train(parts, config, state):
        write([(folder, snapshot(state, {}))])
    (folder / ".epoch-000003.abcd1234").mkdir()
    thin_out(folder, 3)
    assert [epoch_of(place.name) for place in places(folder)] == [8, 7, 6]
    assert sorted(path.name for path in folder.iterdir()) == ["epoch-000006", "epoch-000007", "epoch-000008"]


def test_a_write_that_fails_leaves_the_last_good_one_alone(whole, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    before = {path: path.read_bytes() for path in whole.rglob("*")}
    _, state = after(5, configured())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write([(whole.parent, snapshot(state, {}))])
    assert {path: path.read_bytes() for path in whole.rglob("*")} == before
    assert [path.name for path in whole.parent.iterdir()] == [whole.name]


def test_a_run_folder_that_has_gone_does_not_come_back_half(tmp_path):
    _, state = after(1, configured())
    with pytest.raises(FileNotFoundError):
        write([(tmp_path / "gone" / "checkpoints", snapshot(state, {}))])
    assert list(tmp_path.iterdir()) == []


def test_places_are_those_that_look_like_checkpoints(tmp_path: Path):
    for name in ("epoch-000010", "epoch-000009", "epoch-1", "epoch-00001x", ".epoch-000011.ab", "other"):
        (tmp_path / name).mkdir()
    assert [place.name for place in places(tmp_path)] == ["epoch-000010", "epoch-000009"]
    assert places(tmp_path / "nowhere") == []


def test_a_checkpoint_that_is_written_once_more_is_never_away(whole, tmp_path):
    there = whole.stat().st_ino
    _, state = after(4, configured())
    write([(tmp_path / "checkpoints", snapshot(state, {"books": {}}))])
    assert whole.stat().st_ino == there
    assert list(whole.parent.iterdir()) == [whole]
    write([(tmp_path / "checkpoints", snapshot(state, {"books": {"0": None}}))])
    assert read(whole).facts == {"books": {"0": None}}
