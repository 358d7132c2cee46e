"""How far a sweep has come, from what its launchers tell."""

from pathlib import Path

import pytest

from pgrl_cli.cells import Cell, Sweep
from pgrl_cli.launchers import Enough
from pgrl_cli.standing import watched

CONFIG = {"seed": 5, "seeds": 3, "epochs": 4, "steps_per_epoch": 10}


def cell(name: str, stack: int = 0) -> Cell:
    return Cell(name, name, f"cells/{name}", stack, 0, {}, CONFIG)


def ended(name: str, status: str = "completed") -> dict:
    return {
        "event": "cell",
        "id": name,
        "status": status,
        "error": "it broke" if status == "failed" else None,
        "log": None,
    }


def standing_of(*cells: Cell, fail_fast: bool = False):
    return watched(Sweep(Path("sweep")), cells, lambda standing, failed: None, fail_fast)


def test_epochs_of_a_stack_move_all_its_cells_on() -> None:
    standing, see = standing_of(cell("a"), cell("b"), cell("c", stack=1))
    assert (standing.cells, standing.runs, standing.steps) == (3, 9, 360)
    see({"event": "epoch", "stack": 0, "done": 1})
    assert standing.steps_done == 60
    see({"event": "epoch", "stack": 0, "done": 4})
    see(ended("a"))
    see(ended("b"))
    assert (standing.steps_done, standing.done, standing.share) == (240, 2, pytest.approx(2 / 3))


def test_a_launcher_that_tells_of_no_epochs_moves_it_on_when_cells_end() -> None:
    standing, see = standing_of(cell("a"), cell("b"))
    see(ended("a"))
    assert standing.steps_done == 120
    assert standing.steps_per_second > 0
    see(ended("b"))
    see({"event": "done", "stack": 0})
    assert (standing.steps_done, standing.share, standing.seconds_left) == (240, 1.0, 0.0)


def test_steps_that_a_failed_cell_did_not_take_are_not_counted_and_not_waited_for() -> None:
    standing, see = standing_of(cell("a"), cell("b"))
    see({"event": "epoch", "stack": 0, "done": 1})
    see(ended("a", "failed"))
    see({"event": "epoch", "stack": 0, "done": 4})
    see(ended("b"))
    assert (standing.steps_done, standing.share, standing.seconds_left) == (30 + 120, 1.0, 0.0)
    assert [(failed.cell.id, failed.error) for failed in standing.failed] == [("a", "it broke")]


def test_the_first_failure_is_enough_where_that_was_asked_for() -> None:
    _, see = standing_of(cell("a"), cell("b"), fail_fast=True)
    see(ended("a"))
    with pytest.raises(Enough):
        see(ended("b", "failed"))
