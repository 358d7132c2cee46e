"""Runs as a table of eighty columns, as CSV, and as JSON."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size

from pgrl_cli.catalogue import Entry
from pgrl_cli.selection import as_text
from pgrl_cli.store import short_ids

Facts = Mapping[str, Any]
FIRST = (
    "id", "folder", "kind", "name", "status", "started", "epochs_done", "epochs", "last_mean_reward", "exact_match",
    "seed_count",
)  # fmt: skip
"""The columns that a CSV begins with."""
TITLES = ("id", "name", "status", "started", "epochs", "reward", "exact", "seeds")
TO_THE_RIGHT = ("epochs", "reward", "exact", "seeds")
NARROWEST = 6
"""Columns of a name."""
GAP = "  "


def rows_of(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The facts of entries, with their ids and folders: what can be filtered, sorted and shown."""
    ids = short_ids([entry.path.name for entry in entries])
    here = [{"id": ids[entry.path.name], "folder": str(entry.path)} for entry in entries]
    return [
        {**row, **{k: v for k, v in entry.facts.items() if k not in row}}
        for row, entry in zip(here, entries, strict=True)
    ]


def lines_of(rows: Sequence[Facts], width: int) -> Iterator[str]:
    """The table, its longest names cut so that it fits."""
    table = [dict(zip(TITLES, TITLES, strict=True)), *map(_shown, rows)]
    widths = {title: max(cell_len(row[title]) for row in table) for title in TITLES}
    others = sum(size + len(GAP) for title, size in widths.items() if title != "name")
    widths["name"] = max(NARROWEST, min(widths["name"], width - others))
    for row in table:
        cells = [_padded(row[title], widths[title], title in TO_THE_RIGHT) for title in TITLES]
        yield GAP.join(cells).rstrip()


def as_csv(rows: Sequence[Facts]) -> str:
    """Every fact of every run; what a run lacks is empty."""
    text = io.StringIO()
    columns = dict.fromkeys([*FIRST, *(key for row in rows for key in row)])
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if row.get(key) is None else as_text(row[key]) for key in columns] for row in rows)
    return text.getvalue()


def visible(text: str) -> str:
    """A text as it may stand on one line of a screen: what would steer the screen is a question mark."""
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def _shown(row: Facts) -> dict[str, str]:
    name = row["label"] if row["kind"] == "cell" and row.get("label") else row["name"]
    shown = {
        "id": str(row["id"]),
        "name": as_text(name),
        "status": str(row["status"]),
        "started": _when(row["started"]),
        "epochs": _progress(row),
        "reward": _number(row.get("last_mean_reward"), 3),
        "exact": _number(row.get("exact_match"), 2),
        "seeds": _number(row["seed_count"], 0),
    }
    return {title: visible(text) for title, text in shown.items()}


def _progress(row: Facts) -> str:
    if row["kind"] == "sweep":
        return f"{_number(row.get('cells_completed'), 0)}/{_number(row.get('cells'), 0)} cells"
    return f"{_number(row['epochs_done'], 0)}/{_number(row.get('epochs'), 0)}"


def _number(value: Any, digits: int) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) and not isinstance(value, bool) else "-"


def _when(started: Any) -> str:
    """A time here, to the minute; of another year the day."""
    try:
        then = datetime.fromisoformat(started).astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        return "-"
    return f"{then:%m-%d %H:%M}" if then.year == datetime.now().year else f"{then:%Y-%m-%d}"


def _padded(text: str, width: int, to_the_right: bool) -> str:
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    space = " " * (width - cell_len(text))
    return space + text if to_the_right else text + space
