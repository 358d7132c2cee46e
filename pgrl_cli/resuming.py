"""Going on with a run that was stopped, lost or finished: what is there to go on from, and whether it may."""

import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgrl_cli import experiment, runs
from pgrl_cli.config import Config, ConfigError, Problem
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.problems import listed
from pgrl_cli.fingerprints import FREE, fingerprint
from pgrl_cli.growing import KEPT, Damaged, digest_up_to, positions_of
from pgrl_cli.resolution import Resolved, resolve
from pgrl_cli.runs import Run
from pgrl_cli.secrecy import redacted
from pgrl_cli.stopping import stoppable
from pgrl_cli.summary import Summary
from pgrl_cli.together import Watch
from pgrl_cli.training import checkpoints
from pgrl_cli.training.snapshots import Checkpoint, CheckpointError
from pgrl_cli.words import written

SCHEDULES = {"learning_rate_decay": "learning_rate", "entropy_decay": "entropy_coefficient"}
"""Keys that bend something over the whole length of a run, and what they bend."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """A run that is to go on, and as what."""

    folder: Run
    overrides: tuple[str, ...]
    resolved: Resolved
    before: Config
    """What it was made for."""

    @property
    def config(self) -> Config:
        return self.resolved.config


def asked_for(folder: Run, overrides: Sequence[str]) -> Asked:
    """What it means that a run goes on; `epochs=N` makes it longer.

    Raises ConfigError where the folder is no run's, or the run may not become that.
    """
    _refuse_what_is_no_run(folder.folder)
    file = str(folder.folder / "config.yaml")
    before = resolve(layers_of(file, []), begun=True).config
    resolved = resolve(layers_of(file, overrides), begun=True)
    if problems := list(_differences(before, resolved.config)):
        raise ConfigError(problems)
    return Asked(folder, tuple(overrides), resolved, before)


def resume(
    asked: Asked,
    *,
    command: Sequence[str] = (),
    watch: Watch = lambda done, mean_reward: None,
    notice: experiment.Notice = lambda finding: None,
    tell: Tell = lambda note: None,
) -> tuple[Run, Summary | None]:
    """Go on from the last good checkpoint, or from the start; no summary where nothing is left to do.

    Raises InUse where another process has the run, and what `experiment.run` raises.
    """
    folder = asked.folder
    with stoppable() as stop, runs.held(folder.folder):
        asked = asked_for(folder, asked.overrides)  # who held it before may have made it longer
        config, before = asked.config, asked.before
        runs.refuse_one_in_use(folder)
        status = folder.status_or_nothing()
        if status.get("status") == "completed" and status.get("epochs") == config.epochs:
            tell(f"it is complete, with {config.epochs} epochs; epochs={2 * config.epochs} would make it longer")
            return folder, None
        experiment.refuse_a_missing_gpu(asked.resolved)
        found, notes = newest(folder.checkpoints, {0: (folder, config)})
        for note in notes:
            tell(note)
        place = "from the start: there is no checkpoint to go on from"
        tell(place if found is None else f"going on after {found.epoch} of {config.epochs} epochs")
        if found is None and (notes or checkpoints.places(folder.checkpoints)):
            tell(f"what it had written is kept in {_put_aside(folder)}")
        folder.mark("running", started=status.get("started"))  # from here on it is not what it was
        _write_down(folder, config, before, command)
        return experiment.trained(folder, config, stop, watch, notice, found, status.get("started"))


def newest(folder: Path, wanted: Mapping[int, tuple[Run, Config]]) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that all wanted runs can go on from, and why newer ones are not.

    Those are removed where there is one to go on from. The runs are known by their places in the stack. A checkpoint
    serves where it is whole, and the files of the runs still begin with what they held when it was made. Raises
    ConfigError where the configs are others.
    """
    notes: list[str] = []
    for place in checkpoints.places(folder):
        try:
            found = checkpoints.read(place)
            if any(_is_a_shorter_runs_end(found, index, config) for index, (_, config) in wanted.items()):
                continue
            for index, (run, config) in wanted.items():
                _refuse_what_does_not_fit(found, index, run, config)
            checkpoints.set_aside(folder, found.epoch)
            return found, notes
        except (CheckpointError, Damaged, OSError) as error:
            notes.append(f"not from {place.name}: {error}")
    return None, notes


def _is_a_shorter_runs_end(found: Checkpoint, index: int, config: Config) -> bool:
    """Whether it is the end of a run that was shorter: its last epoch is written otherwise than in a longer one."""
    return _kept_of(found, index).get("epochs") == found.epoch != config.epochs


def _kept_of(found: Checkpoint, index: int) -> Mapping[str, Any]:
    """What a checkpoint holds of one of the runs; nothing where it holds nothing."""
    books = found.facts.get("books")
    kept = books.get(str(index)) if isinstance(books, dict) else None
    return kept if isinstance(kept, dict) else {}


def _put_aside(folder: Run) -> Path:
    """Keep what a run has that must start over, in a folder inside its own: where its origin has gone it cannot."""
    aside = folder.folder / "damaged"
    aside.mkdir(exist_ok=True)
    for name in KEPT:
        with suppress(FileNotFoundError):
            (folder.folder / name).replace(aside / name)
    for place in checkpoints.places(folder.checkpoints):
        shutil.rmtree(aside / place.name, ignore_errors=True)
        place.replace(aside / place.name)
    return aside


def _refuse_what_does_not_fit(found: Checkpoint, index: int, run: Run, config: Config) -> None:
    kept = _kept_of(found, index)
    if not kept:
        raise Damaged(f"it holds nothing of {run.folder.name}")
    if kept.get("config") != fingerprint(config):
        told = "is not what the run was made with: put it back as it was, or start a new run with it"
        raise ConfigError([Problem(told, str(run.folder / "config.yaml"))])
    for name, position in positions_of(kept.get("files")).items():
        digest_up_to(run.folder / name, position)


def _refuse_what_is_no_run(path: Path) -> None:
    shown = str(path)
    if not path.is_dir():
        raise ConfigError([Problem("there is no such run folder", shown)])
    if (path / "cells.jsonl").exists():
        raise ConfigError([Problem(f"is a sweep: pgrl sweep --resume {shlex.quote(shown)} goes on with it", shown)])
    if not (path / "config.yaml").is_file():
        raise ConfigError([Problem("is no run folder: it has no config.yaml", shown)])
    sweep = path.resolve().parents[1] if len(path.resolve().parents) > 1 else path
    if (sweep / "cells.jsonl").exists() and path.resolve().parent.name == "cells":
        fix = f"pgrl sweep --resume {shlex.quote(str(sweep))} goes on with it, in the company it began in"
        raise ConfigError([Problem(f"is a cell of a sweep: {fix}", shown)])


def _differences(before: Config, config: Config) -> Iterator[Problem]:
    """Why a run of one config may not go on as one of another."""
    was, would = before.settings, config.settings
    if differ := [key for key in would if key not in FREE and was.get(key) != would[key]]:
        fix = f"start a new run for that; one that goes on may only have other {listed(FREE)}"
        yield Problem(f"the run was made with another {listed(differ)}: {fix}", "--resume")
    if config.epochs < before.epochs:
        told = f"epochs: came {config.epochs}, but the run was made for {before.epochs}: it can only be made longer"
        yield Problem(told, "--resume")
    bent = [f"{key}: {would[key]}" for key, what in SCHEDULES.items() if would[key] != "none" and would[what] > 0]
    if config.epochs > before.epochs and bent:
        told = f"a run with {listed(bent)} cannot be made longer"
        why = "the schedule depends on the number of epochs, so its first epochs would have been others"
        yield Problem(f"{told}: {why}; start a new run with epochs={config.epochs}", "--resume")


def _write_down(folder: Run, config: Config, before: Config, command: Sequence[str]) -> None:
    """Keep with the run how it goes on."""
    if config != before:
        runs.write_whole(folder.folder / "config.yaml", written(config))
    if command:
        with (folder.folder / "command.txt").open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(shlex.join(redacted(command)) + "\n")
