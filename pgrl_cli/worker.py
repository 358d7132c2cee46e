"""A process that trains stacks of a sweep: told which on standard input, telling how it goes on standard output.

    {"stack": 3, "wanted": ["3fa9c1d2"], "pictures": false}   ->   {"event": "epoch", ...} ... {"event": "done"}

It ends when its input ends, so none is left when the sweep's own process dies; SIGINT ends it after the epoch that is
being written.
"""

import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import orjson

from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.reward_process import give_up


def main(folder: str) -> None:
    """Train what is asked for until the input ends."""
    stop = give_up  # also ends the wait for a reward that hangs
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    busy = threading.Event()
    jobs = _jobs(busy, os.dup(0))
    told = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a reward that asks for input must not read our jobs
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what others print must not come between our lines
    import torch

    from pgrl_cli.stacks import train_stack

    torch.set_num_threads(1)
    sweep = Sweep(Path(folder))
    for job in jobs:
        open_cells = {cell.id: cell for cell in sweep.stack(job["stack"]) if cell.id in job["wanted"]}

        def watch(done: int, mean_reward: float, job: dict[str, Any] = job) -> None:
            _tell(told, {"event": "epoch", "stack": job["stack"], "done": done})
            if stop.is_set():
                raise KeyboardInterrupt

        def ended(cell: Cell, book: Any, open_cells: dict[str, Cell] = open_cells) -> None:
            open_cells.pop(cell.id, None)
            error = None if book.error is None else book.told
            failed = len(book.failures)
            _tell(told, {"event": "cell", "id": cell.id, "status": book.status, "error": error, "failed_seeds": failed})

        try:
            if stop.is_set():
                raise KeyboardInterrupt
            train_stack(sweep, job["stack"], job["wanted"], pictures=job["pictures"], watch=watch, ended=ended)
        except KeyboardInterrupt:
            _leave(130)
        except Exception as error:
            traceback.print_exc()
            for cell in open_cells.values():
                _bury(told, sweep, cell, f"{type(error).__name__}: {error}")
        busy.clear()
        _tell(told, {"event": "done", "stack": job["stack"]})


def _bury(told: IO[bytes], sweep: Sweep, cell: Cell, error: str) -> None:
    """A cell that could not even begin has failed."""
    with suppress(OSError):
        folder = sweep.run(cell)
        folder.folder.mkdir(parents=True, exist_ok=True)
        folder.mark("failed", exit_code=1, error=error)
    _tell(told, {"event": "cell", "id": cell.id, "status": "failed", "error": error, "failed_seeds": 0})


def _leave(code: int) -> NoReturn:
    """End at once: at an ordinary end the interpreter would wait for the thread that listens."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _jobs(busy: threading.Event, asked: int) -> Iterator[dict[str, Any]]:
    """The jobs as they come. When the input ends during one, whoever asked for it is gone: so are we."""
    waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def listen() -> None:
        with os.fdopen(asked, "rb") as lines:
            for line in lines:
                busy.set()
                waiting.put(line)
        if busy.is_set():
            os._exit(1)
        waiting.put(None)

    threading.Thread(target=listen, daemon=True).start()
    return (orjson.loads(line) for line in iter(waiting.get, None) if line is not None)


def _tell(told: IO[bytes], event: dict[str, Any]) -> None:
    try:
        told.write(orjson.dumps(event) + b"\n")
    except BrokenPipeError:  # whoever asked is gone
        _leave(1)


if __name__ == "__main__":
    main(sys.argv[1])
    _leave(0)
