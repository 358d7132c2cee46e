"""A sweep's cells as Ray tasks: Ray finds the machines, and starts again what a machine took with it when it died.

The sweep's folder must lie where every machine of the cluster can write to it.
"""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pgrl_cli.cells import Sweep
from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.launchers import Event, Job, See, closed, ended

RETRIES = 5
"""How often Ray starts a task again whose machine or process has died."""
PATIENCE = 0.5
"""Seconds between looks at what is done."""


def launch_on_ray(sweep: Sweep, jobs: Sequence[Job], see: See, *, pictures: bool) -> None:
    """Train stacks as Ray tasks of one processor each, on the cluster that RAY_ADDRESS names, else on this machine.

    Raises ConfigError where Ray is not installed. On Ctrl-C, or when `see` raises, the tasks are cancelled.
    """
    try:
        import ray
    except ImportError as error:
        told = "launcher: ray needs Ray: pip install 'pgrl-cli[ray]'"
        raise ConfigError([Problem(told, str(sweep.folder))]) from error
    if not ray.is_initialized():
        ray.init(
            address=os.environ.get("RAY_ADDRESS"),
            log_to_driver=False,
            include_dashboard=False,
            logging_level=logging.ERROR,
        )
    train = ray.remote(num_cpus=1, max_retries=RETRIES)(trained)
    folder = str(sweep.folder.resolve())
    waiting = {train.remote(folder, job.stack, job.wanted, pictures): job for job in jobs}
    try:
        while waiting:
            done, _ = ray.wait(list(waiting), timeout=PATIENCE)
            for task in done:
                job = waiting.pop(task)
                for event in _outcome(ray, task, sweep, job):
                    see(event)
    except BaseException:
        for task in waiting:
            with suppress(Exception):
                ray.cancel(task, force=True)
        raise


def trained(folder: str, stack: int, wanted: Sequence[str], pictures: bool) -> list[Event]:
    """What a task does: train a stack, and tell how its cells ended."""
    from pathlib import Path

    import torch

    from pgrl_cli.stacks import train_stack

    torch.set_num_threads(1)
    events: list[Event] = []

    train_stack(
        Sweep(Path(folder)),
        stack,
        wanted,
        pictures=pictures,
        watch=lambda done, mean_reward: None,
        ended=lambda cell, book: events.append(closed(cell, book)),
    )
    return [*events, {"event": "done", "stack": stack}]


def _outcome(ray: Any, task: Any, sweep: Sweep, job: Job) -> list[Event]:
    """How a task ended: what it tells, or, where Ray gave it up, that its cells have failed."""
    try:
        events: list[Event] = ray.get(task)
    except ray.exceptions.RayError as error:
        told = f"Ray gave its task up: {str(error).strip().splitlines()[0]}"
        events = []
        for cell in [cell for cell in sweep.stack(job.stack) if cell.id in job.wanted]:
            sweep.bury(cell, told)
            events.append(ended(cell, "failed", told, sweep.run(cell).log_file))
    return events
