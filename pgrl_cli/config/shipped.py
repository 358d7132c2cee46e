"""The configs that come with the package, and finding one by path or by name."""

import os
import re
from pathlib import Path

from pgrl_cli.config.files import is_file, is_folder, no_file, opened
from pgrl_cli.config.problems import ConfigError, Problem, nearest, short

SWEEP_KEYS = ("parameters", "metric", "method", "samples", "sampling_seed", "launcher")
"""Keys that tell a sweep's file from a config."""
SWEEP_KEY = re.compile(rb"(?m)^[\"']?(" + "|".join(SWEEP_KEYS).encode() + rb")[\"']?[ \t]*:")
SEARCHED = 1 << 20
SENTENCE_END = re.compile(r"(?<!\bDr|\beq|\bal)\. ")
"""A full stop that ends a sentence: not that of Dr. GRPO, of eq. 3, nor of et al."""
PACKAGE = Path(__file__).resolve().parent.parent


def shipped_folder() -> Path:
    """Where the shipped configs lie: inside an installed package, beside it in a checkout."""
    inside = PACKAGE / "configs"
    return inside if inside.is_dir() else PACKAGE.parent / "configs"


def shipped_names() -> list[str]:
    """The names of the shipped configs, such as lecture/centered_clipped."""
    return [name for name in _names() if not is_sweep(shipped_folder() / f"{name}.yaml")]


def shipped_sweeps() -> list[str]:
    """The names of the shipped sweeps, such as findings/deltas."""
    return [name for name in _names() if is_sweep(shipped_folder() / f"{name}.yaml")]


def is_sweep(path: Path) -> bool:
    """Whether a file is a sweep's and not a config: some key of its own says so. Raises OSError."""
    with opened(path) as file:
        return SWEEP_KEY.search(file.read(SEARCHED)) is not None


def _names() -> list[str]:
    folder = shipped_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def find(name: str, beside: Path) -> Path:
    """The config at a path (relative to `beside`) or of a shipped name, with or without .yaml.

    Raises ConfigError that offers the nearest shipped name.
    """
    for folder in (beside, shipped_folder()):
        for candidate in (folder / name, folder / f"{name}.yaml"):
            if is_file(candidate):
                return candidate
    known = _names()
    shown = short(name)
    if why := no_file(beside / name):
        raise ConfigError([Problem(why, shown)])
    stem = name.removesuffix(".yaml").removeprefix("configs/")
    hint = nearest(stem, known) or " `pgrl config ls` lists those that are shipped."
    raise ConfigError([Problem(f"there is no such file, nor a shipped config of that name.{hint}", shown)])


def copy(name: str, dest: str) -> Path:
    """Copy a shipped config to a file, or into a folder, and return where it lies.

    Raises ConfigError where something is there already, or there is no such folder.
    """
    try:
        source = find(name, shipped_folder())
    except ConfigError as error:
        if is_file(Path(name)):
            told = f"is a file of yours, and this copies shipped configs only; copy it yourself: cp {name} {dest}"
            raise ConfigError([Problem(told, short(name))]) from error
        raise
    folder = is_folder(Path(dest)) or dest.endswith("/")
    target = Path(dest) / source.name if folder else Path(dest)
    if os.path.lexists(target):
        raise ConfigError([Problem("exists; nothing was copied", str(target))])
    if not is_folder(target.parent):
        raise ConfigError([Problem("there is no folder to copy into", str(target.parent))])
    schema = os.path.relpath(shipped_folder() / "schema.json", target.parent)
    target.write_text(source.read_text(encoding="utf-8").replace("../schema.json", schema), encoding="utf-8")
    return target


def first_comment(path: Path) -> str:
    """What a config is: the first sentence of its first comment."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# ") or line.startswith("# yaml-language-server"):
            break
        lines.append(line[2:].strip())
    return SENTENCE_END.split(" ".join(lines), maxsplit=1)[0].rstrip(".")
