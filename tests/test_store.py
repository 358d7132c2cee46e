"""What is known of runs without opening them, the index, ids, the trash, and whether a run is whole."""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from by_hand import rewards, run_folder, sweep_folder

from pgrl_cli import folders, index, runs, store, trash, verification
from pgrl_cli.catalogue import Entry, entry_of
from pgrl_cli.config.layers import layers_from
from pgrl_cli.config.problems import ConfigError
from pgrl_cli.experiment import run
from pgrl_cli.index import INDEX
from pgrl_cli.resolution import resolve
from pgrl_cli.store import entries_of, resolved, short_ids
from pgrl_cli.trash import discard, discarded, purge, removable, restorable, restore


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def made(tail: str, name: str = "x", second: int = 0, folder: Path = Path("runs"), **more: Any) -> Path:
    """A run folder whose name has a stamp, a name and a tail."""
    path = rewards(folder / f"2026-11-30_09-15-{second:02d}-{name}-{tail}", 0, [1.0, 2.0], name=name, **more)
    told = {"status": more.get("status", "completed"), "epochs": 2, "last_mean_reward": 1.5, "exact_match": None}
    (path / "status.json").write_text(json.dumps(told | {"started": f"2026-11-30T09:15:{second:02d}+00:00"}))
    return path


def entry(tail: str, runs_dir: Path = Path("runs")) -> Entry:
    return next(found for found in entries_of(runs_dir) if found.path.name.endswith(tail))


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return str(caught.value)


# Entries


def test_an_entry_has_the_config_the_numbers_and_how_the_run_stands() -> None:
    facts = entry_of(made("3fa9c1", "mine", 7)).facts
    assert {key: facts[key] for key in ("kind", "name", "status", "epochs", "epochs_done", "seed_count")} == {
        "kind": "run", "name": "mine", "status": "completed", "epochs": 2, "epochs_done": 2, "seed_count": 1,
    }  # fmt: skip
    assert (facts["last_mean_reward"], facts["exact_match"], facts["delta_mode"]) == (1.5, None, "rewards")
    assert facts["started"] == "2026-11-30T09:15:07+00:00"


def test_what_the_config_says_wins_over_a_status_of_the_same_key_and_never_over_how_the_run_stands() -> None:
    path = made("3fa9c1", learning_rate=0.5)
    (path / "config.yaml").write_text("name: mine\nstatus: fine\nepochs: 9\nlast_mean_reward: high\n")
    facts = entry_of(path).facts
    assert (facts["status"], facts["epochs"], facts["epochs_done"]) == ("completed", 9, 2)
    assert facts["last_mean_reward"] == "high"


def test_a_run_of_a_dead_process_is_lost_and_its_epochs_are_those_of_timing() -> None:
    path = made("3fa9c1")
    (path / "timing.jsonl").write_text('{"epoch":0}\n{"epoch":1}\n{"epo')
    status = {"status": "running", "epochs": 7, "pid": os.getpid(), "process_started": 1, "host": "elsewhere"}
    for host, process_started, expected in (
        ("elsewhere", 1, "running"),
        (runs.socket.gethostname(), 1, "lost"),
        (runs.socket.gethostname(), runs.process_started(os.getpid()), "running"),
    ):
        told = status | {"host": host, "process_started": process_started}
        (path / "status.json").write_text(json.dumps(told))
        found = entry_of(path)
        assert (found.status, found.facts["epochs_done"]) == (expected, 2)


def test_a_sweep_counts_its_cells_and_its_cells_are_entries_also_before_they_start() -> None:
    cells = sweep_folder(Path("runs/2026-11-30_09-15-00-grid-aaaaaa"), [{"clip": 0.1}, {"clip": 0.2}])
    rewards(cells[0], [0, 1], [[1.0, 2.0]], clip=0.1)
    sweep = cells[0].parents[1]
    (sweep / "sweep.yaml").write_text("name: grid\nbase: {epochs: 9, clip: 1}\nparameters: {clip: [0.1, 0.2]}\n")
    (sweep / "status.json").write_text('{"status": "interrupted", "cells": {"completed": 1, "pending": 1}}')
    facts = entry("aaaaaa").facts
    assert (facts["kind"], facts["cells"], facts["cells_completed"], facts["epochs"]) == ("sweep", 2, 1, 9)
    assert "clip" not in facts
    both = [(cell.facts["label"], cell.status, cell.facts["seed_count"]) for cell in store.cells_of(sweep)]
    assert both == [("clip=0.1", "completed", 2), ("clip=0.2", "pending", 1)]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("status.json", b""),
        ("status.json", b"[]"),
        ("status.json", b'{"status": 3}'),
        ("status.json", b"\xff\xfe"),
        ("status.json", b'{"status": NaN}'),
        ("status.json", b'{"status": "completed", "x": ' + b"[" * 500 + b"]" * 500 + b"}"),
        ("config.yaml", b"a: [1"),
        ("config.yaml", b"- 1"),
        ("config.yaml", b"\xff\xfe"),
        ("config.yaml", b"a: !!python/object:os.system x"),
        ("config.yaml", b"x: " + b"[" * 1000),
        ("config.yaml", b"a" * (1 << 21)),
    ],
)
def test_a_damaged_folder_is_an_entry_that_says_so(file: str, content: bytes) -> None:
    (made("3fa9c1", second=3) / file).write_bytes(content)
    found = entry("3fa9c1")
    assert (found.status, found.facts["name"], found.facts["started"]) == ("damaged", "x", _utc("2026-11-30_09-15-03"))
    assert found.problem


def test_missing_files_pipes_folders_and_links_to_nothing_in_their_place_are_damage_too() -> None:
    for number, put in enumerate((Path.unlink, _pipe, _folder, _loop)):
        path = made(f"00000{number}") / "status.json"
        path.unlink()
        put(path) if put is not Path.unlink else None
        assert entry(f"00000{number}").status == "damaged"
    Path("runs/2026-11-30_09-15-00-empty-bbbbbb").mkdir()
    assert entry("bbbbbb").problem == "status.json: No such file or directory"


def test_values_that_json_cannot_hold_are_facts_all_the_same() -> None:
    path = made("3fa9c1")
    (path / "config.yaml").write_text(f"name: [1, .nan]\nbig: {'9' * 300}\nhuge: 1e999\nseeds: wrong\nepochs: no\n")
    facts = entry("3fa9c1").facts
    assert (facts["name"], facts["huge"], facts["seed_count"]) == ([1, None], None, None)
    assert isinstance(facts["big"], str)


def test_a_folder_whose_name_is_no_unicode_or_that_may_not_be_read_is_listed_with_the_others(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("3fa9c1")
    strange = here / os.fsdecode(b"\xff\xfe")
    made("77bb00").rename(strange)
    closed = made("88bb00")
    stat = Path.stat

    def refused(path: Path, **more: Any) -> os.stat_result:
        if path.parent == closed.absolute():
            raise PermissionError(errno.EACCES, "Permission denied")
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", refused)
    for _ in range(2):
        found = {found.path.name: found for found in entries_of(here)}
        assert found[strange.name].status == "completed"
        assert found[closed.name].problem == "status.json: Permission denied"
        assert len(found) == 3


def _utc(stamp: str) -> str:
    then = time.mktime(time.strptime(stamp, "%Y-%m-%d_%H-%M-%S"))
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(then))


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


# The index


def test_a_listing_holds_runs_and_sweeps_alone_the_newest_first(here: Path) -> None:
    made("bbbbbb", second=2)
    made("aaaaaa", second=1)
    made("cccccc", second=2)
    (here / "notes").mkdir()
    (here / ".hidden").mkdir()
    (here / "file.txt").write_text("")
    assert [found.path.name[-6:] for found in entries_of(here)] == ["cccccc", "bbbbbb", "aaaaaa"]
    assert sorted(path.name for path in here.iterdir() if path.name.startswith(".")) == [".hidden", INDEX]


def test_what_has_not_changed_is_not_read_again_and_what_has_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [made(tail) for tail in ("aaaaaa", "bbbbbb", "cccccc", "dddddd")]
    (paths[3] / "status.json").write_text('{"status": "running", "pid": 1, "host": "elsewhere"}')
    entries_of(here)
    read: list[str] = []

    def seen(path: Path, kind: str | None = None) -> Entry:
        read.append(path.name[-6:])
        return entry_of(path, kind)

    monkeypatch.setattr(index, "entry_of", seen)
    first = entries_of(here)
    assert read == ["dddddd"]  # it may go on at any time
    runs.Run(paths[0]).mark("failed", error="why", started="2026-11-30T09:15:00+00:00")
    with (paths[1] / "config.yaml").open("a") as file:
        file.write("added: 3\n")
    shutil.rmtree(paths[2])
    read.clear()
    again = {found.path.name[-6:]: found for found in entries_of(here)}
    assert sorted(read) == ["aaaaaa", "bbbbbb", "dddddd"]
    assert (again["aaaaaa"].status, again["bbbbbb"].facts["added"], len(again)) == ("failed", 3, 3)
    assert len(first) == 4


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b'{"form": "another", "entries": {}}', b'{"form": "FORM", "entries": {"NAME": {"stamp": 3}}}',
     b'{"form": "FORM", "entries": {"NAME": {"stamp": STAMP, "kind": "run", "facts": {}}}}',
     b'{"form": "FORM", "entries": {"NAME": {"stamp": STAMP, "kind": "cell", "facts": []}}}'],
)  # fmt: skip
def test_an_index_that_is_damaged_or_foreign_is_made_anew(here: Path, content: bytes) -> None:
    path = made("aaaaaa")
    before = entries_of(here)
    stamp = json.loads((here / INDEX).read_bytes())["entries"][path.name]["stamp"]
    for word, told in {b"FORM": index.FORM, b"NAME": path.name, b"STAMP": str(stamp)}.items():
        content = content.replace(word, told.encode())
    (here / INDEX).write_bytes(content)
    assert entries_of(here) == before
    assert json.loads((here / INDEX).read_bytes())["entries"][path.name]["kind"] == "run"


def test_an_index_that_cannot_be_written_or_is_a_pipe_is_done_without(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("aaaaaa")

    def full(path: Path, content: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_whole", full)
        assert len(entries_of(here)) == 1
    assert not (here / INDEX).exists()
    (here / INDEX).mkdir()
    assert len(entries_of(here)) == 1
    (here / INDEX).rmdir()
    os.mkfifo(here / INDEX)
    assert len(entries_of(here)) == 1
    assert (here / INDEX).is_file()  # another was put in its place


def test_an_index_that_is_a_link_is_replaced_and_its_target_left_alone(here: Path) -> None:
    made("aaaaaa")
    Path("precious").write_text("mine")
    (here / INDEX).symlink_to(Path("precious").absolute())
    entries_of(here)
    assert Path("precious").read_text() == "mine"
    assert not (here / INDEX).is_symlink()


def test_a_thousand_runs_are_listed_in_under_a_second_from_the_index(here: Path) -> None:
    config = resolve(layers_from({"name": "x", "epochs": 1}))
    template, _ = run(config, Path("template"))
    for number in range(1000):
        folder = here / f"2026-11-30_09-{number // 60:02d}-{number % 60:02d}-x-{number:06x}"
        folder.mkdir(parents=True)
        for name in ("config.yaml", "status.json", "timing.jsonl", "metrics.jsonl"):
            shutil.copy(template.folder / name, folder / name)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        found = entries_of(here)
        seconds.append(time.perf_counter() - began)
        assert len(found) == 1000
    assert len(set(short_ids([each.path.name for each in found]).values())) == 1000
    print(f"1000 runs: cold {seconds[0]:.2f} s, warm {min(seconds[1:]):.2f} s")
    assert seconds[0] < 4
    assert min(seconds[1:]) < 1


# Ids


def test_a_run_is_found_by_path_folder_beginning_tail_name_and_latest(here: Path) -> None:
    old, new = made("3fa9c1", "mine", 1), made("77bb00", "other", 2)
    for word in (old, old.name, old.name[:19], "3fa9c1", "a9c1", "3fa9", "mine", f"{old.name}/", str(old.absolute())):
        assert resolved(word).resolve() == old.resolve(), word
    assert resolved("latest") == new
    assert resolved("77bb", here) == here / new.name
    assert store.path_or_id("mine") == str(old)
    assert store.path_or_id("runs/*-mine-*") == "runs/*-mine-*"
    assert store.path_or_id("runs") == "runs"


def test_a_path_that_exists_wins_over_an_id_and_a_whole_tail_over_the_beginning_of_a_name() -> None:
    made("3fa9c1", "mine")
    rewards(Path("mine"), 0, [1.0])
    assert resolved("mine") == Path("mine")
    named = made("000000", "3fa9c1")
    assert resolved("3fa9c1").name.endswith("-mine-3fa9c1")
    assert resolved(named.name) == named


def test_a_word_that_may_mean_several_names_them_and_one_that_means_none_the_nearest() -> None:
    first, second = made("3fa9c1", "mine", 1), made("3fa9d2", "mine", 2)
    told = refusal(lambda: resolved("3fa9"))
    assert told.startswith("3fa9: may be any of 2: ")
    assert first.name in told
    assert second.name in told
    assert "may be any of 2" in refusal(lambda: resolved("mine"))
    assert "Did you mean 'mine'?" in refusal(lambda: resolved("mime"))
    assert "no folder of that pattern; nor has runs a run of that id" in refusal(lambda: resolved("c1"))
    assert "''" in refusal(lambda: resolved(""))
    assert "is no run" in refusal(lambda: resolved("runs"))
    assert "is a file; name the run folder" in refusal(lambda: resolved(first / "metrics.jsonl"))
    assert "nor is there a folder nowhere" in refusal(lambda: resolved("mine", Path("nowhere")))
    for odd in ("x" * 5000, "\0", "a/b/c", "/", "..", "*", "[", "é\n", "latest/x"):
        assert refusal(lambda odd=odd: resolved(odd, Path("runs")))  # type: ignore[misc]


def test_a_cell_is_found_below_its_sweep_and_a_kind_can_be_asked_for() -> None:
    cells = sweep_folder(Path("runs/2026-11-30_09-15-09-grid-aaaaaa"), [{"clip": 0.1}, {"clip": 0.2}])
    for cell in cells:
        rewards(cell, 0, [1.0])
    sweep = cells[0].parents[1]
    (sweep / "sweep.yaml").write_text("name: grid\n")
    (sweep / "status.json").write_text('{"status": "completed", "started": "2026-11-30T09:15:09+00:00"}')
    run_path = made("3fa9c1", second=1)
    for word in ("grid/clip=0.2", "latest/clip=0.2", "aaaaaa/00000001", f"{sweep.name}/cells/{cells[1].name}"):
        assert resolved(word) == cells[1]
    assert (resolved("latest"), resolved("latest", kind="run")) == (sweep, run_path)
    assert resolved(cells[1], kind="run") == cells[1]
    assert "is a sweep; a run is wanted here" in refusal(lambda: resolved("grid", kind="run"))
    assert "has no such cell" in refusal(lambda: resolved("grid/clip=0.3"))
    assert "nor has runs a sweep of that id or name" in refusal(lambda: resolved("3fa9c1/clip=0.2"))
    assert resolved("clip=0.2") == resolved("00000001") == cells[1]
    shutil.copytree(sweep, sweep.with_name("2026-11-30_09-15-10-grid-bbbbbb"))
    assert "may be any of 2: runs/" in refusal(lambda: resolved("clip=0.2"))


def test_short_ids_are_the_fewest_last_letters_that_are_ones_own() -> None:
    names = ["a-3fa9c1", "a-77bb00", "a-88bb00", "b-c", "xyz"]
    assert short_ids(names) == {
        "a-3fa9c1": "a9c1", "a-77bb00": "7bb00", "a-88bb00": "8bb00", "b-c": "b-c", "xyz": "xyz",
    }  # fmt: skip
    assert short_ids(["1-abc", "2-abc"]) == {"1-abc": "1-abc", "2-abc": "2-abc"}


# The trash


def test_what_is_removed_lies_in_a_hidden_folder_and_comes_back_as_it_was(here: Path) -> None:
    path = made("3fa9c1", "mine")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    assert removable(["3fa9c1", "mine", str(path)], here) == [here / path.name]
    gone = discard(here / path.name)
    assert gone.folder.is_relative_to(here / ".trash")
    assert (entries_of(here), path.exists()) == ([], False)
    record = json.loads((gone.folder.parent / "record.json").read_bytes())
    assert record["from"] == str(here / path.name)
    for word in ("mine", "3fa9c1", path.name, str(path), gone.token):
        assert restorable([word], here) == discarded(here) == [gone]
    assert restore(gone, here) == here / path.name
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert discarded(here) == []


def test_a_run_in_use_a_cell_a_stranger_and_what_lies_elsewhere_are_refused_and_nothing_moves(here: Path) -> None:
    cells = sweep_folder(here / "2026-11-30_09-15-00-grid-aaaaaa", [{"clip": 0.1}])
    rewards(cells[0], 0, [1.0])
    alive, fine = made("bbbbbb"), made("cccccc")
    runs.Run(alive).mark("running")
    elsewhere = made("dddddd", folder=Path("other"))
    (here / "notes").mkdir()
    words = [str(cells[0]), "bbbbbb", "cccccc", str(elsewhere), "runs/notes", "runs", "..", f"{fine}/..", "nothing"]
    told = refusal(lambda: removable(words, here))
    assert "is a cell of a sweep" in told
    assert f"is in use by process {os.getpid()}" in told
    assert "does not lie in" in told
    assert "name its folder: --runs-dir other" in told
    assert len(told.splitlines()) == len(words) - 1
    assert not (here / ".trash").exists()
    runs.write_whole(alive / "status.json", {"status": "running", "pid": 1, "process_started": 1, "host": "x"})
    assert "in use" in refusal(lambda: removable(["bbbbbb"], here))


def test_a_link_goes_and_comes_back_and_is_deleted_as_a_link(here: Path) -> None:
    target = made("3fa9c1", folder=Path("outside"))
    inside = made("cccccc")
    (inside / "out").symlink_to(target.absolute())
    link = here / target.name
    link.symlink_to(target.absolute())
    assert removable([str(link)], here) == [link]
    gone = discard(link)
    assert gone.folder.is_symlink()
    assert restore(gone, here).is_symlink()
    for path in (link, inside):
        discard(path)
    purge(here)
    assert not any((here / ".trash").iterdir())
    assert (target / "metrics.jsonl").is_file()


def test_what_is_in_the_trash_is_found_by_nothing_else(here: Path) -> None:
    made("3fa9c1", "mine")
    discard(here / made("77bb00", "other").name)
    assert [found.path.name[-6:] for found in folders.found([here])] == ["3fa9c1"]
    assert "nor has" in refusal(lambda: resolved("other"))


def test_a_trash_that_leads_elsewhere_is_refused(here: Path) -> None:
    path = made("3fa9c1")
    Path("precious").mkdir()
    (Path("precious") / "file").write_text("mine")
    (here / ".trash").symlink_to(Path("precious").absolute())
    for call in (lambda: discard(here / path.name), lambda: purge(here), lambda: discarded(here)):
        assert "is no folder of its own" in refusal(call)
    assert [file.name for file in Path("precious").iterdir()] == ["file"]
    (here / ".trash").unlink()
    (here / ".trash").mkdir()
    (here / ".trash" / "link").symlink_to(Path("precious").absolute())
    assert discarded(here) == []
    purge(here)
    assert (Path("precious") / "file").read_text() == "mine"


def test_a_lost_or_lying_record_changes_nothing_but_what_is_told(here: Path) -> None:
    path = made("3fa9c1")
    for content in (b"", b"[]", b'{"from": "../../evil", "when": 3, "name": "evil"}'):
        gone = discard(here / path.name)
        (gone.folder.parent / "record.json").write_bytes(content)
        (found,) = discarded(here)
        assert found.folder == gone.folder
        assert restore(found, here) == here / path.name
    assert sorted(file.name for file in here.parent.iterdir()) == ["runs"]


def test_nothing_is_overwritten_by_what_comes_back_and_twice_removed_is_told_apart(here: Path) -> None:
    path = made("3fa9c1", "mine")
    first = discard(here / path.name)
    made("3fa9c1", "mine")
    assert "is there already" in refusal(lambda: restorable(["mine"], here))
    second = discard(here / path.name)
    told = refusal(lambda: restorable(["mine"], here))
    assert "went to the trash more than once" in told
    assert {first.token, second.token} <= set(told.replace(",", " ").split())
    assert restorable([first.token], here) == [first]
    assert "is not in the trash" in refusal(lambda: restorable(["other"], here))


def test_across_file_systems_a_run_is_copied_whole_before_it_goes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made("3fa9c1")
    (path / "link").symlink_to("nowhere")
    rename = os.rename

    def across(source: Any, target: Any, **more: Any) -> None:
        if ".trash" in str(target) and ".trash" not in str(source):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target, **more)

    monkeypatch.setattr(os, "rename", across)
    gone = discard(here / path.name)
    assert (gone.folder / "link").is_symlink()
    assert (gone.folder / "metrics.jsonl").is_file()
    assert not path.exists()
    restore(gone, here)
    monkeypatch.setattr(shutil, "copytree", lambda *words, **more: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        trash.discard(here / path.name)
    assert (path / "metrics.jsonl").is_file()
    assert discarded(here) == []


# Whether a run is whole


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of one seed and one of three, each with all its files."""
    folder = tmp_path_factory.mktemp("trained")
    words = {"epochs": 3, "steps_per_epoch": 2, "log_every": 1}
    one, _ = run(resolve(layers_from({"name": "one", **words})), folder)
    many, _ = run(resolve(layers_from({"name": "many", "seeds": 3, **words})), folder)
    return {"one": one.folder, "many": many.folder}


@pytest.fixture
def whole(trained: dict[str, Path]) -> Callable[[str], Path]:
    def copied(which: str) -> Path:
        path = Path("runs") / trained[which].name
        shutil.copytree(trained[which], path)
        return path

    return copied


def faults(path: Path) -> list[str]:
    return [str(fault).removeprefix(f"{path}/") for fault in verification.faults_of(path)]


@pytest.mark.parametrize("which", ["one", "many"])
def test_what_train_writes_is_whole(whole: Callable[[str], Path], which: str) -> None:
    assert faults(whole(which)) == []


def _edited(path: Path, line: int, edit: Callable[[dict[str, Any]], Any]) -> None:
    lines = path.read_text().splitlines()
    told = json.loads(lines[line - 1])
    lines[line - 1] = json.dumps(edit(told) or told)
    path.write_text("\n".join(lines) + "\n")


METRICS_FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a step twice": (lambda line: line.update(step=2), "is epoch 1, step 2; in this place belongs epoch 1, step 3"),
    "a wrong epoch": (lambda line: line.update(epoch="1"), "is epoch '1', step 3"),
    "a short list": (lambda line: line.update(loss=[1, 2]), "loss: expected a list of 3 numbers, or null"),
    "no list": (lambda line: line.update(loss=1.0), "loss: expected a list of 3 numbers"),
    "words": (lambda line: line.update(loss=["a"] * 3), "loss: expected a list of 3 numbers"),
    "a key less": (lambda line: line.pop("loss") and None, "has other keys than the first line: loss"),
    "a key more": (lambda line: line.update(lost=[1, 2, 3]), "has other keys than the first line: lost"),
    "no step": (lambda line: line.pop("step") and None, "has no step"),
    "a list": (lambda line: [line], "is no object of JSON"),
}


@pytest.mark.parametrize("what", METRICS_FAULTS)
def test_a_fault_in_a_line_of_metrics_is_told_with_its_line(whole: Callable[[str], Path], what: str) -> None:
    path = whole("many")
    edit, told = METRICS_FAULTS[what]
    _edited(path / "metrics.jsonl", 4, edit)
    (fault,) = faults(path)
    assert fault.startswith(f"metrics.jsonl:4: {told}")


def test_null_and_the_names_of_what_was_not_finite_are_no_fault(whole: Callable[[str], Path]) -> None:
    path = whole("many")
    _edited(path / "metrics.jsonl", 4, lambda line: line.update(loss=[1, None, 2], nonfinite=["loss"]))
    (fault,) = faults(path)
    assert "it had" in fault  # the size alone, which status.json knows


def test_torn_and_missing_lines_are_named_and_nan_is_no_json(whole: Callable[[str], Path]) -> None:
    path = whole("one")
    data = (path / "metrics.jsonl").read_bytes()
    (path / "metrics.jsonl").write_bytes(data[:-9])
    torn, short = faults(path)
    assert torn.startswith("metrics.jsonl:6: is torn: the last ")
    assert short == "metrics.jsonl: has 5 lines; 3 epochs of 2 steps have 6"
    (path / "metrics.jsonl").write_bytes(data + data.splitlines(keepends=True)[0])
    assert faults(path)[1] == "metrics.jsonl: has 7 lines; 3 epochs of 2 steps have 6"
    (path / "metrics.jsonl").write_bytes(data.replace(b'"loss":', b'"loss":NaN,"x":', 1))
    assert faults(path)[0].startswith("metrics.jsonl:1: is no JSON")
    (path / "metrics.jsonl").write_bytes(b"garbage\n" * 100)
    assert "and 80 faults more" in faults(path)[20]


def test_a_run_that_is_alive_is_judged_as_far_as_it_has_come(whole: Callable[[str], Path]) -> None:
    path = whole("one")
    data = (path / "metrics.jsonl").read_bytes()
    (path / "metrics.jsonl").write_bytes(data[:-400])
    runs.Run(path).mark("running")
    assert faults(path) == []
    runs.write_whole(path / "status.json", json.loads((path / "status.json").read_bytes()) | {"process_started": 1})
    assert [fault.partition(": the")[0] for fault in faults(path)] == ["metrics.jsonl:6: is torn"]


SINGLE_FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no status": (lambda path: (path / "status.json").write_bytes(b""), "status.json: is damaged: "),
    "strange status": (lambda path: runs.write_whole(path / "status.json", {"status": "x"}), "status.json: the status"),
    "no config": (lambda path: (path / "config.yaml").unlink(), "config.yaml: No such file"),
    "torn config": (lambda path: (path / "config.yaml").write_text("a: [1\n"), "config.yaml:2: is not valid YAML"),
    "wrong word": (
        lambda path: (path / "config.yaml").write_text("name: x\ndelta_mode: rewardz\nepochs: 3\nsteps_per_epoch: 2\n"),
        "config.yaml:2: delta_mode: came 'rewardz'",
    ),
    "no provenance": (lambda path: (path / "provenance.json").unlink(), "provenance.json: there is no such file"),
    "provenance": (lambda path: (path / "provenance.json").write_text("{"), "provenance.json: is damaged"),
    "no log": (lambda path: (path / "train.log").unlink(), "train.log: there is no such file"),
    "timing": (lambda path: _edited(path / "timing.jsonl", 2, lambda line: {"epoch": 1}), "timing.jsonl:2: has no sec"),
    "samples": (lambda path: (path / "samples.jsonl").write_text("{}"), "samples.jsonl:1: is torn"),
    "no picture": (lambda path: (path / "curves.png").write_text("x"), "curves.png: is no PNG"),
    "half a picture": (
        lambda path: (path / "curves.png").write_bytes((path / "curves.png").read_bytes()[:-1]),
        "curves.png: is a PNG that is cut off",
    ),
    "pipe": (
        lambda path: (path / "timing.jsonl").unlink() or _pipe(path / "timing.jsonl"),
        "timing.jsonl: there is no",
    ),
    "link": (lambda path: (path / "mine").symlink_to("/etc/passwd"), "mine: is a link that leads out of the run fold"),
}


@pytest.mark.parametrize("what", SINGLE_FILES)
def test_a_fault_of_a_file_is_one_line_that_names_it(whole: Callable[[str], Path], what: str) -> None:
    path = whole("one")
    damage, told = SINGLE_FILES[what]
    damage(path)
    (fault,) = faults(path)
    assert fault.startswith(told)


def test_sizes_and_digests_that_status_tells_are_checked(whole: Callable[[str], Path]) -> None:
    path = whole("one")
    data = (path / "metrics.jsonl").read_bytes()
    said = {"metrics.jsonl": {"bytes": len(data), "sha256": sha256(data).hexdigest()}}
    told = json.loads((path / "status.json").read_bytes())
    runs.write_whole(path / "status.json", told | {"files": said})
    assert faults(path) == []
    flipped = data.replace(b'"kl":null', b'"kl":1000')
    assert len(flipped) == len(data) != flipped.count(b"null")
    (path / "metrics.jsonl").write_bytes(flipped)
    assert faults(path) == ["metrics.jsonl: is not what it was when the run ended: its SHA-256 is another"]
    longer = data.replace(b'"kl":null', b'"kl":1000.5')
    (path / "metrics.jsonl").write_bytes(longer)
    assert faults(path) == [f"metrics.jsonl: has {len(longer)} bytes; it had {len(data)} when the run ended"]
    for files, expected in {
        "[]": "files: expected a map",
        '{"../x": {}}': "'../x' is no file of the run",
        '{"/etc/passwd": {}}': "is no file of the run",
        '{"gone": {"bytes": 1}}': "there is no such file, but status.json says",
        '{"train.log": 3}': "'train.log' is no file of the run with",
    }.items():
        runs.write_whole(path / "status.json", told | {"files": json.loads(files)})
        assert any(expected in fault for fault in faults(path)), files


def test_checkpoints_are_looked_at(whole: Callable[[str], Path]) -> None:
    path = whole("one")
    for name in ("epoch-000100", "epoch-000200", "other", ".writing"):
        (path / "checkpoints" / name).mkdir(parents=True)
    for name in ("state.json", "tensors.safetensors"):
        (path / "checkpoints" / "epoch-000100" / name).write_text("{}")
    one, other, foreign = faults(path)
    assert "epoch-000100/state.json is no checkpoint of format 1" in one
    assert "epoch-000200/state.json cannot be read: No such file" in other
    assert foreign == "checkpoints/other: is no checkpoint: those are called epoch-000100"


def test_a_sweep_is_whole_with_all_its_cells(whole: Callable[[str], Path]) -> None:
    sweep = Path("runs/2026-11-30_09-15-00-grid-aaaaaa")
    cells = sweep_folder(sweep, [{"clip": 0.1}, {"clip": 0.2}])
    shutil.copytree(whole("one"), cells[0])
    (sweep / "sweep.yaml").write_text("name: grid\nmetric: {name: mean_reward}\n")
    (sweep / "status.json").write_text('{"status": "interrupted"}')
    assert (faults(sweep), verification.runs_in(sweep)) == ([], 1)
    (sweep / "status.json").write_text('{"status": "completed"}')
    assert faults(sweep) == [f"cells/{cells[1].name}: there is no such folder, but the sweep is done"]
    shutil.copytree(cells[0], cells[1])
    (cells[1] / "status.json").write_text('{"status": "interrupted"}')
    (cells[1] / "timing.jsonl").write_text("x\n")
    (sweep / "cells" / "stranger").mkdir()
    (sweep / "sweep.yaml").write_text("metric: 3\n")
    assert [fault.removeprefix("cells/")[:42] for fault in faults(sweep)] == [
        "sweep.yaml: metric: came 3; write a name, ",
        f"{cells[1].name}/timing.jsonl:1: is no JSON"[:42],
        f"{cells[1].name}/status.json: is interrupted"[:42],
        "stranger: is none of the cells in cells.js"[:42],
    ]
    (sweep / "cells.jsonl").write_text('{"id": 3}\n{\n')
    assert any(fault.startswith("cells.jsonl") for fault in faults(sweep))


def test_a_folder_of_any_damage_is_verified_without_a_traceback(whole: Callable[[str], Path]) -> None:
    path = whole("many")
    for file in sorted(file for file in path.iterdir() if file.is_file()):
        data = file.read_bytes()
        for damaged in (b"", b"\0" * 100, data[: len(data) // 2], data.replace(b"1", b"\xff"), b"[" * 100_000):
            file.write_bytes(damaged)
            assert all(len(fault) < 1000 for fault in faults(path))
        file.write_bytes(data)
    assert faults(path) == []
    assert run_folder(Path("runs/by_hand"), 0, {"loss": [1.0]})
    assert faults(Path("runs/by_hand"))
