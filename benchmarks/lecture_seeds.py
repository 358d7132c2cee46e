"""Where the lecture's experiments end over many seeds: one seed says next to nothing.

    python benchmarks/lecture_seeds.py [--seeds 32] [--epochs 100]

Mean reward of the last ten epochs: its mean over seeds with the standard error, the standard deviation between seeds,
and the share of prompts whose greedy answer is right at the end. The seeds of a config train side by side.
"""

import argparse
import math

import torch

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.shipped import shipped_names
from pgrl_cli.resolution import resolve
from pgrl_cli.training.trainer import train


def ends(name: str, seeds: int, epochs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each seed's mean reward over the last ten epochs, and its exact match at the end: [run]."""
    configs = [resolve(layers_of(name, [f"seed={seed}", f"epochs={epochs}"])).config for seed in range(seeds)]
    parts, state = assemble(configs)
    records = list(train(parts, configs[0], state))
    rewards = torch.stack([record.measures["mean_reward"] for record in records[-10:]])
    return rewards.mean(dim=0), records[-1].evaluation["exact_match"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=100)
    arguments = parser.parse_args()
    seeds = arguments.seeds
    torch.set_num_threads(1)
    print(f"| config, {seeds} seeds | mean reward, last ten epochs | between seeds | exact match |")
    print("|---|---|---|---|")
    for name in [name for name in shipped_names() if name.startswith("lecture/")]:
        rewards, matches = ends(name, seeds, arguments.epochs)
        spread = rewards.std().item()
        error = spread / math.sqrt(seeds)
        print(f"| `{name}` | {rewards.mean():.2f} ± {error:.2f} | {spread:.2f} | {matches.mean():.2f} |")


if __name__ == "__main__":
    main()
