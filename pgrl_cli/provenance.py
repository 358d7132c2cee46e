"""What a run is made with: versions, the platform, and the git commit of the working folder."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pgrl_cli import __version__

PACKAGES = ("torch", "numpy", "einops", "typer", "rich", "pydantic", "orjson", "PyYAML", "matplotlib")


def provenance() -> dict[str, Any]:
    """What the run was made with; never the environment."""
    return {
        "pgrl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "git": _git(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git() -> dict[str, Any] | None:
    """The commit that the working folder is at, and whether anything tracked differs from it."""
    try:
        commit = _git_says("rev-parse", "HEAD").strip()
        return {"commit": commit, "dirty": bool(_git_says("status", "--porcelain", "--untracked-files=no").strip())}
    except (OSError, subprocess.SubprocessError):
        return None


def _git_says(*words: str) -> str:
    asked = ["git", "--no-optional-locks", *words]
    return subprocess.run(asked, capture_output=True, text=True, errors="replace", check=True, timeout=5).stdout
