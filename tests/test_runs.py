"""The run folder: no two runs share one, and a reader never meets half a file."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgrl_cli import __version__, runs
from pgrl_cli.growing import Lines
from pgrl_cli.machine import process_started
from pgrl_cli.provenance import provenance
from pgrl_cli.runs import Run, create, in_a_path, read_lines, to_json, write_whole
from pgrl_cli.secrecy import redacted


class Noon(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: object = None) -> "Noon":
        return cls(2026, 11, 30, 12, 0, 0)


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "datetime", Noon)


# Folders


@pytest.mark.usefixtures("noon")
def test_runs_that_start_in_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    folders = [create("same", tmp_path, {}).folder for _ in range(20)]
    assert len(set(folders)) == 20
    assert len(list(tmp_path.iterdir())) == 20
    assert all(folder.name.startswith("2026-11-30_12-00-00-same-") for folder in folders)


@pytest.mark.usefixtures("noon")
def test_runs_of_many_threads_have_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(20) as pool:
        made = list(pool.map(lambda number: create("same", tmp_path / "new", {"a": str(number)}), range(20)))
    assert len({run.folder for run in made}) == 20
    assert sorted(int((run.folder / "a").read_text()) for run in made) == list(range(20))


@pytest.mark.usefixtures("noon")
def test_a_folder_that_is_taken_is_left_alone_and_another_tail_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tails: Iterator[str] = iter(["aaaaaa", "aaaaaa", "aaaaaa", "bbbbbb"])
    draw = runs.secrets.token_hex
    monkeypatch.setattr(runs.secrets, "token_hex", lambda size: next(tails) if size == 3 else draw(size))
    first = create("x", tmp_path, {"config.yaml": "first"})
    second = create("x", tmp_path, {"config.yaml": "second"})
    assert (first.folder.name[-6:], second.folder.name[-6:]) == ("aaaaaa", "bbbbbb")
    assert (first.folder / "config.yaml").read_text() == "first"


@pytest.mark.usefixtures("noon")
def test_where_every_name_is_taken_creation_ends_with_an_error_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = runs.secrets.token_hex
    monkeypatch.setattr(runs.secrets, "token_hex", lambda size: "a" * 6 if size == 3 else draw(size))
    first = create("x", tmp_path, {"config.yaml": "first"})
    with pytest.raises(FileExistsError, match="all taken"):
        create("x", tmp_path, {"config.yaml": "second"})
    assert (first.folder / "config.yaml").read_text() == "first"


def test_a_new_folder_is_pending_and_holds_its_texts_and_copies(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_bytes(b"# \xc3\xa9\r\n")
    run = create("x", tmp_path / "deep" / "runs", {"config.yaml": "é→\n", "command.txt": ""}, [source])
    assert run.status()["status"] == "pending"
    assert (run.folder / "config.yaml").read_bytes() == "é→\n".encode()
    assert (run.folder / "command.txt").read_bytes() == b""
    assert (run.folder / "mine.py").read_bytes() == source.read_bytes()
    assert {path.name for path in run.folder.iterdir()} == {"status.json", "config.yaml", "command.txt", "mine.py"}


def test_a_runs_folder_that_is_a_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("precious")
    with pytest.raises(OSError, match="taken"):
        create("x", tmp_path / "taken", {})
    assert (tmp_path / "taken").read_text() == "precious"


NAMES = {
    "centered_clipped": "centered_clipped",
    "a/b\\c": "a-b-c",
    "../../etc/passwd": "etc-passwd",
    "..": "run",
    ".": "run",
    "": "run",
    "🎉": "run",
    "é→x": "x",
    "-rf": "rf",
    "--help": "help",
    ".hidden": "hidden",
    "a b\tc\nd": "a-b-c-d",
    "con:*?<>|\"'": "con",
    "0.1": "0.1",
    "a\0b": "a-b",
    "x" * 300: "x" * 60,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_reduced_to_what_a_path_takes(name: str, tmp_path: Path) -> None:
    assert in_a_path(name) == NAMES[name]
    folder = create(name, tmp_path / "runs", {}).folder
    assert folder.parent == tmp_path / "runs"
    assert folder.is_dir()
    assert f"-{NAMES[name]}-" in folder.name


@settings(max_examples=300, deadline=None, derandomize=True)
@example("x" * 59 + "-.y")
@given(st.text())
def test_any_name_becomes_a_short_plain_word(name: str) -> None:
    word = in_a_path(name)
    assert 1 <= len(word) <= 60
    assert set(word) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert word[0] not in ".-"
    assert in_a_path(word) == word.strip(".-")


# Files


def test_a_file_is_written_whole_over_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    write_whole(path, "old, and much longer than the new one")
    write_whole(path, {"a": [1, None]})
    assert json.loads(path.read_text()) == {"a": [1, None]}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_a_write_that_breaks_off_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    def breaks_off(*_: object) -> None:
        raise error

    path = tmp_path / "status.json"
    path.write_text("old")
    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), breaks_off)
    with pytest.raises(type(error)):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [{"a": object()}, {1: 2}], ids=["object", "key"])
def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, content: dict[str, object]) -> None:
    path = tmp_path / "status.json"
    path.write_text("old")
    with pytest.raises((TypeError, ValueError)):
        write_whole(path, content)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_written_is_on_the_disk_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    synced, renamed = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: (calls.append("fsync"), synced(number)))
    monkeypatch.setattr(Path, "replace", lambda one, other: (calls.append("replace"), renamed(one, other))[1])
    write_whole(tmp_path / "a", "x")
    assert calls == ["fsync", "replace"]


def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    path, done, seen = tmp_path / "status.json", threading.Event(), []
    write_whole(path, {"number": -1, "padding": ""})

    def read() -> None:
        while not done.is_set():
            told = json.loads(path.read_bytes())
            assert len(told["padding"]) == (told["number"] + 1) * 1000
            seen.append(told["number"])

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        for number in range(60):
            write_whole(path, {"number": number, "padding": "x" * (number + 1) * 1000})
        done.set()
        reader.result()
    assert seen == sorted(seen)
    assert len(seen) > 0
    assert list(tmp_path.iterdir()) == [path]


def test_json_is_strict_and_what_is_not_finite_is_null() -> None:
    strange = [float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.float64("inf"), np.array([1, np.nan])]
    assert to_json(strange) == b"[null,null,null,null,null,[1.0,null]]\n"
    assert to_json({"a": np.float32("-inf"), "b": None}) == b'{"a":null,"b":null}\n'


def test_numbers_are_written_in_their_shortest_form() -> None:
    assert to_json([np.float32(0.1), np.float64(0.1), 0.5, np.int64(3), True]) == b"[0.1,0.1,0.5,3,true]\n"
    assert to_json(np.array([0.1, 1 / 3], dtype=np.float32)) == b"[0.1,0.33333334]\n"


def test_numbers_come_back_as_they_were() -> None:
    for dtype in (np.float32, np.float64):
        numbers = np.random.default_rng(0).standard_normal(1000).astype(dtype)
        assert (np.array(orjson.loads(to_json(numbers)), dtype=dtype) == numbers).all()


def test_json_ends_with_a_newline_and_is_indented_for_eyes_alone() -> None:
    assert to_json({"a": 1}) == b'{"a":1}\n'
    assert to_json({"a": 1}, indent=True) == b'{\n  "a": 1\n}\n'


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = b'{"a":1}\n{"a":2}\n'
    for torn in (b"", b"{", b'{"a":', b'{"a":3}', b"\x00\x00\x00", b"\xff"):
        path.write_bytes(whole + torn)
        assert list(read_lines(path)) == [{"a": 1}, {"a": 2}]


def test_every_cut_of_a_file_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path, whole = tmp_path / "metrics.jsonl", b'{"a":1}\n{"a":"\xc3\xa9"}\n{"a":3}\n'
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        assert len(list(read_lines(path))) == whole[:cut].count(b"\n")


@pytest.mark.parametrize("damaged", [b'{"a":\n', b"\n", b"\x00\x00\n", b"NaN\n", b'{"a":NaN}\n', b"\xff\n"])
def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"a":1}\n' + damaged + b'{"a":3}\n')
    lines = read_lines(path)
    assert next(lines) == {"a": 1}
    with pytest.raises(ValueError, match=rf"^{path}:2: damaged"):
        next(lines)


def test_a_runs_growing_files_are_there_at_once_and_hold_what_was_flushed(tmp_path: Path) -> None:
    run = create("x", tmp_path, {})
    with closing(Lines(run)) as lines:
        names = {"metrics.jsonl", "timing.jsonl", "samples.jsonl", "train.log", "status.json"}
        assert {path.name for path in run.folder.iterdir()} == names
        lines.metrics.write(to_json({"step": 0}))
        lines.log.write("é→\n".encode())
        lines.flush()
        assert run.metrics() == [{"step": 0}]
        assert run.log_file.read_bytes() == "é→\n".encode()
        positions = lines.positions
        lines.metrics.write(to_json({"step": 7}))
    with closing(Lines(run, positions)) as lines:  # going on from there
        lines.metrics.write(to_json({"step": 1}))
    assert run.metrics() == [{"step": 0}, {"step": 1}]
    with closing(Lines(run)):
        assert run.metrics() == []  # anew


def test_a_status_says_which_process_of_which_host_has_the_run(tmp_path: Path) -> None:
    run = create("x", tmp_path, {})
    run.mark("running", started="now", loss=float("nan"))
    status = run.status()
    assert (status["status"], status["pid"], status["started"], status["loss"]) == ("running", os.getpid(), "now", None)
    assert status["process_started"] == process_started(os.getpid())
    assert status["host"]
    run.mark("completed")
    assert "started" not in run.status()


# Secrets, and where a run comes from


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("api_key=abc", "api_key=***"),
        ("WANDB_API_KEY=abc", "WANDB_API_KEY=***"),
        ("apikey=abc", "apikey=***"),
        ("--api-key=abc", "--api-key=***"),
        ("--token abc next", "--token *** next"),
        ("--hf-token abc", "--hf-token ***"),
        ("HF_TOKEN=abc=def", "HF_TOKEN=***"),
        ("token=abc", "token=***"),
        ("password=abc", "password=***"),
        ("db.passwd=abc", "db.passwd=***"),
        ("--password abc", "--password ***"),
        ("client_secret=abc", "client_secret=***"),
        ("aws_credentials=abc", "aws_credentials=***"),
        ("token_budget=4", "token_budget=4"),
        ("average=token_mean", "average=token_mean"),
        ("train --config a.yaml epochs=5 -q", "train --config a.yaml epochs=5 -q"),
        ("--token --secret abc", "--token *** abc"),
        ("--token", "--token"),
        ("", ""),
    ],
)
def test_the_values_of_secrets_are_hidden_and_nothing_else(typed: str, kept: str) -> None:
    assert redacted(typed.split()) == kept.split()


def test_provenance_tells_versions_and_the_commit_and_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_SECRET", "hunter2hunter2")
    told = provenance()
    assert set(told) == {"pgrl", "python", "platform", "packages", "git"}
    assert told["pgrl"] == __version__
    assert told["python"] == ".".join(map(str, sys.version_info[:3]))
    assert told["packages"]["torch"]
    assert set(told["packages"]) >= {"torch", "numpy", "einops", "pydantic", "orjson", "PyYAML", "matplotlib"}
    assert b"hunter2" not in to_json(told)


def test_the_commit_is_that_of_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance()["git"] is None

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "one")
    (tmp_path / "untracked").write_text("1")
    assert provenance()["git"] == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "a").write_text("2")
    assert provenance()["git"] == {"commit": git("rev-parse", "HEAD"), "dirty": True}


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance()["git"] is None


def test_the_time_has_a_zone() -> None:
    assert datetime.fromisoformat(runs.now()).utcoffset() is not None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_when_a_process_started_tells_it_from_another_of_its_number() -> None:
    mine = process_started(os.getpid())
    assert isinstance(mine, int)
    assert mine > 0
    assert process_started(os.getpid()) == mine
    assert (process_started(1) or 0) <= mine


def test_a_process_that_does_not_exist_has_no_start() -> None:
    assert process_started(2**30) is None
    assert process_started(-1) is None


def test_a_run_knows_its_files(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert (run.curves_file, run.log_file) == (tmp_path / "curves.png", tmp_path / "train.log")


def test_text_that_is_no_unicode_is_written_escaped(tmp_path: Path) -> None:
    write_whole(tmp_path / "command.txt", "pgrl train -c \udce9.yaml\n")
    assert (tmp_path / "command.txt").read_text(encoding="utf-8") == "pgrl train -c \\udce9.yaml\n"
