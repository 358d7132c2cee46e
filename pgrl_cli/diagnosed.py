"""A diagnosis written into a folder: the numbers, a page to read, and pictures."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pgrl_cli.config.files import content
from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.folders import naming
from pgrl_cli.plots.delta_modes import draw_delta_modes
from pgrl_cli.plots.kl_terms import draw_kl_terms
from pgrl_cli.plots.losses import draw_losses
from pgrl_cli.plots.style import refuse_strangers as refuse_strange_picture
from pgrl_cli.readings import page
from pgrl_cli.runs import write_whole
from pgrl_cli.small_files import Unreadable, json_of

NUMBERS, PAGE = "diagnosis.json", "diagnosis.md"
PICTURES: Mapping[str, tuple[str, Callable[..., None]]] = {
    "delta_modes": ("delta_modes.png", draw_delta_modes),
    "losses": ("losses.png", draw_losses),
    "kl": ("kl.png", draw_kl_terms),
}
"""By the section of a diagnosis that they show."""


def write(folder: Path, found: Mapping[str, Any]) -> list[Path]:
    """Write a diagnosis into a folder, which is made where there is none; the files.

    Raises OSError, and ConfigError where files lie that are not a diagnosis's.
    """
    refuse_strangers(folder)
    folder.mkdir(parents=True, exist_ok=True)
    title = page.title(found)
    for name, draw in PICTURES.values():
        draw(found, folder / name, title=title)
    names = {section: name for section, (name, _) in PICTURES.items()}
    texts: dict[str, str | Mapping[str, Any]] = {NUMBERS: found, PAGE: page.markdown(found, names)}
    for name, text in texts.items():
        with naming(folder / name):
            write_whole(folder / name, text)
    return [folder / name for name in (NUMBERS, PAGE, *names.values())]


def refuse_strangers(folder: Path) -> None:
    """Refuse a folder where files lie that no diagnosis has written; its own it may overwrite. Raises ConfigError."""
    if folder.is_dir():
        _refuse(folder / NUMBERS, _is_diagnosis)
        _refuse(folder / PAGE, _is_page)
        for name, _ in PICTURES.values():
            refuse_strange_picture(folder / name)
        return
    above = next(path for path in (folder, *folder.parents) if path.exists() or path.is_symlink())
    if not above.is_dir():
        raise ConfigError([Problem(f"{above} is no folder", "--out")])


def _refuse(path: Path, is_own: Callable[[Path], bool]) -> None:
    if path.is_dir() or (path.exists() and not is_own(path)):
        told = "is there, and was not written by pgrl diagnose: name another folder with --out, or move it away"
        raise ConfigError([Problem(told, str(path))])


def _is_diagnosis(path: Path) -> bool:
    try:
        told = json_of(path)
    except Unreadable:
        return False
    return isinstance(told, dict) and {"subject", "truth", "delta_modes", "traps"} <= told.keys()


def _is_page(path: Path) -> bool:
    return content(path).startswith(page.MARK.encode())
