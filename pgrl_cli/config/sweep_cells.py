"""A sweep that has been read, and the layers of its cells.

From low to high, each winning over those before: the base's layers, what the sweep's file fixes, swept values, what the
command line fixes, swept numbers that decide whether other keys turn anything, swept words, those that may turn nothing
themselves (a critic's) below the others. No key is both swept and fixed by the command line, so the last ones take
nothing from it. They are above the rest for the sake of levels: a knob
that is dead in a cell is an error where it was written at least as high as what makes it dead. A grid over `loss_mode`
has cells in which `clip_epsilon` turns nothing, be it from the base, swept, or typed; there it is dropped with a note.
Cells that become the same experiment by that are found by the ids of their resolved configs and run once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pgrl_cli.config.layers import Entry, Layers
from pgrl_cli.config.schema import KEYS, LISTS
from pgrl_cli.config.sweep_texts import label_of, plain
from pgrl_cli.config.sweep_values import Swept
from pgrl_cli.config.sweep_words import Metric

WORDS = {*LISTS.values(), "kl_average", "critic_optimizer"} - {"reward_fn"}
"""Keys that name functions with knobs."""
NUMBERS = {
    "clip_high",
    "clip_low",
    "drop_zero_variance_groups",
    "entropy_coefficient",
    "kl_coefficient",
    "kl_target",
    "old_kl_coefficient",
    "prompt_count",
    "prompts",
    "prompts_per_epoch",
    "reward_fn",
    "shortest_prompt",
    "warm_start",
}
"""Other keys whose values decide whether some key turns anything."""
MORTAL = {
    "critic": {"delta_mode"},
    "critic_learning_rate": {"delta_mode"},
    "critic_optimizer": {"delta_mode"},
    "entropy_decay": {"entropy_coefficient"},
    "kl_placement": {"kl_coefficient"},
    "learning_rate": {"optimizer"},
    "learning_rate_decay": {"optimizer", "delta_mode"},
    "learning_rate_warmup": {"optimizer", "delta_mode"},
    "max_gradient_norm": {"optimizer", "delta_mode"},
    "old_kl_target": {"old_kl_coefficient"},
    "prompts_seed": {"prompt_count", "prompts", "prompts_per_epoch", "task", "warm_start"},
    "resampling_rounds": {"drop_zero_variance_groups"},
    "reward_timeout": {"reward_fn"},
    "truncation": {"delta_mode", "task", "shortest_prompt", "prompt_count", "prompts"},
    "value_clip": {"delta_mode"},
    "value_coefficient": {"delta_mode", "critic"},
    "value_target": {"delta_mode"},
    "when_unfilled": {"drop_zero_variance_groups"},
}
"""Keys of every config that may turn nothing, and the keys whose values decide it; knobs may turn nothing, too."""
RIVALS = {"seed": "seeds", "seeds": "seed"}
"""Keys of which the higher layer's is meant."""


@dataclass(frozen=True)
class Cell:
    """What one cell of a sweep says; its config is not resolved yet."""

    parameters: Mapping[str, Any]
    """The swept keys with their values here."""
    layers: Layers

    @property
    def label(self) -> str:
        """The swept keys with their values, readable."""
        return label_of(self.parameters)


@dataclass(frozen=True)
class Spec:
    """A sweep, read and checked by itself; whether its cells can run, their resolution says."""

    name: str
    file: str
    base: Any
    """As written: a path, a shipped name, or a map."""
    below: Layers
    """The base's layers."""
    method: str
    written: Swept
    """The swept keys, each with its list or distribution and its place; of method `list`, cell by cell."""
    swept: Sequence[Mapping[str, Entry]]
    """The swept keys of each cell with their values."""
    samples: int | None
    sampling_seed: int
    metric: Metric
    launcher: str
    fixed: Mapping[str, Entry]
    """Keys of a config that the file sets for all cells."""
    typed: Mapping[str, Entry]
    """Those that the command line sets for all cells."""
    notes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    @property
    def parameters(self) -> Any:
        """The swept keys as written: lists or distributions by key; of method `list`, a list of maps."""
        if isinstance(self.written, Mapping):
            return {key: plain(entry.value) for key, entry in self.written.items()}
        return [{key: plain(entry.value) for key, entry in cell.items()} for cell in self.written]

    @property
    def seeds(self) -> Any:
        """The seeds as written, nearest to the command line; None where there is only `seed`, or neither."""
        for layer in (self.typed, self.fixed, *reversed(self.below.layers)):
            for key in ("seed", "seeds"):
                if key in layer:
                    return plain(layer[key].value) if key == "seeds" else None
        return None

    def cells(self) -> list[Cell]:
        """The cells in the sweep's order."""
        bases = [_levelled(layer, level) for level, layer in enumerate(self.below.layers)]
        fixed, typed = _levelled(self.fixed, len(bases)), _levelled(self.typed, len(bases) + 2)
        return [self._cell(swept, [*bases, fixed], typed) for swept in self.swept]

    def as_mapping(self) -> dict[str, Any]:
        """Everything that the sweep says, as sweep.yaml holds it; read as a sweep's file it says the same again.

        The base is a map of what its layers say, so that no other file is needed but those of rewards of the user's
        own, which are named in full. Layers in which a word may leave a knob of a lower one dead stay apart.
        """
        base, fixed = self._merged()
        drawn = {"samples": self.samples, "sampling_seed": self.sampling_seed} if self.method == "random" else {}
        if isinstance(self.written, Mapping):
            parameters: Any = _portable(self.written)
        else:
            parameters = [_portable(cell) for cell in self.written]
        metric = {"name": self.metric.name, "over": self.metric.over, "goal": self.metric.goal}
        head = {"name": self.name, "base": base, "method": self.method, **drawn, "parameters": parameters}
        return {**head, **fixed, "metric": metric, "launcher": self.launcher}

    def _cell(self, swept: Mapping[str, Entry], lower: Sequence[dict[str, Entry]], typed: dict[str, Entry]) -> Cell:
        floors: list[dict[str, Entry]] = [{}, {}, {}, {}]
        for key, entry in swept.items():
            floors[_floor(key)][key] = entry
        level = len(lower)
        layers = [*lower, _levelled(floors[0], level), typed]
        layers += [_levelled(floor, level + 1 + above) for above, floor in enumerate(floors) if above > 0]
        of_cell = Layers(self.name, self.file, layers, list(self.overrides), list(self.below.problems))
        return Cell({key: plain(entry.value) for key, entry in swept.items()}, of_cell)

    def _merged(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The base as one map (in it another under `base` where layers stay apart), and what all cells share."""
        whole = {key: entry for key, entry in self.typed.items() if "." not in key}
        fixed, typed = _portable(self.fixed), _portable(whole)
        layers = [_portable(layer) for layer in self.below.layers]
        if dying := [key for key in fixed if _may_die(key, typed)]:
            layers.append({key: fixed.pop(key) for key in dying})
        _lay_over(fixed, typed)
        chain: list[dict[str, Any]] = []
        for layer in layers:
            if chain and not any(_may_die(key, layer) for key in chain[-1]):
                _lay_over(chain[-1], layer)
            elif layer:
                chain.append(layer)
        parts = {key: entry for key, entry in self.typed.items() if "." in key}
        for key, value in _portable(parts).items():
            head, _, rest = key.partition(".")
            below = next((layer[head] for layer in (fixed, *reversed(chain)) if head in layer), None)
            fixed |= {head: below | {rest: value}} if isinstance(below, dict) else {key: value}
        base: dict[str, Any] = {}
        for layer in chain:
            base = {"base": base, **layer} if base else layer
        return base, fixed


def _levelled(layer: Mapping[str, Entry], level: int) -> dict[str, Entry]:
    return {key: replace(entry, level=level) for key, entry in layer.items() if key != "name"}


def _floor(key: str) -> int:
    """How high a swept key stands: the higher, the more it decides about others."""
    if key in WORDS:
        return 2 if key in MORTAL else 3
    return 1 if key.partition(".")[0] in NUMBERS else 0


def _may_die(key: str, by: Collection[str]) -> bool:
    """Whether one of the keys `by` may leave a key with nothing to turn."""
    if key not in KEYS:
        return not (WORDS | NUMBERS).isdisjoint(by)
    return not MORTAL.get(key, set()).isdisjoint(by)


def _lay_over(lower: dict[str, Any], higher: Mapping[str, Any]) -> None:
    for key, value in higher.items():
        if key in RIVALS and value is not None:
            lower.pop(RIVALS[key], None)
        lower[key] = value


def _portable(layer: Mapping[str, Entry]) -> dict[str, Any]:
    """The values of a layer, to be read from wherever: files of rewards of the user's own are named in full."""
    values: dict[str, Any] = {}
    for key, entry in layer.items():
        head, dot, rest = key.partition(".")
        if head == "reward_fn":
            values[f"{head}{dot}{_in_full(rest, entry.folder)}"] = _in_full(plain(entry.value), entry.folder)
        elif key != "name":
            values[key] = plain(entry.value)
    return values


def _in_full(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {_in_full(key, folder): _in_full(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_in_full(inner, folder) for inner in value]
    if isinstance(value, str) and (split := value.rpartition(":"))[0].endswith(".py"):
        return f"{(folder / split[0]).resolve()}:{split[2]}"
    return value
