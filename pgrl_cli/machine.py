"""This machine: its memory, the processors that a process may use, and which processes are there."""

import os
from pathlib import Path


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int | None:
    """Its bytes of memory; None where unknown, as on Windows."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None


def process_started(pid: int) -> int | None:
    """When a process started, in ticks since boot: tells two processes of one pid apart. None where unknown."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None
