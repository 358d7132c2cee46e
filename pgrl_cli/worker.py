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
from pathlib import Path
from typing import IO, Any, NoReturn

import orjson

from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.launchers import closed, ended
from pgrl_cli.secrecy import scrubbed
from pgrl_cli.stopping import Stop, stoppable


def main(folder: str) -> None:
    """Train what is asked for until the input ends."""
    with stoppable() as stop:
        try:
            _train_all(folder, stop)
        except KeyboardInterrupt as error:
            _leave(128 + getattr(error, "signal", signal.SIGINT))


def _train_all(folder: str, stop: Stop) -> None:
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

        def tell_end(cell: Cell, book: Any, open_cells: dict[str, Cell] = open_cells) -> None:
            open_cells.pop(cell.id, None)
            _tell(told, closed(cell, book))

        try:
            stop.check()
            train_stack(
                sweep,
                job["stack"],
                job["wanted"],
                pictures=job["pictures"],
                watch=watch,
                ended=tell_end,
                stop=stop,
                tell=_say,
            )
        except Exception as error:
            sys.stderr.write(scrubbed(traceback.format_exc()))
            for cell in open_cells.values():
                reason = f"{type(error).__name__}: {error}"  # it could not even begin
                sweep.bury(cell, reason)
                _tell(told, ended(cell, "failed", reason, sweep.run(cell).log_file))
        busy.clear()
        _tell(told, {"event": "done", "stack": job["stack"]})


def _say(note: str) -> None:
    sys.stderr.write(f"{note}\n")


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
