"""A sweep that was begun, opened again: refused where it is damaged, in use, or no longer the same."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgrl_cli import cells
from pgrl_cli.cells import Sweep
from pgrl_cli.config import ConfigError, Problem, yaml12
from pgrl_cli.config.problems import listed
from pgrl_cli.config.sweep_spec import differences
from pgrl_cli.config.sweep_words import Metric, metric_of

if TYPE_CHECKING:
    from pgrl_cli.config.sweep_spec import Spec


def reopened(path: Path, spec: "Spec | None", retry_failed: bool = False) -> Sweep:
    """A sweep that was begun.

    Raises ConfigError where there is none, its files are damaged, another one is asked for, or a reward of the user's
    own has changed (unless the failed cells are to be tried again: then that may be the mend).
    """
    sweep = Sweep(path)
    shown = str(path)
    if not path.is_dir():
        raise ConfigError([Problem("there is no such folder", shown)])
    try:
        known = len(sweep.cells)
        written = yaml12.read((path / "sweep.yaml").read_text(encoding="utf-8"), "sweep.yaml")
        asked(sweep)
    except OSError as error:
        missing_file = Path(str(error.filename)).name
        raise ConfigError([Problem(f"is no sweep's folder: {missing_file}: {error.strerror}", shown)]) from error
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError([Problem(f"cannot be resumed: {error}", shown)]) from error
    if known == 0:
        raise ConfigError([Problem("cannot be resumed: cells.jsonl is empty", shown)])
    if spec is not None and (changed := differences(written, spec.as_mapping())):
        fix = "leave --config out to go on as before, or start a new sweep"
        raise ConfigError([Problem(f"is another sweep: {'; '.join(changed)}; {fix}", shown)])
    if not retry_failed:
        _refuse_changed_rewards(sweep)
    return sweep


def _refuse_changed_rewards(sweep: Sweep) -> None:
    sources = {path: digest for cell in sweep.cells for path, digest in cell.sources.items()}
    if changed := [path for path, digest in sources.items() if cells.digest_of(Path(path)) != digest]:
        fix = "put it back, start a new sweep, or train the failed cells with it as it is now: --retry-failed"
        told = f"{listed(changed)} is not what it was when the sweep began; {fix}"
        raise ConfigError([Problem(told, str(sweep.folder))])


def asked(sweep: Sweep) -> tuple[Metric, str]:
    """What a sweep's cells are judged by, and who trains them."""
    written = yaml12.read((sweep.folder / "sweep.yaml").read_text(encoding="utf-8"), "sweep.yaml")
    return metric_of(written["metric"])[0], str(written["launcher"])
