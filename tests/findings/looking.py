"""Training without files, looked at while it goes on; and epochs written by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from, layers_of
from pgrl_cli.facts import facts_of
from pgrl_cli.findings import Facts, Findings
from pgrl_cli.resolution import resolve
from pgrl_cli.training.trainer import train

FLAT: Mapping[str, float] = {
    "mean_reward": 2.0,
    "reward_std": 0.5,
    "zero_variance_groups": 0.1,
    "loss": 0.1,
    "entropy": 1.0,
    "ratio_max": 1.1,
    "effective_sample_size": 0.9,
}
"""An epoch in which nothing stands out."""


def trained(base: str | None, start: torch.Tensor | None = None, **keys: Any) -> tuple[Findings, torch.Tensor, list]:
    """What stood out, the parameters it ended with, and all epochs' lines; without a base the keys are the config."""
    words = [f"{key}={value}" for key, value in keys.items()]
    config = resolve(layers_from(keys) if base is None else layers_of(base, words)).config
    parts, state = assemble([config])
    if start is not None:
        state.parameters.data.copy_(start)
    findings, epochs = Findings(facts_of(config, parts.task)), []
    place = None if config.seeds is None else slice(0, len(config.run_seeds))
    for record in train(parts, config, state):
        epochs.append(list(record.rows(config, place)))
        findings.add(epochs[-1])
    return findings, state.parameters.detach().clone(), epochs


def kinds(findings: Findings) -> list[str]:
    return [finding.kind.word for finding in findings.all()]


def looked(facts: Facts, epochs: int, **columns: Any) -> Findings:
    """What stands out in epochs of one step each: a metric is one value for all, or a list with one for each."""
    findings = Findings(facts)
    for epoch in range(epochs):
        findings.add([line(epoch, facts.seeds, **{name: _at(values, epoch) for name, values in columns.items()})])
    return findings


def line(epoch: int, seeds: int | None = None, **metrics: Any) -> dict[str, Any]:
    """A line of metrics.jsonl as it was while it trained."""
    told = {name: _measured(value, seeds) for name, value in {**FLAT, **metrics}.items()}
    return {"epoch": epoch, "step": epoch, **told}


def _at(values: Any, epoch: int) -> Any:
    return values[epoch] if isinstance(values, list) else values


def _measured(value: Any, seeds: int | None) -> Any:
    if value is None:
        return None
    array = np.array(value, dtype=np.float32)
    return array[()] if seeds is None else np.broadcast_to(array, (seeds,)).copy()
