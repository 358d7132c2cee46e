import re
from itertools import groupby
from pathlib import Path

import pytest
from nursery import Child

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = ".venv/bin/python benchmarks/"
BENCHMARKS = [
    ("make seeds", "lecture_seeds.py", "--seeds 2 --epochs 10"),
    ("make bench", "one_run.py", "lecture/centered_clipped epochs=3 --pairs 1"),
    (
        PYTHON + "one_run.py --pairs 9 lecture/centered_clipped_kl",
        "one_run.py",
        "lecture/centered_clipped_kl epochs=3 --pairs 1",
    ),
    (PYTHON + "company.py", "company.py", "--seeds 2 --epochs 3"),
    (PYTHON + "many_runs.py where", "many_runs.py", "where --seeds 2 --epochs 2"),
    ("make bench-keeping", "keeping.py", "--pairs 1 --seeds 2 --epochs 4"),
    ("make bench-transformer", "transformer.py", "--pairs 1 --epochs 1 --tokens 2 --widths 8"),
    ("make bench-many", "many_runs.py", "seeds --seeds 2 --epochs 2 --pairs 1"),
    ("make bench-many", "many_runs.py", "grid --seeds 1 --epochs 2 --pairs 1"),
    ("make bench-many", "many_runs.py", "table --most 1 --epochs 2"),
]
"""What the README tells to type, the script behind it, and words that make it quick."""


def labels(text):
    """The lines without their numbers; of equal ones in a row, the first."""
    lines = (re.sub(r"[-+]?\d[\d,.]*%?|\bnone\b", "N", line) for line in text.splitlines())
    lines = (re.sub(r" +", " ", line).strip() for line in lines if line.strip())
    return [line for line, _ in groupby(lines) if not line.startswith(("```", "<!--"))]


def printed(command):
    """What stands below a command of the README, up to the next command or the end of what was printed."""
    _, typed, below = README.partition(f"```text\n{command}\n```\n")
    assert typed, f"the README does not tell to type {command}"
    return re.split(r"<!-- /|```text\n(?:make|\.venv)", below)[0]


@pytest.mark.parametrize(("command", "script", "words"), BENCHMARKS)
def test_a_benchmark_prints_what_stands_in_the_readme_under_its_command(command, script, words):
    ran = Child([str(ROOT / "benchmarks" / script), *words.split()])
    out, err = ran.communicate(timeout=300)
    assert ran.returncode == 0, err
    told, here = labels(printed(command)), labels(out)
    start = told.index(here[0])
    assert told[start : start + len(here)] == here
    if command != "make bench-many":  # that runs three
        assert told == here


@pytest.mark.parametrize(("command", "script", "words"), [b for b in BENCHMARKS if b[0].startswith("make ")])
def test_a_make_target_runs_its_benchmark(command, script, words):
    recipe = re.search(rf"^{command.split()[1]}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    mode = f" {words.split()[0]}\n" if script == "many_runs.py" else "\n"
    assert f"benchmarks/{script}{mode}" in recipe[1]
