"""A config written to a file, and what becomes of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgrl_cli.config import ConfigError
from pgrl_cli.config.layers import layers_of
from pgrl_cli.resolution import Resolved, resolve


@pytest.fixture
def resolved(tmp_path: Path) -> Callable[..., Resolved]:
    """Resolves mine.yaml, of which the text is given, under overrides."""

    def resolved(text: str | bytes, *overrides: str) -> Resolved:
        (tmp_path / "mine.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return resolve(layers_of("mine.yaml", overrides, tmp_path))

    return resolved


@pytest.fixture
def problems(resolved: Callable[..., Resolved]) -> Callable[..., list[str]]:
    """What is wrong with mine.yaml, of which the text is given, under overrides."""

    def problems(text: str | bytes, *overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            resolved(text, *overrides)
        return [str(problem) for problem in caught.value.problems]

    return problems


@pytest.fixture
def value_of(resolved: Callable[..., Resolved]) -> Callable[..., Any]:
    """The value that a key has in the end."""

    def value_of(key: str, text: str, *overrides: str) -> Any:
        return resolved(text, *overrides).config.settings[key]

    return value_of
