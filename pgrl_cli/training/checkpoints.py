"""Checkpoints as files: all that changes while it trains, and nothing that would have to be unpickled.

checkpoints/epoch-000100/
    tensors.safetensors   all that `snapshots` names: parameters, what the optimizers remember, the reference, ...
    state.json            epoch, step, versions, the config's hash, how far the run's files had come, and the digests

No time and no process is in them: the same run writes the same bytes. A folder is written beside its place, synced and
renamed, so a kill at any instant leaves the last good one.
"""

import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from pgrl_cli import __version__
from pgrl_cli.config.files import content
from pgrl_cli.training.snapshots import TENSORS, Checkpoint, CheckpointError

FORMAT = 1
STATE = "state.json"
FEW = 6
"""Files of one checkpoint of a run: its two, their folder, and the three that it counts on."""
LARGEST_TENSORS = 2**40
"""Bytes; no memory holds more."""
LARGEST_STATE = 64 * 2**20
"""Bytes of a state.json beyond which it is none of ours."""
FOLDER = re.compile(r"epoch-(\d{6,10})")


def write(given: Sequence[tuple[Path, Checkpoint]], counting_on: Sequence[int] = ()) -> None:
    """Write checkpoints, each into a folder of them: complete, synced, then renamed to its place. Raises OSError.

    `counting_on` are descriptors of files that must lie safe on the disk before a checkpoint counts on them.
    """
    beside = []
    try:
        files: list[Path | int] = [*counting_on]
        for folder, checkpoint in given:
            folder.mkdir(exist_ok=True)  # a run folder that has gone must not come back half
            beside.append(folder / f".{_name(checkpoint)}.{secrets.token_hex(4)}")
            files += _written(beside[-1], checkpoint)
        sync(files)
        for (folder, checkpoint), complete in zip(given, beside, strict=True):
            place = folder / _name(checkpoint)
            if _is_the_same(place, complete):  # of a run that was stopped where it went on: it must not be away at all
                continue
            if place.is_dir() and not place.is_symlink():  # a damaged one
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
            complete.rename(place)
        sync(list(dict.fromkeys(folder for folder, _ in given)))
    finally:
        for left in beside:
            shutil.rmtree(left, ignore_errors=True)


def _is_the_same(place: Path, complete: Path) -> bool:
    """Whether a checkpoint lies in its place already, byte for byte."""
    if place.is_symlink() or not place.is_dir() or any((place / name).is_symlink() for name in (STATE, TENSORS)):
        return False
    try:
        return all(
            content(place / name, LARGEST_TENSORS) == (complete / name).read_bytes() for name in (STATE, TENSORS)
        )
    except OSError:
        return False


def _name(checkpoint: Checkpoint) -> str:
    return f"epoch-{checkpoint.epoch:06d}"


def _written(beside: Path, checkpoint: Checkpoint) -> list[Path]:
    tensors = save(dict(checkpoint.tensors))
    state = {
        "format": FORMAT,
        "epoch": checkpoint.epoch,
        "steps": checkpoint.steps,
        "versions": {"pgrl": __version__, "torch": torch.__version__},
        **checkpoint.facts,
        "tensors": {"bytes": len(tensors), "sha256": sha256(tensors).hexdigest()},
    }
    beside.mkdir()
    (beside / TENSORS).write_bytes(tensors)
    (beside / STATE).write_bytes(_sealed(state))
    return [beside / TENSORS, beside / STATE, beside]


def sync(what: Sequence[Path | int]) -> None:
    """See to it that files and folders, open or by their paths, lie safe on the disk.

    Few of them in turn, which leaves the interpreter to whoever trains meanwhile; many at once, for each waits.
    """
    if len(what) <= FEW:
        for each in what:
            _sync(each)
        return
    with ThreadPoolExecutor(max_workers=16) as pool:
        list(pool.map(_sync, what))


def _sync(what: Path | int) -> None:
    if isinstance(what, int):
        os.fsync(what)
        return
    descriptor = os.open(what, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(place: Path) -> Checkpoint:
    """A checkpoint, every byte of it checked. Raises CheckpointError for one that is damaged or foreign."""
    state = _state_of(place)
    file = place / TENSORS
    told = state["tensors"]
    try:
        if file.is_symlink() or file.stat().st_size != told.get("bytes"):
            raise CheckpointError(f"{file} is not the file that {STATE} speaks of: its size differs")
        data = content(file, LARGEST_TENSORS)
        if sha256(data).hexdigest() != told.get("sha256"):
            raise CheckpointError(f"{file} is damaged: its bytes are not those that were written")
        tensors = load(data)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(f"{file} cannot be read: {reason}") from error
    known = ("format", "epoch", "steps", "versions", "tensors", "sha256")
    facts = {name: value for name, value in state.items() if name not in known}
    return Checkpoint(state["epoch"], state["steps"], tensors, facts)


def _state_of(place: Path) -> dict[str, Any]:
    file = place / STATE
    try:
        if place.is_symlink() or file.is_symlink():
            raise CheckpointError(f"{place} is a link, and is not followed")
        if file.stat().st_size > LARGEST_STATE:
            raise CheckpointError(f"{file} is too large to be a checkpoint's")
        data = content(file)
        state = orjson.loads(data)
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise CheckpointError(f"{file} is damaged: {error}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{file} is no checkpoint of format {FORMAT}")
    sealed = {name: value for name, value in state.items() if name != "sha256"}
    if _sealed(sealed) != data:
        raise CheckpointError(f"{file} is damaged: its bytes are not those that were written")
    counts, told = (state.get("epoch"), state.get("steps")), state.get("tensors")
    if not all(isinstance(count, int) and count >= 0 for count in counts) or not isinstance(told, dict):
        raise CheckpointError(f"{file} is no checkpoint's: epoch, steps or tensors are missing")
    return state


def _sealed(state: Mapping[str, Any]) -> bytes:
    """A state's text, with its own digest at the end."""
    digest = sha256(orjson.dumps(state)).hexdigest()
    return orjson.dumps({**state, "sha256": digest}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def places(folder: Path) -> list[Path]:
    """The checkpoints that lie in a folder, the newest first; whether they are whole, `read` says."""
    try:
        names = [entry.name for entry in os.scandir(folder) if FOLDER.fullmatch(entry.name)]
    except OSError:
        return []
    return [folder / name for name in sorted(names, key=epoch_of, reverse=True)]


def epoch_of(name: str) -> int:
    """The epochs done, of a checkpoint's folder."""
    found = FOLDER.fullmatch(name)
    return int(found[1]) if found else -1


def thin_out(folder: Path, keep: int) -> None:
    """Remove all but the newest checkpoints, and what writes that were cut off have left."""
    for old in places(folder)[keep:]:
        gone = old.with_name(f".{old.name}.{secrets.token_hex(4)}")
        old.rename(gone)  # half a folder must not be taken for a checkpoint
        shutil.rmtree(gone, ignore_errors=True)
    for left in folder.glob(".epoch-*"):
        shutil.rmtree(left, ignore_errors=True)


def newest_whole(folder: Path) -> tuple[Path | None, Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, where it lies, and what is wrong with newer ones."""
    problems: list[str] = []
    for place in places(folder):
        try:
            return place, read(place), problems
        except CheckpointError as error:
            problems.append(str(error))
    return None, None, problems


def set_aside(folder: Path, beyond: int) -> None:
    """Remove the checkpoints beyond an epoch: a run that goes on from there writes others."""
    for place in places(folder):
        if epoch_of(place.name) > beyond:
            shutil.rmtree(place, ignore_errors=True)


def problems_of(place: Path) -> list[str]:
    """What is wrong with a checkpoint, in words; nothing where it is whole."""
    try:
        read(place)
    except CheckpointError as error:
        return [str(error)]
    return []
