"""Trains one stack of a sweep's cells into their folders."""

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

from pgrl_cli import experiment, runs
from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.config import Config
from pgrl_cli.keeper import Keeper
from pgrl_cli.notebook import Notebook
from pgrl_cli.provenance import provenance
from pgrl_cli.resuming import newest
from pgrl_cli.stopping import Stop
from pgrl_cli.training.checkpoints import places
from pgrl_cli.words import written


def train_stack(
    sweep: Sweep,
    number: int,
    wanted: Collection[str],
    *,
    pictures: bool,
    watch: experiment.Watch,
    ended: Callable[[Cell, Notebook], None],
    stop: Stop | None = None,
    tell: Callable[[str], None] = lambda note: None,
) -> None:
    """Train all cells of a stack, and write down those whose ids are wanted.

    They go on from the stack's last checkpoint if all of them can, else they start over; what they had is put aside.
    The others train along unseen, so that the wanted ones keep their company and their numbers. Raises OSError where a
    cell's folder cannot be made.
    """
    cells = sweep.stack(number)
    configs = [cell.as_config() for cell in cells]
    here = {place: cell for place, cell in enumerate(cells) if cell.id in wanted}
    checkpoints = sweep.checkpoints(number)
    known = {place: (sweep.run(cell), configs[place]) for place, cell in here.items()}
    found, notes = newest(checkpoints, known)
    for note in notes:
        tell(note)
    if found is None:
        if places(checkpoints):
            tell(f"what the stack had written is kept in {_put_aside(sweep, number, here.values())}")
        shutil.rmtree(checkpoints, ignore_errors=True)
        checkpoints.parent.mkdir(exist_ok=True)
        for place, cell in here.items():
            sources = list(dict.fromkeys(configs[place].sources.values()))
            runs.create_at(sweep.folder / cell.folder, _texts(configs[place]), sources)
    books = {place: Notebook(sweep.run(cell), configs[place], picture=pictures) for place, cell in here.items()}
    cell_of = {id(book): cells[place] for place, book in books.items()}
    with closing(Keeper(checkpoints, configs[0].checkpoint_keep)) as keeper:
        experiment.train_together(
            configs, books, watch, lambda book: ended(cell_of[id(book)], book), keeper=keeper, stop=stop, resumed=found
        )
    shutil.rmtree(checkpoints, ignore_errors=True)  # each cell has its own by now


def _put_aside(sweep: Sweep, number: int, cells: Iterable[Cell]) -> Path:
    """Keep what a stack has that must start over, in a folder of the sweep's: where its origin has gone it cannot."""
    aside = sweep.folder / "damaged"
    aside.mkdir(exist_ok=True)
    for old in (sweep.checkpoints(number), *(sweep.folder / cell.folder for cell in cells)):
        shutil.rmtree(aside / old.name, ignore_errors=True)
        with suppress(FileNotFoundError):
            old.replace(aside / old.name)
    return aside


def json_of(config: Config) -> dict[str, Any]:
    """A config as cells.jsonl holds it."""
    return config.model_dump(mode="json")


def _texts(config: Config) -> Mapping[str, str]:
    return {"config.yaml": written(config), "provenance.json": _provenance()}


@cache
def _provenance() -> str:
    return runs.to_json(provenance(), indent=True).decode()
