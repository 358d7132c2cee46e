"""Child processes, as this system shows them: whether one has ended and how, and ending one with all it started."""

import os
import select
import signal
import subprocess
import time
from contextlib import suppress

SLICE = 0.1
"""Seconds between looks at whether a child still lives."""


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    return f"was killed by {name}" + (", perhaps for lack of memory" if -code == signal.SIGKILL else "")


def has_ended(process: int) -> bool:
    """Whether a child has ended, without burying it: until then its number, and its session's, are nobody else's."""
    if not hasattr(os, "waitid"):  # macOS: the end of its pipe says so
        return False
    try:
        return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def ready(reads: int, writes: int | None, seconds: float) -> set[int]:
    """Those of two descriptors that can be read and written, once one can or the time is over."""
    poll = select.poll()
    poll.register(reads, select.POLLIN)
    if writes is not None:
        poll.register(writes, select.POLLOUT)
    return {number for number, _ in poll.poll(1000 * seconds)}


def end(process: subprocess.Popen[bytes], asks: int, hears: int, owner: int, grace: float) -> None:
    """Let a process end, kill what is left of its session, and bury it."""
    if os.getpid() != owner:  # a copy of the process that started it
        return
    os.close(asks)
    ends = time.monotonic() + grace
    try:
        while (left := ends - time.monotonic()) > 0 and not has_ended(process.pid):
            if ready(hears, None, min(SLICE, left)) and not os.read(hears, 1 << 16):
                break  # nobody closes that pipe but the end of the process
    finally:  # also at a Ctrl-C
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(hears)
