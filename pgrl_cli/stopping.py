"""Being asked to stop: a signal lets the epoch that is under way end, unless that takes too long."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE = 1.0
"""Seconds that an epoch may take to end after a signal, before it is broken off."""
LEAVING = threading.Event()
"""Whether a signal has made somebody leave, who is on the way out by now."""


class Stopped(KeyboardInterrupt):
    """Asked to stop by a signal."""

    def __init__(self, number: int = signal.SIGINT):
        super().__init__("interrupted")
        self.signal = int(number)


class Stop:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.leaving = False
        """Whether Stopped was raised: what is left to do is short, and must not be broken off."""
        self._waits = False
        self._late = False
        """Whether patience was lost while that had to wait."""

    def check(self) -> None:
        """Between two epochs: stop here if asked to. Raises Stopped."""
        if self.signal is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.leave(self.signal)

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """What is done while it is entered is short, and whole or not done: Stopped is raised after it."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
        if self._late:
            self.lose_patience()

    def lose_patience(self) -> None:
        """Stop wherever this is, unless that must wait or has begun. Raises Stopped."""
        self._late = self._waits
        if not self._waits and not self.leaving:
            self.leave(self.signal or signal.SIGINT)

    def leave(self, number: int) -> NoReturn:
        """Stop here. Raises Stopped."""
        self.leaving = True
        LEAVING.set()
        raise Stopped(number)


@contextmanager
def raising() -> Iterator[None]:
    """While it is entered, SIGTERM and SIGHUP raise Stopped, as SIGINT raises KeyboardInterrupt."""

    def stop(number: int, _: FrameType | None) -> None:
        LEAVING.set()
        raise Stopped(number)

    with _handled(stop, [number for number in ASKING if number != signal.SIGINT]):
        yield


@contextmanager
def one_stop() -> Iterator[None]:
    """While it is entered, a signal that asks to stop raises Stopped (SIGINT KeyboardInterrupt), unless one has done so
    before: how to go on can then be told in peace.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        if LEAVING.is_set():
            return
        if number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        raise Stopped(number)

    LEAVING.clear()
    with _handled(stop, ASKING):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None], numbers: Sequence[int]) -> Iterator[None]:
    """While it is entered, signals go to a handler: in the main thread, and unless they were ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asking = [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handler) for number in asking}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def stoppable() -> Iterator[Stop]:
    """While it is entered, SIGINT, SIGTERM and SIGHUP are noted; no end in time raises Stopped.

    Signals reach the main thread alone: in another one nothing is changed.
    """
    stop = Stop()

    def ask(number: int, _: FrameType | None) -> None:
        if stop.signal is not None:  # more of them change nothing: patience ends by itself
            return
        stop.signal = number
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def lose_patience(*_: Any) -> None:
        stop.lose_patience()

    with _handled(ask, ASKING), _handled(lose_patience, [signal.SIGALRM]):
        try:
            yield stop
        finally:
            if stop.signal is not None:
                signal.setitimer(signal.ITIMER_REAL, 0)
