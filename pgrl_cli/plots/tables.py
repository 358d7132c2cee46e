"""The numbers behind a picture: what is drawn of a group, and the CSV beside the picture."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pgrl_cli import statistics
from pgrl_cli.config.files import opened
from pgrl_cli.config.problems import ConfigError, Problem, listed
from pgrl_cli.config.sweep_spec import told
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.groups import OF_THE_PROMPTS, Group, measured_by, telling
from pgrl_cli.plots.names import names_of
from pgrl_cli.statistics import FEW

TOLD = {"mean": "mean", "iqm": "interquartile mean"}
COLUMNS = ("group", "step", "above", "statistic", "seed", "runs", "failed", "missing", "value", "low", "high", "mean")
"""Of a CSV, those that it has; beside them the keys that tell groups apart."""
MOST_KEYS, MOST_VALUES = 3, 6
"""Of pooled groups, the keys whose values are told, and how many of these."""
Table = list[dict[str, Any]]
"""The plotted numbers, a row for each point."""


def named(label: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The first columns of a group's rows: its label, and each key by itself."""
    keys = {f"{key}_" if key in COLUMNS else key: told(value) for key, value in parts.items()}
    return {"group": label} | keys


def points(group: Group, metric: Metric, statistic: str) -> Table:
    """Where a group's runs end: the statistic with its interval and, if they are few, each one."""
    seeds = [seed for stratum in group.strata for result in stratum for seed in result.seeds]
    ends = group.ends(metric.over, metric.goal)
    return points_of(named(group.label, group.parts), seeds, ends, statistic, failed=len(group.failed))


def points_of(
    names: Mapping[str, Any], seeds: Sequence[int], strata: Sequence[np.ndarray], statistic: str, *, failed: int
) -> Table:
    """The rows of one group: the statistic's first, then those of its runs if they are few.

    Of runs without a number so many failed; the others are missing.
    """
    together = np.concatenate([*strata, np.array([])])
    low, high = statistics.bootstrap_interval(strata, statistics.STATISTICS[statistic])
    there = ~np.isnan(together)
    counts = {"runs": int(there.sum()), "failed": failed, "missing": int((~there).sum()) - failed}
    edges = {"low": float(low), "high": float(high)}
    value = float(statistics.STATISTICS[statistic](together))
    beside = {} if statistic == "mean" else {"mean": float(statistics.mean(together))}
    table = [{**names, "statistic": statistic, "seed": None, **counts, "value": value, **edges, **beside}]
    if counts["runs"] < FEW:
        table += [
            {**names, "statistic": "run", "seed": seed, "runs": 1, "value": float(value)}
            for seed, value in zip(seeds, together, strict=True)
            if not np.isnan(value)
        ]
    return table


def as_csv(table: Table) -> str:
    """The plotted numbers as text; what is not a number is empty."""
    columns = list(dict.fromkeys(name for row in table for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in table:
        writer.writerow(["" if row.get(name) is None or row[name] != row[name] else row[name] for name in columns])
    return text.getvalue()


def refuse_strange_table(path: Path) -> None:
    """Refuse a table's path where something else lies than a table from here. Raises ConfigError."""
    if not path.exists():
        return
    with opened(path) as file:
        first = file.readline(10_000).decode(errors="replace").strip().split(",")
    if first[0] != "group" or not {"statistic", "runs", "value", "low", "high"} <= set(first):
        told = "is there, and is no table of pgrl plot: name another picture with --out, or move it away"
        raise ConfigError([Problem(told, str(path))])


def counted(runs: Sequence[int]) -> str:
    """How many runs groups have: 16 runs, or 14 to 16 runs."""
    low, high = min(runs, default=0), max(runs, default=0)
    return f"{low} run{'' if low == 1 else 's'}" if low == high else f"{low} to {high} runs"


def fates(groups: Sequence[Group]) -> list[str]:
    """In words, which seeds failed and how many runs are not at their end."""
    names = names_of([(group.label, group.parts) for group in groups]).lines
    failed = [(name, group.failed) for name, group in zip(names, groups, strict=True) if group.failed]
    where = [f"seed {listed(seeds, 5)}" + (f" of {name}" if len(groups) > 1 else "") for name, seeds in failed[:3]]
    if len(failed) > 3:
        where.append(f"{sum(len(seeds) for _, seeds in failed[3:])} runs of {len(failed) - 3} more")
    unfinished = sum(group.unfinished for group in groups)
    told = [f"failed: {'; '.join(where)}"] if where else []
    return told + ([f"{unfinished} run{'s are' if unfinished > 1 else ' is'} not finished"] if unfinished else [])


def provisos(groups: Sequence[Group], metric: str) -> list[str]:
    """In words, what a reader has to know of groups: what is pooled in them, whether one scale holds, who failed."""
    return [*pooled(groups), *scales([r.config for group in groups for r in group.results], metric), *fates(groups)]


def pooled(groups: Sequence[Group]) -> list[str]:
    """In words, which keys differ within groups, with their values."""
    keys = dict.fromkeys(key for group in groups if len(group.results) > 1 for key in telling(group.results))
    values = {}
    for key in keys:
        there = [r.config.get(key, (r.parameters or {}).get(key)) for group in groups for r in group.results]
        values[key] = listed(dict.fromkeys(map(told, there)), MOST_VALUES)
    few = len(values) <= MOST_KEYS
    over = [f"{key} {value}" for key, value in values.items()] if few else list(values)
    return [f"pooled over {'; '.join(over) if few else listed(over, 8)}"] if over else []


def scales(configs: Sequence[Mapping[str, Any]], metric: str) -> list[str]:
    """In words, whether a metric measures different things in some configs."""
    differ = [key for key in measured_by(metric) if any(each.get(key) != configs[0].get(key) for each in configs)]
    what = ["rewards"] * ("reward_fn" in differ) + ["prompts"] * bool({*differ} & {*OF_THE_PROMPTS})
    what += ["shapes of the reward"] * bool({*differ} & {"reward_scale", "reward_shift"})
    return [f"{' and '.join(what)} differ: not on one scale"] if what else []


def unmeasured(missing: int) -> list[str]:
    """In words, how many runs have no number though they did not fail."""
    return [f"{missing} run{' has' if missing == 1 else 's have'} no number there"] if missing else []


def titled(metric: Metric) -> str:
    """What an axis of final values says."""
    which = " (the lowest)" if (metric.over, metric.goal) == ("best_epoch", "minimize") else ""
    return f"{metric.name.replace('_', ' ')}, {metric.over.replace('_', ' ')}{which}"
