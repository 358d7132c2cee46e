"""Looking for processes, so that tests can say that none is left."""

import time
from pathlib import Path


def naming(word):
    """The processes whose command line holds a word, such as a test's own folder; those that are being buried not."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(word).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def wait_until(true, seconds=20.0):
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.02)
