"""`pgrl runs`: what is listed, shown, taken away, brought back, checked and exported, and what a mistake costs."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from by_hand import rewards, run_folder, sweep_folder
from rich.cells import cell_len
from said import Said
from said import pgrl as any_pgrl

from pgrl_cli import cli_runs, runs


def pgrl(*words: str, answer: str = "") -> Said:
    return any_pgrl("runs", *words, answer=answer)


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(tail: str, name: str, second: int, reward: float | None, status: str = "completed", **config: Any) -> Path:
    path = Path(f"runs/2026-11-30_09-15-{second:02d}-{name}-{tail}")
    rewards(path, 0, [1.0, 2.0], name=name, **config)
    told = {"status": status, "epochs": 2, "last_mean_reward": reward, "exact_match": 0.25}
    runs.write_whole(path / "status.json", told | {"started": f"2026-11-30T09:15:{second:02d}+00:00"})
    return path


@pytest.fixture
def store() -> None:
    """Three runs, one of them of a dead process, a damaged one, and a sweep of two cells, one of which has started."""
    made("3fa9c1", "mine", 1, 3.25, delta_mode="rewards")
    made("3fa9d2", "other", 2, 4.5, delta_mode="max_rewards", learning_rate=0.5)
    lost = made("77bb00", "third", 3, None)
    host = runs.socket.gethostname()
    runs.write_whole(lost / "status.json", {"status": "running", "pid": 1, "process_started": -1, "host": host})
    (made("88bb00", "broken", 4, 1.0) / "status.json").write_text("")
    cells = sweep_folder(Path("runs/2026-11-30_09-15-05-grid-aaaaaa"), [{"clip": 0.1}, {"clip": 0.2}])
    rewards(cells[0], [0, 1], [[1.0, 2.0]], name="grid", clip=0.1)
    (cells[0].parents[1] / "sweep.yaml").write_text("name: grid\nepochs: 1\nseeds: 2\nmetric: mean_reward\n")
    runs.write_whole(cells[0].parents[1] / "status.json", {"status": "interrupted", "cells": {"completed": 1}})


def ids(*words: str) -> str:
    said = pgrl("ls", *words)
    assert said.code == 0, said.err
    return " ".join(line.split()[0] for line in said.out.splitlines()[1:])


# ls


@pytest.mark.usefixtures("store")
def test_ls_is_a_table_that_fits_eighty_columns_and_notes_what_could_not_be_read() -> None:
    said = pgrl("ls")
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[0] == ["id", "name", "status", "started", "epochs", "reward", "exact", "seeds"]
    assert [[row[0], row[1], row[2], *row[5:]] for row in rows[1:]] == [
        ["aaaa", "grid", "interrupted", "1/2", "cells", "-", "-", "2"],
        ["8bb00", "broken", "damaged", "-/-", "-", "-", "-"],
        ["7bb00", "third", "lost", "0/2", "-", "-", "1"],
        ["a9d2", "other", "completed", "2/2", "4.500", "0.25", "1"],
        ["a9c1", "mine", "completed", "2/2", "3.250", "0.25", "1"],
    ]
    assert max(map(len, said.out.splitlines())) <= 80
    assert "\x1b" not in said.out
    assert said.err.startswith("note: 1 could not be read: status.json: is damaged")


@pytest.mark.usefixtures("store")
def test_any_key_filters_and_sorts() -> None:
    assert ids("--where", "last_mean_reward>3") == "a9d2 a9c1"
    assert ids("--where", "delta_mode=rewards and status!=lost", "--sort", "name") == "a9c1"
    assert ids("--where", "kind=sweep or status=damaged", "--sort", "-id") == "aaaa 8bb00"
    assert ids("--sort", "-last_mean_reward", "--limit", "3").startswith("a9d2 a9c1 ")
    assert ids("--where", "id=a9c1 and started<'2026-12' and epochs_done=2 and seed_count=1") == "a9c1"
    said = pgrl("ls", "--where", "learning_rate=9")
    assert (said.code, said.out) == (0, "")
    assert "note: none of 5 runs is meant by --where" in said.err


@pytest.mark.usefixtures("store")
def test_cells_are_listed_where_they_are_asked_for_or_their_sweep_is_named() -> None:
    assert ids("--cells").split()[:3] == ["aaaa", "0000", "0001"]
    for words in (["grid"], ["runs/2026-11-30_09-15-05-grid-aaaaaa"], ["aaaa"]):
        assert ids(*words) == "0000 0001"
    assert ids("grid", "--where", "clip=0.2") == "0001"
    assert ids("mine", "other", "mine", "runs/2026-11-30_09-15-01-mine-3fa9c1") == "a9c1 a9d2"
    assert ids("grid/clip=0.1") == "0000"
    assert ids(str(Path("runs").absolute()), "runs").count("a9c1") == 1


@pytest.mark.usefixtures("store")
def test_json_and_csv_tell_every_key_of_every_run() -> None:
    told = json.loads(pgrl("ls", "--json", "--where", "name=other").out)
    assert told[0] | {"id": "a9d2", "learning_rate": 0.5, "last_mean_reward": 4.5, "kind": "run"} == told[0]
    assert told[0]["folder"] == "runs/2026-11-30_09-15-02-other-3fa9d2"
    table = list(csv.DictReader(pgrl("ls", "--csv").out.splitlines()))
    assert [row["name"] for row in table] == ["grid", "broken", "third", "other", "mine"]
    assert table[3] | {"learning_rate": "0.5", "delta_mode": "max_rewards", "seeds": ""} == table[3]
    assert pgrl("ls", "--csv", "--json").code == 2


def test_an_empty_folder_and_none_at_all_are_no_errors_but_a_wrong_path_is() -> None:
    for words in ([], ["--json"]):
        said = pgrl("ls", *words)
        assert (said.code, said.out) == (0, "[]\n" if words else "")
        assert said.err.startswith("note: there is no run here yet; `pgrl train")
    Path("empty").mkdir()
    assert pgrl("ls", "empty").code == 0
    assert pgrl("ls", "nowhere").code == 2
    said = pgrl("ls", "--runs-dir", "nowhere")
    assert (said.code, said.out) == (2, "")
    assert "nowhere: there is no such folder; `pgrl train --runs-dir nowhere` makes it" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--where", "delta_mode=="], "--where: column 12: expected a value after '='; came '='"),
        (["--where", "delta_mod=x"], "no run here has a key 'delta_mod'. Did you mean 'delta_mode'?"),
        (["--where", "lr<1"], "here it is spelled 'learning_rate'"),
        (["--where", "delta_mode<3"], "and 3 is a number; put it in quotes"),
        (["--sort", "-last_mean_rewards"], "--sort: no run here has a key 'last_mean_rewards'. Did you mean"),
        (["nothing"], "no folder of that pattern; nor has runs a run of that id or name"),
        (["3fa9"], "3fa9: may be any of 2: "),
    ],
)
@pytest.mark.usefixtures("store")
def test_a_mistake_is_one_line_with_its_fix(words: list[str], told: str) -> None:
    said = pgrl("ls", *words)
    assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1)
    assert told in said.err


def test_names_that_would_steer_the_screen_or_are_too_wide_are_shown_harmless() -> None:
    made("000001", "a", 1, 1.0)
    names = ["\x1b[31mred\r\n", "名" * 90, "[bold]x[/bold]", "é" * 200, [1, 2], None, 3.5, True]
    for number, name in enumerate(names):
        path = made(f"10000{number}", "x", 2, 1.0)
        text = (path / "config.yaml").read_text().replace("name: x", f"name: {json.dumps(name)}")
        (path / "config.yaml").write_text(text)
    said = pgrl("ls")
    assert (said.code, said.err) == (0, "")
    assert len(said.out.splitlines()) == len(names) + 2
    assert max(cell_len(line) for line in said.out.splitlines()) <= 80
    assert "\x1b" not in said.out
    assert "?[31mred  " in said.out
    assert "[bold]x[/" in said.out
    for words in (["ls", "--json"], ["ls", "--csv"], ["show", "100000"], ["diff", "100000", "100001"]):
        assert pgrl(*words).code == 0


def test_the_store_imports_no_torch() -> None:
    made("3fa9c1", "mine", 1, 3.25)
    made("77bb00", "other", 1, 3.25)
    script = """
import sys
from pgrl_cli.cli import app
for words in ("ls --where name=mine", "show mine", "diff mine other", "rm mine --yes", "restore mine", "export mine"):
    try:
        app(["runs", *words.split()])
    except SystemExit as ended:
        assert ended.code == 0, words
assert not {"torch", "matplotlib"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


# show, diff


@pytest.mark.usefixtures("store")
def test_show_tells_how_a_run_stands_its_numbers_what_is_no_default_and_its_files() -> None:
    shown = pgrl("show", "other").out
    assert re.search(r"^status +completed$", shown, re.MULTILINE)
    assert re.search(r"^  last_mean_reward +4.5$", shown, re.MULTILINE)
    assert re.search(r"^  learning_rate +0.5$", shown, re.MULTILINE)
    assert re.search(r"^  config.yaml +\d+ bytes$", shown, re.MULTILINE)
    assert "to go on" not in shown
    assert "steps_per_epoch  1" in shown
    folder = Path("runs/2026-11-30_09-15-01-mine-3fa9c1")
    (folder / "config.yaml").write_text("name: mine\nlearning_rate: 0.001\nepochs: 2\n")
    assert "learning_rate" not in pgrl("show", "mine").out
    assert "learning_rate" in pgrl("show", "mine", "--config").out


@pytest.mark.usefixtures("store")
def test_show_says_why_a_run_failed_and_how_to_go_on_with_one_that_was_stopped() -> None:
    assert "to go on     pgrl train --resume runs/2026-11-30_09-15-03-third-77bb00" in pgrl("show", "third").out
    assert "to go on     pgrl sweep --resume runs/2026-11-30_09-15-05-grid-aaaaaa" in pgrl("show", "grid").out
    assert re.search(r"error +status.json: is damaged", pgrl("show", "broken").out)
    failed = made("000000", "failed", 9, None, status="failed")
    seeds = [{"seed": 3, "status": "failed", "error": "loss is nan"}, {"seed": 4, "status": "completed"}]
    runs.write_whole(failed / "status.json", {"status": "failed", "error": "why", "seeds": seeds})
    (failed / "checkpoints" / "epoch-000100").mkdir(parents=True)
    told = json.loads(pgrl("show", "failed", "--json").out)
    assert (told["status"], told["error"], told["failed_seeds"]) == ("failed", "why", {"3": "loss is nan"})
    assert told["checkpoints"] == ["epoch-000100"]
    assert told["files"]["checkpoints/"] == 0


@pytest.mark.usefixtures("store")
def test_diff_shows_only_what_differs() -> None:
    for name, torch in (("01-mine-3fa9c1", "2.0"), ("02-other-3fa9d2", "2.1")):
        provenance = {"python": "3.11", "packages": {"torch": torch}, "git": None}
        runs.write_whole(Path(f"runs/2026-11-30_09-15-{name}/provenance.json"), provenance)
    found = json.loads(pgrl("diff", "mine", "other", "--json").out)
    assert found["config"] == {
        "name": ["mine", "other"], "delta_mode": ["rewards", "max_rewards"], "learning_rate": [0.001, 0.5],
    }  # fmt: skip
    assert (found["made_with"], found["numbers"]) == ({"torch": ["2.0", "2.1"]}, {"last_mean_reward": [3.25, 4.5]})
    lines = pgrl("diff", "mine", "other").out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "A", "B", "config", "name", "delta_mode", "learning_rate", "made", "torch", "numbers", "last_mean_reward",
    ]  # fmt: skip
    assert pgrl("diff", "mine", "mine").out.splitlines()[-1] == "no difference"


# rm, restore


@pytest.mark.usefixtures("store")
def test_rm_moves_to_the_trash_and_restore_brings_back() -> None:
    said = pgrl("rm", "mine", "3fa9d2", "--yes")
    assert said.code == 0
    assert all(line.startswith("runs/.trash/") for line in said.out.splitlines())
    assert ids("--where", "status=completed") == ""
    listed = pgrl("restore").out.splitlines()
    assert [line.split()[2] for line in listed] == sorted(
        ["2026-11-30_09-15-01-mine-3fa9c1", "2026-11-30_09-15-02-other-3fa9d2"], reverse=True
    )
    assert pgrl("restore", "mine").out == "runs/2026-11-30_09-15-01-mine-3fa9c1\n"
    assert ids("--where", "status=completed") == "a9c1"
    assert pgrl("rm", "--purge", "--yes").out == "1 run deleted for good\n"
    assert pgrl("restore").err == "note: nothing is in the trash of runs\n"
    assert pgrl("rm", "--purge").out == "0 runs deleted for good\n"


@pytest.mark.usefixtures("store")
def test_without_a_terminal_rm_wants_a_yes_and_on_one_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    said = pgrl("rm", "mine")
    assert (said.code, said.out) == (2, "")
    assert "there is no terminal to ask on, so say --yes" in said.err
    monkeypatch.setattr(cli_runs, "_is_terminal", lambda: True)
    for answer in ("n\n", "\n", ""):
        said = pgrl("rm", "mine", answer=answer)
        assert said.code == 1
        assert "move to the trash: 2026-11-30_09-15-01-mine-3fa9c1? [y/N]" in said.err
    assert ids("--where", "name=mine") == "a9c1"
    assert pgrl("rm", "mine", answer="y\n").code == 0
    assert pgrl("rm", "--purge", answer="n\n").code == 1
    assert len(pgrl("restore").out.splitlines()) == 1


@pytest.mark.usefixtures("store")
def test_rm_takes_runs_or_purge_and_refuses_one_that_is_alive() -> None:
    runs.Run(Path("runs/2026-11-30_09-15-01-mine-3fa9c1")).mark("running")
    for words, told in {
        (): "RUN: name a run, or --purge",
        ("mine", "--purge"): "--purge: takes no RUN",
        ("mine", "--yes"): f"is in use by process {os.getpid()}",
        ("grid/clip=0.1", "--yes"): "is a cell of a sweep",
        ("other", "nothing", "--yes"): "nothing: there is no such folder",
    }.items():
        said = pgrl("rm", *words)
        assert (said.code, said.out) == (2, ""), words
        assert told in said.err
    assert not Path("runs/.trash").exists()


# verify


def test_verify_says_how_many_are_whole_or_every_fault_with_its_place() -> None:
    made("3fa9c1", "mine", 1, 3.25)
    for words in ([], ["mine"]):
        said = pgrl("verify", *words)
        assert said.code == 1
        assert "runs/2026-11-30_09-15-01-mine-3fa9c1/provenance.json: there is no such file" in said.out.splitlines()
        assert said.err == "error: 1 of 1 are not whole\n"
    Path("whole").mkdir()
    assert pgrl("verify", "--runs-dir", "whole").out == "0 runs are whole\n"


def test_what_train_and_sweep_write_is_whole() -> None:
    words = ["--config", "lecture/centered_clipped", "epochs=2", "-q"]
    assert any_pgrl("train", *words).code == 0
    assert pgrl("verify", "latest").out == "1 run is whole\n"
    swept = any_pgrl("sweep", *words, "learning_rate=1e-3,2e-3", "--jobs", "1")
    assert swept.code == 0
    assert pgrl("verify").out == "3 runs are whole\n"
    cell = next(Path(swept.out.strip()).glob("cells/*"))
    with (cell / "metrics.jsonl").open("ab") as file:
        file.write(b'{"epoch"')
    said = pgrl("verify")
    assert (said.code, said.out) == (1, f"{cell}/metrics.jsonl:21: is torn: the last 8 bytes are no whole line\n")


DAMAGE = (
    b"",
    b"\0\xff",
    b"[]",
    b"3",
    b'{"status": "completed", "started": 3, "epochs": [], "cells": 7, "seeds": {}}',
    b"[" * 900 + b"]" * 900,
    b'{"a":' * 500 + b"1" + b"}" * 500,
    b"a: &a [*a]\n",
    b"status: {a: 1}\nseeds: -1\n",
)


@pytest.mark.parametrize("damage", DAMAGE)
def test_whatever_lies_in_a_folder_no_command_ends_in_a_traceback(damage: bytes) -> None:
    words = ["--config", "lecture/two_state", "epochs=1", "-q"]
    trained = Path(any_pgrl("train", *words).out.strip())
    cells = sweep_folder(Path("runs/2026-11-30_09-15-00-grid-aaaaaa"), [{"clip": 0.1}, {"clip": 0.2}])
    rewards(cells[0], [0, 1], [[1.0, 2.0]])
    sweep = cells[0].parents[1]
    (sweep / "sweep.yaml").write_text("name: grid\nmetric: mean_reward\n")
    (sweep / "status.json").write_text('{"status": "completed"}')
    files = [file for folder in (trained, sweep, cells[0]) for file in sorted(folder.iterdir()) if file.is_file()]
    for file in files:
        data = file.read_bytes()
        file.write_bytes(damage)
        for asked in (["ls", "--cells"], ["show", str(file.parent)], ["verify", str(trained), str(sweep)],
                      ["ls", "--csv", "--sort", "started", "--where", "epochs>0 or started~3 or status=x"],
                      ["ls", "--json", "--cells"], ["diff", str(trained), str(file.parent)]):  # fmt: skip
            said = pgrl(*asked)
            assert said.code in (0, 1, 2)
            assert not re.search(r"error: \w+(Error|Exception): ", said.err), (file, asked, said.err)
        file.write_bytes(data)


# export


def test_export_writes_to_standard_output_or_into_a_file() -> None:
    run_folder(Path("run"), [3, 7], {"loss": [[0.5, 0.25]]})
    assert pgrl("export", "run", "--seed", "7").out == '{"epoch":0,"step":0,"loss":0.25}\n'
    assert pgrl("export", "run", "--format", "csv").out == "seed,epoch,step,loss\n3,0,0,0.5\n7,0,0,0.25\n"
    said = pgrl("export", "run", "--format", "npz", "--out", "run.npz")
    assert (said.code, said.out) == (0, "run.npz\n")
    assert Path("run.npz").read_bytes().startswith(b"PK")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--format", "npz"], "name a file: --out"),
        (["--format", "xml"], "possible: jsonl, csv, npz"),
        (["--seed", "5"], "has no seed 5; it has 3, 7"),
    ],
)
def test_an_export_that_cannot_be_is_told(words: list[str], told: str) -> None:
    run_folder(Path("run"), [3, 7], {"loss": [[0.5, 0.25]]})
    said = pgrl("export", "run", *words)
    assert (said.code, said.out) == (2, "")
    assert told in said.err


def test_export_takes_the_id_of_a_run_in_runs() -> None:
    run_folder(Path("runs/2026-11-30_09-15-00-mine-3fa9c1"), 3, {"loss": [0.5]})
    assert pgrl("export", "3fa9c1").out == '{"epoch":0,"step":0,"loss":0.5}\n'
    assert pgrl("export", "4fa9c1").code == 2
