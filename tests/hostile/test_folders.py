"""Run folders and sweeps that are damaged, made up, or lead elsewhere: read correctly, or refused with a line."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from by_hand import run_folder
from hostile.doors import Said, listing, pgrl

from pgrl_cli.runs import process_started

METRICS = {name: [1.0, 2.0, 3.0] for name in ("mean_reward", "shaped_reward", "kl", "loss", "exact_match")}
METRICS["held_out_exact_match"] = [None, None, None]  # type: ignore[list-item]
WORDS = {"reward_fn": "sort_exact_reward", "loss_mode": "naive"}
Spoil = Callable[[Path], object]


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def status(text: str | bytes) -> Spoil:
    data = text.encode() if isinstance(text, str) else text
    return lambda run: (run / "status.json").write_bytes(data)


def told(**facts: Any) -> Spoil:
    return status(json.dumps(facts))


def config(text: str) -> Spoil:
    return lambda run: (run / "config.yaml").write_text(text)


def metrics(text: str | bytes) -> Spoil:
    data = text.encode() if isinstance(text, str) else text
    return lambda run: (run / "metrics.jsonl").write_bytes(data)


def in_place(file: str, make: Spoil) -> Spoil:
    """Something else where a file was."""

    def spoil(run: Path) -> None:
        (run / file).unlink()
        make(run / file)

    return spoil


def line(step: Any = 0, epoch: Any = 0, **more: Any) -> str:
    values = dict.fromkeys(METRICS, 1.0) | more
    return json.dumps({"epoch": epoch, "step": step} | values, separators=(",", ":")) + "\n"


ONES = [line(number, number) for number in range(4)]
WIDE = '{"epoch":0,"step":0,' + ",".join(f'"m{number}":1' for number in range(10**6)) + "}\n"
RUNS: dict[str, tuple[Spoil, str | None, str | None, str | None]] = {
    # how it is spoilt; what plot, compare and export say, or None where they read it
    "an empty status": (status(""), "status.json cannot be read", "status.json cannot be read", None),
    "a status that is a list": (status("[1]"), "status.json cannot be read", "status.json cannot be read", None),
    "a status of NaN": (status('{"status": NaN}'), "status.json cannot be read", "status.json cannot be read", None),
    "a status of 50 MB": (told(status="completed", error="x" * 50_000_000), None, None, None),
    "a status that is 50 MB": (told(status="x" * 50_000_000), None, None, None),
    "a status deep inside": (status("[" * 100_000), "status.json cannot be read", "status.json cannot be read", None),
    "a status that is a map": (told(status={"a": 1}), None, None, None),
    "a process that is a word": (told(status="running", pid="abc", host="here"), None, None, None),
    "a process below 0": (told(status="running", pid=-1, host="here"), None, None, None),
    "a process beyond numbers": (told(status="running", pid=10**30, host="here"), None, None, None),
    "a process that is a path": (told(status="running", pid="../self", host="here"), None, None, None),
    "a process without a host": (told(status="running", pid=1), None, None, None),
    "a start in 2099": (told(status="completed", started="2099-01-01T00:00:00+00:00"), None, None, None),
    "seeds that are words": (told(status="completed", seeds=["a"]), "status.json", "status.json", None),
    "a pipe for a status": (in_place("status.json", os.mkfifo), "is a pipe or a device", "is a pipe or a device", None),
    "a status of endless zeros": (
        in_place("status.json", lambda path: path.symlink_to("/dev/zero")),
        "is a pipe or a device",
        "is a pipe or a device",
        None,
    ),
    "no config": (lambda run: (run / "config.yaml").unlink(), "holds no run", "holds no run", "is no run folder"),
    "a config that is a folder": (
        in_place("config.yaml", Path.mkdir),
        "holds no run",
        "holds no run",
        "config.yaml",
    ),
    "a config that is a pipe": (in_place("config.yaml", os.mkfifo), "holds no run", "holds no run", "is a pipe"),
    "a config that is a list": (config("- 1\n"), "config.yaml is no config", "is no config", "is no config"),
    "a config of NULs": (config("\0" * 100), "is not valid YAML", "is not valid YAML", "is not valid YAML"),
    "a config that is a bomb": (
        config(
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True))
        ),
        "too many for a config",
        "too many for a config",
        "too many for a config",
    ),
    "seeds without an end": (config(f"seeds: {10**30}\n"), "config.yaml: seeds: came", "seeds: came", "seeds: came"),
    "many seeds": (config(f"seeds: {10**10}\n"), "config.yaml: seeds: came", "seeds: came", "seeds: came"),
    "seeds that are text": (config("seeds: abc\n"), "config.yaml: seeds: came", "seeds: came", "seeds: came"),
    "a seed that is a list": (config("seed: [1]\n"), "config.yaml: seed: came", "seed: came", "seed: came"),
    "words that are numbers": (
        config(f"seed: 5\nname: 7\nreward_fn: {10**40}\nloss_mode: [1]\n"),
        "cannot be drawn",
        None,
        None,
    ),
    "no metrics": (
        lambda run: (run / "metrics.jsonl").unlink(),
        "curves",
        "no run there has a value of mean_reward",
        "has not begun",
    ),
    "empty metrics": (metrics(""), "no epoch is written yet", "no run there has a value of mean_reward", None),
    "a line that is torn": (metrics("".join(ONES)[:-20]), None, None, None),
    "a line that ends in the middle": (
        metrics(ONES[0] + ONES[1][:20] + "\n" + ONES[2]),
        "2: damaged",
        "2: damaged",
        "2: damaged",
    ),
    "a block of NULs": (
        metrics((ONES[0] + "\0" * 4096 + "\n" + ONES[1]).encode()),
        "2: damaged",
        "2: damaged",
        "2: damaged",
    ),
    "NULs at the end": (metrics((ONES[0] + ONES[1] + "\0" * 4096).encode()), None, None, None),
    "a token NaN": (metrics(ONES[0] + ONES[1].replace("1.0", "NaN", 1)), "2: damaged", "2: damaged", "2: damaged"),
    "a value beyond floats": (
        metrics(ONES[0] + ONES[1].replace("1.0", "1e999", 1)),
        "2: damaged",
        "2: damaged",
        "2: damaged",
    ),
    "a million keys": (metrics(WIDE), *["damaged: has 1000002 keys"] * 3),
    "doubles": (
        metrics("".join(ONES[:3] + ONES[1:3])),
        "step 1 comes after step 2",
        "step 1 comes after",
        "step 1 comes after",
    ),
    "two runs in turn": (metrics(ONES[0] * 2 + ONES[1] * 2), "step 0 comes after step 0", None, "step 0 comes after"),
    "steps that are words": (
        metrics(line("a")),
        "has no epoch and step",
        "has no epoch and step",
        "has no epoch and step",
    ),
    "steps beyond numpy": (metrics(line(2**64 - 1)), "has no epoch and step", "has no epoch and step", "has no epoch"),
    "epochs below 0": (metrics(line(epoch=-1)), "has no epoch and step", "has no epoch and step", "has no epoch"),
    "lines that are lists": (metrics("[]\n[]\n"), "has no epoch and step", "has no epoch and step", "has no epoch"),
    "lists of another length": (
        metrics(line(mean_reward=[1.0, 2.0, 3.0])),
        "3 values of mean_reward",
        "3 values",
        "3 values",
    ),
    "an empty list": (metrics(line(mean_reward=[])), "0 values of mean_reward", "0 values", "0 values"),
    "values that are words": (metrics(line(mean_reward="1")), "is '1', no number", "no number", "no number"),
    "values that are truths": (metrics(line(mean_reward=True)), "is True, no number", "no number", "no number"),
    "values that are maps": (metrics(line(mean_reward={"a": 1})), "no number", "no number", "no number"),
    "names that are no list": (metrics(line(nonfinite=5)), "nonfinite is 5", None, "nonfinite is 5"),
    "names of nothing": (metrics(line(nonfinite=["x"])), "nonfinite is ['x']", None, "nonfinite is ['x']"),
    "a pipe for metrics": (in_place("metrics.jsonl", os.mkfifo), "curves", "is a pipe or a device", "is a pipe"),
    "endless zeros for metrics": (
        in_place("metrics.jsonl", lambda path: path.symlink_to("/dev/zero")),
        "curves",
        "is a pipe or a device",
        "is a pipe or a device",
    ),
}


def agrees(said: Said, expected: str | None) -> None:
    if expected is None:
        assert said.code == 0, said
    elif expected != "curves":
        assert said.code in (1, 2), said
        assert expected in said.err, said


@pytest.mark.parametrize("kind", RUNS)
def test_a_spoilt_run_folder_is_read_or_told(tmp_path: Path, kind: str) -> None:
    spoil, drawn, compared, exported = RUNS[kind]
    for name in ("run", "other"):
        run_folder(Path(name), 5, METRICS, **WORDS)
    spoil(Path("run"))
    before = listing(tmp_path, but="out")
    Path("out").mkdir()
    agrees(pgrl("plot", "run", "--kind", "run", "--out", "out/a.png"), drawn)
    agrees(pgrl("compare", "run", "other"), compared)
    for form in ("jsonl", "csv", "npz"):
        agrees(pgrl("runs", "export", "run", "--format", form, "--out", f"out/{form}"), exported)
    shutil.rmtree("out")
    assert listing(tmp_path, but="out") == before


def test_the_seeds_of_a_stack_are_held_to_its_lists() -> None:
    for number, row in enumerate(([1.0], [1.0, 2.0, 3.0], 1.0, ["a", "b"], [[1.0], [2.0]], [None, True])):
        run = run_folder(Path(f"run{number}"), [0, 1], {"mean_reward": [row, [1.0, 2.0]]}, **WORDS)
        for words in (["plot", str(run), "--metric", "mean_reward"], ["runs", "export", str(run)]):
            said = pgrl(*words)
            assert (said.code, "metrics.jsonl:1: damaged: " in said.err) == (2, True), said


def test_links_are_followed_once_and_loops_of_them_not_at_all() -> None:
    run_folder(Path("runs/a"), 5, METRICS, **WORDS)
    for number in range(12):
        Path(f"runs/loop{number}").symlink_to("..")
    Path("runs/b").symlink_to("a")
    Path("runs/c").symlink_to("c")
    said = pgrl("plot", "runs", "--metric", "loss", "--out", "a.png")
    assert (said.code, "repeat" in said.err) == (0, False), said
    Path("again").symlink_to("runs/a")
    assert pgrl("runs", "export", "again").code == 0
    assert pgrl("plot", "runs/c").code == 2


def test_a_picture_is_not_drawn_through_a_link(tmp_path: Path) -> None:
    run_folder(Path("run"), 5, METRICS, **WORDS)
    Path("run/curves.png").symlink_to(tmp_path / "outside.png")
    Path("run/curves.csv").symlink_to(tmp_path / "outside.csv")
    assert pgrl("plot", "run").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]
    assert not Path("run/curves.png").is_symlink()


def test_names_with_line_ends_and_controls_stay_on_one_line() -> None:
    name = "a\nerror: all is well\x1b[2J"
    run_folder(Path(name) / "b", 5, {"mean_reward": ["x"]}, **WORDS)
    said = pgrl("plot", name, "--metric", "mean_reward")
    assert (said.code, said.err.count("\n")) == (2, 1), said
    assert r"a\nerror: all is well\x1b[2J" in said.err


def sweep(path: Path = Path("grid")) -> Path:
    """A sweep's folder whose cells have not been trained."""
    from pgrl_cli import sweep as sweeps
    from pgrl_cli.config.sweep_spec import read_sweep
    from pgrl_cli.planning import planned

    Path("grid.yaml").write_text("base: lecture/centered_naive\nepochs: 2\nparameters: {num_responses: [2, 3]}\n")
    spec = read_sweep("grid.yaml")
    made = sweeps.begin(spec, planned(spec, 1), Path("made"), ["pgrl"]).folder
    (made / "status.json").write_text('{"status": "interrupted"}')
    return made.rename(path)


def cells(change: Callable[[dict[str, Any]], object]) -> Spoil:
    """Each line of cells.jsonl changed."""

    def spoil(folder: Path) -> None:
        lines = [orjson.loads(line) for line in (folder / "cells.jsonl").read_bytes().splitlines()]
        for each in lines:
            change(each)
        (folder / "cells.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))

    return spoil


def spec(**changes: str | None) -> Spoil:
    """Keys of sweep.yaml changed, or taken away."""
    from pgrl_cli.config import yaml12

    def spoil(folder: Path) -> None:
        written = yaml12.read((folder / "sweep.yaml").read_text(), "sweep.yaml") | changes
        kept = {key: value for key, value in written.items() if value is not None}
        (folder / "sweep.yaml").write_text(yaml12.write(kept))

    return spoil


def linked(where: str) -> Spoil:
    """A folder of the sweep that is a link out of it."""

    def spoil(folder: Path) -> None:
        name = where or orjson.loads((folder / "cells.jsonl").read_bytes().splitlines()[0])["folder"]
        Path("../outside").mkdir()
        Path("../outside/kept").write_text("kept")
        if (folder / name).is_dir():
            (folder / name).rmdir()
        (folder / name).symlink_to(Path("../outside").resolve())

    return spoil


def of_the_sweep(**facts: Any) -> Spoil:
    return lambda folder: (folder / "status.json").write_text(json.dumps(facts))


SWEEPS: dict[str, tuple[Spoil, str | None]] = {
    "a path upwards": (cells(lambda cell: cell.update(folder="../../x")), "../../x is no cell's folder"),
    "a path upwards inside": (cells(lambda cell: cell.update(folder="cells/..")), "is no cell's folder"),
    "an absolute path": (cells(lambda cell: cell.update(folder="/tmp/x")), "/tmp/x is no cell's folder"),
    "a path with a NUL": (cells(lambda cell: cell.update(folder="cells/a\0b")), "is no cell's folder"),
    "a path that is a number": (cells(lambda cell: cell.update(folder=5)), "folder is 5"),
    "a stack that is a word": (cells(lambda cell: cell.update(stack="a")), "stack is 'a'"),
    "no config": (cells(lambda cell: cell.pop("config")), "is damaged"),
    "a config that is a list": (cells(lambda cell: cell.update(config=[])), "config is []"),
    "a config that lacks all": (
        cells(lambda cell: cell.update(config={})),
        "cells.jsonl:1 is damaged: config: name: came",
    ),
    "a config of words": (cells(lambda cell: cell["config"].update(epochs="many")), "config: epochs: came 'many'"),
    "a key that is no cell's": (cells(lambda cell: cell.update(more=1)), "is damaged"),
    "equal cells": (cells(lambda cell: cell.update(id="a" * 12)), "a cell before it has the same id"),
    "cells of another sweep": (
        cells(lambda cell: cell.update(parameters={"learning_rate": 1})),
        "its cells vary learning_rate, but sweep.yaml varies num_responses: it is another sweep's",
    ),
    "lines that are lists": (lambda folder: (folder / "cells.jsonl").write_text("[]\n"), "is damaged"),
    "no cells": (lambda folder: (folder / "cells.jsonl").write_text(""), "cells.jsonl is empty"),
    "cells that are a pipe": (in_place("cells.jsonl", os.mkfifo), "is a pipe or a device"),
    "cells of endless zeros": (
        in_place("cells.jsonl", lambda path: path.symlink_to("/dev/zero")),
        "is a pipe or a device",
    ),
    "a reward of endless zeros": (cells(lambda cell: cell.update(sources={"/dev/zero": "a"})), "/dev/zero is not what"),
    "no metric": (spec(metric=None), "sweep.yaml is damaged: has no metric"),
    "a metric that is a word too many": (spec(metric="{a: b}"), "metric: came"),
    "a launcher that is none": (spec(launcher="rm -rf /"), "launcher: came 'rm -rf /'"),
    "a list for a spec": (
        lambda folder: (folder / "sweep.yaml").write_text("- 1\n"),
        "sweep.yaml is damaged: is a list",
    ),
    "no spec": (lambda folder: (folder / "sweep.yaml").unlink(), "is no sweep's folder: sweep.yaml: No such file"),
    "a spec that is a pipe": (in_place("sweep.yaml", os.mkfifo), "is a pipe or a device"),
    "a spec that is Latin-1": (lambda folder: (folder / "sweep.yaml").write_bytes(b"\xe9"), "is not text in UTF-8"),
    "cells that lead outside": (linked("cells"), "leads out of it, being a link"),
    "logs that lead outside": (linked("logs"), "leads out of it, being a link"),
    "a cell that leads outside": (linked(""), "leads out of it, being a link"),
    "a process that has it and no host": (of_the_sweep(status="running", pid=os.getppid()), None),
    "a process that is a word": (of_the_sweep(status="running", pid="abc", host="far"), None),
    "a process beyond numbers": (of_the_sweep(status="running", pid=10**30, host="far"), None),
    "a status that is a map": (of_the_sweep(status={}), None),
}


@pytest.mark.parametrize("kind", SWEEPS)
def test_a_spoilt_sweep_is_resumed_or_told_and_nothing_outside_is_touched(tmp_path: Path, kind: str) -> None:
    spoil, expected = SWEEPS[kind]
    spoil(folder := sweep())
    before = listing(tmp_path, but="")
    said = pgrl("sweep", "--resume", str(folder), "--dry-run")
    agrees(said, expected)
    assert listing(tmp_path, but="") == before
    if expected is not None:
        assert "error: grid" in said.err
        agrees(pgrl("sweep", "--resume", str(folder)), expected)
        assert listing(tmp_path, but="") == before
    assert pgrl("plot", str(folder)).code == 2  # nothing is trained yet


@pytest.mark.parametrize("started", ["2026-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00", None])
def test_a_sweep_that_another_machine_writes_is_left_to_it_and_its_name_moves_no_cursor(started: str | None) -> None:
    of_the_sweep(status="running", pid=1, host="\x1b[2Jfar", started=started)(folder := sweep())
    before = listing(folder, but="")
    said = pgrl("sweep", "--resume", str(folder))
    assert (said.code, said.out) == (2, "")
    assert r"is in use by process 1 on \x1b[2Jfar" in said.err
    assert listing(folder, but="") == before


@pytest.mark.parametrize(
    "text", ["", "[]", '{"status": {}}', '{"status": NaN}', '{"status": "' + "x" * 50_000_000 + '"}']
)
def test_a_cell_whose_status_cannot_be_read_is_trained_again(text: str) -> None:
    folder = sweep()
    for each in (folder / "cells.jsonl").read_bytes().splitlines():
        cell = folder / orjson.loads(each)["folder"]
        cell.mkdir()
        (cell / "status.json").write_text(text)
    said = pgrl("sweep", "--resume", str(folder), "--dry-run")
    assert said.out == "num_responses=2   pending\nnum_responses=3   pending\n"


def test_a_process_is_looked_for_by_a_number_alone() -> None:
    from pgrl_cli.runs import is_alive, socket

    alive = {"status": "running", "pid": os.getpid(), "process_started": process_started(os.getpid())}
    here = alive | {"host": socket.gethostname()}
    assert is_alive(here)
    assert not any(is_alive(here | {"pid": pid}) for pid in ("self", str(os.getpid()), [os.getpid()], True, -1, 1e30))
