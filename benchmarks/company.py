"""How often company changes a run in float32: the same seeds each alone (`seed=k`), and in two stacks (`seeds=N`).

    python benchmarks/company.py [--seeds 64] [--epochs 100]

One stack holds these seeds, the other sixteen times as many. Counted are runs in which any sampled token differs from
those of the run alone, when the first one does, and what that does to the reward of the last ten epochs, run by run and
in the mean.
"""

import argparse
import statistics

import torch

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_of
from pgrl_cli.resolution import resolve
from pgrl_cli.training.trainer import train


def sampled(seeds: str, epochs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The responses [epoch ... prompt response token] and mean rewards [epoch ...] of a run, or of a stack's runs."""
    config = resolve(layers_of("lecture/centered_clipped", [seeds, f"epochs={epochs}"])).config
    parts, state = assemble([config])
    records = list(train(parts, config, state))
    responses = torch.stack([record.rollout["responses"] for record in records])
    return responses, torch.stack([record.measures["mean_reward"] for record in records])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    few, epochs = arguments.seeds, arguments.epochs
    alone = [sampled(f"seed={seed}", epochs) for seed in range(few)]
    responses, rewards = (torch.stack(columns, dim=1) for columns in zip(*alone, strict=True))  # [epoch run ...]
    print(
        f"| {few} seeds, {epochs} epochs, alone and in | runs with another token | first at epoch (median) | tokens |"
        " reward of the last ten epochs: mean (largest) shift of a run | shift of the mean |"
    )
    print("|---|---|---|---|---|---|")
    for size in (few, 16 * few):
        theirs, their_rewards = (values[:, :few] for values in sampled(f"seeds={size}", epochs))
        apart = (responses != theirs).flatten(2)  # [epoch run token]
        runs = apart.any(-1).any(0)
        first = [int(apart[:, run].any(-1).int().argmax()) for run in runs.nonzero().flatten().tolist()]
        shift = their_rewards[-10:].mean(0) - rewards[-10:].mean(0)
        when = f"{statistics.median(first):.0f}" if first else "none"
        print(
            f"| a stack of {size} | {int(runs.sum())} of {few} | {when} | {apart.double().mean():.2%} "
            f"| {shift.abs().mean():.3f} ({shift.abs().max():.2f}) | {shift.mean():+.3f} |"
        )


if __name__ == "__main__":
    main()
