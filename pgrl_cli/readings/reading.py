"""One question, its table, and what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Found = Mapping[str, Any]
"""A diagnosis, as JSON holds it."""


@dataclass(frozen=True)
class Reading:
    """A table under a question."""

    section: str
    """Which part of a diagnosis it shows."""
    question: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: str
    """How to read it."""
    sentences: tuple[str, ...]
    """What its numbers say."""
    words: int = 1
    """How many of the first columns hold words; numbers stand to the right."""


def error_of(found: Found, *path: str) -> Any:
    """The standard error of what stands at a path of a diagnosis; None where it is exact."""
    part: Any = found["standard_errors"]
    for name in path:
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


def has_no_gradient(found: Found) -> bool:
    """Whether the expected reward has none, so that nothing can point along it."""
    return bool(found["truth"]["gradient_norm"] == 0)
