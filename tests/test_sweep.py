"""Sweeps as people run them: in child processes, killed, interrupted, resumed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from nursery import Child
from processes import naming, wait_until
from typer.testing import CliRunner

from pgrl_cli import experiment, runs
from pgrl_cli import sweep as sweeps
from pgrl_cli.cells import Sweep
from pgrl_cli.cli import app
from pgrl_cli.config import ConfigError
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.sweep_spec import read_sweep
from pgrl_cli.experiment import run
from pgrl_cli.planning import planned
from pgrl_cli.reopening import reopened
from pgrl_cli.resolution import resolve
from pgrl_cli.results import Found, read
from pgrl_cli.stacks import train_stack
from pgrl_cli.training.checkpoints import places
from pgrl_cli.verification import faults_of

GRID = """
base: lecture/centered_clipped
parameters:
  delta_mode: [rewards, centered_rewards]
  loss_mode: [naive, clipped]
epochs: 3
steps_per_epoch: 2
seeds: 3
"""
LONG = GRID.replace("epochs: 3", "epochs: 400")
FOUR_SEEDS = "base: lecture/centered_naive\nparameters:\n  reward_fn: {}\nepochs: 3\nseeds: 4\n"
BYTES = ("metrics.jsonl", "samples.jsonl", "train.log", "config.yaml")


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def begun(text, processes=2, name="grid.yaml"):
    """A sweep's folder, as it is before the first cell starts."""
    Path(name).write_text(text)
    spec = read_sweep(name)
    return sweeps.begin(spec, planned(spec, processes), Path("runs"), ["pgrl"])


def trained_here(sweep, wanted=None):
    """Train a sweep's stacks in this process."""
    cells = sweep.cells if wanted is None else wanted
    ids = {cell.id for cell in cells}
    ended = []
    for number in sorted({cell.stack for cell in cells}):
        train_stack(
            sweep,
            number,
            ids,
            pictures=False,
            watch=lambda done, reward: None,
            ended=lambda cell, _: ended.append(cell),
        )
    return ended


def test_a_stack_that_must_start_over_keeps_what_it_had(tmp_path):
    whole, broken = (begun(GRID.replace("epochs: 3", "epochs: 9"), processes=1, name=f"{n}.yaml") for n in "ab")
    trained_here(whole, whole.stack(0))

    def stop_it(done, reward):
        if done == 5:
            raise KeyboardInterrupt

    ids = {cell.id for cell in broken.stack(0)}
    with pytest.raises(KeyboardInterrupt):
        train_stack(broken, 0, ids, pictures=False, watch=stop_it, ended=lambda cell, book: None)
    (checkpoint,) = places(broken.checkpoints(0))
    (checkpoint / "state.json").write_text("{")
    metrics = {cell.folder: (broken.folder / cell.folder / "metrics.jsonl").read_bytes() for cell in broken.stack(0)}
    notes = []
    train_stack(broken, 0, ids, pictures=False, watch=lambda *_: None, ended=lambda *_: None, tell=notes.append)
    assert f"what the stack had written is kept in {broken.folder / 'damaged'}" in notes
    assert (broken.folder / "damaged" / "stack-0000" / checkpoint.name / "state.json").read_text() == "{"
    for one, other in zip(whole.stack(0), broken.stack(0), strict=True):
        kept = broken.folder / "damaged" / Path(other.folder).name / "metrics.jsonl"
        assert kept.read_bytes() == metrics[other.folder]
        lines = [(s.folder / c.folder / "metrics.jsonl").read_bytes() for s, c in ((whole, one), (broken, other))]
        assert lines[0] == lines[1]
        assert faults_of(broken.folder / other.folder) == []


def pgrl(*words):
    result = CliRunner().invoke(app, ["sweep", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def in_a_child(*words):
    return Child(["-m", "pgrl_cli", "sweep", *words], start_new_session=True)


def the_sweep(folder="runs"):
    (found,) = Path(folder).iterdir()
    return Sweep(found)


def workers_of(sweep):
    """The processes that train for a sweep's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"pgrl_cli.worker" in words and str(sweep.folder).encode() in words:
            found.append(int(entry.parent.name))
    return found


def same_cells(one, other):
    """That every cell of two sweeps holds the same bytes."""
    for cell in one.cells:
        for name in BYTES:
            ours, theirs = ((sweep.folder / cell.folder / name).read_bytes() for sweep in (one, other))
            assert ours == theirs, f"{cell.label}: {name}"


def test_everything_is_written_before_the_first_cell_starts():
    sweep = begun(GRID)
    there = {path.name for path in sweep.folder.iterdir()}
    assert there == {"cells", "cells.jsonl", "command.txt", "provenance.json", "status.json", "sweep.yaml"}
    assert [cell.label for cell in sweep.cells] == [
        "delta_mode=rewards,loss_mode=naive",
        "delta_mode=rewards,loss_mode=clipped",
        "delta_mode=centered_rewards,loss_mode=naive",
        "delta_mode=centered_rewards,loss_mode=clipped",
    ]
    assert {sweep.status(cell)["status"] for cell in sweep.cells} == {"pending"}


def test_cells_share_a_stack_where_only_what_broadcasts_or_acts_once_an_epoch_differs():
    sweep = begun(GRID.replace("[naive, clipped]", "[clipped]").replace("seeds", "kl_coefficient: 0.1\nseeds"), 1)
    assert {cell.stack for cell in sweep.cells} == {0}
    apart = begun(GRID, 1, "apart.yaml")
    by_loss = {cell.parameters["loss_mode"]: cell.stack for cell in apart.cells}
    assert sorted(by_loss.values()) == [0, 1]


def test_the_name_of_a_cells_folder_depends_on_the_config_alone():
    one, other = (
        begun(GRID),
        begun(GRID.replace("[rewards, centered_rewards]", "[max_rewards, rewards]"), name="grid.yaml"),
    )
    folders = [{cell.label: cell.folder for cell in sweep.cells} for sweep in (one, other)]
    common = folders[0].keys() & folders[1].keys()
    assert len(common) == 2
    assert all(folders[0][label] == folders[1][label] for label in common)


def test_a_cell_is_what_its_config_makes_alone():
    """In float64, where rounding does not depend on the company."""
    sweep = begun(GRID + "dtype: float64\n", 1)
    assert len(trained_here(sweep)) == 4
    cell = sweep.cells[3]
    alone, _ = run(resolve(layers_of(str(sweep.folder / cell.folder / "config.yaml"))), Path("alone"))
    ours, theirs = (read(Found(folder), "loss").values for folder in (sweep.folder / cell.folder, alone.folder))
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_a_wanted_cell_gets_the_same_bytes_with_the_others_training_along_unseen():
    whole, again = begun(GRID, 1), begun(GRID, 1)
    trained_here(whole)
    trained_here(again, [again.cells[0]])
    assert [again.status(cell)["status"] for cell in again.cells] == ["completed", "pending", "pending", "pending"]
    trained_here(again, again.cells[1:])
    same_cells(whole, again)


def test_a_cell_whose_reward_fails_ends_alone_and_at_once():
    Path("mine.py").write_text("def points(prompt, response):\n    return 1 / (response[0] - 3)\n")
    sweep = begun(FOUR_SEEDS.format("[sort_exact_reward, mine.py:points]"))
    trained_here(sweep)
    statuses = {cell.label: sweep.status(cell) for cell in sweep.cells}
    assert statuses["reward_fn=sort_exact_reward"]["status"] == "completed"
    failed = statuses["reward_fn=mine.py:points"]
    assert failed["status"] == "failed"
    assert "mine.py:2: the reward failed" in failed["error"]
    fine = begun(FOUR_SEEDS.format("[sort_exact_reward]"))
    trained_here(fine)
    ours, theirs = (read(Found(s.folder / s.cells[0].folder), "loss").values for s in (sweep, fine))
    assert ours == pytest.approx(theirs, abs=1e-5)


def test_a_cell_whose_reward_hangs_ends_alone_and_the_others_write_the_same_bytes(tmp_path):
    Path("mine.py").write_text("import ctypes\n\ndef points(prompt, response):\n    ctypes.PyDLL(None).sleep(1000)\n")
    Path("fails.py").write_text("def points(prompt, response):\n    return 1 / (response[0] - 3)\n")
    text = FOUR_SEEDS.format("[sort_exact_reward, {}:points]")
    hangs = begun(text.format("mine.py") + "reward_timeout: 0.5\n", processes=1)
    fails = begun(text.format("fails.py"), processes=1)
    for sweep in (hangs, fails):
        trained_here(sweep)
        (fine,) = [cell for cell in sweep.cells if "exact" in cell.label]
        (other,) = [cell for cell in sweep.cells if cell != fine]
        assert fine.stack == other.stack
        assert sweep.status(fine)["status"] == "completed"
        assert sweep.status(other)["status"] == "failed"
    assert "gave no answer for prompt" in hangs.status(hangs.cells[1])["error"]
    (ours,), (theirs,) = ([c for c in sweep.cells if "exact" in c.label] for sweep in (hangs, fails))
    for name in BYTES:
        assert (hangs.folder / ours.folder / name).read_bytes() == (fails.folder / theirs.folder / name).read_bytes()
    assert naming(tmp_path / "mine.py") == []


def test_the_cells_of_a_stack_share_one_process_for_a_reward_of_ones_own(tmp_path):
    Path("mine.py").write_text(
        "import os\nfrom pathlib import Path\n\nwith Path(__file__).with_name('loaded').open('a') as loaded:\n"
        "    loaded.write(f'{os.getpid()}\\n')\n\ndef points(prompt, response):\n    return response[0]\n"
    )
    text = "base: lecture/centered_naive\nreward_fn: mine.py:points\nepochs: 3\nparameters:\n"
    sweep = begun(text + "  learning_rate: [1e-3, 2e-3, 3e-3, 4e-3]\n  reward_timeout: [30, 60]\n", processes=1)
    assert {cell.stack for cell in sweep.cells} == {0}
    trained_here(sweep)
    assert [sweep.status(cell)["status"] for cell in sweep.cells] == ["completed"] * 8
    assert len(Path("loaded").read_text().split()) == 1
    assert naming(tmp_path / "mine.py") == []


def test_ctrl_c_ends_a_sweep_whose_reward_hangs_and_leaves_no_process(tmp_path):
    Path("mine.py").write_text(
        "from pathlib import Path\n\ndef points(prompt, response):\n"
        "    Path(__file__).with_name('hangs').touch()\n    while True: pass\n"
    )
    Path("grid.yaml").write_text(FOUR_SEEDS.format("[sort_exact_reward, mine.py:points]") + "reward_timeout: 1000\n")
    child = in_a_child("--config", "grid.yaml", "--jobs", "1")
    wait_until(Path("hangs").exists, 60)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert child.returncode == 130
    assert {the_sweep().status(cell)["status"] for cell in the_sweep().cells} == {"interrupted"}
    assert not workers_of(the_sweep())
    wait_until(lambda: not naming(tmp_path), 3)


def test_a_sweep_trains_its_cells_summarises_them_and_prints_its_folder_last():
    Path("grid.yaml").write_text(GRID)
    said = pgrl("--config", "grid.yaml", "--jobs", "2")
    sweep = the_sweep()
    assert said.exit_code == 0
    assert said.stdout.splitlines()[-1] == str(sweep.folder)
    assert {sweep.status(cell)["status"] for cell in sweep.cells} == {"completed"}
    for name in ("summary.csv", "summary.md", "summary.json", "summary.png"):
        assert (sweep.folder / name).stat().st_size > 100
    told = orjson.loads((sweep.folder / "summary.json").read_bytes())
    assert [cell["runs"] for cell in told["cells"]] == [3, 3, 3, 3]
    assert not [cell for cell in sweep.cells if (sweep.folder / cell.folder / "curves.png").exists()]
    assert not workers_of(sweep)
    assert orjson.loads((sweep.folder / "status.json").read_bytes())["cells"] == {"completed": 4}


def test_a_dry_run_prints_cells_and_stacks_and_leaves_nothing():
    Path("grid.yaml").write_text(GRID)
    said = pgrl("--config", "grid.yaml", "--dry-run", "--jobs", "2")
    assert said.stdout.startswith("4 cells, 12 runs, 2 stacks, 72 optimizer steps")
    assert not Path("runs").exists()


def test_a_small_number_is_no_nought_in_the_summary_on_the_screen():
    Path("grid.yaml").write_text(
        GRID + "kl_coefficient: 0.1\nlearning_rate: 1e-5\nmetric: {name: kl, over: last_1_epochs, goal: minimize}\n"
    )
    _, *rows = pgrl("--config", "grid.yaml", "--jobs", "2").stdout.splitlines()[:5]
    assert all(
        re.search(r" 3 +-?\d\.\de-\d\d +-?\d\.\de-\d\d  -?\d\.\de-\d\d to -?\d\.\de-\d\d$", row) for row in rows
    ), rows


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--dry-run", "--json"], "--json: does nothing with --dry-run"),
        (["--dry-run", "--plot-cells", "--fail-fast"], "--fail-fast: does nothing with --dry-run"),
        (["--dry-run", "-q"], "--quiet: does nothing with --dry-run"),
        (["launcher=ray", "--jobs", "2"], "--jobs: does nothing with launcher: ray"),
        (["--resume", "somewhere", "--runs-dir", "there"], "--runs-dir: does nothing with --resume"),
        (["--resume", "somewhere", "--dry-run", "--jobs", "2"], "--jobs: does nothing with --dry-run"),
        (["--retry-failed"], "--retry-failed: goes with --resume DIR"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(words, told):
    Path("grid.yaml").write_text(GRID)
    said = pgrl("--config", "grid.yaml", *words)
    assert said.exit_code == 2
    assert told in said.stderr
    assert not Path("runs").exists()


def test_a_resumed_sweep_on_ray_takes_no_jobs():
    sweep = begun(GRID + "launcher: ray\n")
    (sweep.folder / "status.json").write_bytes(b"{}")
    said = pgrl("--resume", str(sweep.folder), "--jobs", "2")
    assert said.exit_code == 2
    assert "--jobs: does nothing with launcher: ray" in said.stderr


def test_processes_train_each_cell_in_a_process_with_a_log_of_its_own():
    Path("grid.yaml").write_text(GRID.replace("[naive, clipped]", "[naive]") + "launcher: processes\n")
    said = pgrl("--config", "grid.yaml", "--jobs", "2", "-q")
    sweep = the_sweep()
    assert said.exit_code == 0
    assert said.stdout == f"{sweep.folder}\n"
    assert sorted(path.stem for path in (sweep.folder / "logs").iterdir()) == sorted(
        Path(c.folder).name for c in sweep.cells
    )


@pytest.mark.parametrize("launcher", ["stacked", "processes"])
def test_a_process_that_is_killed_fails_its_own_cells_and_the_rest_goes_on(launcher):
    Path("mine.py").write_text(
        "import os, signal\n\ndef points(prompt, response):\n    os.kill(os.getppid(), signal.SIGKILL)\n"
    )
    text = f"""
base: lecture/centered_naive
method: list
parameters:
  - {{reward_fn: mine.py:points}}
  - {{loss_mode: unclipped}}
epochs: 3
seeds: 2
launcher: {launcher}
"""
    Path("grid.yaml").write_text(text)
    said = pgrl("--config", "grid.yaml", "--jobs", "2")
    sweep = the_sweep()
    assert said.exit_code == 1
    assert [sweep.status(cell)["status"] for cell in sweep.cells] == ["failed", "completed"]
    assert "failed: reward_fn=mine.py:points: its process was killed by SIGKILL" in said.stderr
    (line,) = [line for line in said.stderr.splitlines() if line.startswith("failed: ")]
    log = Path(line.partition("(log: ")[2].rstrip(")"))
    assert (log.parent, log.exists()) == (sweep.folder / "logs", True)
    assert str(log) in sweep.status(sweep.cells[0])["error"]
    assert "--retry-failed" in said.stderr


def test_a_sweep_that_is_killed_leaves_no_process_and_resumed_ends_with_the_bytes_of_one_that_was_not():
    whole = begun(LONG.replace("epochs: 400", "epochs: 200"))
    trained_here(whole)
    child = in_a_child("--config", "grid.yaml", "--runs-dir", "killed", "--jobs", "2")
    wait_until(lambda: Path("killed").exists() and [*Path("killed").glob("*/cells/*/metrics.jsonl")])
    sweep = the_sweep("killed")
    wait_until(lambda: any(path.stat().st_size for path in sweep.folder.glob("cells/*/metrics.jsonl")))
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    wait_until(lambda: not workers_of(sweep), 3)
    assert sweeps.missing(sweep, retry_failed=False)
    said = pgrl("--resume", str(sweep.folder), "--jobs", "1")
    assert said.exit_code == 0
    same_cells(whole, sweep)
    again = pgrl("--resume", str(sweep.folder))
    assert again.exit_code == 0
    assert "0 trained now" in again.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_marks_the_cells_tells_how_to_resume_and_leaves_no_process(number, code):
    Path("grid.yaml").write_text(LONG)
    child = in_a_child("--config", "grid.yaml", "--jobs", "2")
    wait_until(lambda: [path for path in Path("runs").glob("*/cells/*/metrics.jsonl") if path.stat().st_size])
    sweep = the_sweep()
    child.send_signal(number)
    _, told = child.communicate(timeout=20)
    assert child.returncode == code
    assert "waiting for the epoch being written; Ctrl-C again ends it now" in told
    assert f"to go on: pgrl sweep --resume {sweep.folder}" in told
    assert not workers_of(sweep)
    assert orjson.loads((sweep.folder / "status.json").read_bytes())["status"] == "interrupted"
    assert {sweep.status(cell)["status"] for cell in sweep.cells} <= {"interrupted", "completed", "pending"}
    for cell in sweep.cells:
        metrics = sweep.folder / cell.folder / "metrics.jsonl"
        assert not metrics.exists() or metrics.read_bytes()[-1:] in (b"", b"\n")
    assert list(sweep.folder.glob("checkpoints/stack-*/epoch-*"))


def test_whatever_who_watches_raises_the_children_finish_their_epoch_and_mark_their_cells():
    sweep = begun(LONG)

    def watch(standing, failed):
        if standing.steps_done > 0:
            raise ValueError("whoever watches has broken")

    words = {"launcher": "stacked", "processes": 2, "pictures": False, "fail_fast": False}
    with pytest.raises(ValueError, match="whoever watches has broken"):
        sweeps.work(sweep, sweep.cells, **words, watch=watch)
    assert not workers_of(sweep)
    assert orjson.loads((sweep.folder / "status.json").read_bytes())["status"] == "failed"
    statuses = [sweep.status(cell)["status"] for cell in sweep.cells]
    assert "interrupted" in statuses
    assert "running" not in statuses


def test_a_sweep_in_use_is_not_resumed_and_neither_is_another_one_nor_no_sweep():
    sweep = begun(GRID)
    assert reopened(sweep.folder, None).cells == sweep.cells
    with runs.held(sweep.folder):
        said = in_a_child("--resume", sweep.folder)
        _, told = said.communicate(timeout=60)
    assert said.returncode == 2
    assert told == f"error: {sweep.folder}: is in use by another process; wait for it, or stop it first\n"
    Path("other.yaml").write_text(GRID.replace("seeds: 3", "seeds: 4"))
    with pytest.raises(ConfigError, match="is another sweep: name was grid, and is other; seeds was 3, and is 4"):
        reopened(sweep.folder, read_sweep("other.yaml"))
    with pytest.raises(ConfigError, match="there is no such folder"):
        reopened(Path("nowhere"), None)
    with pytest.raises(ConfigError, match=r"is no sweep's folder: cells\.jsonl: No such file"):
        reopened(Path("runs"), None)


def test_a_sweep_whose_files_are_damaged_says_so_and_a_status_that_cannot_be_read_is_nobodys():
    sweep = begun(GRID)
    folder, whole = sweep.folder, (sweep.folder / "cells.jsonl").read_bytes()
    for status in (b"", b"[]", b'{"status":"running"}', b"{"):
        (folder / "status.json").write_bytes(status)
        assert len(reopened(folder, None).cells) == 4
    for cells, told in (
        (whole[:-5], "cut off"),
        (b'{"id":1}\n', "damaged"),
        (whole.replace(b'"cells/', b'"../'), "no cell's folder"),
        (b"garbage\n", "damaged"),
    ):
        (folder / "cells.jsonl").write_bytes(cells)
        with pytest.raises(ConfigError, match=told):
            reopened(folder, None)
    (folder / "cells.jsonl").write_bytes(whole)
    (folder / "sweep.yaml").write_text("name: x\n")
    with pytest.raises(ConfigError, match=r"sweep\.yaml is damaged: has no base, method, parameters, metric, launcher"):
        reopened(folder, None)


def test_a_reward_of_ones_own_that_has_changed_is_not_mixed_into_a_sweep():
    Path("mine.py").write_text("def points(prompt, response):\n    return 1.0\n")
    sweep = begun(FOUR_SEEDS.format("[sort_exact_reward, mine.py:points]"))
    (sweep.folder / "status.json").write_bytes(b"{}")
    assert reopened(sweep.folder, None)
    Path("mine.py").write_text("def points(prompt, response):\n    return 2.0\n")
    with pytest.raises(ConfigError, match=r"mine\.py is not what it was when the sweep began"):
        reopened(sweep.folder, None)
    assert reopened(sweep.folder, None, retry_failed=True)


def test_a_reward_that_asks_for_input_fails_its_cell_and_hangs_nothing():
    Path("mine.py").write_text("def points(prompt, response):\n    return float(input())\n")
    Path("grid.yaml").write_text(FOUR_SEEDS.format("[sort_exact_reward, mine.py:points]"))
    said = pgrl("--config", "grid.yaml", "--jobs", "1")
    assert said.exit_code == 1
    assert [the_sweep().status(cell)["status"] for cell in the_sweep().cells] == ["completed", "failed"]
    assert "EOFError" in said.stderr
    assert f"(log: {the_sweep().run(the_sweep().cells[1]).log_file})" in said.stderr


def test_a_cell_whose_folder_cannot_be_made_fails_with_the_reason():
    sweep = begun(GRID)
    (sweep.folder / sweep.cells[0].folder).write_text("in the way")
    (sweep.folder / "status.json").write_bytes(b"{}")
    said = pgrl("--resume", str(sweep.folder), "--jobs", "1")
    assert said.exit_code == 1
    assert f"failed: {sweep.cells[0].label}: NotADirectoryError" in said.stderr
    assert f"(log: {sweep.log('worker-1')})" in said.stderr
    assert "Traceback" in sweep.log("worker-1").read_text()
    assert "SIGABRT" not in said.stderr


def test_every_cell_is_checked_before_the_first_starts_and_all_mistakes_are_told():
    Path("grid.yaml").write_text(
        "base: lecture/centered_naive\nparameters:\n  loss_mode: [naive, cliped]\n  learning_rate: [0.1, -1]\n"
    )
    said = pgrl("--config", "grid.yaml")
    assert said.exit_code == 2
    assert "grid.yaml:3: loss_mode: came 'cliped' (text); possible: naive, unclipped, clipped" in said.stderr
    assert "grid.yaml:4: learning_rate: came -1; expected a number above 0" in said.stderr
    assert said.stderr.count("learning_rate") == 1
    assert not Path("runs").exists()


def test_fail_fast_stops_at_the_first_failure():
    Path("mine.py").write_text("def points(prompt, response):\n    return None\n")
    Path("grid.yaml").write_text(
        "base: lecture/centered_naive\nmethod: list\nparameters:\n  - {reward_fn: mine.py:points}\n"
        "  - {loss_mode: unclipped, epochs: 100000}\nseeds: 2\n"
    )
    said = pgrl("--config", "grid.yaml", "--jobs", "2", "--fail-fast")
    assert said.exit_code == 1
    assert the_sweep().status(the_sweep().cells[1])["status"] in ("interrupted", "pending")  # if it had begun


def test_a_metric_that_no_run_measures_is_refused_before_the_first_cell_starts():
    Path("grid.yaml").write_text(GRID + "metric: mean_rewards\n")
    said = pgrl("--config", "grid.yaml")
    assert said.exit_code == 2
    assert "metric: came 'mean_rewards'; possible: loss, mean_reward," in said.stderr
    assert "Did you mean 'mean_reward'?" in said.stderr
    assert not Path("runs").exists()


def test_cells_that_no_memory_could_hold_are_refused_before_the_first_one_starts(monkeypatch):
    Path("grid.yaml").write_text(GRID)
    monkeypatch.setattr(experiment, "memory", lambda: 5)
    said = pgrl("--config", "grid.yaml")
    assert said.exit_code == 2
    assert said.stderr.count("it would take about 0 GB of memory, and there are 0; fewer prompts_per_epoch") == 4
    assert "grid.yaml: the cell delta_mode=rewards,loss_mode=naive: it" in said.stderr
    assert not Path("runs").exists()
    assert len(planned(read_sweep("grid.yaml", ["launcher=ray"]), 1).cells) == 4  # on machines that are others
    monkeypatch.setattr(experiment, "memory", lambda: None)
    assert len(planned(read_sweep("grid.yaml"), 1).cells) == 4


def test_a_knob_that_is_dropped_in_some_cells_is_told_with_what_these_have_in_common():
    Path("mine.yaml").write_text("base: lecture/centered_naive\nloss_mode: clipped\nclip_epsilon: 0.3\n")
    notes = planned(read_sweep("mine.yaml", ["loss_mode=naive,clipped", "learning_rate=0.1,0.2"]), 1).notes
    assert notes == (
        "clip_epsilon (from mine.yaml) turns nothing in the cells with loss_mode naive and was dropped: it belongs to "
        "loss_mode: clipped, sequence_clipped, but there loss_mode is naive",
    )


def test_a_range_of_seeds_trains_them_all_in_every_cell_and_is_no_other_spec_when_resumed():
    sweep = begun(GRID.replace("seeds: 3", "seeds: 4..6"))
    assert all(cell.runs == 3 for cell in sweep.cells)
    (sweep.folder / "status.json").write_bytes(b"{}")
    assert reopened(sweep.folder, read_sweep("grid.yaml")).folder == sweep.folder


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("launcher: stacked", "launcher: foo", "launcher: came 'foo' \\(text\\); expected stacked or processes or ray"),
        ("name: mean_reward", "name: nope", "metric: came 'nope'; possible: loss"),
        ("over: last_10_epochs", "over: x", "metric: over: came 'x'"),
        (None, "", "is empty"),
        (None, "- 1\n", "is a list"),
        (None, "a: [\n", ""),
    ],
)
def test_a_damaged_spec_is_told_before_anything_is_trained(old, new, told):
    sweep = begun(GRID)
    (sweep.folder / "status.json").write_bytes(b"{}")
    text = (sweep.folder / "sweep.yaml").read_text()
    assert old is None or old in text
    (sweep.folder / "sweep.yaml").write_text(new if old is None else text.replace(old, new))
    with pytest.raises(ConfigError, match=f"sweep.yaml is damaged: .*{told}"):
        reopened(sweep.folder, None)
    said = pgrl("--resume", str(sweep.folder))
    assert (said.exit_code, said.stdout) == (2, "")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda line: line | {"config": None}, "config is None; it is a map"),
        (lambda line: line | {"config": line["config"] | {"epochs": "x"}}, "config: epochs: came 'x'"),
        (lambda line: line | {"config": line["config"] | {"epohcs": 1}}, "config: epohcs: came 1"),
        (lambda line: line | {"more": 1}, "unknown key 'more'"),
        (lambda line: line | {"stack": "x"}, "stack is 'x'; it is a count from 0"),
        (lambda line: line | {"place": 7}, "does not have each place once"),
        (lambda line: [1], "it is no cell"),
    ],
)
def test_a_damaged_cell_is_told_by_its_line(change, told):
    sweep = begun(GRID)
    (sweep.folder / "status.json").write_bytes(b"{}")
    lines = (sweep.folder / "cells.jsonl").read_bytes().splitlines()
    lines[1] = orjson.dumps(change(orjson.loads(lines[1])))
    (sweep.folder / "cells.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(ConfigError, match=rf"cells\.jsonl.* damaged: .*{told}") as refused:
        reopened(sweep.folder, None)
    assert len(refused.value.problems) == 1


def test_a_cell_that_is_missing_is_told_and_one_that_was_the_same_experiment_is_not():
    sweep = begun(GRID)
    (sweep.folder / "status.json").write_bytes(b"{}")
    lines = (sweep.folder / "cells.jsonl").read_bytes().splitlines(keepends=True)
    (sweep.folder / "cells.jsonl").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(ConfigError, match=r"cells\.jsonl is damaged: "):
        reopened(sweep.folder, None)
    double = begun(GRID.replace("  loss", "  clip_epsilon: [0.1, 0.2]\n  loss"), name="double.yaml")
    (double.folder / "status.json").write_bytes(b"{}")
    assert len(reopened(double.folder, None).cells) == 6  # of eight, the naive ones once


def test_a_file_named_through_the_folder_above_is_the_same_spec():
    Path("mine.py").write_text("def points(prompt, response):\n    return 1.0\n")
    Path("inside").mkdir()
    sweep = begun(FOUR_SEEDS.format("[sort_exact_reward, mine.py:points]"))
    (sweep.folder / "status.json").write_bytes(b"{}")
    assert reopened(sweep.folder, read_sweep("inside/../grid.yaml"))


def test_what_a_reward_leaves_running_neither_holds_the_sweep_up_nor_stays():
    Path("mine.py").write_text(
        "import os, time\nfrom pathlib import Path\nif os.fork() == 0:\n"
        "    Path('child').write_text(str(os.getpid()))\n"
        "    time.sleep(300)\n    os._exit(0)\n\ndef points(prompt, response):\n    return 1.0\n"
    )
    began = time.monotonic()
    Path("grid.yaml").write_text(FOUR_SEEDS.format("[mine.py:points]"))
    said = pgrl("--config", "grid.yaml", "--jobs", "1")
    assert (said.exit_code, time.monotonic() - began < 100) == (0, True)
    child = Path(f"/proc/{Path('child').read_text()}/stat")
    assert not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"  # ended, and nobody waits


def test_a_hung_cell_is_killed_where_one_failure_is_enough(monkeypatch):
    monkeypatch.setattr("pgrl_cli.launchers.PATIENCE", 1.0)
    Path("mine.py").write_text(
        "import time\nfrom pathlib import Path\n\ndef hangs(prompt, response):\n    Path('hangs').touch()\n"
        "    time.sleep(300)\n    return 1.0\n\ndef fails(prompt, response):\n"
        "    while not Path('hangs').exists():\n        time.sleep(0.1)\n"
        "    raise ValueError('no\\nmore ' + 'x' * 900)\n"
    )
    Path("grid.yaml").write_text(FOUR_SEEDS.format("[mine.py:hangs, mine.py:fails]") + "launcher: processes\n")
    began = time.monotonic()
    said = pgrl("--config", "grid.yaml", "--jobs", "2", "--fail-fast")
    assert (said.exit_code, time.monotonic() - began < 100) == (1, True)
    (failed,) = [line for line in said.stderr.splitlines() if line.startswith("failed: ")]
    assert len(failed) < 700


def test_a_failure_has_its_exit_code_though_the_reader_of_the_output_has_gone():
    Path("mine.py").write_text("def points(prompt, response):\n    raise ValueError('no')\n")
    Path("grid.yaml").write_text(FOUR_SEEDS.format("[mine.py:points]"))
    for more in ("", "--json"):
        line = f"{sys.executable} -m pgrl_cli sweep --config grid.yaml --jobs 1 {more} | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        assert done.returncode == 1
        assert "to try again: pgrl sweep --resume runs/" in done.stderr
        assert "Exception ignored" not in done.stderr


def test_a_summary_that_cannot_be_written_is_told_with_the_folder_and_how_to_go_on(monkeypatch):
    def full(figure, *words, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    Path("grid.yaml").write_text(GRID)
    said = pgrl("--config", "grid.yaml", "--jobs", "1", "--quiet")
    folder = said.stdout.strip()
    assert said.exit_code == 1
    assert f"error: {folder}/summary.png: No space left on device" in said.stderr
    assert f"to try again: pgrl sweep --resume {folder}\n" in said.stderr
    monkeypatch.setattr(Sweep, "status", lambda sweep, cell: {"status": "failed"})
    said = pgrl("--resume", folder, "--quiet")
    assert f"to try again: pgrl sweep --resume {folder} --retry-failed\n" in said.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_while_the_summary_is_written_names_the_folder(monkeypatch, number, code):
    def interrupted(figure, *words, **more):
        signal.raise_signal(number)

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupted)
    Path("grid.yaml").write_text(GRID)
    said = pgrl("--config", "grid.yaml", "--jobs", "1")
    assert said.exit_code == code
    assert "to go on: pgrl sweep --resume runs/" in said.stderr


def test_the_last_line_of_progress_is_all_of_it():
    Path("grid.yaml").write_text(GRID)
    said = pgrl("--config", "grid.yaml", "--jobs", "1")
    (*_, last) = [line for line in said.stderr.splitlines() if " cells   " in line]
    assert last.startswith("100 %, 4/4 cells   ")
