"""A sweep on a real Ray cluster of two local nodes; `make test-ray` runs this alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pgrl_cli import sweep as sweeps
from pgrl_cli.cells import Sweep
from pgrl_cli.config.sweep_spec import read_sweep
from pgrl_cli.planning import planned
from pgrl_cli.stacks import train_stack

SWEEP = """
base: lecture/centered_clipped
parameters:
  delta_mode: [rewards, centered_rewards, normalized_rewards, max_rewards]
epochs: 250
seeds: 4
launcher: ray
"""


def test_ray_starts_the_cells_again_that_a_dying_node_took_with_it_and_they_end_with_the_same_bytes(tmp_path):
    pytest.importorskip("ray", reason="the extra pgrl-cli[ray]")
    (tmp_path / "grid.yaml").write_text(SWEEP)
    script = Path(__file__).with_name("sweep_while_a_node_dies.py")
    words = [sys.executable, str(script), str(tmp_path / "grid.yaml"), str(tmp_path / "runs")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    told = json.loads(line)
    assert (told["before"], told["after"]) == (2, 1)
    assert (
        len({*told["running"]} - {*told["pids"]}) == 1
    )  # of those who trained when the node died, it was the end of one
    sweep = Sweep(Path(told["sweep"]))
    assert [sweep.status(cell)["status"] for cell in sweep.cells] == ["completed"] * 4
    spec = read_sweep(str(tmp_path / "grid.yaml"))
    here = sweeps.begin(spec, planned(spec, 2), tmp_path / "here", ["pgrl"])
    for cell in here.cells:
        train_stack(
            here, cell.stack, [cell.id], pictures=False, watch=lambda done, reward: None, ended=lambda cell, book: None
        )
        ours, theirs = ((each.folder / cell.folder / "metrics.jsonl").read_bytes() for each in (here, sweep))
        assert ours == theirs
