"""What tests of pictures share."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that is saved from now on."""
    kept: list[Figure] = []
    save = Figure.savefig

    def savefig(figure: Figure, *words: object, **more: object) -> None:
        kept.append(figure)
        save(figure, *words, **more)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return kept
