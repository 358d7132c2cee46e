"""Sweeps in words: labels of cells, names of their folders, what differs between two sweeps."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

from pgrl_cli.config import yaml12

PLAIN = re.compile(r"[\w./+%-]([\w ./:+%-]*[\w./+%-])?")
"""Text that a label shows without quotes."""
STRANGE = r"[^A-Za-z0-9._=,-]+"
"""What is left out of the names of folders; then = becomes -, and a comma _."""
LONGEST_VALUE = 60
LONGEST_LABEL = 400
LONGEST_FOLDER = 80
"""Characters of a label in the name of a folder; the id follows."""
MOST_DIFFERENCES = 20


def label_of(parameters: Mapping[str, Any]) -> str:
    """Swept keys with their values: delta_mode=rewards,kl_coefficient=0.1. Unequal values have unequal labels."""
    return _cut(",".join(f"{told(key)}={told(value)}" for key, value in parameters.items()) or "all", LONGEST_LABEL)


def told(value: Any) -> str:
    """A value, short: text that reads as something else is in quotes, what is very long ends in a hash."""
    return _cut(_whole(value), LONGEST_VALUE)


def folder_name(label: str, identity: str) -> str:
    """What every file system takes of a label, and an id: delta_mode-rewards_kl_coefficient-0.1-3fa9c1d2."""
    inside = re.sub(rf"(?<=[=,]){STRANGE}|{STRANGE}(?=[=,]|$)", "", label.replace("e+", "e"))  # brackets, say
    readable = re.sub(STRANGE, "-", inside)[:LONGEST_FOLDER].strip(".-,=")
    return f"{readable.replace('=', '-').replace(',', '_') or 'cell'}-{identity}"


def sameness(value: Any) -> Any:
    """What equal values have in common, to be looked up: 1 is 1.0 and no boolean; the order of a map says nothing."""
    if isinstance(value, dict):
        return "map", frozenset((key, sameness(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return "list", tuple(map(sameness, value))
    return ("boolean", value) if isinstance(value, bool) else value


def plain(value: Any) -> Any:
    """The value without the lines that it remembers."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """In words, what differs between two sweeps as sweep.yaml holds them; of very many differences, the first."""
    found = list(islice(_differences(old, new, ""), MOST_DIFFERENCES + 1))
    return found if len(found) <= MOST_DIFFERENCES else [*found[:MOST_DIFFERENCES], "and more"]


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], above: str) -> Iterator[str]:
    for key in {**old, **new}:
        name = f"{above}{key}"
        if key not in new:
            yield f"{name} is gone (it was {told(old[key])})"
        elif key not in old:
            yield f"{name} is new ({told(new[key])})"
        elif sameness(old[key]) == sameness(new[key]):
            continue
        elif isinstance(old[key], dict) and isinstance(new[key], dict):
            yield from _differences(old[key], new[key], f"{name}.")
        elif isinstance(old[key], list) and isinstance(new[key], list):
            yield f"{name} {_lists_differ(old[key], new[key])}"
        else:
            yield f"{name} was {told(old[key])}, and is {told(new[key])}"


def _lists_differ(old: Sequence[Any], new: Sequence[Any]) -> str:
    """How two unequal lists differ: what one has that the other lacks, if anything."""
    before, after = {repr(sameness(value)) for value in old}, {repr(sameness(value)) for value in new}
    gone = [value for value in old if repr(sameness(value)) not in after]
    come = [value for value in new if repr(sameness(value)) not in before]
    words = [f"no longer has {told(gone)}"] * bool(gone) + [f"now has {told(come)}"] * bool(come)
    return " and ".join(words) or f"was {told(list(old))}, and is {told(list(new))}"


def _whole(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_whole(key)}:{_whole(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_whole, value)) + "]"
    if isinstance(value, str) and not (PLAIN.fullmatch(value) and isinstance(yaml12.scalar(value), str)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[: longest - 10]}…{sha256(text.encode(errors='replace')).hexdigest()[:8]}"
