"""The swept keys of a sweep, put together from its file and the command line, and checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pgrl_cli.config.kinds import told as told_kind
from pgrl_cli.config.layers import Entry
from pgrl_cli.config.problems import Problem, short
from pgrl_cli.config.sweep_texts import told
from pgrl_cli.config.sweep_typed import Typed
from pgrl_cli.config.sweep_values import (
    Swept,
    equal_cells,
    laid_out,
    wrong_with_cells,
    wrong_with_keys,
    wrong_with_lengths,
    wrong_with_values,
)
from pgrl_cli.config.sweep_words import MOST_CELLS, OWN_KEYS


@dataclass
class SweptKeys:
    """Puts the swept keys together, noting what is wrong with them and what a person should hear."""

    method: str
    file: str
    entries: Mapping[str, Entry]
    """What the file says."""
    typed: Typed
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def written(self) -> Swept:
        """The swept keys, each with its list or distribution; of method `list`, cell by cell."""
        entry = self.entries.get("parameters")
        if self.typed.lists and self.method != "grid":
            first = next(iter(self.typed.lists.values()))
            told_why = f"values with commas make a grid, but here method is {self.method}"
            self.problems.append(first.problem(f"{told_why}; sweep the key in the file, or say method=grid"))
        if self.method == "list":
            return self.cells_of_list(entry)
        if entry is not None and not isinstance(entry.value, dict):
            form = "a map of keys to lists, such as {epochs: [50, 100]}"
            hint = ", or add method: list" if isinstance(entry.value, list) else ""
            self.problems.append(entry.problem(f"parameters: came {told_kind(entry.value)}; write {form}{hint}"))
            return {}
        swept = {} if entry is None else {key: entry.part(key) for key in entry.value}
        self.refuse_two_places(swept)
        swept = self.less_what_is_fixed(swept) | self.typed.lists
        self.refuse_parts(swept)
        before = len(self.problems)
        self.problems += [*wrong_with_keys(swept), *wrong_with_values(self.method, swept)]
        place = entry or next(iter(swept.values()), None)
        if not swept and self.method != "grid":
            self.tell(place, f"method {self.method} needs a key with values, such as {{epochs: [50, 100]}}")
        elif swept and len(self.problems) == before and (wrong := wrong_with_lengths(self.method, swept)):
            self.tell(place, wrong)
        return swept

    def laid_out(self, written: Swept, samples: int, sampling_seed: int) -> list[dict[str, Entry]]:
        """The cells; of equal draws the first, and other equal cells are problems."""
        cells = list(laid_out(self.method, written, samples, sampling_seed))
        if self.method in ("zip", "list"):
            self.problems += wrong_with_cells(cells, self.entries["parameters"])
        if self.method == "random" and (again := {number for number, _ in equal_cells(cells)}):
            self.notes.append(f"{len(again)} of {len(cells)} draws came before and are left out")
            return [cell for number, cell in enumerate(cells) if number not in again]
        return cells

    def cells_of_list(self, entry: Entry | None) -> Sequence[Mapping[str, Entry]]:
        cells: list[Any] = [] if entry is None or not isinstance(entry.value, list) else entry.value
        if entry is None or not cells or not all(isinstance(cell, dict) for cell in cells):
            self.tell(entry, "method list needs a list of maps, one for each cell: [{epochs: 50}, {epochs: 100}]")
            return []
        if len(cells) > MOST_CELLS:
            self.tell(entry, f"{len(cells)} cells are more than {MOST_CELLS}")
            return []
        placed = [{key: replace(entry, value=cell).part(key) for key in cell} for cell in cells]
        self.problems += wrong_with_keys({key: place for cell in reversed(placed) for key, place in cell.items()})
        everywhere = set(placed[0]).intersection(*placed)
        self.refuse_two_places({key: place for key, place in placed[0].items() if key in everywhere})
        left = [self.less_what_is_fixed(cell) for cell in placed]
        self.refuse_parts({key for cell in left for key in cell})
        return left

    def tell(self, place: Entry | None, message: str) -> None:
        """Note a problem of the swept keys as a whole."""
        told_whole = f"parameters: {message}"
        self.problems.append(place.problem(told_whole) if place else Problem(told_whole, self.file))

    def refuse_two_places(self, swept: Mapping[str, Entry]) -> None:
        """Note keys that the file both sweeps and sets for all cells; what the command line replaces is not judged."""
        for key, entry in swept.items():
            if key in self.entries and key not in (*OWN_KEYS, *self.typed.fixed, *self.typed.lists):
                message = f"{short(key)} stands here and under parameters on line {entry.line}; keep one"
                self.problems.append(self.entries[key].problem(message))

    def less_what_is_fixed(self, swept: Mapping[str, Entry]) -> dict[str, Entry]:
        """The swept keys but for those that the command line fixes, which is noted."""
        left = dict(swept)
        for key in swept:
            fixing = key if key in self.typed.fixed else key.partition(".")[0]
            if fixing in self.typed.fixed:
                del left[key]
                note = f"{fixing} is {told(self.typed.fixed[fixing].value)} in all cells, as the command line says"
                note += f"; the values of {short(key)} in {self.file} are not swept"
                self.notes += [note] * (note not in self.notes)
        return left

    def refuse_parts(self, swept: Iterable[str]) -> None:
        """Note what the command line fixes of a map that is swept as a whole."""
        for key, entry in self.typed.fixed.items():
            head, dot, _ = key.partition(".")
            if dot and head in swept:
                message = f"{head} is swept, so no part of it holds in all cells; change its values instead"
                self.problems.append(entry.problem(message))
