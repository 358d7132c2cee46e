"""A process that runs a user's reward and nothing else: asked in lines of JSON, answering in lines of JSON.

    {"path": [...], "pythonpath": null}         ->   "ready", then "loaded"
    [[[3, 1, 2], [1, 1, 2]], ...]               ->   a number or a list of them for each case, as soon as it is there
    whatever goes wrong                         ->   {"error": "mine.py:4: ...", "traceback": "..."}, then no more

It ends when its input ends, or when the process that asks dies, even while the user's code holds the interpreter.
What the code prints goes to that process's standard error; it reads nothing. At SIGUSR1 it says in which line it is.
"""

import ctypes
import faulthandler
import io
import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from pgrl_cli.reward_calls import RewardError, answer, load, traceback_of

PR_SET_PDEATHSIG = 1
"""Of Linux: which signal a process gets when the one that started it dies."""


def main(asked: int, told: int, parent: int, path: Path, name: str) -> None:
    """Load the function and answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks, and it ends us
    end_with(parent)
    faulthandler.register(signal.SIGUSR1, file=told, all_threads=False)
    tell = _Teller(told)
    questions = os.fdopen(asked, "rb")
    for number in (asked, told):
        os.set_inheritable(number, False)  # what the user's code starts must not hold our pipes open
    hello = json.loads(questions.readline())
    if hello["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = hello["pythonpath"]
    sys.argv[:] = [str(path)]
    surroundings = _Surroundings([str(path.parent), *hello["path"]])
    surroundings.restore()
    tell("ready")
    try:
        points = load(path, name)
    except RewardError as error:
        tell.error(error)
        return
    tell("loaded")
    for line in questions:
        surroundings.restore()
        try:
            for prompt, response in json.loads(line):
                tell(answer(points, path, prompt, response))
        except RewardError as error:
            tell.error(error)


class _Teller:
    """Says lines of JSON to who asked; a copy of this process that the user's code made says nothing."""

    def __init__(self, told: int):
        self.told, self.process = told, os.getpid()

    def __call__(self, value: Any) -> None:
        if os.getpid() != self.process:
            os._exit(0)
        line = json.dumps(value).encode() + b"\n"
        while line:
            line = line[os.write(self.told, line) :]

    def error(self, error: RewardError) -> None:
        self({"error": str(error), "traceback": traceback_of(error)})


class _Voice(io.FileIO):
    """Where the user's code prints to; when nobody listens there any more, that is no fault of the reward."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            if (written := super().write(data)) is not None:
                return written
        return len(data)


class _Surroundings:
    """What a question may spoil, and the next one finds again: where it prints to, the working folder, the path."""

    def __init__(self, path: list[str]):
        self.path, self.printed = path, os.dup(2)  # descriptors 1 and 2 are the user's to close
        try:
            self.working: str | None = os.getcwd()  # noqa: PTH109 - to be handed back as it is
        except OSError:  # it has been deleted
            self.working = None
        sys.stdout = sys.stderr = None  # in their place come ones that lose no line when we are killed

    def restore(self) -> None:
        for stream in ("stdout", "stderr"):
            if getattr(getattr(sys, stream, None), "closed", True):
                setattr(sys, stream, self.voice())
        if self.working is not None:
            with suppress(OSError):
                os.chdir(self.working)
        sys.path = list(self.path)

    def voice(self) -> TextIO:
        raw = io.BufferedWriter(_Voice(self.printed, "wb", closefd=False))
        return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def end_with(parent: int) -> None:
    """See to it that this process does not outlive the one that started it."""
    try:
        promised = ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL)) == 0
    except (OSError, AttributeError):  # not on Linux
        promised = False
    if not promised:
        threading.Thread(target=end_after, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it died before we had asked
        os._exit(1)


def end_after(parent: int, every: float = 0.5) -> None:
    """Where the kernel does not do it: look now and then (only while the user's code lets other threads run)."""
    while os.getppid() == parent:
        time.sleep(every)
    os._exit(1)


if __name__ == "__main__":
    _asked, _told, _parent, _path, _name = sys.argv[1:]
    main(int(_asked), int(_told), int(_parent), Path(_path), _name)
