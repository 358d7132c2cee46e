"""A sweep that was begun, opened again: refused where it is damaged, in use, or no longer the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ValidationError

from pgrl_cli import cells
from pgrl_cli.cells import Sweep
from pgrl_cli.config import ConfigError, Problem
from pgrl_cli.config.files import content
from pgrl_cli.config.layers import read_file
from pgrl_cli.config.problems import brief, listed, nearest, short
from pgrl_cli.config.sweep_spec import differences, read_sweep
from pgrl_cli.config.sweep_words import Metric
from pgrl_cli.resolution import resolve
from pgrl_cli.stacks import json_of
from pgrl_cli.training.evaluation import EVALUATED
from pgrl_cli.training.measures import METRICS, OF_SOME

WRITTEN = ("base", "method", "parameters", "metric", "launcher")
"""Keys that every sweep.yaml has."""

if TYPE_CHECKING:
    from pgrl_cli.config.sweep_spec import Spec


def reopened(path: Path, spec: "Spec | None", retry_failed: bool = False) -> Sweep:
    """A sweep that was begun.

    Raises ConfigError where there is none, its files are damaged, another one is asked for, or a reward
    of the user's own has changed (unless the failed cells are to be tried again: then that may be the mend).
    """
    sweep = Sweep(path)
    shown = str(path)
    if not path.is_dir():
        raise ConfigError([Problem("there is no such folder", shown)])
    try:
        known = len(sweep.cells)
        if known == 0:
            raise ValueError("cells.jsonl is empty")
        begun = _spec_of(sweep)
        _refuse_damaged_cells(sweep, begun)
    except OSError as error:
        missing_file = Path(str(error.filename)).name
        raise ConfigError([Problem(f"is no sweep's folder: {missing_file}: {error.strerror}", shown)]) from error
    except ValueError as error:
        raise ConfigError([Problem(f"cannot be resumed: {error}", shown)]) from error
    _refuse_links(sweep)
    if spec is not None and (changed := differences(begun.as_mapping(), spec.as_mapping())):
        fix = "leave --config out to go on as before, or start a new sweep"
        raise ConfigError([Problem(f"is another sweep: {'; '.join(changed)}; {fix}", shown)])
    if not retry_failed:
        _refuse_changed_rewards(sweep)
    return sweep


def _refuse_links(sweep: Sweep) -> None:
    """What is trained replaces what lies in a cell's folder: a link must not lead that out of the sweep's."""
    logs = sweep.folder / "logs"
    folders = [sweep.folder / "cells", logs, *(sweep.folder / cell.folder for cell in sweep.cells)]
    if links := [str(path) for path in folders if path.is_symlink()]:
        told = (
            f"cannot be resumed: {listed(links, 3)} leads out of it, being a link; put what it stands for in its place"
        )
        raise ConfigError([Problem(told, str(sweep.folder))])


def _refuse_changed_rewards(sweep: Sweep) -> None:
    sources = {path: digest for cell in sweep.cells for path, digest in cell.sources.items()}
    if changed := [path for path, digest in sources.items() if cells.digest_of(Path(path)) != digest]:
        fix = "put it back, start a new sweep, or train the failed cells with it as it is now: --retry-failed"
        told = f"{listed(changed)} is not what it was when the sweep began; {fix}"
        raise ConfigError([Problem(told, str(sweep.folder))])


def asked(sweep: Sweep) -> tuple[Metric, str]:
    """What a sweep's cells are judged by, and who trains them. Raises ConfigError where sweep.yaml is damaged."""
    spec = _spec_of(sweep)
    return spec.metric, spec.launcher


def _spec_of(sweep: Sweep) -> "Spec":
    """What sweep.yaml says. Raises ConfigError with all that is wrong with it, OSError where it is not there."""
    path = sweep.folder / "sweep.yaml"
    content(path)
    try:
        lacking = [key for key in WRITTEN if key not in read_file(path, str(path))[0]]
        if lacking:
            raise ConfigError([Problem(f"has no {listed(lacking)}", str(path))])
        spec = read_sweep(str(path.absolute()))
    except ConfigError as error:
        told = [Problem(f"sweep.yaml is damaged: {each.message}", str(path), each.line) for each in error.problems]
        raise ConfigError(told) from error
    known = [*METRICS, *OF_SOME, *EVALUATED]
    if spec.metric.name not in known and not spec.metric.name.startswith("reward/"):
        told_name = f"metric: came {short(spec.metric.name)!r}; possible: {listed(known, 40)}."
        told_name += nearest(spec.metric.name, known)
        raise ConfigError([Problem(f"sweep.yaml is damaged: {told_name}", str(path))])
    return spec


def _refuse_damaged_cells(sweep: Sweep, spec: "Spec") -> None:
    """Refuse cells whose configs cannot be, or of which some are gone. Raises ValueError that says which."""
    for number, cell in enumerate(sweep.cells, start=1):
        try:
            cell.as_config()
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            told = f"config: {where}: came {brief(first['input'])}; {first['msg']}"
            raise ValueError(f"cells.jsonl:{number} is damaged: {told}") from error
    swept = spec.as_mapping()["parameters"]
    keys = {key for each in (swept if isinstance(swept, list) else [swept]) for key in each}
    if strange := [cell for cell in sweep.cells if not cell.parameters.keys() <= keys]:
        told = (
            f"its cells vary {listed(strange[0].parameters, 5)}, but sweep.yaml varies {listed(keys, 5) or 'nothing'}"
        )
        raise ValueError(f"{told}: it is another sweep's")
    places: dict[int, list[int]] = {}
    for cell in sweep.cells:
        places.setdefault(cell.stack, []).append(cell.place)
    for stack in range(max(places, default=-1) + 1):
        if sorted(places.get(stack, [])) != list(range(len(places.get(stack, [])) or 1)):
            raise ValueError(f"cells.jsonl is damaged: stack {stack} does not have each place once; lines are missing")
    _refuse_missing_cells(sweep, spec)


def _refuse_missing_cells(sweep: Sweep, spec: "Spec") -> None:
    """Refuse a file without some of the spec's cells, but for those that are the same experiment as another."""
    there, asked_for = len(sweep.cells), spec.cells()
    if there > len(asked_for):
        raise ValueError(f"cells.jsonl is damaged: it has {there} cells, but sweep.yaml asks for {len(asked_for)}")
    if there == len(asked_for):
        return
    known = {_nameless(cell.config) for cell in sweep.cells}
    for cell in asked_for:
        try:
            config = resolve(cell.layers).config
        except ConfigError:
            continue  # such as for a reward's file that has gone
        if not config.sources and _nameless(json_of(config)) not in known:  # files are named in full in sweep.yaml
            raise ValueError(f"cells.jsonl is damaged: the cell {short(cell.label)} is missing")


def _nameless(config: Mapping[str, Any]) -> bytes:
    return orjson.dumps({key: value for key, value in config.items() if key != "name"}, option=orjson.OPT_SORT_KEYS)
