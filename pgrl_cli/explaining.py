"""A run explained from its metrics, whatever became of it: what stood out, and what every kind of finding looked at."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli.catalogue import Entry, entry_of
from pgrl_cli.config import Config, ConfigError, Problem
from pgrl_cli.config.layers import layers_of
from pgrl_cli.epochs import epochs_of
from pgrl_cli.facts import facts_of
from pgrl_cli.findings import KINDS, Facts, Finding, Findings
from pgrl_cli.findings.kinds import Kind
from pgrl_cli.findings.noticing import middle
from pgrl_cli.measured import Checked
from pgrl_cli.registry import apply
from pgrl_cli.resolution import resolve
from pgrl_cli.tasks import TASKS


@dataclass(frozen=True)
class LookedAt:
    """What a kind saw in a run's last window."""

    kind: Kind
    numbers: Mapping[str, float]
    """A run's own, or the medians over its living seeds; NaN where there is none."""
    having: int
    """In how many seeds it has been seen since the start."""

    @property
    def is_there(self) -> bool:
        """Whether there was anything to look at."""
        return not any(math.isnan(value) for name, value in self.numbers.items() if name not in self.kind.may_lack)


@dataclass(frozen=True)
class Explanation:
    """What stands out in a run, and what does not."""

    entry: Entry
    facts: Facts
    epochs: int
    """How many are written."""
    seeds: tuple[int, ...]
    findings: tuple[Finding, ...]
    looked_at: tuple[LookedAt, ...]
    """Every kind, in their order; none where no window was full yet."""

    def seeds_of(self, finding: Finding) -> tuple[int, ...]:
        """Which seeds have a finding, of a run with `seeds`."""
        return tuple(self.seeds[place] for place in finding.places)

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON has it: null for a number that is none."""
        several = self.facts.seeds is not None
        findings = [
            finding.as_json()
            | {"numbers": _plain(finding.numbers)}
            | ({"which_seeds": list(self.seeds_of(finding))} if several else {})
            for finding in self.findings
        ]
        looked_at = {
            each.kind.word: {"numbers": _plain(each.numbers), **({"seeds": each.having} if several else {})}
            for each in self.looked_at
        }
        told = {"run": str(self.entry.path), "status": self.entry.status, "epochs": self.epochs}
        return told | {"findings": findings, "looked_at": looked_at}


def explained(path: Path) -> Explanation:
    """A run folder's explanation; status.json may be damaged or missing, metrics.jsonl may end anywhere.

    Raises ConfigError for a folder without a config that can be read, and for a damaged line of its metrics.
    """
    if not (path / "config.yaml").is_file():
        raise ConfigError([Problem("has no config.yaml, without which its metrics say nothing", str(path))])
    config = resolve(layers_of("config.yaml", beside=path), begun=True).config
    facts = facts_of(config, apply(TASKS[config.task], {}, config.settings))
    findings, epochs = Findings(facts), 0
    with np.errstate(all="ignore"):  # numbers that a damaged file may hold
        for rows in _whole_epochs(path / "metrics.jsonl", config):
            epochs += 1
            findings.add(rows)
    looked_at = tuple(_looked_at(findings, kind) for kind in KINDS if kind.word in findings.looks)
    return Explanation(entry_of(path), facts, epochs, config.run_seeds, tuple(findings.all()), looked_at)


def _whole_epochs(path: Path, config: Config) -> Iterator[list[dict[str, Any]]]:
    """The epochs of metrics.jsonl; the last one only if all its lines are there: it may still be being written."""
    checked = Checked(path, {"seeds": config.seeds}, config.run_seeds)
    try:
        held: list[list[dict[str, Any]]] = []
        for rows in epochs_of(checked.lines(), config):
            yield from held
            held = [rows]
        yield from (rows for rows in held if len(rows) >= config.steps_per_epoch)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError([Problem(f"cannot be read: {error.strerror}", str(path))]) from error


def _looked_at(findings: Findings, kind: Kind) -> LookedAt:
    look, alive = findings.looks[kind.word], findings.alive
    numbers = {name: middle(values[alive]) for name, values in look.figures.items()}
    return LookedAt(kind, numbers, findings.having(kind))


def _plain(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in numbers.items()}
