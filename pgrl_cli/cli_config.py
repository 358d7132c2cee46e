"""A config as commands take it: how it is named, what wins over it, and what it comes to."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.config.shipped import find, is_sweep, shipped_names, shipped_sweeps
from pgrl_cli.console import note

if TYPE_CHECKING:
    from pgrl_cli.resolution import Resolved


def config_names(incomplete: str) -> list[str]:
    """What the shell offers for a config: shipped names, and YAML files that begin like this."""
    folders = [f"{path}/" for path in Path().glob(f"{incomplete}*/") if not path.name.startswith(".")]
    files = [*folders, *(str(path) for path in Path().glob(f"{incomplete}*.yaml"))]
    return [*files, *(name for name in [*shipped_names(), *shipped_sweeps()] if name.startswith(incomplete))]


ConfigName = Annotated[
    str | None,
    typer.Option("--config", "-c", help="The experiment: a YAML, or a shipped name.", autocompletion=config_names),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Values that win over the file's, such as epochs=50."),
]


def resolved_config(config: str, overrides: list[str] | None) -> "Resolved":
    """The config, ready to run; its notes are told. Raises ConfigError, also for a sweep."""
    from pgrl_cli.config.layers import layers_of
    from pgrl_cli.resolution import resolve

    layers = layers_of(config, overrides or [])
    if not layers.problems and is_sweep(find(config, Path.cwd())):
        fix = f"pgrl sweep --config {config} trains it, with --dry-run it shows its cells"
        raise ConfigError([Problem(f"is a sweep: {fix}", config)])
    ready = resolve(layers)
    for each in ready.notes:
        note(each)
    return ready
