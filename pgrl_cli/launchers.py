"""Who trains a sweep's stacks: processes of this machine, one thread each, told and heard over pipes."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import pgrl_cli
from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.processes import ending

if TYPE_CHECKING:
    from pgrl_cli.notebook import Notebook

GRACE = 20.0
"""Seconds that a child without work may take to end."""
PATIENCE = 10.0
"""Seconds that children at work have to end once one failure is enough."""
DRAIN = 2.0
"""Seconds for the last words of a child that has ended: what it left running may hold its pipe open for ever."""
Event = dict[str, Any]
See = Callable[[Event], None]
"""Is told of epochs, of cells that ended, and of stacks that are done; may raise to stop everything."""


@dataclass(frozen=True)
class Job:
    """One stack to train."""

    stack: int
    wanted: tuple[str, ...]
    """The ids of its cells that are to be written."""
    log: str
    """The name of the log of a process of its own."""


def ended(cell: Cell, status: str, error: str | None, log: Path) -> Event:
    """The event of a cell that has ended, with the log that says more, if there is one."""
    there = str(log) if log.exists() else None
    return {"event": "cell", "id": cell.id, "status": status, "error": error, "log": there}


def closed(cell: Cell, book: "Notebook") -> Event:
    """The event of a cell whose notebook is closed."""
    return ended(cell, book.status, None if book.error is None else book.told, book.folder.log_file)


class Enough(Exception):
    """Raised by who sees the events: the rest need not be trained."""


def launch(
    sweep: Sweep,
    jobs: Sequence[Job],
    see: See,
    *,
    processes: int,
    pictures: bool,
    own_process: bool,
    holding: int | None = None,
) -> None:
    """Train stacks in so many processes side by side; with `own_process` each has a fresh one, and a log of its own.

    A process that dies fails its own cells and no others. On Ctrl-C, or when anything raises, such as `see`, the
    children finish the epoch they write, mark their cells and end; Ctrl-C once more kills them. None is left.
    """
    crew = _Crew(sweep, deque(jobs), see, pictures, own_process, holding)
    try:
        crew.work(processes)
    except BaseException as error:
        try:
            crew.stop(PATIENCE if isinstance(error, Enough) else None)
        except KeyboardInterrupt:
            crew.kill()
        raise
    finally:
        crew.leave()


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    log: str
    job: Job | None = None
    open: set[str] = field(default_factory=set)
    """The ids of the job's cells that have not ended."""
    waiter: threading.Thread | None = None
    """Waits for it to end."""
    dismissed: bool = False
    """Whether it has been told that there is nothing more to do."""

    def give(self, job: Job, pictures: bool) -> None:
        self.job, self.open = job, set(job.wanted)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died; its end of the other pipe says so
            self.process.stdin.write(
                orjson.dumps({"stack": job.stack, "wanted": job.wanted, "pictures": pictures}) + b"\n"
            )
            self.process.stdin.flush()


class _Crew:
    """The children, what waits to be done, and what has been heard."""

    def __init__(
        self, sweep: Sweep, waiting: deque[Job], see: See, pictures: bool, own_process: bool, holding: int | None
    ):
        self.sweep, self.waiting, self.see, self.pictures, self.own_process = sweep, waiting, see, pictures, own_process
        self.holding = () if holding is None else (holding,)
        """What a child inherits, so that the folder is held until the last one has gone."""
        self.children: list[_Child] = []
        self.heard: queue.SimpleQueue[tuple[_Child, Event | None]] = queue.SimpleQueue()
        self.started = 0
        self.stopping = False

    def work(self, processes: int) -> None:
        while self.waiting or self.busy():
            while self.waiting and len(self.busy()) < processes:
                job = self.waiting.popleft()
                idle = [child for child in self.children if child.job is None and not child.dismissed]
                (idle[0] if idle else self.start(job)).give(job, self.pictures)
            self.hear()

    def busy(self) -> list[_Child]:
        return [child for child in self.children if child.job is not None]

    def start(self, job: Job) -> _Child:
        self.started += 1
        name = job.log if self.own_process else f"worker-{self.started}"
        package = str(Path(pgrl_cli.__file__).parents[1])
        path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        with self.sweep.open_log(name) as stderr:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pgrl_cli.worker", str(self.sweep.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                pass_fds=self.holding,
                start_new_session=True,  # a Ctrl-C at the terminal reaches us alone, and we decide
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
            )
        child = _Child(process, name)
        self.children.append(child)
        listener = threading.Thread(target=self.listen, args=(child,), daemon=True)
        waiter = threading.Thread(target=self.await_end, args=(child, listener), daemon=True)
        child.waiter = waiter
        listener.start()
        waiter.start()
        return child

    def listen(self, child: _Child) -> None:
        assert child.process.stdout is not None
        with child.process.stdout as lines:
            for line in lines:
                with suppress(orjson.JSONDecodeError):  # the last line of one that was killed
                    self.heard.put((child, orjson.loads(line)))

    def await_end(self, child: _Child, listener: threading.Thread) -> None:
        """Wait for a child to end, end what it has left running, and say that it has gone."""
        with suppress(OSError):  # ended and not yet waited for, its number is nobody else's
            os.waitid(os.P_PID, child.process.pid, os.WEXITED | os.WNOWAIT)
            os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait()
        listener.join(DRAIN)
        self.heard.put((child, None))

    def hear(self, patience: float | None = None) -> None:
        """Take in the next thing that a child says, or that it has gone. Raises queue.Empty after so many seconds."""
        child, event = self.heard.get(timeout=patience)
        if child not in self.children:
            return  # said by what it left running
        if event is None:
            self.children.remove(child)
            self.dismiss(child)
            job, child.job = child.job, None
            if job is not None:
                self.bury(child, job)
            return
        if event["event"] == "cell":
            child.open.discard(event["id"])
            if event["error"] is not None and event["log"] is None:  # it has not begun a log of its own
                event["log"] = str(self.sweep.log(child.log))
        if event["event"] == "done":
            child.job = None
            if self.own_process:
                self.dismiss(child)
        self.see(event)

    def bury(self, child: _Child, job: Job) -> None:
        """A child has gone with work undone: its open cells have failed, unless it was asked to stop."""
        code = child.process.returncode
        if self.stopping:
            return
        told, log = f"its process {ending(code)}", self.sweep.log(child.log)
        lost = [cell for cell in self.sweep.stack(job.stack) if cell.id in child.open]
        for cell in lost:
            self.sweep.bury(cell, f"{told}; what it said last is in {log}", exit_code=code)
        for cell in lost:
            self.see(ended(cell, "failed", told, log))

    def dismiss(self, child: _Child) -> None:
        child.dismissed = True
        assert child.process.stdin is not None
        with suppress(OSError):
            child.process.stdin.close()

    def stop(self, patience: float | None) -> None:
        """Ask the children to stop, and wait until they have; after so many seconds they are killed."""
        self.stopping = True
        self.waiting.clear()
        for child in self.busy():
            child.process.send_signal(signal.SIGINT)
        if patience is None and self.busy():
            with suppress(Exception):
                self.see({"event": "stopping"})
        deadline = None if patience is None else time.monotonic() + patience
        while self.busy():
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                self.hear(left)
            except queue.Empty:
                self.kill()
                deadline = None
            except Exception:  # of who sees the events, and has been heard already
                continue

    def kill(self) -> None:
        for child in self.children:
            with suppress(OSError):
                os.killpg(child.process.pid, signal.SIGKILL)

    def leave(self) -> None:
        """See to it that no child is left."""
        for child in list(self.children):
            self.dismiss(child)
        for child in list(self.children):
            assert child.waiter is not None
            with suppress(KeyboardInterrupt):
                child.waiter.join(GRACE)
            if child.waiter.is_alive():
                self.kill()
                child.waiter.join()
