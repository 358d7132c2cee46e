"""Trains one stack of a sweep's cells into their folders."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

import orjson

from pgrl_cli import experiment, runs
from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.config import Config
from pgrl_cli.notebook import Notebook
from pgrl_cli.provenance import provenance
from pgrl_cli.words import written


def train_stack(
    sweep: Sweep,
    number: int,
    wanted: Collection[str],
    *,
    pictures: bool,
    watch: experiment.Watch,
    ended: Callable[[Cell, Notebook], None],
) -> None:
    """Train all cells of a stack, and write down those whose ids are wanted; their old folders go first.

    The others train along unseen, so that the wanted ones keep their company and their numbers. Raises OSError where a
    cell's folder cannot be made.
    """
    cells = sweep.stack(number)
    configs = [config_of(cell.config) for cell in cells]
    books = {}
    for place, (cell, config) in enumerate(zip(cells, configs, strict=True)):
        if cell.id in wanted:
            folder = runs.create_at(
                sweep.folder / cell.folder, _texts(config), list(dict.fromkeys(config.sources.values()))
            )
            books[place] = Notebook(folder, config, picture=pictures)
    cell_of = {id(book): cells[place] for place, book in books.items()}
    experiment.train_together(configs, books, watch, lambda book: ended(cell_of[id(book)], book))


def config_of(config: Mapping[str, Any]) -> Config:
    """A cell's config from what cells.jsonl holds."""
    return Config.model_validate_json(orjson.dumps(config))


def json_of(config: Config) -> dict[str, Any]:
    """A config as cells.jsonl holds it."""
    return config.model_dump(mode="json")


def _texts(config: Config) -> Mapping[str, str]:
    return {"config.yaml": written(config), "provenance.json": _provenance()}


@cache
def _provenance() -> str:
    return runs.to_json(provenance(), indent=True).decode()
