"""Run folders and sweeps written by hand: a test says every number in them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pgrl_cli.config import yaml12

CONFIG = {"name": "by_hand", "delta_mode": "rewards", "learning_rate": 0.001, "steps_per_epoch": 1}


def run_folder(
    folder: Path,
    seeds: int | Sequence[int],
    metrics: Mapping[str, Sequence[Any]],
    *,
    status: str = "completed",
    failed: Sequence[int] = (),
    **config: Any,
) -> Path:
    """A run folder: `seeds` is one seed, or a list of them; each metric has a row for each step.

    A row is a number, a list of numbers, or None; `steps_per_epoch` says which epoch it is in.
    """
    folder.mkdir(parents=True)
    stacked = not isinstance(seeds, int)
    config = CONFIG | config | ({"seeds": list(seeds)} if stacked else {"seed": seeds, "seeds": None})
    rows = len(next(iter(metrics.values())))
    config.setdefault("epochs", rows // config["steps_per_epoch"])
    (folder / "config.yaml").write_text(yaml12.write(config))
    lines = []
    for step in range(rows):
        row = {name: values[step] for name, values in metrics.items()}
        lines.append({"epoch": step // config["steps_per_epoch"], "step": step} | row)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    told: dict[str, Any] = {"status": status}
    if stacked:
        told["seeds"] = [{"seed": seed, "status": "failed" if seed in failed else status} for seed in seeds]
    (folder / "status.json").write_text(json.dumps(told))
    return folder


def rewards(folder: Path, seeds: int | Sequence[int], rows: Sequence[Any], **more: Any) -> Path:
    """A run folder with a mean reward alone, one epoch a step."""
    return run_folder(folder, seeds, {"mean_reward": rows}, **more)


def sweep_folder(folder: Path, parameters: Sequence[Mapping[str, Any]]) -> list[Path]:
    """A sweep's folder whose cells have not started: where each one's run folder would lie."""
    (folder / "cells").mkdir(parents=True)
    cells = []
    for number, values in enumerate(parameters):
        label = ",".join(f"{key}={value}" for key, value in values.items())
        told = {"id": f"{number:08x}", "label": label, "folder": f"cells/{label}-{number:08x}", "stack": 0}
        cells.append(told | {"place": number, "parameters": values, "config": CONFIG | values})
    (folder / "cells.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in cells))
    return [folder / cell["folder"] for cell in cells]
