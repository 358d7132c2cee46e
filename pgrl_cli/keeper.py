"""Checkpoints written in the background, one at a time: training never waits for the disk."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pgrl_cli.training import checkpoints
from pgrl_cli.training.snapshots import Checkpoint

REST = 5.0
"""Times as long as it took to write."""


class Keeper:
    """Writes checkpoints. One that still waits when a newer one comes is passed over.

    After a write it rests for five times as long, so that whoever trains keeps most of the interpreter. Where epochs
    are shorter than that (a few milliseconds), not every one that is due is written, and a kill costs so much more.
    """

    def __init__(self, folder: Path, keep: int):
        self.folder, self.number_kept = folder, keep
        """Where most of them go, and how many stay there: the newest."""
        self._turn = threading.Condition()
        self._waiting: tuple[Sequence[tuple[Path, Checkpoint]], Sequence[int]] | None = None
        self._busy = False
        self._awaited = False
        """Whether somebody waits for it, so that it must not rest."""
        self._closed = False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def keep(self, given: Sequence[tuple[Path, Checkpoint]], counting_on: Sequence[int] = ()) -> None:
        """Take checkpoints to write, each into its folder, and descriptors of files that they count on, to be closed.

        Raises what an earlier one ended with, such as OSError.
        """
        with self._turn:
            if self._error is not None:
                _close(counting_on)
                raise self._error
            if self._waiting is not None:
                _close(self._waiting[1])
            self._waiting = given, counting_on
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, daemon=True)
                self._thread.start()
            self._turn.notify_all()

    def settle(self) -> None:
        """Wait until all is on the disk. Raises what one ended with, such as OSError."""
        with self._turn:
            self._awaited = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._waiting is None and not self._busy)
            self._awaited = False
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """Let the last one be written, and end."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _write(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._waiting is not None or self._closed)
                if self._waiting is None:
                    return
                (given, counting_on), self._waiting, self._busy = self._waiting, None, True
            error, began = None, time.monotonic()
            try:
                checkpoints.write(given, counting_on)
                for folder in dict.fromkeys(folder for folder, _ in given):
                    checkpoints.thin_out(folder, self.number_kept)
            except Exception as found:  # whatever it is, who trains must hear of it
                error = found
            finally:
                _close(counting_on)
                with self._turn:
                    self._busy, self._error = False, self._error or error
                    self._turn.notify_all()
                    rest = REST * (time.monotonic() - began)
                    self._turn.wait_for(lambda: self._awaited or self._closed, timeout=rest)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
