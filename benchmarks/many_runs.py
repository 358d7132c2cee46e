"""Many runs at once, beside the yardstick, measured in turn in one go; only the ratios mean anything elsewhere.

    python benchmarks/many_runs.py seeds [--pairs 3] [--seeds 1024]    one stack on one thread
    python benchmarks/many_runs.py grid  [--pairs 3]                   a sweep of 768 runs in 48 cells on two cores
    python benchmarks/many_runs.py table [--most 4096]                 seconds, memory and bytes against the runs
    python benchmarks/many_runs.py where [--seeds 1024]                what the time of one stack goes into

The trainer writes all its log files, the picture not counted; the yardstick writes none. The grid's time is that of
the whole command, start-up and summary included, against two plain loops side by side, their start-up not counted.
Where the time goes is told by the timing.jsonl of 20 epochs; the share of matrix products by torch's profiler in a
second run, of the operators' own time.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
STEPS = 10
"""Of an epoch."""
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
GRID = """
base: lecture/centered_clipped
parameters:
  delta_mode: [rewards, centered_rewards, normalized_rewards, max_rewards]
  loss_mode: [naive, unclipped, clipped]
  reward_fn: [sort_inclusion_ordering_reward, sort_distance_reward]
  kl_coefficient: [0.0, 0.1]
"""
CELLS_IN_GRID = 48
PARTS = {
    "rollout": "sampling, and scoring what was sampled",
    "steps": "steps: the loss, its backward pass, the optimizer",
    "measures": "measures and exact match",
    "files": "files, the picture not counted",
}
"""Of timing.jsonl, in words."""


def yardstick(runs: int, epochs: int, loops: int = 1) -> float:
    """Run-steps per second of one plain loop, or of several side by side, each in a process of its own."""
    code = (
        "import sys, time, torch; sys.path.insert(0, sys.argv[1]); import lecture_loop\n"
        "torch.set_num_threads(1); lecture_loop.train(0, epochs=5); began = time.perf_counter()\n"
        "for seed in range(int(sys.argv[2])): lecture_loop.train(seed, epochs=int(sys.argv[3]))\n"
        "print(time.perf_counter() - began)"
    )
    words = [sys.executable, "-c", code, str(HERE), str(runs), str(epochs)]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, env=ONE_THREAD) for _ in range(loops)]
    return sum(runs * epochs * STEPS / float(child.communicate()[0]) for child in children)


def stack(seeds: int, epochs: int, folder: str) -> dict[str, float]:
    """One stack of so many seeds in a process of its own: seconds of training with its files, memory, bytes."""
    words = [sys.executable, __file__, "one", "--seeds", str(seeds), "--epochs", str(epochs), "--folder", folder]
    return json.loads(subprocess.run(words, capture_output=True, check=True, env=ONE_THREAD).stdout)


def one(seeds: int, epochs: int, folder: str) -> None:
    """What `stack` runs in its child."""
    import torch

    from pgrl_cli.config.layers import layers_of
    from pgrl_cli.experiment import run
    from pgrl_cli.resolution import resolve

    torch.set_num_threads(1)
    overrides = ["seed=0" if seeds == 1 else f"seeds={seeds}", f"epochs={epochs}"]
    made, summary = run(resolve(layers_of("lecture/centered_clipped", overrides)), Path(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    written = sum(path.stat().st_size for path in made.folder.iterdir())
    print(json.dumps({"seconds": summary.seconds, "peak": peak * 1024, "bytes": written}))


def sweep(seeds: int, epochs: int, folder: str) -> float:
    """Seconds of the whole command."""
    config = Path(folder) / "grid.yaml"
    config.write_text(GRID)
    began = time.perf_counter()
    words = [sys.executable, "-m", "pgrl_cli", "sweep", "--config", str(config), "--runs-dir", folder]
    words += ["-q", "--jobs", "2", f"seeds={seeds}", f"epochs={epochs}"]
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - began


def in_turn(pairs: int, theirs: Callable[[], float], ours: Callable[[str], float]) -> tuple[list[float], list[float]]:
    """Both measured one after the other, so many times; ours in a folder of its own."""
    measured = []
    for _ in range(pairs):
        before = theirs()
        with tempfile.TemporaryDirectory() as folder:
            measured.append((before, ours(folder)))
    first, second = zip(*measured, strict=True)
    return list(first), list(second)


def spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):8.1f} (median; {min(ratios):.1f} to {max(ratios):.1f})"


def seeds_benchmark(pairs: int, seeds: int, epochs: int) -> None:
    loops, stacks = in_turn(
        pairs,
        lambda: yardstick(4, epochs),
        lambda folder: seeds * epochs * STEPS / stack(seeds, epochs, folder)["seconds"],
    )
    print(f"{seeds} seeds of lecture/centered_clipped in one stack, {pairs} pairs, one thread each")
    speed = statistics.median(stacks)
    print(f"  stack      {speed:8.0f} run-steps per second (median), files written, picture not counted")
    print(f"  yardstick  {statistics.median(loops):8.0f} run-steps per second (median)")
    print(f"  ratio      {spread([ours / theirs for theirs, ours in zip(loops, stacks, strict=True)])}")


def grid_benchmark(pairs: int, seeds: int, epochs: int) -> None:
    runs = CELLS_IN_GRID * seeds
    loops, sweeps = in_turn(
        pairs,
        lambda: runs * epochs * STEPS / yardstick(3, epochs, loops=2),
        lambda folder: sweep(seeds, epochs, folder),
    )
    print(f"a sweep of {runs} runs in {CELLS_IN_GRID} cells on two cores, {pairs} pairs")
    print(f"  pgrl sweep       {statistics.median(sweeps):8.1f} s (median), start-up, files and summary included")
    print(f"  two plain loops  {statistics.median(loops):8.1f} s (median) for as many runs, side by side")
    print(f"  ratio            {spread([theirs / ours for theirs, ours in zip(loops, sweeps, strict=True)])}")


def table(most: int, epochs: int) -> None:
    print("| runs in a stack | seconds | run-steps per second | peak memory, MB | written, MB |")
    print("|---|---|---|---|---|")
    runs = 1
    while runs <= most:
        with tempfile.TemporaryDirectory() as folder:
            told = stack(runs, epochs, folder)
        speed = runs * epochs * STEPS / told["seconds"]
        memory, written = told["peak"] / 1e6, told["bytes"] / 1e6
        print(f"| {runs:,} | {told['seconds']:.1f} | {speed:,.0f} | {memory:.0f} | {written:.1f} |", flush=True)
        runs *= 4


def where(seeds: int, epochs: int) -> None:
    """What an epoch's parts take of a stack's time, and matrix products of what torch does in it."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from pgrl_cli.config.layers import layers_of
    from pgrl_cli.experiment import run
    from pgrl_cli.resolution import resolve

    torch.set_num_threads(1)
    resolved = resolve(layers_of("lecture/centered_clipped", [f"seeds={seeds}", f"epochs={epochs}"]))
    with tempfile.TemporaryDirectory() as folder:
        made, _ = run(resolved, Path(folder))
        lines = [json.loads(line) for line in (made.folder / "timing.jsonl").read_text().splitlines()]
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            run(resolved, Path(folder))
    epochs = lines[len(lines) // 2 :]  # the first are warming up
    total = sum(line["seconds"] for line in epochs)
    own = {event.key: event.self_cpu_time_total for event in profiled.key_averages() if event.key.startswith("aten::")}
    products = sum(own.get(f"aten::{name}", 0) for name in ("mm", "bmm", "addmm", "baddbmm"))
    print(f"the time of {seeds} seeds of lecture/centered_clipped in one stack, one thread")
    for part, told in PARTS.items():
        print(f"  {told:<54} {sum(line[part] for line in epochs) / total:6.1%}")
    print(f"  {'of all that torch does: matrix products':<54} {products / sum(own.values()):6.1%}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["seeds", "grid", "table", "where", "one"])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seeds", type=int, help="1024, of each of the grid's cells 16")
    parser.add_argument("--most", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--folder", default=".")
    arguments = parser.parse_args()
    epochs, seeds = arguments.epochs, arguments.seeds or (16 if arguments.what == "grid" else 1024)
    if arguments.what == "seeds":
        seeds_benchmark(arguments.pairs, seeds, epochs)
    elif arguments.what == "grid":
        grid_benchmark(arguments.pairs, seeds, epochs)
    elif arguments.what == "table":
        table(arguments.most, epochs)
    elif arguments.what == "where":
        where(seeds, min(epochs, 20))
    else:
        one(seeds, epochs, arguments.folder)


if __name__ == "__main__":
    main()
