"""The trainer beside the yardstick, in turn, one thread each: run-steps per second, and the ratio pair by pair.

    python benchmarks/one_run.py [--pairs 15] [CONFIG] [KEY=VALUE ...]

Both train the lecture's experiment (100 epochs of 10 steps, 10 responses to each of 3 prompts, clipped loss). The
trainer's time is that of the training with all its log files, the picture not counted; the yardstick writes none.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

import lecture_loop

from pgrl_cli import experiment
from pgrl_cli.config.layers import layers_of
from pgrl_cli.resolution import Resolved, resolve

STEPS = 1000


def trainer(resolved: Resolved, runs_dir: Path) -> float:
    """Steps per second of one run, written down."""
    config = resolved.config
    _, summary = experiment.run(resolved, runs_dir)
    return config.epochs * config.steps_per_epoch / summary.seconds


def yardstick(seed: int, kl: float) -> float:
    """Steps per second of the plain loop."""
    started = time.perf_counter()
    lecture_loop.train(seed, kl=kl)
    return STEPS / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("config", nargs="?", default="lecture/centered_clipped")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--pairs", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    resolved = resolve(layers_of(arguments.config, arguments.overrides))
    kl = resolved.config.kl_coefficient
    with tempfile.TemporaryDirectory() as folder:
        trainer(resolved, Path(folder)), yardstick(0, kl)  # both warm
        pairs = [(trainer(resolved, Path(folder)), yardstick(seed, kl)) for seed in range(arguments.pairs)]
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{arguments.config}: {len(pairs)} pairs of one run each, one thread")
    print(f"  trainer    {ours:6.0f} run-steps per second (median)")
    print(
        f"  yardstick  {theirs:6.0f} run-steps per second (median): the same experiment as a plain loop, without files"
    )
    print(f"  ratio      {statistics.median(ratios):6.2f} (median; {ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
