"""Beside TRL's GRPOTrainer on the same work: each in a process of its own, in turn, one thread, float32, on the CPU.

    python benchmarks/against_trl.py [--series 5] [--steps 60] [--stacks 16,64]

The work: 8 prompts of five digits, 8 responses of 5 tokens to each, a point for each digit of the sorted prompt in its
place, z-scores within a group, the clipped loss, one step of Adam per rollout, no KL; a transformer of width 32 with 2
layers and 2 heads. TRL trains a GPT-2 of that shape; dropout, clipping of gradients, logs and checkpoints are off. We
train by `experiment.run`, which writes all its files, and once more by the trainer alone.

A step is the median of a series, the first five and the last left out; told is the median over series, with their
range; a stack's series are shorter. Processor time is the one to read on a machine that has other work, the clock's is
what one waits. A start is that of a whole process, from nothing to the end of its first step.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import grpo_work
from grpo_work import COUNTED, PROMPTS, RESPONSES, TOKENS

QUIET = os.environ | {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "PYTHONWARNINGS": "ignore",
}
EDGE = 10
"""Steps, but no more than a third, at both ends of a series: their mean rewards say whether it learns."""


class Told(NamedTuple):
    """One series of one side, in numbers: milliseconds of a step and run, seconds of the start."""

    step: float
    step_by_clock: float
    start: float
    start_by_clock: float
    rewards: tuple[float, float]
    read: tuple[int, int]
    updates: float
    """Per rollout."""


def sides(stacks: Sequence[int]) -> dict[str, tuple[str, int]]:
    """What is measured: the name that is printed, the name that the child is told, and how many runs it trains."""
    ours = {"one run, all files": ("files", 1), "one run, the trainer alone": ("alone", 1)}
    return (
        {"TRL's GRPOTrainer": ("trl", 1)} | ours | {f"a stack of {runs}, all files": ("files", runs) for runs in stacks}
    )


def child(what: str, runs: int, steps: int) -> grpo_work.Series:
    """What a process of its own does."""
    return grpo_work.by_trl(steps) if what == "trl" else grpo_work.by_us(steps, runs, files=what == "files")


def measured(what: str, runs: int, steps: int) -> Told:
    """One series in a process of its own. Raises CalledProcessError where it fails."""
    words = [sys.executable, __file__, "--child", what, "--runs", str(runs), "--steps", str(steps)]
    began = time.time()
    said = subprocess.run(words, capture_output=True, text=True, env=QUIET)
    if said.returncode:
        raise SystemExit(f"{said.stderr}error: {' '.join(words)} failed; TRL comes with pip install -e '.[bench]'")
    return told(json.loads(said.stdout.splitlines()[-1]), runs, began)


def told(series: Sequence[Any], runs: int, began: float) -> Told:
    """A series, as its child has printed it, in numbers; `began` is when it was started, by the clock."""
    stamps, rewards, read, updates = series
    first = stamps[0]
    timed = stamps[COUNTED - 1 : -1]
    steps, by_clock = (
        [(after[column] - before[column]) * 1e3 / runs for before, after in pairwise(timed)] for column in (0, 1)
    )
    edge = min(EDGE, len(rewards) // 3)
    edges = (statistics.fmean(rewards[:edge]), statistics.fmean(rewards[-edge:]))
    return Told(
        statistics.median(steps),
        statistics.median(by_clock),
        first[0],
        first[1] - began,
        edges,
        tuple(read),
        updates / len(rewards),
    )


def in_turn(series: int, steps: int, chosen: dict[str, tuple[str, int]]) -> dict[str, list[Told]]:
    """All sides one after the other, so many times; of a stack there are fewer steps, for they take longer."""
    found: dict[str, list[Told]] = {name: [] for name in chosen}
    for _ in range(series):
        for name, (what, runs) in chosen.items():
            found[name].append(measured(what, runs, max(COUNTED + 7, steps // (1 + runs // 8))))
    return found


def spread(values: Sequence[float], digits: int = 1) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def report(found: dict[str, list[Told]], series: int) -> None:
    theirs = next(iter(found.values()))
    print(
        f"{PROMPTS} prompts x {RESPONSES} responses x {TOKENS} tokens, a step per rollout, one thread: "
        f"{series} series in turn, median (range)"
    )
    table = {
        "a step of a run, processor ms": ("step", 1),
        "a step of a run, clock ms": ("step_by_clock", 1),
        "start to first step, processor s": ("start", 1),
        "start to first step, clock s": ("start_by_clock", 1),
    }
    for what, (field, digits) in table.items():
        print(f"| {what} | | TRL takes times as long |")
        print("|---|---|---|")
        for name, mine in found.items():
            values = [getattr(each, field) for each in mine]
            ratios = [getattr(their, field) / value for their, value in zip(theirs, values, strict=True)]
            print(f"| {name} | {spread(values, digits)} | {spread(ratios)} |")
    print("| the same work? per step and run | updates | tokens read without a gradient | with one | mean reward |")
    print("|---|---|---|---|---|")
    for name, mine in found.items():
        one = mine[0]
        rewards = f"from {one.rewards[0]:.2f} to {one.rewards[1]:.2f}"
        print(f"| {name} | {one.updates:g} | {one.read[0]} | {one.read[1]} | {rewards} |")


def main(given: Sequence[str] | None = None, ask: Callable[..., dict[str, list[Told]]] = in_turn) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--stacks", default="16,64")
    parser.add_argument("--child", choices=["trl", "files", "alone"])
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args(given)
    if arguments.child:
        print(json.dumps(child(arguments.child, arguments.runs, arguments.steps)))
        return
    stacks = [int(runs) for runs in arguments.stacks.split(",") if runs]
    report(ask(arguments.series, arguments.steps, sides(stacks)), arguments.series)


if __name__ == "__main__":
    main()
