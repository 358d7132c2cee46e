"""What lies in a sweep's folder: its cells, which of them share a stack, and how each one stands. Files, no torch.

runs/2026-11-30_09-15-00-deltas-3fa9c1/
    sweep.yaml  cells.jsonl  status.json  command.txt  provenance.json  cells/<label>-<id>/  logs/
    summary.csv  summary.md  summary.json  summary.png
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import orjson

from pgrl_cli import runs
from pgrl_cli.config.files import content
from pgrl_cli.config.problems import LONGEST_WORD, brief, short
from pgrl_cli.config.schema import Config, seeds_of, work_of
from pgrl_cli.runs import Run

FIELDS: Mapping[str, tuple[type, str]] = {
    "id": (str, "a text"),
    "label": (str, "a text"),
    "folder": (str, "a text"),
    "stack": (int, "a count from 0"),
    "place": (int, "a count from 0"),
    "parameters": (dict, "a map"),
    "config": (dict, "a map"),
    "sources": (dict, "a map"),
}
"""What a line of cells.jsonl has, and what each is."""


@dataclass(frozen=True)
class Cell:
    """One config of a sweep, with all its seeds."""

    id: str
    """A hash of the config, and of the sources of rewards of the user's own."""
    label: str
    """The swept keys with their values, readable."""
    folder: str
    """Where its runs are written, relative to the sweep's folder."""
    stack: int
    """Cells of one stack train together: in float32 rounding depends on the company."""
    place: int
    """Its place in the stack."""
    parameters: Mapping[str, Any]
    config: Mapping[str, Any]
    """The config as JSON holds it."""
    sources: Mapping[str, str | None] = field(default_factory=dict)
    """The SHA-256 of each file that a reward of the user's own lies in, by its path."""

    @property
    def runs(self) -> int:
        """How many it has, one for each seed."""
        return len(seeds_of(self.config))

    @property
    def work(self) -> int:
        """Optimizer steps of all its runs."""
        return work_of(self.config)

    def as_config(self) -> Config:
        """The config. Raises pydantic's ValidationError, a ValueError, where it is none."""
        return Config.model_validate_json(orjson.dumps(self.config))


@dataclass(frozen=True)
class Sweep:
    """A sweep's folder."""

    folder: Path

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells in their order. Raises ValueError where the file is damaged, OSError where it is not there."""
        path = self.folder / "cells.jsonl"
        data = content(path)
        if data and not data.endswith(b"\n"):
            raise ValueError("cells.jsonl is cut off")
        cells = [_cell(line, number) for number, line in enumerate(data.split(b"\n")[:-1], start=1)]
        for name in ("id", "folder"):
            seen: set[str] = set()
            for number, value in enumerate((getattr(cell, name) for cell in cells), start=1):
                if value in seen:
                    raise ValueError(f"cells.jsonl:{number} is damaged: a cell before it has the same {name}")
                seen.add(value)
        return tuple(cells)

    def stack(self, number: int) -> list[Cell]:
        """The cells that train together, side by side in this order."""
        return sorted((cell for cell in self.cells if cell.stack == number), key=lambda cell: cell.place)

    def run(self, cell: Cell) -> Run:
        """A cell's run folder."""
        return Run(self.folder / cell.folder)

    def status(self, cell: Cell) -> dict[str, Any]:
        """How a cell stands: what its status.json says; pending where there is none, or none that can be read."""
        try:
            found = self.run(cell).status()
        except (OSError, orjson.JSONDecodeError):
            return {"status": "pending"}
        told = isinstance(found, dict) and isinstance(found.get("status"), str) and len(found["status"]) < LONGEST_WORD
        return found if told else {"status": "pending"}

    def checkpoints(self, number: int) -> Path:
        """Where a stack's checkpoints lie until all its cells are done."""
        return self.folder / "checkpoints" / f"stack-{number:04d}"

    def make(self) -> None:
        """Make the folder that its cells' folders go into. Raises OSError."""
        (self.folder / "cells").mkdir()

    def bury(self, cell: Cell, error: str, *, exit_code: int = 1) -> None:
        """Mark a cell as failed that cannot do so itself, as far as its folder can be written."""
        run = self.run(cell)
        with suppress(OSError):
            run.folder.mkdir(parents=True, exist_ok=True)
            run.mark("failed", exit_code=exit_code, error=error)

    def log(self, name: str) -> Path:
        """The file that a process writes what it has to say into while it trains cells."""
        return self.folder / "logs" / f"{name}.log"

    def open_log(self, name: str) -> IO[bytes]:
        """That file, opened to go on writing. Raises OSError."""
        log = self.log(name)
        log.parent.mkdir(exist_ok=True)
        return runs.appended(log)


def _cell(data: bytes, number: int) -> Cell:
    """The cell that a line of cells.jsonl tells of. Raises ValueError where it is damaged."""
    damaged = f"cells.jsonl:{number} is damaged"
    try:
        line = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{damaged}: {error}") from error
    if not isinstance(line, dict):
        raise ValueError(f"{damaged}: it is no cell")
    if wrong := [key for key in line if key not in FIELDS]:
        raise ValueError(f"{damaged}: unknown key {short(wrong[0])!r}")
    if lacking := [key for key in FIELDS if key not in line and key != "sources"]:
        raise ValueError(f"{damaged}: has no {lacking[0]}")
    for key, value in line.items():
        kind, words = FIELDS[key]
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise ValueError(f"{damaged}: {key} is {brief(value)}; it is {words}")
    parts = Path(line["folder"]).parts
    if len(parts) != 2 or parts[0] != "cells" or parts[1] == ".." or "\0" in line["folder"]:
        raise ValueError(f"{damaged}: {short(line['folder'])} is no cell's folder")
    return Cell(**line)


def lines_of(cells: Iterable[Cell]) -> str:
    """The text of cells.jsonl."""
    return b"".join(runs.to_json(asdict(cell)) for cell in cells).decode()


def digest_of(path: Path) -> str | None:
    """The SHA-256 of a file; None where it cannot be read."""
    try:
        return sha256(content(path)).hexdigest()
    except OSError:
        return None
