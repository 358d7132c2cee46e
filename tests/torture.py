"""Runs that are killed at random instants, resumed, and compared byte by byte with one that nobody touched.

    python tests/torture.py [--kills 30] [--only run|seeds|sweep|processes]

The instants lie between the first checkpoint and the end. A run's metrics, samples, log and last checkpoint must come
out the same; timing.jsonl alone may show the segments.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from nursery import Child

CONFIG = ["lecture/centered_clipped_kl", "epochs=40", "checkpoint_period=1", "entropy_coefficient=0.1"]
KINDS: dict[str, tuple[list[str], list[str]]] = {
    "run": (["train"], CONFIG),
    "seeds": (["train"], [*CONFIG, "seeds=64"]),
    "sweep": (["sweep"], [*CONFIG, "seeds=8", "delta_mode=rewards,centered_rewards", "kl_coefficient=0.1,0.2"]),
    "processes": (["sweep"], [*CONFIG, "seeds=8", "loss_mode=unclipped,clipped", "launcher=processes"]),
}
COMPARED = ("metrics.jsonl", "samples.jsonl", "train.log", "config.yaml", "cells.jsonl", "summary.csv", "summary.json")
PATIENCE = 120.0


def pgrl(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pgrl_cli", *words]


def started(words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """A child in a session of its own, so that all of it can be killed at once."""
    with log.open("ab") as told:
        return subprocess.Popen(pgrl(words), stdout=told, stderr=told, stdin=subprocess.DEVNULL, start_new_session=True)


Start = Callable[[Sequence[str], Path], "subprocess.Popen[bytes] | Child"]


def only_folder(runs: Path) -> Path:
    (folder,) = [path for path in runs.iterdir() if not path.name.startswith(".")]
    return folder


def evidence(folder: Path) -> dict[str, bytes]:
    """Everything that must come out the same, by its path: of the checkpoints that is the last."""
    files = [path for name in COMPARED for path in folder.rglob(name) if path.parent.name != "damaged"]
    for checkpoints in folder.rglob("checkpoints"):
        files += [path for place in sorted(checkpoints.glob("epoch-*"))[-1:] for path in place.iterdir()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def checkpoints(runs: Path) -> list[Path]:
    return list(runs.glob("*/checkpoints/epoch-*")) + list(runs.glob("*/checkpoints/*/epoch-*"))


def wait_for(there: object, child: "subprocess.Popen[bytes] | Child") -> None:
    deadline = time.monotonic() + PATIENCE
    while not there() and child.poll() is None:  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError("no checkpoint in time")
        time.sleep(0.002)


def untouched(kind: str, work: Path, start: Start = started) -> tuple[dict[str, bytes], float]:
    """What an undisturbed run leaves, and the seconds from its first checkpoint to its end."""
    (command, words), runs, log = KINDS[kind], work / "untouched", work / "untouched.log"
    child = start([*command, "--config", *words, "--runs-dir", str(runs), "-q"], log)
    wait_for(lambda: checkpoints(runs), child)
    began = time.monotonic()
    if child.wait(PATIENCE) != 0:
        raise RuntimeError(log.read_text())
    return evidence(only_folder(runs)), time.monotonic() - began


def killed_and_resumed(
    kind: str, work: Path, after: float, number: int = signal.SIGKILL, start: Start = started
) -> tuple[dict[str, bytes], int]:
    """What a run leaves that was killed so long after its first checkpoint and then resumed, and how often it died."""
    (command, words), runs, log = KINDS[kind], work / "killed", work / "killed.log"
    shutil.rmtree(runs, ignore_errors=True)
    child = start([*command, "--config", *words, "--runs-dir", str(runs), "-q"], log)
    wait_for(lambda: checkpoints(runs), child)
    time.sleep(after)
    deaths = int(child.poll() is None)
    with suppress(ProcessLookupError):  # it was faster
        os.killpg(child.pid, number)
    child.wait(PATIENCE)
    folder = only_folder(runs)
    again = subprocess.run(
        pgrl([*command, "--resume", str(folder), "-q"]), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if again.returncode != 0:
        raise RuntimeError(f"{folder} could not be resumed after {after:.3f} s: {again.stderr}")
    return evidence(folder), deaths


def differences(was: dict[str, bytes], now: dict[str, bytes]) -> list[str]:
    return sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))


def tortured(kind: str, kills: int, work: Path, seed: int = 0, start: Start = started) -> int:
    """Kill and resume until so many have died before their end, or four times as often; how many did.

    `start` starts what is left alone and what is killed; what is resumed is always a new Python's, with another seed of
    its hashes.
    Raises AssertionError where a byte differs.
    """
    instants = random.Random(seed)
    was, length = untouched(kind, work, start)
    deaths = 0
    for number in range(4 * kills):
        after = instants.uniform(0, length)
        now, died = killed_and_resumed(kind, work, after, start=start)
        deaths += died
        length *= 1 if died else 0.7  # it was over before the kill came: it is faster now than it was untouched
        if wrong := differences(was, now):
            raise AssertionError(f"kill {number} after {after:.3f} s: {wrong} differ")
        if deaths == kills:
            break
    return deaths


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--only", choices=KINDS)
    arguments = parser.parse_args()
    for kind in [arguments.only] if arguments.only else KINDS:
        with tempfile.TemporaryDirectory() as work:
            deaths = tortured(kind, arguments.kills, Path(work))
        print(f"{kind}: {deaths} killed before their end, all resumed to the same bytes")


if __name__ == "__main__":
    main()
