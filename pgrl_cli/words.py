"""The words a config may use: the tables behind them, the knobs that live beside them, and writing them down."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pgrl_cli.config import KEYS, Config, yaml12
from pgrl_cli.dead_keys import DEAD
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.equations.values import VALUE_TARGETS
from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.heads import CRITICS
from pgrl_cli.registry import Knob, Table, knobs
from pgrl_cli.tasks import TASKS
from pgrl_cli.training.updates import FIRST_ORDER, OPTIMIZERS

TABLES: Mapping[str, Table] = {
    "task": TASKS,
    "policy": POLICIES,
    "delta_mode": ADVANTAGES,
    "critic": CRITICS,
    "value_target": VALUE_TARGETS,
    "critic_optimizer": FIRST_ORDER,
    "loss_mode": LOSSES,
    "average": AVERAGES,
    "kl_estimator": DIVERGENCES,
    "kl_average": AVERAGES,
    "optimizer": OPTIMIZERS,
}
"""The words that name functions, and where they are looked up; null in a config names none."""


def knobs_of(words: Mapping[str, Any]) -> dict[str, Knob]:
    """The live knobs: those in the signatures of the functions that the words name."""
    return {
        name: knob
        for key, functions in TABLES.items()
        if words[key] in functions  # null is in none
        for name, knob in knobs(functions[words[key]]).items()
        if name not in KEYS
    }


def every_knob() -> dict[str, Knob]:
    """All knobs there are, of whatever function."""
    every: dict[str, Knob] = {}
    for functions in TABLES.values():
        for function in functions.values():
            for name, knob in knobs(function).items():
                if name not in KEYS:
                    every[name] = _either(every[name], knob) if name in every else knob
    return every


def _either(one: Knob, other: Knob) -> Knob:
    """A knob that two functions have, each with bounds of its own."""
    return one if one.annotation == other.annotation else replace(one, annotation=one.annotation | other.annotation)


def owners(knob: str) -> dict[str, list[str]]:
    """The keys whose functions have a knob, and those functions' names."""
    having = {key: [word for word in functions if knob in knobs(functions[word])] for key, functions in TABLES.items()}
    return {key: words for key, words in having.items() if words}


def written(config: Config) -> str:
    """The config as YAML, every live default written out, each knob below the word it belongs to."""
    mapping: dict[str, Any] = {}
    plain = config.model_dump(exclude={"knobs", "sources"})
    dead = {rule.key for rule in DEAD if rule.when(config.settings)}
    for key in KEYS:
        if key not in dead:
            mapping[key] = plain[key]
        if mapping.get(key) in TABLES.get(key, ()):
            named = knobs(TABLES[key][mapping[key]])
            mapping |= {name: config.knobs[name] for name in named if name in config.knobs and name not in mapping}
    return yaml12.write(mapping)
