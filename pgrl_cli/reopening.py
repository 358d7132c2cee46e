"""A sweep that was begun, opened again: refused where it is damaged, in use, or no longer the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pgrl_cli import cells
from pgrl_cli.cells import Sweep
from pgrl_cli.config import ConfigError, Problem, yaml12
from pgrl_cli.config.files import content
from pgrl_cli.config.kinds import misfit
from pgrl_cli.config.problems import listed, short
from pgrl_cli.config.sweep_spec import differences
from pgrl_cli.config.sweep_words import SPEC_KEYS, Metric, metric_of

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
        written = _written(sweep)
        asked(sweep)
        _refuse_strange_cells(sweep, written)
    except OSError as error:
        missing_file = Path(str(error.filename)).name
        raise ConfigError([Problem(f"is no sweep's folder: {missing_file}: {error.strerror}", shown)]) from error
    except ValueError as error:
        raise ConfigError([Problem(f"cannot be resumed: {error}", shown)]) from error
    if known == 0:
        raise ConfigError([Problem("cannot be resumed: cells.jsonl is empty", shown)])
    _refuse_links(sweep)
    if spec is not None and (changed := differences(written, spec.as_mapping())):
        fix = "leave --config out to go on as before, or start a new sweep"
        raise ConfigError([Problem(f"is another sweep: {'; '.join(changed)}; {fix}", shown)])
    if not retry_failed:
        _refuse_changed_rewards(sweep)
    return sweep


def _refuse_strange_cells(sweep: Sweep, written: Mapping[str, Any]) -> None:
    """Raise ValueError where a cell's config cannot be one, or another sweep's keys are swept."""
    parameters = written.get("parameters", {})
    lists = parameters if isinstance(parameters, list) else [parameters]
    keys = {key for each in lists if isinstance(each, dict) for key in each}
    for cell in sweep.cells:
        try:
            cell.as_config()
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            told = f"cells.jsonl is damaged: the config of {short(cell.label)}: {where}: {first['msg']}"
            raise ValueError(told) from error
        if not cell.parameters.keys() <= keys:
            told = f"its cells vary {listed(cell.parameters, 5)}, but sweep.yaml varies {listed(keys, 5) or 'nothing'}"
            raise ValueError(f"{told}: it is another sweep's")


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
    """What a sweep's cells are judged by, and who trains them. Raises OSError, and ValueError where it is not said."""
    written = _written(sweep)
    metric, wrong = metric_of(written["metric"])
    kind = SPEC_KEYS["launcher"][0]
    if message := misfit(kind, written["launcher"]):
        wrong.append(f"launcher: {message}")
    if wrong:
        raise ValueError(f"sweep.yaml: {wrong[0]}")
    return metric, str(written["launcher"])


def _written(sweep: Sweep) -> Mapping[str, Any]:
    """What sweep.yaml says. Raises OSError, ConfigError, and ValueError where it lacks what every sweep says."""
    path = sweep.folder / "sweep.yaml"
    written = yaml12.read(content(path).decode(), str(path))
    lacks = [key for key in ("metric", "launcher") if not isinstance(written, dict) or key not in written]
    if lacks:
        raise ValueError(f"sweep.yaml lacks {listed(lacks)}")
    return written
