"""A user's reward in a process of its own: it may hang, die, print and meddle, and it is never left behind."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from nursery import Child
from processes import naming, wait_until

from pgrl_cli.runs import Run
from pgrl_cli.tasks.own_rewards import RewardError, UserReward, own_reward

PROMPTS = torch.tensor([[3, 1]])
RESPONSES = torch.tensor([[[0, 1], [1, 1], [2, 2]]])
HELD = "import ctypes\n\ndef points(prompt, response):\n    ctypes.PyDLL(None).sleep(1000)\n"
"""It holds the interpreter for good: no other thread of its process runs any more, and no signal handler."""


@pytest.fixture(autouse=True)
def _no_process_is_left(tmp_path):
    yield
    gc.collect()
    assert naming(tmp_path) == []


@pytest.fixture
def written(tmp_path):
    """Writes a file of the user's."""

    def write(source):
        (tmp_path / "mine.py").write_text(dedent(source))
        return tmp_path / "mine.py"

    return write


def fault(reward):
    with pytest.raises(RewardError) as raised:
        reward(PROMPTS, RESPONSES)
    return str(raised.value)


HANGS = {
    "sleeps": "time.sleep(1000)",
    "turns in a circle": "while True: pass",
    "cannot be interrupted": "while True:\n        try: time.sleep(1000)\n        except BaseException: pass",
    "holds the interpreter": "ctypes.PyDLL(None).sleep(1000)",
    "holds the interpreter again and again": "[ctypes.PyDLL(None).usleep(200_000) for _ in range(10_000)]",
    "matches for ever": "re.match('(a+)+$', 60 * 'a' + 'b')",
    "ignores signals": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(1000)",
}


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS.keys())
def test_a_reward_that_hangs_is_ended_and_told_with_the_case_and_the_time(written, tmp_path, body):
    lines = [
        "import ctypes, re, signal, time",
        "def points(prompt, response):",
        "    if response != [1, 1]: return 0.5",
    ]
    path = written("\n".join([*lines, f"    {body}"]) + "\n")
    reward = own_reward(path, "points", timeout=1.0)
    began = time.monotonic()
    message = fault(reward)
    assert 0.9 < time.monotonic() - began < 5
    case = "for prompt [3, 1] and response [1, 1]"
    told = rf":?(\d*): the reward gave no answer {re.escape(case)} within 1 s \(reward_timeout\); points was ended\."
    match = re.fullmatch(re.escape(str(path)) + told, message)
    assert match
    assert match[1] in (("",) if "sigmask" in body else ("4", "5"))
    assert naming(tmp_path) == []
    began = time.monotonic()
    assert fault(reward) == message  # it is not asked again
    assert time.monotonic() - began < 0.5


def test_a_file_that_hangs_while_it_is_loaded_is_ended(written, tmp_path):
    path = written("import time\n\ntime.sleep(1000)\n\ndef points(prompt, response): return 1.0\n")
    with pytest.raises(RewardError) as raised:
        own_reward(path, "points", timeout=0.5)
    assert str(raised.value) == f"{path}:3: loading 'points' took longer than 0.5 s (reward_timeout)."
    assert naming(tmp_path) == []


def test_the_time_is_that_of_one_answer_not_of_all_that_are_asked_together(written):
    path = written("import time\n\ndef points(prompt, response):\n    time.sleep(0.4)\n    return response[0]\n")
    assert own_reward(path, "points", timeout=1.0)(PROMPTS, RESPONSES).tolist() == [[0, 1, 2]]


DEATHS = {
    "leaves": ("os._exit(3)", "ended with exit code 3"),
    "leaves as if all were well": ("os._exit(0)", "ended with exit code 0"),
    "kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL, perhaps for lack of memory"),
    "kills its session": ("os.killpg(0, signal.SIGTERM)", "was killed by SIGTERM"),
    "reads what is not there": ("ctypes.string_at(0)", "was killed by SIGSEGV"),
    "aborts": ("os.abort()", "was killed by SIGABRT"),
    "closes every pipe": ("os.closerange(0, 256)", "ended with exit code 1"),
    "closes every pipe and stays": ("os.closerange(0, 256); time.sleep(1000)", "closed the pipe that it answers on"),
}


@pytest.mark.parametrize(("body", "told"), DEATHS.values(), ids=DEATHS.keys())
def test_a_reward_that_ends_its_process_is_told_with_the_case_and_how(written, tmp_path, body, told):
    path = written(
        f"""
        import ctypes, os, signal, time

        def points(prompt, response):
            if response == [1, 1]:
                {body}
            return 0.5
        """
    )
    message = fault(own_reward(path, "points"))
    case = "for prompt [3, 1] and response [1, 1]"
    assert message == f"{path}: the reward failed {case}: the process of points {told}."
    assert naming(tmp_path) == []


def test_a_file_that_ends_its_process_while_it_is_loaded_is_told(written):
    path = written("import os\nos._exit(4)\n")
    with pytest.raises(RewardError) as raised:
        own_reward(path, "points")
    assert str(raised.value) == f"{path}: loading 'points' failed: its process ended with exit code 4."


def test_too_little_memory_is_an_error_like_others(written):
    path = written(
        """
        import resource

        def points(prompt, response):
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            return len(bytearray(1 << 40))
        """
    )
    assert fault(own_reward(path, "points")).startswith(f"{path}:6: the reward failed for prompt")


def test_what_was_answered_before_a_fault_is_remembered_and_what_it_hung_on_costs_the_time_once(written, tmp_path):
    path = written(
        f"""
        import time
        from pathlib import Path

        def points(prompt, response):
            with Path({str(tmp_path / "calls.txt")!r}).open("a") as calls:
                calls.write(f"{{response[0]}}\\n")
            if response == [1, 1]:
                time.sleep(1000)
            return response[0]
        """
    )
    own = UserReward(path, "points")
    assert "within 1 s" in fault(own.within(1.0))
    began = time.monotonic()
    assert "within 1 s" in fault(own.within(1.0))
    assert time.monotonic() - began < 0.5
    assert "within 1.25 s" in fault(own.within(1.25))  # with more time it might have answered
    patient = own.within(1.25)
    assert patient(PROMPTS, RESPONSES[:, [0, 2]]).tolist() == [[0, 2]]
    assert (tmp_path / "calls.txt").read_text().split() == ["0", "1", "1", "2"]
    own.close()


def test_a_process_that_dies_between_two_questions_is_started_again(written, tmp_path):
    own = UserReward(written("def points(prompt, response): return response[0]\n"), "points")
    reward = own.within(60.0)
    assert reward(PROMPTS, RESPONSES[:, :1]).tolist() == [[0]]
    (first,) = naming(tmp_path)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not own.process.open)
    assert reward(PROMPTS, RESPONSES).tolist() == [[0, 1, 2]]
    own.close()
    assert naming(tmp_path) == []
    assert reward(PROMPTS, RESPONSES).tolist() == [[0, 1, 2]]  # remembered


@pytest.mark.parametrize(
    "printing",
    [
        "print(TEXT)",
        "print(TEXT, file=sys.stderr)",
        "os.write(1, TEXT.encode())",
        "ctypes.CDLL(None).write(2, TEXT.encode(), len(TEXT))",
        "subprocess.run(['printf', '%s', TEXT[:100_000]] )",
    ],
)
def test_what_it_prints_goes_to_standard_error_however_much_it_is(written, capfd, printing):
    path = written(
        f"""
        import ctypes, os, subprocess, sys

        TEXT = 1_000_000 * "x"
        print("loading")

        def points(prompt, response):
            {printing}
            return 1.0
        """
    )
    reward = own_reward(path, "points", timeout=20.0)
    assert reward(PROMPTS, RESPONSES).tolist() == [[1, 1, 1]]
    out, err = capfd.readouterr()
    assert out == ""
    assert "loading" in err
    assert err.count("x") == (300_000 if "printf" in printing else 3_000_000)


def test_lines_printed_before_it_hangs_are_not_lost(written, capfd):
    path = written("def points(prompt, response):\n    print('so far', response)\n    while True: pass\n")
    fault(own_reward(path, "points", timeout=1.0))
    assert "so far [0, 1]" in capfd.readouterr().err


@pytest.mark.parametrize("body", ["os.close(1); os.close(2)", "sys.stdout.close(); sys.stderr.close()"])
def test_it_may_close_what_it_prints_to(written, capfd, body):
    path = written(
        f"""
        import os, sys

        def points(prompt, response):
            print("once more")
            if response == [0, 1]:
                {body}
            return 1.0
        """
    )
    reward = own_reward(path, "points")
    if "os." in body:
        assert reward(PROMPTS, RESPONSES).tolist() == [[1, 1, 1]]
    else:
        assert "ValueError: I/O operation on closed file" in fault(reward)
    assert capfd.readouterr().err.count("once more") == (3 if "os." in body else 1)


def test_it_has_nothing_to_read(written):
    path = written("import os, sys\n\ndef points(prompt, response):\n    return len(sys.stdin.read() + input('?'))\n")
    assert fault(own_reward(path, "points")).endswith("EOFError: EOF when reading a line")


def test_it_finds_the_folder_the_path_and_the_environment_of_the_trainer_and_no_torch(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "one:two")
    path = written(
        f"""
        import os, sys
        from pathlib import Path

        def points(prompt, response):
            with Path({str(tmp_path / "seen.txt")!r}).open("a") as seen:
                seen.write(repr((os.getcwd(), sys.path, os.environ["PYTHONPATH"], "torch" in sys.modules)) + "\\n")
            os.chdir("/")
            sys.path.append("elsewhere")
            return 1.0
        """
    )
    reward = own_reward(path, "points")
    reward(PROMPTS, RESPONSES[:, :1])
    reward(PROMPTS, RESPONSES[:, 1:2])
    expected = repr((str(tmp_path), [str(tmp_path), *sys.path], "one:two", False))
    assert (tmp_path / "seen.txt").read_text().splitlines() == [expected, expected]


def test_what_it_starts_ends_with_it(written, tmp_path):
    path = written(
        f"""
        import os, subprocess, sys, time

        def points(prompt, response):
            if response[0] == 0:
                subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", {str(tmp_path)!r}])
            if response[0] == 1 and os.fork() == 0:
                time.sleep(1000)
            return response[0]
        """
    )
    own = UserReward(path, "points")
    assert own.within(60.0)(PROMPTS, RESPONSES).tolist() == [[0, 1, 2]]
    wait_until(lambda: len(naming(tmp_path)) == 3)
    own.close()
    wait_until(lambda: not naming(tmp_path), 2)


def test_a_death_is_told_at_once_though_what_it_started_holds_its_pipe(written):
    path = written(
        """
        import os, time

        def points(prompt, response):
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(3)
        """
    )
    began = time.monotonic()
    assert "ended with exit code 3" in fault(own_reward(path, "points"))
    assert time.monotonic() - began < 5


def test_a_copy_that_it_makes_of_itself_answers_nothing(written):
    path = written("import os\n\ndef points(prompt, response):\n    os.fork()\n    return response[0]\n")
    assert own_reward(path, "points")(PROMPTS, RESPONSES).tolist() == [[0, 1, 2]]


def test_it_may_close_its_own_files_when_the_run_ends(written, tmp_path):
    path = written(
        f"log = open({str(tmp_path / 'log.txt')!r}, 'w')\n"
        "def points(prompt, response):\n    log.write('said\\n')\n    return 1.0\n"
    )
    reward = own_reward(path, "points")
    reward(PROMPTS, RESPONSES)
    reward.close()
    assert (tmp_path / "log.txt").read_text() == "said\nsaid\nsaid\n"


def test_a_hundred_thousand_answers_come_in_their_order(written):
    path = written("def points(prompt, response): return 1000 * response[0] + response[1]\n")
    numbers = torch.arange(100_000)
    responses = torch.stack([numbers // 1000, numbers % 1000], dim=-1)[None]
    assert torch.equal(own_reward(path, "points")(PROMPTS, responses)[0], numbers.double())


def trainer(tmp_path, *overrides):
    """A child that trains with the reward of mine.py, in a session of its own."""
    words = ["train", "-c", "lecture/centered_naive", "reward_fn=mine.py:points", *overrides, "--runs-dir", "runs"]
    return Child(["-m", "pgrl_cli", *words], cwd=tmp_path, start_new_session=True)


def hanging(tmp_path):
    """The reward's process, once it hangs."""
    wait_until(lambda: (tmp_path / "hangs").exists(), 60)
    (process,) = naming(tmp_path)
    return process


MARKED = "from pathlib import Path\nimport ctypes, time\n\ndef points(prompt, response):\n    Path('hangs').touch()\n"


@pytest.mark.parametrize("body", ["while True: pass", "ctypes.PyDLL(None).sleep(1000)"])
def test_ctrl_c_at_the_terminal_ends_the_wait_for_a_reward_that_hangs(written, tmp_path, body):
    written(MARKED + f"    {body}\n")
    child = trainer(tmp_path, "reward_timeout=1000")
    hanging(tmp_path)
    began = time.monotonic()
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert time.monotonic() - began < 5
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert Run(next((tmp_path / "runs").iterdir())).status()["status"] == "interrupted"
    assert naming(tmp_path) == []


@pytest.mark.parametrize("body", ["time.sleep(1000)", "ctypes.PyDLL(None).sleep(1000)"])
def test_a_trainer_that_is_killed_takes_its_rewards_with_it(written, tmp_path, body):
    written(MARKED + f"    {body}\n")
    child = trainer(tmp_path, "reward_timeout=1000")
    hanging(tmp_path)
    child.kill()
    child.communicate()
    wait_until(lambda: not naming(tmp_path), 3)


def test_a_trainer_that_is_killed_between_two_questions_takes_its_rewards_with_it(written, tmp_path):
    written("def points(prompt, response): return response[0]\n")
    child = trainer(tmp_path, "epochs=100000")
    wait_until(lambda: list(tmp_path.glob("runs/*/metrics.jsonl")) and naming(tmp_path), 60)
    child.kill()
    child.communicate()
    wait_until(lambda: not naming(tmp_path), 3)


def test_where_the_kernel_does_not_end_it_a_thread_looks_after_the_trainer(tmp_path):
    watching = (
        "import os, pathlib, sys; from pgrl_cli.reward_worker import end_after; parent = os.getppid(); "
        "pathlib.Path(sys.argv[1], 'watches').touch(); end_after(parent, 0.02)"
    )
    starting = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]]); time.sleep(1000)"
    starter = subprocess.Popen([sys.executable, "-c", starting, watching, str(tmp_path)])
    wait_until(lambda: (tmp_path / "watches").exists())
    starter.kill()
    starter.wait()
    wait_until(lambda: not naming(tmp_path), 5)


def test_a_run_that_hangs_fails_with_its_reason_and_where_it_hung_in_the_log(written, tmp_path):
    written(HELD)
    child = trainer(tmp_path, "reward_timeout=0.5")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    folder = Run(next((tmp_path / "runs").iterdir()))
    assert folder.status()["status"] == "failed"
    assert "within 0.5 s (reward_timeout)" in folder.status()["error"]
    assert "mine.py:4: the reward gave no answer for prompt [" in " ".join(err.split())
    assert re.search(r'mine\.py", line 4 in points', folder.log_file.read_text())


def test_a_trainer_without_a_standard_error_lets_no_reward_print_into_its_files(written, tmp_path):
    written("def points(prompt, response):\n    print('noise')\n    return response[0]\n")
    words = f"{sys.executable} -m pgrl_cli train -c lecture/centered_naive reward_fn=mine.py:points epochs=2 -q 2>&-"
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    for file in Path(tmp_path / done.stdout.strip()).glob("*.*"):
        assert file.name == "mine.py" or b"noise" not in file.read_bytes()
