"""Being asked to stop: a signal lets the epoch that is under way end, unless that takes too long."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ASKING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
PATIENCE = 1.0
"""Seconds that an epoch may take to end after a signal, before it is broken off."""


class Stopped(KeyboardInterrupt):
    """Asked to stop by a signal."""

    def __init__(self, number: int = signal.SIGINT):
        super().__init__("interrupted")
        self.signal = int(number)


class Stop:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def check(self) -> None:
        """Between two epochs: stop here if asked to. Raises Stopped."""
        if self.signal is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)  # what is left to do is short, and must not be broken off
            raise Stopped(self.signal)


@contextmanager
def stoppable() -> Iterator[Stop]:
    """While it is entered, SIGINT, SIGTERM and SIGHUP are noted; a second one, or no end in time, raises Stopped.

    Signals reach the main thread alone: in another one nothing is changed.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, _: FrameType | None) -> None:
        if stop.signal is not None:
            raise Stopped(stop.signal)
        stop.signal = number
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def lose_patience(*_: Any) -> None:
        raise Stopped(stop.signal or signal.SIGINT)

    # A signal that was ignored when we began (nohup) stays so.
    asking = [number for number in ASKING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, ask) for number in asking}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lose_patience)
    try:
        yield stop
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
