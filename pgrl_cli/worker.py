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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from pgrl_cli.cells import Cell, Sweep


def main(folder: str) -> None:
    """Train what is asked for until the input ends."""
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    busy = threading.Event()
    jobs = _jobs(busy)
    told = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what others print must not come between our lines
    import torch

    from pgrl_cli.stacks import train_stack

    torch.set_num_threads(1)
    sweep = Sweep(Path(folder))
    for job in jobs:

        def watch(done: int, mean_reward: float, job: dict[str, Any] = job) -> None:
            _tell(told, {"event": "epoch", "stack": job["stack"], "done": done})
            if stop.is_set():
                raise KeyboardInterrupt

        def ended(cell: Cell, book: Any) -> None:
            error = None if book.error is None else book.told
            failed = len(book.failures)
            _tell(told, {"event": "cell", "id": cell.id, "status": book.status, "error": error, "failed_seeds": failed})

        try:
            if stop.is_set():
                raise KeyboardInterrupt
            train_stack(sweep, job["stack"], job["wanted"], pictures=job["pictures"], watch=watch, ended=ended)
        except KeyboardInterrupt:
            sys.exit(130)
        busy.clear()
        _tell(told, {"event": "done", "stack": job["stack"]})


def _jobs(busy: threading.Event) -> Iterator[dict[str, Any]]:
    """The jobs as they come. When the input ends during one, whoever asked for it is gone: so are we."""
    waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            busy.set()
            waiting.put(line)
        if busy.is_set():
            os._exit(1)
        waiting.put(None)

    threading.Thread(target=listen, daemon=True).start()
    return (orjson.loads(line) for line in iter(waiting.get, None) if line is not None)


def _tell(told: IO[bytes], event: dict[str, Any]) -> None:
    told.write(orjson.dumps(event) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
