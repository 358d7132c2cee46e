"""What groups are called in a picture: as short as tells them apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgrl_cli.config.sweep_spec import label_of, told
from pgrl_cli.plots.style import width_of

MOST_BARE = 2
"""Keys whose values can be told apart without them."""


@dataclass(frozen=True)
class Names:
    """Names of groups: the values of the keys in which they differ, or one word for each."""

    keys: tuple[str, ...]
    """None where the groups do not have the same keys."""
    values: tuple[tuple[str, ...], ...]
    """Of each group, a word for each key; without keys one word."""
    everywhere: str
    """The keys in which they agree."""

    @property
    def header(self) -> str:
        return ", ".join(self.keys) if len(self.keys) <= MOST_BARE else ""

    @property
    def lines(self) -> list[str]:
        """Each name in one piece: values in the order of the header; of more keys than that, each with its key."""
        if len(self.keys) <= MOST_BARE:
            return [", ".join(words) for words in self.values]
        pairs = [list(zip(self.keys, words, strict=True)) for words in self.values]
        there = [[pair for pair in row if pair[1] not in ("null", "")] or row for row in pairs]
        return [", ".join(f"{key}={word}" for key, word in row if word) for row in there]

    def shortened(self) -> "Names":
        """Without the words that all values of a key begin or end with: inclusion_ordering, distance."""
        columns = [_without_shared(column) for column in zip(*self.values, strict=True)] if self.keys else []
        return Names(self.keys, tuple(zip(*columns, strict=True)), self.everywhere) if columns else self

    def fitted(self, width: float) -> "Names":
        """As they are if each fits, else shortened."""
        return self if max(map(width_of, self.lines), default=0.0) <= width else self.shortened()


def names_of(labelled: Sequence[tuple[str, Mapping[str, Any]]]) -> Names:
    """Names of groups from their labels and parts; a key in which all agree is told once."""
    kinds = {tuple(parts) for _, parts in labelled}
    keys = next(iter(kinds)) if len(kinds) == 1 else ()
    if not keys:
        return Names((), tuple((label,) for label, _ in labelled), "")
    columns = {key: [told(parts[key]) for _, parts in labelled] for key in keys}
    telling = [key for key in keys if len(set(columns[key])) > 1]
    if not telling or len(labelled) == 1:
        return Names((), tuple((label,) for label, _ in labelled), "")
    alike = {key: labelled[0][1][key] for key in keys if key not in telling}
    rows = tuple(zip(*(columns[key] for key in telling), strict=True))
    return Names(tuple(telling), rows, label_of(alike) if alike else "")


def _without_shared(column: Sequence[str]) -> list[str]:
    """Words joined by _ without those that all begin or end with; of a value that is no more than that, all of it."""
    words = [text.split("_") for text in column]
    while min(map(len, words)) > 1 and len({each[0] for each in words}) == 1:
        words = [each[1:] for each in words]
    while max(map(len, words)) > 1 and len({each[-1] for each in words}) == 1:
        words = [each[:-1] or each for each in words]
    short = ["_".join(each) for each in words]
    return short if len(set(short)) == len(set(column)) else list(column)
