"""Opening hostile files the way people do, and what every answer must be: few lines, and soon."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from said import PLAIN, Said, pgrl_as_it_is

SECONDS = 5.0
MOST_LINES = 6
LONGEST = 5000
WITH_LITTLE_MEMORY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({bytes}, {bytes}))
from pgrl_cli.cli import app
app(sys.argv[1:])
"""
STRANGE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def pgrl(*words: str) -> Said:
    """A command in this process, which has little to say."""
    said = pgrl_at_length(*words)
    told = [line for line in said.err.splitlines() if not line.startswith(("note: ", "epoch "))]
    assert len(told) <= MOST_LINES, said
    return said


def pgrl_at_length(*words: str) -> Said:
    """A command in this process; it may tell many mistakes, each with a line."""
    began = time.perf_counter()
    said = pgrl_as_it_is(*words)
    seconds = time.perf_counter() - began
    assert seconds < SECONDS, seconds
    return bearable(said)


def pgrl_child(*words: str, gigabytes: float = 1.5, seconds: float = 20.0, input: bytes = b"") -> Said:
    """A command in a child process that has so much address space; its start counts."""
    code = WITH_LITTLE_MEMORY.format(bytes=int(gigabytes * 2**30))
    child = subprocess.run(
        [sys.executable, "-c", code, *words],
        input=input,
        capture_output=True,
        timeout=seconds,
        env=os.environ | {key: value or "" for key, value in PLAIN.items()} | {"OPENBLAS_NUM_THREADS": "1"},
    )
    return bearable(Said(child.returncode, child.stdout.decode(), child.stderr.decode()))


def bearable(said: Said) -> Said:
    """What was said, if it is in words and moves no cursor."""
    assert said.code in (0, 1, 2), said
    assert "Traceback" not in said.out + said.err, said
    assert not STRANGE.search(said.err), said
    assert len(said.err) <= LONGEST, said
    assert said.err or not said.code, said
    return said


def listing(folder: Path, but: str = "runs") -> set[str]:
    """All that lies in a folder, but for one folder in it, with sizes."""
    found = set()
    for place, folders, files in os.walk(folder):
        if Path(place) == folder and but in folders:
            folders.remove(but)
        for name in [*folders, *files]:
            path = Path(place) / name
            found.add(f"{path.relative_to(folder)} {path.lstat().st_size if name in files else ''}")
    return found
