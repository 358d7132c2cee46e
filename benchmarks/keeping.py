"""What it costs to keep things: files, checkpoints after every epoch, and going on from one. In turn, one thread each.

python benchmarks/keeping.py [--pairs 7] [--seeds 1024] [--epochs 100]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import torch

from pgrl_cli import experiment, resuming, runs
from pgrl_cli.assembly import assemble
from pgrl_cli.config import Config
from pgrl_cli.config.layers import layers_of
from pgrl_cli.keeper import Keeper
from pgrl_cli.notebook import Notebook
from pgrl_cli.resolution import resolve
from pgrl_cli.training.trainer import train

CONFIG = "lecture/centered_clipped"


def config_of(words: Sequence[str]) -> Config:
    return resolve(layers_of(CONFIG, words)).config


def bare(config: Config) -> float:
    """Seconds of training alone: no file is written."""
    parts, state = assemble([config])
    began = time.perf_counter()
    for record in train(parts, config, state):
        record.numbers  # noqa: B018 - what files would be written of
    return time.perf_counter() - began


def kept(config: Config) -> float:
    """Seconds of training with all files and checkpoints, the picture not counted."""
    with tempfile.TemporaryDirectory() as folder:
        run = runs.create("x", Path(folder), {})
        book = Notebook(run, config, picture=False)
        began = time.perf_counter()
        with closing(Keeper(run.checkpoints, config.checkpoint_keep)) as keeper:
            experiment.train_together([config], {0: book}, keeper=keeper)
        return time.perf_counter() - began


def taken_up(words: Sequence[str]) -> float:
    """Seconds from being asked to go on until the first epoch after the checkpoint is written."""
    with tempfile.TemporaryDirectory() as folder:
        resolved = resolve(layers_of(CONFIG, words))
        half = resolved.config.epochs // 2

        def stop(done: int, mean_reward: float) -> None:
            if done == half:
                raise KeyboardInterrupt

        try:
            experiment.run(resolved, Path(folder), watch=stop)
        except experiment.Interrupted as stopped:
            broken = stopped.run
        began = time.perf_counter()
        went_on: list[float] = []

        def note(done: int, mean_reward: float) -> None:
            went_on.append(time.perf_counter() - began)
            raise KeyboardInterrupt

        with suppress(experiment.Interrupted):
            resuming.resume(resuming.asked_for(broken, []), watch=note)
        return went_on[0]


def compared(what: str, dear: Callable[[], float], cheap: Callable[[], float], pairs: int) -> None:
    """Print how much longer one takes than the other, pair by pair."""
    dear(), cheap()  # both warm
    ratios = sorted(dear() / cheap() - 1 for _ in range(pairs))
    told = f"{statistics.median(ratios):+5.0%} (median; {ratios[0]:+.0%} to {ratios[-1]:+.0%})"
    print(f"  {what:<58} {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    length = f"epochs={arguments.epochs}"
    for who, words in (
        ("one run", [length]),
        (f"{arguments.seeds} seeds in a stack", [length, f"seeds={arguments.seeds}"]),
    ):
        pairs = arguments.pairs if who == "one run" else max(1, arguments.pairs // 2)
        plain, often = config_of(words), config_of([*words, "checkpoint_period=1"])
        print(f"{who} of {CONFIG}, {arguments.epochs} epochs, {pairs} pairs")
        compared("all files, against training alone", lambda c=plain: kept(c), lambda c=plain: bare(c), pairs)
        compared(
            "a checkpoint each epoch, against one at the end", lambda c=often: kept(c), lambda c=plain: kept(c), pairs
        )
        seconds = [taken_up(words) for _ in range(3)]
        print(
            f"  {'going on from the middle: seconds to the next epoch':<58} "
            f"{statistics.median(seconds):5.2f} (median of 3)"
        )


if __name__ == "__main__":
    main()
