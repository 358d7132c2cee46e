"""Children that begin at once: forked from a process that has imported what takes pgrl two seconds to import.

Each is a process of its own, with its own signals, files and end, and runs its module or script from the top. Python's
seed of hashes is shared by all: what must not depend on it is compared with a child that was started the long way.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

IMPORTED = (
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "pgrl_cli.cli",
    "pgrl_cli.cli_sweep",
    "pgrl_cli.console_sweep",
    "pgrl_cli.resuming",
    "pgrl_cli.sweep",
)


class Child:
    """What subprocess.Popen is to a child that it starts: its output, as text, is there once it has ended.

    `words` are what follows python on a command line: -m, a module and its words, or a script and its words. `log` gets
    all that it prints.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        log: Path | None = None,
        start_new_session: bool = False,
    ) -> None:
        self._files = [os.memfd_create("out"), os.memfd_create("err")] if log is None else [_opened(log), _opened(log)]
        self._texts = ["", ""]
        self._status, given = os.pipe()
        begin = {
            "words": [str(word) for word in words],
            "cwd": str(cwd or Path.cwd()),
            "session": start_new_session,
            "environment": dict(os.environ),
        }
        socket.send_fds(_nursery(), [json.dumps(begin).encode()], [*self._files, given])
        os.close(given)
        self.pid = int(self._line())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or minus the signal that killed it; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.returncode = int(self._line())
            self._texts = [os.pread(file, os.fstat(file).st_size, 0).decode() for file in self._files]
            for file in (*self._files, self._status):
                os.close(file)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended. Raises subprocess.TimeoutExpired."""
        if self.returncode is None and not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"child {self.pid}", timeout or 0.0)
        self.poll()
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it printed and what it told, when it has ended. Raises subprocess.TimeoutExpired."""
        self.wait(timeout)
        out, err = self._texts
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            more = os.read(self._status, 1)
            assert more, "the nursery has gone"
            line += more
        return line


def finished(words: Sequence[str], *, cwd: Path | None = None, timeout: float = 120.0) -> Child:
    """A child that has ended."""
    child = Child(words, cwd=cwd)
    child.wait(timeout)
    return child


def _opened(log: Path) -> int:
    return os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND)


@cache
def _nursery() -> socket.socket:
    """The way to this process's nursery, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    nursery = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(lambda: (ours.close(), nursery.wait()))
    return ours


def main(asked: socket.socket) -> None:
    """Fork children as they are asked for; in each of them, run what it was asked for."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    begin, (out, err, status) = _begun(asked)
    child = os.fork()
    if child:
        os.write(status, f"{child}\n".encode())
        os.write(status, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
        os._exit(0)
    _become(begin, out, err)
    first, *words = begin["words"]
    if first == "-m":
        sys.argv, sys.path[0] = words, begin["cwd"]
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [first, *words], str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


def _begun(asked: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """In the process that waits for a new child: what that is to be, and its files."""
    while True:
        message, files, *_ = socket.recv_fds(asked, 1 << 20, 3)
        with suppress(ChildProcessError):  # so that their time counts as ours
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            os._exit(0)
        if os.fork() == 0:
            asked.close()
            return json.loads(message), files
        for file in files:
            os.close(file)


def _become(asked: dict[str, Any], out: int, err: int) -> None:
    """Take over what subprocess.Popen would hand to a child."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, 64)
    if asked["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
