"""What all tests share."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from pgrl_cli import notebook
from pgrl_cli.file_faults import PNG, PNG_END
from pgrl_cli.plots.run import Curves

torch.set_num_threads(1)  # on tensors this small two threads are up to ten times slower than one


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this process leave, for a picture, what it would show: drawing takes four fifths of a short run's time.

    So two of them are still the same bytes where the pictures would be. In float32, as which a file's decimals read
    back to the bit.
    """

    def told(curves: Curves, path: Path, *, title: str, maximum: float | None, failed: Sequence[int] = ()) -> None:
        series = {name: (one.steps.tolist(), one.values.astype("f").tolist()) for name, one in curves.items()}
        path.write_bytes(PNG + repr((title, maximum, list(failed), series)).encode() + PNG_END)

    monkeypatch.setattr(notebook, "draw", told)
