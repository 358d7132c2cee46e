import json
import os
import shutil
import signal
import sys
import time
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
import torch
from nursery import Child, finished

from pgrl_cli import growing, notebook, runs, together, workload
from pgrl_cli.assembly import assemble
from pgrl_cli.config import ConfigError, yaml12
from pgrl_cli.config.layers import layers_from, layers_of
from pgrl_cli.experiment import RunFailed, run
from pgrl_cli.keeper import Keeper
from pgrl_cli.notebook import Notebook
from pgrl_cli.plots.run import draw
from pgrl_cli.resolution import resolve
from pgrl_cli.runs import Run
from pgrl_cli.stopping import Stop, Stopped
from pgrl_cli.together import train_together
from pgrl_cli.training import trainer
from pgrl_cli.training.checkpoints import read
from pgrl_cli.verification import faults_of
from pgrl_cli.words import written
from pgrl_cli.workload import multiplications, threads_for

pytestmark = pytest.mark.usefixtures("undrawn")
CONFIGS = sorted((Path(__file__).parents[1] / "configs" / "lecture").glob("*.yaml"))
SHORT = {"epochs": 3, "steps_per_epoch": 4, "log_every": 2, "name": "short"}
FILES = {
    "checkpoints",
    "command.txt",
    "config.yaml",
    "curves.png",
    "metrics.jsonl",
    "overrides.yaml",
    "provenance.json",
    "samples.jsonl",
    "status.json",
    "timing.jsonl",
    "train.log",
}


def trained(tmp_path, **keys):
    return run(resolve(layers_from(SHORT | keys)), tmp_path)


def own(tmp_path, body):
    """A config whose reward is the user's own function with this body."""
    (tmp_path / "mine.py").write_text(f"import math, sys\n\ndef points(prompt, response):\n    {body}\n")
    return resolve(layers_from(SHORT | {"reward_fn": "mine.py:points"}, folder=tmp_path))


def test_a_run_leaves_its_evidence_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(notebook, "draw", draw)
    folder, summary = trained(tmp_path)
    assert {path.name for path in folder.folder.iterdir()} == FILES
    assert list(tmp_path.iterdir()) == [folder.folder]
    assert folder.curves_file.read_bytes().startswith(b"\x89PNG")
    assert folder.curves_file.stat().st_size > 10_000
    assert folder.status()["status"] == "completed"
    assert folder.status()["last_mean_reward"] == summary.last_mean_reward
    assert summary.maximum_reward == 5


def test_metrics_have_a_line_per_step_in_strict_json_without_times(tmp_path):
    folder, _ = trained(tmp_path, loss_mode="clipped", clip_epsilon=0.1)
    lines = (folder.folder / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [(row["epoch"], row["step"]) for row in rows] == [(step // 4, step) for step in range(12)]
    promised = (
        "loss mean_reward shaped_reward kl entropy clip_fraction ratio_max effective_sample_size gradient_norm "
        "zero_variance_groups reward_std exact_match"
    )
    assert set(promised.split()) <= set(rows[0])
    assert rows[0]["kl"] is None
    assert rows[0]["exact_match"] is None
    assert rows[-1]["exact_match"] is not None
    assert all(0 < row["effective_sample_size"] <= 1 + 1e-6 for row in rows)


def test_times_are_in_a_file_of_their_own(tmp_path):
    folder, summary = trained(tmp_path)
    times = [json.loads(line) for line in (folder.folder / "timing.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in times] == [0, 1, 2]
    assert all({"rollout", "steps", "measures", "files"} <= set(line) for line in times)
    assert sum(line["seconds"] for line in times) <= summary.seconds * 1.05


def test_samples_and_log_show_chosen_epochs_and_the_last(tmp_path):
    folder, _ = trained(tmp_path, epochs=6, log_every=4)
    samples = [json.loads(line) for line in (folder.folder / "samples.jsonl").read_text().splitlines()]
    assert [sample["epoch"] for sample in samples] == [0, 0, 0, 4, 4, 4, 5, 5, 5]
    first = samples[0]
    assert first["prompt"] == [1, 0, 2]
    assert len(first["responses"]) == len(first["rewards"]) == len(first["advantages"]) == 10
    assert sum(first["advantages"]) == pytest.approx(0, abs=1e-5)
    log = folder.log_file.read_text()
    assert log.count("epoch ") == 6
    assert log.count("prompt 1 0 2") == 3
    assert log.count("response ") == 3 * 30


def test_samples_of_a_task_with_ends_say_what_is_written_and_show_each_token_its_own_advantage(tmp_path):
    keys = {"task": "parity", "reward_fn": "steps", "prompt_count": 4, "delta_mode": "reward_to_go", "seeds": 2}
    folder, _ = trained(tmp_path, **keys, epochs=1)
    samples = [json.loads(line) for line in (folder.folder / "samples.jsonl").read_text().splitlines()]
    log = folder.log_file.read_text()
    for sample in samples:
        bits = "".join(map(str, sample["prompt"])).lstrip("3")
        assert sample["prompt_text"] == bits
        assert f"prompt {bits} ({' '.join(map(str, sample['prompt']))})" in log
        for text, response, deltas in zip(sample["texts"], sample["responses"], sample["advantages"], strict=True):
            said = response[: response.index(2) + 1] if 2 in response else response
            assert text == "".join("01."[token] for token in said)
            told = " ".join(f"{delta:+.3f}" for delta in deltas[: len(said)])
            lines = [line for line in log.splitlines() if line.endswith(f"   delta {told}")]
            assert any(f"response {text} ({' '.join(map(str, said))})   log-probs" in line for line in lines)
    assert len(samples) == 8


def test_the_same_config_writes_the_same_bytes_and_its_own_config_file_does_too(tmp_path):
    keys = {"loss_mode": "clipped", "clip_epsilon": 0.1, "kl_coefficient": 0.1, "seed": 3}
    first, _ = trained(tmp_path, **keys)
    second, _ = trained(tmp_path, **keys)
    fed_back, _ = run(resolve(layers_of(str(first.folder / "config.yaml"))), tmp_path)
    for name in ("metrics.jsonl", "samples.jsonl", "train.log", "config.yaml"):
        texts = {(folder.folder / name).read_bytes() for folder in (first, second, fed_back)}
        assert len(texts) == 1


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_lecture_config_trains(tmp_path, path):
    folder, summary = run(resolve(layers_of(str(path), ["epochs=2"])), tmp_path)
    assert len(folder.metrics()) == 20
    assert summary.epochs == 2
    assert folder.folder.name[20:-7] == path.stem


def test_an_own_reward_trains_and_its_source_lies_in_the_run_folder(tmp_path):
    resolved = own(tmp_path, "return -abs(sum(response) - 6)")
    folder, summary = run(resolved, tmp_path / "runs")
    assert (folder.folder / "mine.py").read_text() == (tmp_path / "mine.py").read_text()
    assert summary.maximum_reward is None
    (tmp_path / "mine.py").unlink()
    again, _ = run(resolve(layers_of(str(folder.folder / "config.yaml"))), tmp_path / "runs")
    assert (again.folder / "metrics.jsonl").read_bytes() == (folder.folder / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise KeyError('oops')", "KeyError: 'oops'"),
        ("return None", "returned None, a NoneType"),
        ("return math.nan", "returned nan"),
        ("return -math.inf", "returned -inf"),
        ("return 'five'", "returned 'five', a str"),
        ("sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_an_own_reward_that_gives_no_number_fails_the_run_and_says_where(tmp_path, body, told):
    body = f"{body} if prompt == [3, 2, 4] else 1.0" if body.startswith("return") else body
    with pytest.raises(RunFailed) as failure:
        run(own(tmp_path, body), tmp_path / "runs")
    message, folder = str(failure.value), failure.value.run
    assert told in message
    assert "mine.py:3:" in message or "mine.py:4:" in message
    assert "for prompt [" in message
    assert "response [" in message
    assert folder.status()["status"] == "failed"
    assert folder.status()["error"] == message
    assert "Traceback" in folder.log_file.read_text()


def test_what_was_finished_before_a_failure_is_kept(tmp_path):
    (tmp_path / "mine.py").write_text(
        "calls = []\n\ndef points(prompt, response):\n    calls.append(1)\n    return 1 / (len(calls) < 60)\n"
    )
    resolved = resolve(
        layers_from(SHORT | {"reward_fn": "mine.py:points", "epochs": 500, "log_every": 1}, folder=tmp_path)
    )
    with pytest.raises(RunFailed, match="ZeroDivisionError") as failure:
        run(resolved, tmp_path / "runs")
    kept = failure.value.run.metrics()
    assert kept
    assert len(kept) % 4 == 0
    assert failure.value.run.status()["epochs"] == len(kept) // 4


def test_a_loss_that_is_not_finite_fails_the_run_and_names_the_step(tmp_path):
    keys = {"learning_rate": 1e30, "optimizer": "sgd", "loss_mode": "naive"}
    with pytest.raises(
        RunFailed, match=r"the policy is not finite: its log-probs are nan, of .* at step 1 \(epoch 0\)"
    ) as failure:
        trained(tmp_path, **keys)
    row = failure.value.run.metrics()[-1]
    assert row["nonfinite"]
    assert all(row[name] is None for name in row["nonfinite"])


def test_an_interrupt_from_the_keyboard_marks_the_run_and_exits_with_130(tmp_path):
    words = ["-m", "pgrl_cli", "train", "-c", "lecture/centered_naive", "epochs=100000"]
    child = Child([*words, "--runs-dir", str(tmp_path)])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        metrics = list(tmp_path.glob("*/metrics.jsonl"))
        if metrics and metrics[0].stat().st_size > 2000:
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    assert out == ""
    assert "interrupted" in err
    assert "Traceback" not in err
    folder = Run(next(tmp_path.iterdir()))
    assert folder.status()["status"] == "interrupted"
    assert len(folder.metrics()) % 10 == 0


def test_a_gpu_that_is_not_there_is_refused_before_a_folder_is_made(tmp_path):
    if torch.cuda.is_available():
        assert trained(tmp_path, device="cuda")[1].epochs == 3
        return
    with pytest.raises(ConfigError, match="no GPU"):
        trained(tmp_path, device="cuda")
    assert list(tmp_path.iterdir()) == []


def test_small_work_gets_one_thread_and_gives_the_others_back(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    config = resolve(layers_from(SHORT)).config
    parts, state = assemble([config])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(multiplications(config, parts.task, [state.policy])):
            assert torch.get_num_threads() == 1
        with threads_for(1e12):
            assert torch.get_num_threads() == len(os.sched_getaffinity(0))
        monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as a sweep's processes have it, so that they leave each other room
        with threads_for(1e12):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_picture_that_cannot_be_drawn_does_not_fail_a_run_whose_numbers_are_there(tmp_path, monkeypatch):
    def torn(*args, **keys):
        raise RuntimeError("no ink")

    monkeypatch.setattr(notebook, "draw", torn)
    folder, summary = trained(tmp_path)
    assert summary.picture_error == "RuntimeError: no ink"
    assert folder.status()["status"] == "completed"
    assert folder.status()["picture_error"] == "RuntimeError: no ink"
    assert "no ink" in folder.log_file.read_text()
    assert len(folder.metrics()) == 12


@pytest.mark.parametrize("value", ["{sort_exact_reward: 1, sort_distance_reward: 0.5}", "sort_exact_reward"])
def test_whatever_shape_an_override_has_it_is_kept_as_it_was_typed(tmp_path, value):
    words = [f"reward_fn={value}", "prompts=[[1, 0], [0, 2]]", "epochs=1", "kl_coefficient=1e-3"]
    folder, _ = run(resolve(layers_of("lecture/centered_clipped", words)), tmp_path)
    typed = yaml12.read((folder.folder / "overrides.yaml").read_text(), "overrides.yaml")
    assert typed == {key: yaml12.read(text, "f") for key, _, text in (word.partition("=") for word in words)}


@pytest.mark.parametrize("body", ["raise GeneratorExit", "import asyncio; raise asyncio.CancelledError"])
def test_no_exception_of_a_reward_leaves_a_run_that_says_running(tmp_path, body):
    with pytest.raises(RunFailed, match=r"mine.py:4: the reward failed for prompt") as failure:
        run(own(tmp_path, body), tmp_path / "runs")
    assert failure.value.run.status()["status"] == "failed"


def test_what_watches_may_end_a_run_but_not_leave_it_running(tmp_path):
    def leave(record):
        raise SystemExit(1)

    with pytest.raises(RunFailed) as failure:
        run(resolve(layers_from(SHORT)), tmp_path, watch=leave)
    assert failure.value.run.status()["status"] == "failed"
    assert len(failure.value.run.metrics()) == 4


def test_a_policy_spoilt_by_its_last_step_is_no_completed_run(tmp_path):
    keys = {"epochs": 1, "steps_per_epoch": 1, "learning_rate": 1e30, "prompts": [[0, 0, 0]], "vocab_size": 3}
    with pytest.raises(RunFailed, match="the policy is not finite after step 0, the last") as failure:
        trained(tmp_path, **keys, delta_mode="rewards")
    assert failure.value.run.metrics()[-1]["exact_match"] is None
    assert failure.value.run.status()["exact_match"] is None


def test_a_reward_that_prints_moves_and_meddles_does_no_harm(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = "print('noise'); import os; os.chdir('/'); sys.path = ['elsewhere']; return 1.0"
    folder, _ = run(own(tmp_path, body), Path("runs"))
    assert folder.status()["status"] == "completed"
    out, err = capfd.readouterr()
    assert out == ""
    assert "noise" in err
    assert Path.cwd() == tmp_path


def test_a_full_disk_fails_the_run_and_its_status_says_so(tmp_path, monkeypatch):
    def full(data):
        raise OSError(28, "No space left on device")

    class Full(growing.Lines):
        def flush(self):
            full(None)

    monkeypatch.setattr(notebook, "Lines", Full)
    monkeypatch.setattr(runs.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        trained(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setattr(notebook, "Lines", Full)
    with pytest.raises(RunFailed, match="No space left"):
        trained(tmp_path)
    assert Run(next(tmp_path.iterdir())).status()["status"] == "failed"


ALL_AT_ONCE = """
import os, sys
from pathlib import Path
import torch
from pgrl_cli import notebook
from pgrl_cli.config.layers import layers_of
from pgrl_cli.experiment import run
from pgrl_cli.resolution import resolve
torch.set_num_threads(1)
notebook.draw = lambda *picture, **words: None
config = resolve(layers_of("lecture/two_state", ["epochs=2"]))
waiting, go = os.pipe()
children = []
for _ in range(32):
    if (child := os.fork()) == 0:
        os.close(go)
        os.read(waiting, 1)  # until all are there
        run(config, Path("runs"))
        os._exit(0)
    children.append(child)
os.close(go)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def test_thirty_two_processes_that_start_at_once_leave_thirty_two_folders_and_none_is_mixed(tmp_path):
    (tmp_path / "all_at_once.py").write_text(ALL_AT_ONCE)
    parent = finished([str(tmp_path / "all_at_once.py")], cwd=tmp_path)
    assert parent.returncode == 0, parent.communicate()
    folders = list((tmp_path / "runs").iterdir())
    assert len(folders) == 32
    assert len({(folder / "metrics.jsonl").read_bytes() for folder in folders}) == 1
    assert [fault for folder in folders for fault in faults_of(folder)] == []
    assert len({Run(folder).status()["pid"] for folder in folders}) == 32


def test_a_run_whose_folder_is_deleted_does_not_end_as_a_success(tmp_path):
    def delete(done, mean_reward):
        shutil.rmtree(next(tmp_path.iterdir()))

    with pytest.raises(RunFailed, match="could not be written"):
        run(resolve(layers_from(SHORT | {"epochs": 1})), tmp_path, watch=delete)


def test_an_error_that_is_no_unicode_is_told_escaped(tmp_path):
    with pytest.raises(RunFailed) as failure:
        run(own(tmp_path, "raise ValueError(chr(0xD800))"), tmp_path / "runs")
    assert failure.value.run.status()["status"] == "failed"
    assert "\\ud800" in failure.value.run.status()["error"]


@pytest.mark.parametrize("body", ["sys.stdout.close()", "sys.stderr.close()", "sys.stderr = None"])
def test_a_reward_that_closes_what_it_prints_to_closes_nothing_of_ours(tmp_path, capsys, body):
    folder, _ = run(own(tmp_path, f"{body}; return 1.0"), tmp_path / "runs")
    print("still here")
    print("and here", file=sys.stderr)
    assert folder.status()["status"] == "completed"
    assert capsys.readouterr() == ("still here\n", "and here\n")


class SlowToDie(Stop):
    """Its patience ends while something is done that must not be broken off."""

    @contextmanager
    def postponed(self):
        with super().postponed():
            yield
            self.signal = signal.SIGTERM
            self.lose_patience()


def books_of(configs, folder):
    """Configs of one stack, and their notebooks by their places."""
    books = {}
    for place, config in enumerate(configs):
        books[place] = Notebook(runs.create(f"cell-{place}", folder, {"config.yaml": written(config)}), config)
    return books


def test_a_signal_while_runs_are_marked_as_done_leaves_each_done_or_interrupted(tmp_path):
    configs = [resolve(layers_from(SHORT | {"seeds": 2, "learning_rate": rate})).config for rate in (1e-3, 2e-3, 3e-3)]
    books, ended = books_of(configs, tmp_path), []
    with closing(Keeper(tmp_path / "stack", 2)) as keeper, pytest.raises(Stopped) as stopped:
        train_together(configs, books, ended=ended.append, keeper=keeper, stop=SlowToDie())
    assert stopped.value.signal == signal.SIGTERM
    assert [book.folder.status()["status"] for book in books.values()] == ["completed", "interrupted", "interrupted"]
    assert ended == list(books.values())
    assert books[0].folder.status()["files"]
    (place,) = (tmp_path / "stack").iterdir()
    assert read(place).facts["books"]["0"] is None
    assert {"files", "failures"} <= read(place).facts["books"]["1"].keys()


def test_a_signal_while_runs_are_marked_as_failed_leaves_none_that_says_running(tmp_path, monkeypatch):
    def breaks(*words):
        raise RuntimeError("no epoch")

    monkeypatch.setattr(trainer, "collect", breaks)
    configs = [resolve(layers_from(SHORT | {"seeds": 2, "learning_rate": rate})).config for rate in (1e-3, 2e-3)]
    books = books_of(configs, tmp_path)
    with closing(Keeper(tmp_path / "stack", 2)) as keeper, pytest.raises(Stopped):
        train_together(configs, books, keeper=keeper, stop=SlowToDie())
    assert [book.folder.status()["status"] for book in books.values()] == ["failed", "interrupted"]


def test_a_run_whose_folder_has_gone_when_its_stack_is_stopped_takes_no_other_with_it(tmp_path, monkeypatch):
    configs = [resolve(layers_from(SHORT | {"seeds": 2, "learning_rate": rate})).config for rate in (1e-3, 2e-3)]
    books, epochs = books_of(configs, tmp_path), count()
    sampled = trainer.collect

    def stopped(*words):
        if next(epochs) == 2:
            shutil.rmtree(books[0].folder.folder)
            raise Stopped(signal.SIGTERM)
        return sampled(*words)

    monkeypatch.setattr(trainer, "collect", stopped)
    monkeypatch.setattr(together._Stack, "_is_moved", True)  # as in the middle of its steps
    with closing(Keeper(tmp_path / "stack", 2)) as keeper, pytest.raises(Stopped):
        train_together(configs, books, keeper=keeper)
    assert [book.status for book in books.values()] == ["failed", "interrupted"]
    assert [place.name for place in (tmp_path / "stack").iterdir()] == ["epoch-000002"]


def test_what_no_memory_could_hold_is_refused_before_a_folder_is_made(tmp_path):
    with pytest.raises(ConfigError, match=r"it would take about [0-9,]+ GB of memory, and there are [0-9]+; fewer"):
        trained(tmp_path / "runs", task="copy", policy="transformer", width=1_000_000)
    assert not (tmp_path / "runs").exists()


def test_parameters_that_are_few_are_counted_as_they_are_and_many_by_their_shapes_alone():
    assert not workload._zeros(10, 10).is_meta  # else every command would wait a second for what torch imports
    assert workload._zeros(10**6, 10**6).is_meta
    wide = resolve(layers_from({"width": 10**5})).config
    assert workload.bytes_of(wide) > 10 * 4 * 10**10


@pytest.mark.parametrize("error", [MemoryError("1 GiB"), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_memory_that_runs_out_is_told_as_that(tmp_path, monkeypatch, error):
    def failing(*_):
        raise error

    monkeypatch.setattr(trainer, "collect", failing)
    with pytest.raises(
        RunFailed, match=r"there was not enough memory .*(1 GiB|allocate memory)\); fewer prompts_per_epoch"
    ):
        trained(tmp_path)
