"""The command line: what it prints where, its exit codes, and that a mistake costs a line and not a run folder."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import torch
from jsonschema import Draft202012Validator
from said import Said, pgrl

from pgrl_cli import __version__
from pgrl_cli.config import yaml12
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.shipped import first_comment, shipped_folder, shipped_names
from pgrl_cli.listing import KINDS, json_schema, markdown, words_of
from pgrl_cli.resolution import resolve

COMMANDS = [
    "train",
    "diagnose",
    "explain",
    "list",
    "config",
    "config ls",
    "config show",
    "config cp",
    "config validate",
    "config schema",
]
SHORT = ["epochs=2", "steps_per_epoch=2"]


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def the_run(runs_dir: str = "runs") -> Path:
    (folder,) = Path(runs_dir).iterdir()
    return folder


def status_of(folder: Path) -> dict[str, object]:
    return orjson.loads((folder / "status.json").read_bytes())


# What a run prints


def test_the_last_line_of_standard_output_is_the_run_folder_and_progress_goes_elsewhere() -> None:
    said = pgrl("train", "--config", "lecture/centered_naive", *SHORT, "--runs-dir", "kept/here")
    assert said.code == 0
    assert Path(said.out.splitlines()[-1]) == the_run("kept/here")
    assert "mean reward, last 2 epochs" in said.out
    assert "epoch 2/2" in said.err
    assert "epoch 2/2" not in said.out


def test_means_over_seeds_are_said_to_be_that_where_there_are_several() -> None:
    assert "means of which" not in pgrl("train", "-c", "lecture/two_state", *SHORT, "seeds=1").out
    assert "seeds                          2, the means of which stand above" in (
        pgrl("train", "-c", "lecture/two_state", *SHORT, "seeds=2").out
    )


def test_quiet_prints_the_run_folder_alone() -> None:
    said = pgrl("train", "--config", "lecture/centered_clipped", "epochs=2", "steps_per_epoch=1", "-q")
    assert (said.code, said.out) == (0, f"{the_run()}\n")
    assert said.err.count("\n") == 1
    assert said.err.startswith("note: loss_mode clipped with steps_per_epoch 1 never clips")
    assert pgrl("train", "--config", "lecture/two_state", *SHORT, "--quiet", "--runs-dir", "q").err == ""


def test_json_is_one_object_whatever_else_there_is_to_say() -> None:
    said = pgrl("train", "--config", "lecture/centered_clipped", "epochs=2", "steps_per_epoch=1", "--json")
    assert said.code == 0
    told = json.loads(said.out)
    assert said.out.count("\n") == 1
    wanted = {"run", "status", "first_mean_reward", "last_mean_reward", "exact_match", "seconds"}
    assert wanted <= set(told)
    assert (told["run"], told["status"]) == (str(the_run()), "completed")
    rewards = [
        line["mean_reward"] for line in map(orjson.loads, (the_run() / "metrics.jsonl").read_bytes().split(b"\n")[:-1])
    ]
    assert told["first_mean_reward"] == told["last_mean_reward"] == pytest.approx(sum(rewards) / 2)
    assert 0 <= told["exact_match"] <= 1
    assert 0 < told["seconds"] < 60
    assert "never clips" in said.err


def test_a_summary_says_the_first_and_the_last_ten_epochs() -> None:
    said = pgrl(
        "train", "--config", "lecture/two_state", "epochs=25", "steps_per_epoch=3", "learning_rate=0.1", "--json"
    )
    told = json.loads(said.out)
    rewards = [orjson.loads(line)["mean_reward"] for line in (the_run() / "metrics.jsonl").read_bytes().splitlines()][
        ::3
    ]
    assert told["first_mean_reward"] == pytest.approx(sum(rewards[:10]) / 10)
    assert told["last_mean_reward"] == pytest.approx(sum(rewards[-10:]) / 10)
    assert told["best_mean_reward"] == pytest.approx(max(rewards))


def test_a_log_is_not_flooded_with_progress() -> None:
    said = pgrl("train", "--config", "lecture/two_state", "epochs=60", "steps_per_epoch=1")
    lines = said.err.splitlines()
    assert 1 < len(lines) <= 11
    assert lines[-1].startswith("epoch 60/60   mean reward ")
    assert not re.search(r"[\r\x1b]", said.err)


SMALLER = (
    "seeds=2",
    "warm_start.epochs=1",
    "warm_start.prompts=4",
    "prompt_count=8",
    "prompts_per_epoch=4",
    "held_out_count=4",
)


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_config_trains_two_epochs(name: str) -> None:
    smaller = SMALLER if name.startswith("algorithms/") else ()
    said = pgrl("train", "--config", name, "epochs=2", "-q", *smaller)
    assert (said.code, said.err) == (0, "")
    assert status_of(the_run())["status"] == "completed"


def test_a_run_folder_holds_what_was_run_and_can_be_fed_back_to_the_byte() -> None:
    said = pgrl("train", "--config", "lecture/centered_clipped", *SHORT, "name=no", "learning_rate=1e-2", "-q")
    folder = Path(said.out.strip())
    files = (
        "config.yaml overrides.yaml command.txt status.json provenance.json metrics.jsonl timing.jsonl samples.jsonl "
        "checkpoints"
    )
    assert {path.name for path in folder.iterdir()} == {*files.split(), "train.log", "curves.png"}
    overrides = yaml12.read((folder / "overrides.yaml").read_text(), "f")
    assert overrides == {"epochs": 2, "steps_per_epoch": 2, "name": "no", "learning_rate": 0.01}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-no-[0-9a-f]{6}", folder.name)
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    status = status_of(folder)
    assert (status["status"], status["exit_code"], status["epochs"], status["pid"]) == ("completed", 0, 2, os.getpid())
    again = Path(pgrl("train", "--config", str(folder / "config.yaml"), "--runs-dir", "again", "-q").out.strip())
    assert (again / "metrics.jsonl").read_bytes() == (folder / "metrics.jsonl").read_bytes()
    assert (again / "config.yaml").read_bytes() == (folder / "config.yaml").read_bytes()
    last = "checkpoints/epoch-000002/state.json"
    assert (again / last).read_bytes() == (folder / last).read_bytes()


def test_a_second_run_leaves_the_first_as_it_is() -> None:
    first = Path(pgrl("train", "--config", "lecture/two_state", *SHORT, "-q").out.strip())
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    second = Path(pgrl("train", "--config", "lecture/two_state", *SHORT, "-q").out.strip())
    assert first != second
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == before


def test_a_knob_dropped_by_an_override_is_told_and_not_kept() -> None:
    said = pgrl("train", "--config", "lecture/centered_clipped", "epochs=1", "loss_mode=naive", "-q")
    assert said.code == 0
    assert "note: clip_epsilon (from " in said.err
    assert "clip" not in (the_run() / "config.yaml").read_text().replace("centered_clipped", "")


def test_a_name_cannot_lead_out_of_the_runs_folder() -> None:
    said = pgrl("train", "--config", "lecture/two_state", "epochs=1", "name='../../[red]x'", "-q")
    assert said.code == 0
    assert Path(said.out.strip()).parent == Path("runs")
    assert sorted(path.name for path in Path().iterdir()) == ["runs"]


def test_secrets_of_the_command_line_and_the_environment_are_nowhere_in_the_run_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "hunter2hunter2")
    typed = [
        "pgrl",
        "train",
        "--config",
        "lecture/two_state",
        "--token",
        "hunter2hunter2",
        "wandb_api_key=hunter2hunter2",
    ]
    monkeypatch.setattr(sys, "argv", typed)
    assert pgrl("train", "--config", "lecture/two_state", "epochs=1", "-q").code == 0
    assert all(b"hunter2" not in path.read_bytes() for path in the_run().rglob("*") if path.is_file())
    command = (the_run() / "command.txt").read_text()
    assert command == "pgrl train --config lecture/two_state --token '***' 'wandb_api_key=***'\n"


def test_a_console_without_arrows_does_not_end_a_run() -> None:
    said = pgrl("train", "--config", "lecture/two_state", "epochs=1", "name=é→", "--runs-dir", "ré→", charset="ascii")
    assert said.code == 0
    assert status_of(the_run("ré→"))["status"] == "completed"
    Path("wrong.yaml").write_text("é→: 1\n", encoding="utf-8")
    said = pgrl("config", "validate", "wrong.yaml", charset="ascii")
    assert said.code == 2
    assert "wrong.yaml:1: unknown key" in said.err


@pytest.mark.parametrize("name", ["$\\frac$", "a$b$c", "🎉", "[red]x[/]", "a\\nb", "%s{0}"])
def test_a_strange_name_is_drawn_and_told_as_it_is(name: str) -> None:
    said = pgrl(
        "train", "--config", "lecture/two_state", "epochs=1", f"name={json.dumps(name, ensure_ascii=False)}", "-q"
    )
    assert (said.code, said.err) == (0, "")
    assert yaml12.read((the_run() / "config.yaml").read_text(encoding="utf-8"), "f")["name"] == name
    assert (the_run() / "curves.png").exists()


# What goes wrong


def test_mistakes_in_a_config_are_told_all_at_once_and_leave_no_folder() -> None:
    Path("mine.yaml").write_text("epohcs: 3\n# a comment\nnum_responses: 0\nlr: 1\n")
    for more in ([], ["--json"], ["-q"]):
        said = pgrl("train", "--config", "mine.yaml", "seed=-1", *more)
        assert (said.code, said.out) == (2, "")
        assert said.err.splitlines() == [
            "error: mine.yaml:1: unknown key 'epohcs'. Did you mean 'epochs'?",
            "error: mine.yaml:3: num_responses: came 0; expected a whole number from 1",
            "error: mine.yaml:4: unknown key 'lr': here it is spelled 'learning_rate'",
            "error: command line: seed=-1: came -1; expected a whole number from 0",
        ]
    assert not Path("runs").exists()


def test_debug_shows_the_traceback_of_a_mistake_in_a_config_too() -> None:
    assert "Traceback" not in pgrl("config", "show", "lecture/two_state", "lr=1").err
    said = pgrl("config", "show", "lecture/two_state", "lr=1", "--debug")
    assert said.code == 2
    assert "Traceback (most recent call last)" in said.err


def test_a_missing_config_is_told_with_the_nearest() -> None:
    said = pgrl("train", "--config", "lecture/two_stat")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: lecture/two_stat: there is no such file, nor a shipped config of that name.")
    assert "Did you mean 'lecture/two_state'?" in said.err
    assert not Path("runs").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_told_before_a_folder_is_made() -> None:
    Path("mine.yaml").write_text("epochs: 1\ndevice: cuda\n")
    said = pgrl("train", "--config", "mine.yaml")
    assert (said.code, said.out) == (2, "")
    assert "device: came 'cuda'" in said.err
    assert "write auto or cpu" in said.err
    assert not Path("runs").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_told_with_the_file_and_the_line_that_asks_for_it() -> None:
    Path("mine.yaml").write_text("epochs: 1\ndevice: cuda\n")
    assert pgrl("train", "--config", "mine.yaml").err.startswith("error: mine.yaml:2: device: ")
    assert "command line: device=cuda: " in pgrl("train", "--config", "lecture/two_state", "device=cuda").err


@pytest.fixture
def failing() -> str:
    """A config whose reward fails, or presses Ctrl-C, when it is first asked."""
    Path("failing.py").write_text(
        "def fails(prompt, response):\n    raise ValueError('no points for you')\n\n\n"
        "import os, signal, time\n\ndef presses_ctrl_c(prompt, response):\n"
        "    os.kill(os.getppid(), signal.SIGINT)\n    time.sleep(1000)\n"
    )
    Path("failing.yaml").write_text("reward_fn: failing.py:fails\nepochs: 2\n")
    return "failing.yaml"


def test_a_run_that_fails_exits_with_1_in_a_few_lines_and_keeps_the_traceback_in_its_log(failing: str) -> None:
    said = pgrl("train", "--config", failing)
    assert (said.code, said.out) == (1, "")
    assert "failing.py:2: the reward failed for prompt" in said.err
    assert "no points for you" in said.err
    assert str(the_run() / "train.log") in said.err
    assert "Traceback" not in said.err
    assert said.err.count("\n") <= 3
    log = (the_run() / "train.log").read_text()
    assert "Traceback (most recent call last)" in log
    assert "no points for you" in log
    status = status_of(the_run())
    assert (status["status"], status["exit_code"]) == ("failed", 1)
    assert "no points for you" in str(status["error"])


def test_debug_shows_the_traceback_of_a_failed_run_on_the_screen(failing: str) -> None:
    said = pgrl("train", "--config", failing, "--debug")
    assert (said.code, said.out) == (1, "")
    assert "Traceback (most recent call last)" in said.err


def test_a_run_that_fails_tells_json_so(failing: str) -> None:
    said = pgrl("train", "--config", failing, "--json")
    assert said.code == 1
    told = json.loads(said.out)
    assert (told["run"], told["status"]) == (str(the_run()), "failed")
    assert "no points for you" in told["error"]


def test_a_loss_that_is_not_finite_fails_the_run_and_says_what_helps() -> None:
    said = pgrl("train", "--config", "lecture/centered_naive", "epochs=9", "learning_rate=1e30", "-q")
    assert (said.code, said.out) == (1, "")
    told = r"the policy is not finite: its log-probs are nan, of parameters from \S+ to \S+, at step 1 "
    assert re.search(told, said.err)
    assert status_of(the_run())["status"] == "failed"


def test_ctrl_c_exits_with_130_and_marks_the_run(failing: str) -> None:
    said = pgrl("train", "--config", failing, "reward_fn=failing.py:presses_ctrl_c")
    assert (said.code, said.out) == (130, "")
    assert "interrupted" in said.err
    assert "Traceback" not in said.err
    status = status_of(the_run())
    assert (status["status"], status["exit_code"]) == ("interrupted", 130)


def test_a_runs_folder_that_cannot_be_made_is_a_short_error() -> None:
    Path("taken").write_text("")
    said = pgrl("train", "--config", "lecture/two_state", "epochs=1", "--runs-dir", "taken")
    assert said.code in (1, 2)
    assert said.out == ""
    assert "taken" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    "words",
    [
        "train",
        "train --config",
        "train --epochs 5 --config lecture/two_state",
        "train --config lecture/two_state epochs",
        "train --config lecture/two_state epochs=2 epochs=3",
        "list something",
        "list losses deltas",
        "config",
        "config show",
        "config validate",
        "config cp",
        "config nothing",
        "nothing",
        "--nothing",
    ],
)
def test_a_wrong_usage_exits_with_2_and_prints_nothing_on_standard_output(words: str) -> None:
    said = pgrl(*words.split())
    assert said.code == 2
    assert "Traceback" not in said.out + said.err
    assert words == "config" or said.out == ""
    assert not Path("runs").exists()


# Help and lists


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(command: str) -> None:
    said = pgrl(*command.split(), "--help")
    assert (said.code, said.err) == (0, "")
    assert "Usage" in said.out
    assert "--help" in said.out


def test_help_names_every_command_and_option() -> None:
    for group in ("", "config"):
        said = pgrl(*group.split(), "--help").out
        below = [command for command in COMMANDS if command.rpartition(" ")[0] == group]
        assert all(re.search(rf"\b{command.rpartition(' ')[2]}\b", said) for command in below)
    said = pgrl("train", "--help").out
    for option in ("--config", "--runs-dir", "--quiet", "-q", "--json", "--debug", "KEY=VALUE"):
        assert option in said
    assert "--version" in pgrl("--help").out


def test_the_version_is_the_packages() -> None:
    assert pgrl("--version") == Said(0, f"pgrl {__version__}\n", "")


def test_help_ls_and_cp_import_neither_torch_nor_matplotlib() -> None:
    code = """
import sys
from pgrl_cli.cli import app
for words in (["--help"], ["train", "--help"], ["config", "ls"], ["config", "cp", "lecture/two_state"], ["--version"]):
    try:
        app(words, standalone_mode=False)
    except SystemExit:
        pass
    for heavy in ("torch", "matplotlib"):
        if heavy in sys.modules:
            print(heavy, "after", *words, file=sys.stderr)
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (child.returncode, child.stderr) == (0, "")
    assert Path("two_state.yaml").exists()


def test_what_only_moves_files_imports_neither_torch_nor_matplotlib() -> None:
    code = """
import sys
from importlib import import_module
for name in "cells cli config folders launchers registry results runs standing sweep worker".split():
    import_module("pgrl_cli." + name)
    for heavy in ("torch", "matplotlib"):
        if heavy in sys.modules:
            sys.exit(f"{name} imports {heavy}")
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (child.returncode, child.stderr) == (0, "")


def test_list_tells_every_word_with_its_meaning_and_its_knobs() -> None:
    said = pgrl("list")
    assert said.code == 0
    for kind in KINDS:
        alone = pgrl("list", kind)
        assert alone.code == 0
        for word in words_of(kind):
            for part in (word.name, word.meaning, word.knobs):
                assert part in said.out
                assert part in alone.out


@pytest.mark.parametrize("kind", KINDS)
def test_list_takes_a_kind_by_its_name_and_by_the_key_it_is_for(kind: str) -> None:
    assert pgrl("list", kind) == pgrl("list", KINDS[kind])


def test_list_takes_every_key_whose_words_come_from_a_table() -> None:
    assert pgrl("list", "kl_average") == pgrl("list", "averages")


def test_list_offers_the_nearest_kind() -> None:
    said = pgrl("list", "delta")
    assert (said.code, said.out) == (2, "")
    assert "possible: rewards, deltas, losses" in said.err
    assert "Did you mean 'deltas'?" in said.err


@pytest.mark.parametrize(("word", "kind"), [("gae", "deltas"), ("digits", "rewards"), ("addition", "tasks")])
def test_list_says_which_kind_a_word_is_of(word: str, kind: str) -> None:
    said = pgrl("list", word)
    assert (said.code, said.out) == (2, "")
    assert f"{word} is told by `pgrl list {kind}`." in said.err
    assert word in pgrl("list", kind).out


def test_list_says_all_kinds_that_have_a_word() -> None:
    assert "exact is told by `pgrl list rewards` and `pgrl list divergences`." in pgrl("list", "exact").err


def test_train_without_a_config_says_how_to_name_one() -> None:
    said = pgrl("train", "lecture/two_state")
    assert (said.code, said.out) == (2, "")
    assert "pgrl train --config lecture/two_state" in said.err


def test_list_of_one_kind_is_of_that_kind_alone() -> None:
    said = pgrl("list", "losses").out
    assert "unclipped" in said
    assert "centered_rewards" not in said
    assert "my_rewards.py:points" not in said
    assert "my_rewards.py:points" in pgrl("list", "rewards").out


def test_list_as_markdown_is_the_readmes_tables() -> None:
    assert pgrl("list", "--markdown") == Said(0, markdown(), "")
    assert pgrl("list", "deltas", "--markdown") == Said(0, markdown({"deltas": "delta_mode"}), "")


# Configs


def test_ls_names_every_shipped_config_and_what_it_is() -> None:
    said = pgrl("config", "ls")
    assert (said.code, said.err) == (0, "")
    lines = [line.rstrip() for line in said.out.splitlines()]
    for name in shipped_names():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert line.endswith(first_comment(shipped_folder() / f"{name}.yaml"))


def test_show_prints_a_config_that_resolves_to_the_same_again() -> None:
    said = pgrl("config", "show", "lecture/centered_clipped", "loss_mode=naive", "seed=7")
    assert said.code == 0
    assert said.err.startswith("note: clip_epsilon (from ")
    Path("again.yaml").write_text(said.out)
    expected = resolve(layers_of("lecture/centered_clipped", ["loss_mode=naive", "seed=7"])).config
    assert resolve(layers_of("again.yaml")).config == expected
    assert pgrl("config", "show", "again.yaml") == Said(0, said.out, "")


def test_cp_copies_a_shipped_config_to_a_file_or_into_a_folder() -> None:
    original = (shipped_folder() / "lecture" / "two_state.yaml").read_bytes()
    Path("sub").mkdir()
    for words, path in (([], "two_state.yaml"), (["mine.yaml"], "mine.yaml"), (["sub"], "sub/two_state.yaml")):
        said = pgrl("config", "cp", "lecture/two_state", *words)
        assert said == Said(0, f"{path}\n", "")
        copied = Path(path).read_text(encoding="utf-8")
        (schema,) = re.findall(r"\$schema=(.+)", copied)
        assert (Path(path).parent / schema).resolve() == (shipped_folder() / "schema.json").resolve()
        assert copied.replace(schema, "../schema.json").encode() == original
    assert pgrl("config", "validate", "two_state.yaml", "mine.yaml", "sub/two_state.yaml").code == 0


@pytest.mark.parametrize("name", ["mine.yaml", "[red]mine.yaml"])
def test_cp_never_writes_over_a_file_and_names_it_in_full(name: str) -> None:
    Path(name).write_text("precious\n")
    said = pgrl("config", "cp", "lecture/two_state", name)
    assert (said.code, said.out) == (2, "")
    assert said.err == f"error: {name}: exists; nothing was copied\n"
    assert Path(name).read_text() == "precious\n"


def test_cp_into_a_folder_that_is_not_there_is_a_wrong_usage() -> None:
    said = pgrl("config", "cp", "lecture/two_state", "nowhere/mine.yaml")
    assert (said.code, said.out) == (2, "")
    assert "nowhere" in said.err


def test_cp_of_an_unknown_name_offers_the_nearest() -> None:
    said = pgrl("config", "cp", "lecture/twostate")
    assert (said.code, said.out) == (2, "")
    assert "Did you mean 'lecture/two_state'?" in said.err
    assert list(Path().iterdir()) == []


def test_validate_judges_every_file_and_fails_if_one_does() -> None:
    Path("good.yaml").write_text("epochs: 3\nloss_mode: clipped\nsteps_per_epoch: 1\n")
    Path("bad.yaml").write_text("epohcs: 3\nseed: -1\n")
    said = pgrl("config", "validate", "bad.yaml", "good.yaml", "nowhere.yaml", "lecture/two_state")
    assert said.code == 2
    assert said.out == "good.yaml: fine\nlecture/two_state: fine\n"
    assert [line.split(": ")[:2] for line in said.err.splitlines()] == [
        ["error", "bad.yaml:1"],
        ["error", "bad.yaml:2"],
        ["note", "loss_mode clipped with steps_per_epoch 1 never clips"],
        ["error", "nowhere.yaml"],
    ]
    assert pgrl("config", "validate", "good.yaml").code == 0
    assert not Path("runs").exists()


def test_validate_looks_at_a_reward_file_without_running_it() -> None:
    Path("mine.py").write_text("raise SystemExit(7)\ndef points(prompt, response): ...\n")
    Path("mine.yaml").write_text("reward_fn: mine.py:points\n")
    assert pgrl("config", "validate", "mine.yaml") == Said(0, "mine.yaml: fine\n", "")


def test_a_tag_that_would_run_code_runs_nothing() -> None:
    Path("mine.yaml").write_text("name: !!python/object/apply:os.mkdir [made]\n")
    assert pgrl("train", "--config", "mine.yaml").code == 2
    assert not Path("made").exists()


def test_schema_prints_a_json_schema() -> None:
    said = pgrl("config", "schema")
    assert (said.code, said.err) == (0, "")
    schema = json.loads(said.out)
    Draft202012Validator.check_schema(schema)
    assert schema == json_schema()
    assert said.out == (shipped_folder() / "schema.json").read_text(encoding="utf-8")


# As a process of its own


def started(*words: str) -> subprocess.Popen[str]:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from pgrl_cli.cli import app; app()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def once(happened: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        if happened():
            return
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    raise AssertionError("it did not happen within a minute")


def test_a_signal_from_the_keyboard_stops_a_run_that_keeps_what_it_has() -> None:
    child = started("train", "--config", "lecture/two_state", "epochs=100000000", "steps_per_epoch=1")
    try:
        once(lambda: any(path.stat().st_size > 0 for path in Path().glob("runs/*/metrics.jsonl")), child)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (child.returncode, out) == (130, "")
    assert "interrupted; what was finished is kept" in err
    assert "Traceback" not in err
    status = status_of(the_run())
    assert (status["status"], status["exit_code"], status["pid"]) == ("interrupted", 130, child.pid)
    lines = (the_run() / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    assert all(orjson.loads(line)["epoch"] == number for number, line in enumerate(lines))
    assert lines[-1].endswith(b"\n")
    assert (the_run() / "command.txt").read_text() == (
        "pgrl train --config lecture/two_state epochs=100000000 steps_per_epoch=1\n"
    )


def test_the_package_runs_as_a_module_whose_standard_output_is_the_result_alone() -> None:
    words = ["-m", "pgrl_cli", "train", "-c", "lecture/two_state", "epochs=1", "--json"]
    child = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120)
    assert (child.returncode, child.stderr) == (0, "")
    assert json.loads(child.stdout)["run"] == str(the_run())


def test_cp_says_that_it_copies_shipped_configs_only() -> None:
    Path("mine.yaml").write_text("epochs: 3\n")
    said = pgrl("config", "cp", "mine.yaml", "b.yaml")
    assert said.code == 2
    assert "copies shipped configs only; copy it yourself: cp mine.yaml b.yaml" in said.err


def test_the_module_of_the_command_line_runs_by_itself() -> None:
    done = subprocess.run([sys.executable, "-m", "pgrl_cli.cli", "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("pgrl ")
