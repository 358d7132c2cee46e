"""The words of `reward_fn`: rewards of the task, functions in files, and maps from such words to weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgrl_cli.config.layers import Entry
from pgrl_cli.config.own_reward_words import own_reward_word
from pgrl_cli.config.problems import short


@dataclass
class RewardWords:
    """Resolves the value of `reward_fn`, noting what is wrong with it and where the sources of own rewards lie."""

    known: tuple[str, ...]
    """The task's own rewards."""
    sources: dict[str, Path] = field(default_factory=dict)
    problems: list[tuple[Entry, str]] = field(default_factory=list)

    def resolved(self, value: str | Mapping[str, float], entry: Entry) -> str | dict[str, float]:
        """The value with each word spelled as the run folder spells it."""
        if isinstance(value, str):
            return self.word(value, entry)
        if not value:
            self.problems.append((entry, "the map is empty; give at least one reward a weight"))
        weights: dict[str, float] = {}
        for word, weight in value.items():
            known_as = self.word(word, entry.part(word))
            if known_as in weights:
                self.problems.append((entry.part(word), f"{short(word)} is {known_as} once more; keep one"))
            weights[known_as] = weight
        return weights

    def word(self, word: str, entry: Entry) -> str:
        """One word, as the run folder spells it."""
        if word in self.known:
            return word
        own = own_reward_word(word, entry.folder, self.known)
        if isinstance(own, str):
            self.problems.append((entry, own))
            return word
        same_name = [path for path in self.sources.values() if path.name == own.path.name and path != own.path]
        if same_name:
            message = f"{own.path} and {same_name[0]} have the same name; the run folder keeps a copy of each"
            self.problems.append((entry, message))
            return word
        self.sources[own.word] = own.path
        return own.word
