"""Runs that explain themselves: in the log, the status, the progress, and again with `pgrl explain`."""

import io
import json
import re
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest
from by_hand import run_folder
from hostile.doors import PLAIN, pgrl
from rich.console import Console
from typer.testing import CliRunner

from pgrl_cli import cli_explain, experiment, resuming, runs
from pgrl_cli import sweep as sweeps
from pgrl_cli.cli import app
from pgrl_cli.config.layers import layers_from
from pgrl_cli.config.sweep_spec import read_sweep
from pgrl_cli.console import progress
from pgrl_cli.experiment import Interrupted, run
from pgrl_cli.explaining import explained
from pgrl_cli.keeper import Keeper
from pgrl_cli.notebook import Notebook
from pgrl_cli.planning import planned
from pgrl_cli.resolution import resolve
from pgrl_cli.stacks import train_stack
from pgrl_cli.together import train_together
from pgrl_cli.verification import faults_of

SETTLES = {"epochs": 30, "steps_per_epoch": 3, "learning_rate": 0.02, "log_every": 0, "name": "settles"}
WORDS = [f"{key}={value}" for key, value in SETTLES.items()]


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """A run in which one thing stands out."""
    return run(resolve(layers_from(SETTLES)), tmp_path_factory.mktemp("runs"))[0].folder


@pytest.fixture
def spoilt(settled, tmp_path):
    """The same, to be spoilt."""
    return Path(shutil.copytree(settled, tmp_path / settled.name))


def undrawn(folder, watch=lambda done, mean_reward: None, **keys):
    """The notebook of a run without a picture."""
    resolved = resolve(layers_from(SETTLES | keys))
    config = resolved.config
    book = Notebook(runs.create("x", folder, experiment.texts(resolved, [])), config, picture=False)
    with closing(Keeper(book.folder.checkpoints, 2)) as keeper:
        train_together([config], {0: book}, watch, keeper=keeper)
    return book


def status_of(folder):
    return json.loads((folder / "status.json").read_text())


def told_again(folder):
    return [finding.as_json() for finding in explained(folder).findings]


def test_a_finding_stands_in_the_status_and_below_its_epoch_in_the_log(settled):
    (finding,) = status_of(settled)["findings"]
    assert {key: finding[key] for key in ("kind", "epoch")} == {"kind": "local_optimum", "epoch": 19}
    assert list(finding) == ["kind", "epoch", "seen", "means", "helps"]
    lines = (settled / "train.log").read_text().splitlines()
    place = lines.index(f"after 20 epochs: settled below the maximum: {finding['seen']}")
    assert lines[place - 1].startswith("epoch 19 ")
    assert lines[place + 1 : place + 3] == [f"  means: {finding['means']}", f"  helps: {finding['helps']}"]
    assert lines[place + 3].startswith("epoch 20 ")
    assert sum(line.startswith("after ") for line in lines) == 1


def test_a_whole_run_with_a_finding_is_whole(settled):
    assert faults_of(settled) == []


def test_the_metrics_alone_tell_what_the_status_tells(settled, tmp_path):
    assert told_again(settled) == status_of(settled)["findings"]
    stacks = (
        {"seeds": 12, "delta_mode": "max_rewards", "epochs": 25},
        {"seeds": [3, 9], "dtype": "float64", "kl_coefficient": 1.0, "steps_per_epoch": 5, "reference_period": 0},
        {"seeds": 4, "learning_rate": 1e37, "delta_mode": "rewards", "optimizer": "sgd", "epochs": 12},
        {"seeds": 3, "policy": "table", "reward_fn": "sort_exact_reward", "epochs": 6},
    )
    books = [undrawn(tmp_path, **keys) for keys in stacks]
    for book in books:
        assert told_again(book.folder.folder) == status_of(book.folder.folder)["findings"]
    assert books[2].fates.failures
    assert all(status_of(book.folder.folder)["findings"] for book in (books[0], books[1], books[3]))


@pytest.mark.parametrize("after", [12, 25])
def test_a_run_that_goes_on_says_the_same_bytes_and_nothing_twice(settled, tmp_path, after):
    heard = []

    def watch(done, mean_reward):
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        run(resolve(layers_from(SETTLES)), tmp_path, watch=watch, notice=heard.append)
    broken = stopped.value.run
    assert len(heard) == (after > 20)
    assert told_again(broken.folder) == status_of(broken.folder)["findings"]
    resuming.resume(resuming.asked_for(broken, []), notice=heard.append)
    assert [finding.epoch for finding in heard] == [19]
    assert (broken.folder / "train.log").read_bytes() == (settled / "train.log").read_bytes()
    assert status_of(broken.folder)["findings"] == status_of(settled)["findings"]


def test_a_running_runs_status_has_them_too(tmp_path, monkeypatch):
    monkeypatch.setattr("pgrl_cli.notebook.PAUSE", 0.0)
    seen = []

    def watch(done, mean_reward):
        (folder,) = tmp_path.iterdir()
        seen.append((status_of(folder)["status"], len(status_of(folder).get("findings", []))))

    undrawn(tmp_path, watch)
    assert seen == [("running", 0)] * 19 + [("running", 1)] * 11


def test_progress_says_it_at_once_and_silence_says_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["train", "-c", "lecture/centered_naive", *WORDS], env=PLAIN)
    lines = said.stderr.splitlines()
    (place,) = [place for place, line in enumerate(lines) if line.startswith("after 20 epochs: settled below the max")]
    assert lines[place + 1].startswith("  what helps: an entropy bonus that fades")
    assert "findings" in said.stdout
    quiet = CliRunner().invoke(app, ["train", "-c", "lecture/centered_naive", *WORDS, "--json"], env=PLAIN)
    assert quiet.stderr == ""
    assert [finding["kind"] for finding in json.loads(quiet.stdout)["findings"]] == ["local_optimum"]
    shown = pgrl("runs", "show", "latest")
    assert "findings     local_optimum" in shown.out


def test_explain_says_what_stands_out_and_what_was_looked_at(settled):
    said = pgrl("explain", str(settled))
    assert "settled below the maximum (local_optimum), after 20 epochs" in said.out
    assert "numbers  entropy " in said.out
    for kind in (
        "deadlock",
        "silent_groups",
        "idle_clip",
        "strong_kl",
        "stale_samples",
        "reward_hacking",
        "loss_alone",
    ):
        assert f"\n  {kind} " in said.out
    assert "nothing to look at: the loss does not clip" in said.out
    told = json.loads(pgrl("explain", str(settled), "--json").out)
    assert [finding["kind"] for finding in told["findings"]] == ["local_optimum"]
    assert told["findings"][0]["numbers"]["mean_reward"] == pytest.approx(3, abs=0.1)
    assert set(told["looked_at"]) >= {"deadlock", "local_optimum"}


def test_a_run_that_is_too_short_is_not_said_to_be_early_and_a_lost_config_is_named_where_it_was(spoilt, tmp_path):
    short = undrawn(tmp_path / "runs", epochs=2).folder.folder
    assert "too short to say: a run of less than 5 epochs is not looked at" in pgrl("explain", str(short)).out
    (spoilt / "config.yaml").unlink()
    assert f"error: {spoilt}: has no config.yaml" in pgrl("explain", str(spoilt)).err


def test_explain_needs_no_status_and_no_end(settled, spoilt):
    expected = told_again(spoilt)
    metrics = (spoilt / "metrics.jsonl").read_bytes()
    for damage in (b"", b'{"status": 5}', b'{"status": "completed", "findings": [1, {"kind": null}, "x"]}'):
        (spoilt / "status.json").write_bytes(damage)
        assert told_again(spoilt) == expected
        assert pgrl("runs", "show", str(spoilt)).code == 0
    (spoilt / "status.json").unlink()
    (spoilt / "metrics.jsonl").write_bytes(metrics[: -len(metrics) // 90])  # torn in the last epoch
    assert told_again(spoilt) == expected
    assert explained(spoilt).epochs == 29
    (spoilt / "metrics.jsonl").write_bytes(b"".join(metrics.splitlines(keepends=True)[:27]))
    assert "too early to say" in pgrl("explain", str(spoilt)).out
    torn = Path(shutil.copytree(spoilt, spoilt.parent / "torn"))
    (torn / "status.json").write_bytes((settled / "status.json").read_bytes())
    assert "too little is written to say" in pgrl("explain", str(torn)).out
    (spoilt / "metrics.jsonl").unlink()
    assert (explained(spoilt).epochs, told_again(spoilt)) == (0, [])


def test_of_seeds_explain_names_those_that_have_it(tmp_path):
    book = undrawn(tmp_path, seeds=[5, 8, 7], epochs=20)
    said = pgrl("explain", str(book.folder.folder))
    (finding,) = [each for each in book.summary().findings if each["kind"] == "local_optimum"]
    assert f"  seen     in {finding['seeds']} of 3 seeds " in said.out
    told = json.loads(pgrl("explain", str(book.folder.folder), "--json").out)
    (again,) = [each for each in told["findings"] if each["kind"] == "local_optimum"]
    assert len(again["which_seeds"]) == finding["seeds"]
    assert set(again["which_seeds"]) <= {5, 8, 7}
    assert f"  seeds    {', '.join(map(str, again['which_seeds']))}" in said.out
    assert "medians over the living seeds" in said.out


LINE = '{"epoch":%d,"step":%d,"mean_reward":%s,"loss":%s,"entropy":0.01}\n'
HOSTILE = {
    "no JSON": ("{", "damaged"),
    "a word for a number": (LINE % (0, 0, '"2"', 1), "no number"),
    "a list in a run without seeds": (LINE % (0, 0, "[1,2]", 1), "seeds"),
    "steps that go back": (LINE % (0, 5, 1, 1) + LINE % (0, 4, 1, 1), "comes after"),
    "numbers beyond single precision": ("".join(LINE % (n, n, "1e300", "-1e300") for n in range(20)), None),
    "epochs far apart": ("".join(LINE % (n * 10**12, n, 1, 1) for n in range(20)), None),
    "epochs that go back": ("".join(LINE % (20 - n, n, 1, 1) for n in range(20)), None),
    "nothing measured": ("".join(f'{{"epoch":{n},"step":{n}}}\n' for n in range(20)), None),
    "nulls": ("".join(LINE % (n, n, "null", "null") for n in range(20)), None),
    "another language's text": ("\xff\xfe", None),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_metrics_are_explained_or_refused_with_a_line(tmp_path, case):
    text, refused = HOSTILE[case]
    folder = run_folder(tmp_path / "spoilt", 0, {"mean_reward": [1.0]}, epochs=20)
    (folder / "metrics.jsonl").write_text(text + ("" if refused is None else "\n"))
    said = pgrl("explain", str(folder))
    assert said.code == (0 if refused is None else 2)
    assert (refused or "") in said.err
    json_said = pgrl("explain", str(folder), "--json")
    assert refused is not None or json.loads(json_said.out)["epochs"] >= 0


def test_a_sweeps_cells_have_theirs_and_explain_goes_through_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["learning_rate=0.0001,0.03", "epochs=20", "steps_per_epoch=3", "seeds=3", "name=two"]
    spec = read_sweep("lecture/centered_naive", words)
    sweep = sweeps.begin(spec, planned(spec, 1), Path("runs"), ["pgrl"])
    ids = {cell.id for cell in sweep.cells}
    train_stack(sweep, 0, ids, pictures=False, watch=lambda done, reward: None, ended=lambda cell, book: None)
    said = pgrl("sweep", "--resume", str(sweep.folder))
    assert f"findings 1 of 2 cells have some; to read: pgrl explain {sweep.folder}\n" in said.out
    again = pgrl("explain", "two")
    assert again.out.splitlines()[0].endswith(": findings in 1 of 2 cells")
    assert "settled below the maximum (local_optimum): 1 cell\n" in again.out
    assert "\n  learning_rate=0.03  after 20 epochs: in " in again.out
    assert again.out.endswith("nothing stands out in 1 cell\n  learning_rate=0.0001\n")
    told = {each["cell"]: each for each in json.loads(pgrl("explain", "two", "--json").out)["cells"]}
    for label, each in told.items():
        folder = Path(each["run"])
        shown = [{key: finding[key] for key in ("kind", "epoch", "seen")} for finding in each["findings"]]
        kept = status_of(folder)["findings"]
        assert shown == [{key: finding[key] for key in ("kind", "epoch", "seen")} for finding in kept]
        assert ("after 20 epochs: settled" in (folder / "train.log").read_text()) == (label == "learning_rate=0.03")
    broken = Path(told["learning_rate=0.0001"]["run"])
    (broken / "config.yaml").write_text("epochs: [")
    shutil.rmtree(told["learning_rate=0.03"]["run"])
    left = pgrl("explain", "two")
    assert left.code == 0
    assert "findings in 0 of 0 cells" in left.out


def test_explain_refuses_what_is_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pgrl("explain", "nothing").code == 2
    run_folder(tmp_path / "bare", 0, {"mean_reward": [1.0]})
    (tmp_path / "bare" / "config.yaml").write_text("delta_mode: magic\n")
    said = pgrl("explain", "bare")
    assert said.code == 2
    assert "magic" in said.err


def test_on_a_terminal_long_lines_are_broken_and_set_in_behind_their_labels(monkeypatch):
    narrow = Console(force_terminal=True, width=40)
    monkeypatch.setattr(cli_explain, "out", lambda: narrow)
    told = ["  means    it nearly always gives the same answers, and they are not the best", "short"]
    lines = list(cli_explain._in_width(told))
    assert lines == [
        "  means    it nearly always gives the",
        "           same answers, and they are",
        "           not the best",
        "short",
    ]
    monkeypatch.setattr(cli_explain, "out", lambda: Console(force_terminal=False, width=40))
    assert list(cli_explain._in_width(told)) == told


def test_a_note_stands_above_the_bar_and_not_behind_it(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    for name, value in {"TERM": "xterm", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    with progress("kept", 4, silent=False) as (watch, _, tell):
        watch(1, 0.5)
        tell("going on after 1 of 4 epochs")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "0/4" in shown
    assert "note: going on after 1 of 4 epochs" in re.split(r"[\r\n]", shown)
