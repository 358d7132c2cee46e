import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "words", "told"),
    [
        ("one_run.py", ["lecture/centered_clipped", "epochs=3", "--pairs", "1"], "ratio"),
        ("lecture_seeds.py", ["--seeds", "2", "--epochs", "10"], "| `lecture/two_state` |"),
    ],
)
def test_a_benchmark_runs_and_prints_its_figures(script, words, told):
    ran = subprocess.run([sys.executable, BENCHMARKS / script, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert told in ran.stdout
