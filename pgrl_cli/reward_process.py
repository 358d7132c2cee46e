"""The process that runs a user's reward, as seen by the one that asks it: started, asked, waited for, ended.

What hangs is killed after its time, what dies is told by how it ended, and Ctrl-C interrupts the waiting at once.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pgrl_cli
from pgrl_cli.processes import SLICE, end, ending, has_ended, ready
from pgrl_cli.reward_calls import Answer, RewardError, told_case

START = 60.0
"""Seconds that Python may take to start, before the user's file is loaded."""
GRACE = 2.0
"""Seconds that the user's code may take to end by itself, to close its files, when it has nothing more to do."""
MANY = 100
"""Answers still to come from which on they are gathered for a moment: reading each by itself takes longer."""
Case = tuple[Sequence[int], Sequence[int]]
"""A prompt and a response."""


class Lost(RewardError):
    """A reward whose process hung or died."""


class Hung(Lost):
    """A reward that gave no answer in its time; with more time it might."""


class FromTheUsersCode(Exception):
    """The traceback of what a user's reward raised in its own process: the cause of the error that is told here."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


class RewardProcess:
    """Runs one function of a user's file in a session of its own, until it is closed or no longer referred to."""

    def __init__(self, path: Path, name: str):
        self.path, self.name = path, name
        asked, self._asks = os.pipe()
        self._hears, tells = os.pipe()
        try:
            self._process = _started([str(asked), str(tells), str(os.getpid()), str(path), name], (asked, tells))
        except BaseException as error:
            os.close(self._asks)
            os.close(self._hears)
            if isinstance(error, OSError):
                raise RewardError(f"{path}: the process for {name!r} did not start: {error}") from error
            raise
        finally:
            os.close(asked)
            os.close(tells)
        os.set_blocking(self._asks, False)
        self._unsent = b""
        self._torn = b""
        self._lines: deque[bytes] = deque()
        self._end = weakref.finalize(self, end, self._process, self._asks, self._hears, os.getpid(), GRACE)

    @property
    def open(self) -> bool:
        """Whether it can be asked."""
        return self._end.alive and not has_ended(self._process.pid)

    def close(self) -> None:
        """Let it end; whatever of its session is left then is killed."""
        self._end()

    def kill(self) -> None:
        """End it now, and all that it has started."""
        if detached := self._end.detach():
            process, asks, hears, owner, _ = detached[2]
            end(process, asks, hears, owner, grace=0.0)

    def load(self, timeout: float) -> None:
        """Load the file. Raises RewardError where that fails, or takes too long once Python has started."""
        path = [word for word in sys.path if isinstance(word, str)]
        self._send({"path": path, "pythonpath": os.environ.get("PYTHONPATH")})
        try:
            for limit in (max(START, timeout), timeout):  # until it is "ready", until the file is "loaded"
                self._heard(limit)
        except (TimeoutError, EOFError) as error:
            loading = f"loading {self.name!r}"
            late = f"{loading} took longer than {timeout:g} s (reward_timeout)."
            lost = self._lost(error, late, f"{loading} failed: its process")
            raise lost from lost.__cause__
        except BaseException:
            self.kill()
            raise

    def answers(self, cases: Sequence[Case], timeout: float) -> Iterator[Answer]:
        """What the function says of each case, as they come. Raises RewardError where one fails or takes too long."""
        self._send(cases)
        asked = 0
        try:
            for asked in range(len(cases)):
                yield self._heard(timeout, gather=len(cases) - asked > MANY)
        except (TimeoutError, EOFError) as error:
            case = told_case(*map(list, cases[asked]))
            late = f"the reward gave no answer {case} within {timeout:g} s (reward_timeout); {self.name} was ended."
            lost = self._lost(error, late, f"the reward failed {case}: the process of {self.name}")
            raise lost from lost.__cause__
        except RewardError:
            raise
        except BaseException:  # Ctrl-C, or whoever asks wants no more: what is still said would be taken for an answer
            self.kill()
            raise

    def _send(self, request: Any) -> None:
        self._unsent = json.dumps(request).encode() + b"\n"

    def _heard(self, timeout: float, gather: bool = False) -> Any:
        """The next thing it says. Raises RewardError for a fault of the user's, TimeoutError, and EOFError."""
        ends = time.monotonic() + timeout
        while not self._lines:
            late = time.monotonic() >= ends  # what came while we were held up ourselves still counts
            if not self._exchange(SLICE if ends - time.monotonic() > SLICE else max(0.0, ends - time.monotonic())):
                if late:
                    raise TimeoutError
            elif gather:
                time.sleep(0.0005)
        said = json.loads(self._lines.popleft())
        if isinstance(said, dict):
            cause = FromTheUsersCode(said["traceback"]) if said["traceback"] else None
            raise RewardError(said["error"]) from cause
        return said

    def _exchange(self, seconds: float) -> bool:
        """Wait until something can be sent or read, and do it; whether there was. Raises EOFError when it has gone."""
        gone = has_ended(self._process.pid)
        there = ready(self._hears, self._asks if self._unsent else None, 0.0 if gone else seconds)
        if self._asks in there:
            try:
                self._unsent = self._unsent[os.write(self._asks, self._unsent) :]
            except BrokenPipeError:  # it has gone, or closed everything; the other pipe says so
                self._unsent = b""
        if self._hears in there:
            read = os.read(self._hears, 1 << 16)
            if not read:
                raise EOFError
            *lines, self._torn = (self._torn + read).split(b"\n")
            self._lines.extend(lines)
        elif gone:  # what it has started may hold the pipe open
            raise EOFError
        return bool(there)

    def _lost(self, error: Exception, late: str, failed: str) -> Lost:
        """What is told of a process that is silent or has gone; it is ended."""
        if isinstance(error, TimeoutError):
            stack = self._stack()
            self.kill()
            found = re.search(rf'File "{re.escape(str(self.path))}", line (\d+)', stack)
            lost: Lost = Hung(f"{self.path}{f':{found[1]}' if found else ''}: {late}")
            lost.__cause__ = FromTheUsersCode(stack) if stack else None
            return lost
        ends = time.monotonic() + GRACE
        while not (ended := has_ended(self._process.pid)) and time.monotonic() < ends:
            time.sleep(0.001)
        self.kill()
        told = ending(self._process.returncode) if ended else "closed the pipe that it answers on"
        return Lost(f"{self.path}: {failed} {told}.")

    def _stack(self) -> str:
        """Where its code is just now, as faulthandler tells it even of one that holds the interpreter."""
        with suppress(OSError):
            os.kill(self._process.pid, signal.SIGUSR1)
        text = b""
        while ready(self._hears, None, 0.05 if text else 0.5) and (read := os.read(self._hears, 1 << 16)):
            text += read
        return text.decode(errors="replace")


def _started(words: Sequence[str], passed: tuple[int, int]) -> subprocess.Popen[bytes]:
    """The process; what it prints goes to our standard error, where we have one."""
    package = str(Path(pgrl_cli.__file__).parents[1])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    prints = subprocess.DEVNULL if sys.__stderr__ is None else 2  # without one, descriptor 2 may be a file of ours
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pgrl_cli.reward_worker", *words],
        stdin=subprocess.DEVNULL,
        stdout=prints,
        stderr=prints,
        pass_fds=passed,
        start_new_session=True,  # a Ctrl-C at the terminal reaches us alone, and what it starts can be killed with it
        env=os.environ | {"PYTHONPATH": path},
    )
