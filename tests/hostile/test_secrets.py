"""Values of secrets reach no file and no message."""

import sys
import time
from pathlib import Path

import pytest
from hostile.doors import Said, pgrl

from pgrl_cli.runs import Run
from pgrl_cli.secrecy import holds_secret, is_secret, redacted, scrubbed

SECRET = "hunter2hunter2"
TINY = ["epochs=1", "steps_per_epoch=1"]


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def typed(monkeypatch: pytest.MonkeyPatch, *words: str) -> Said:
    """A command as sys.argv has it."""
    monkeypatch.setattr(sys, "argv", ["pgrl", *words])
    return pgrl(*words)


def nowhere(said: Said) -> None:
    assert SECRET not in said.out + said.err
    for path in Path("runs").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    "word",
    [
        f"api_key={SECRET}",
        f"HF_TOKEN={SECRET}",
        f"db.password={SECRET}",
        f"client_secret={{a: {SECRET}}}",
        f"reward_fn={{sort_exact_reward: 1, api_key: {SECRET}}}",
        f"reward_fn.api_key={SECRET}",
        f"prompts=[{{credentials: {SECRET}}}]",
        f"name=https://me:{SECRET}@example.com",
        f"name=api_key={SECRET}",
        f"API_KEY = {SECRET}",
    ],
)
def test_an_override_that_holds_a_secret_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    for words in (["train", "--config"], ["config", "show"], ["sweep", "--dry-run", "--config"]):
        said = typed(monkeypatch, *words, "lecture/centered_naive", word)
        assert said.code == 2
        nowhere(said)
    assert not Path("runs").exists()


@pytest.mark.parametrize("key", ["api_key", "HF_TOKEN", "db.password"])
def test_a_swept_secret_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    said = typed(monkeypatch, "sweep", "--dry-run", "--config", "lecture/centered_naive", f"{key}={SECRET},{SECRET}")
    assert said.code == 2
    nowhere(said)


def test_the_value_of_a_secret_variable_reaches_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    Path("mine.py").write_text(
        "import os\ndef points(prompt, response):\n    key = os.environ['OPENAI_API_KEY']\n"
        "    raise ValueError(f'401 for {key} at https://me:{key}@a.bc?token={key}&a=1, api_key: {key[::-1]}')\n"
    )
    said = typed(monkeypatch, "train", "--config", "lecture/centered_naive", "reward_fn=mine.py:points", *TINY)
    assert said.code == 1
    (run,) = Path("runs").iterdir()
    for path in run.iterdir():
        assert SECRET.encode() not in path.read_bytes(), path
        assert SECRET[::-1].encode() not in path.read_bytes(), path
    assert "401 for ***" in Run(run).status()["error"]
    said = typed(monkeypatch, "train", "--config", "lecture/centered_naive", f"name={SECRET}", *TINY)
    assert said.code == 2


def test_a_sweep_writes_no_secret_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    Path("mine.py").write_text(
        "import os\ndef points(prompt, response):\n    raise ValueError('no ' + os.environ['HF_TOKEN'])\n"
    )
    words = ["sweep", "--config", "lecture/centered_naive", "reward_fn=mine.py:points,sort_exact_reward", "-j", "1"]
    from typer.testing import CliRunner

    from pgrl_cli.cli import app

    monkeypatch.setattr(sys, "argv", ["pgrl", *words, *TINY])
    assert CliRunner().invoke(app, [*words, *TINY]).exit_code == 1
    (folder,) = Path("runs").iterdir()
    assert "***" in "".join(path.read_text() for path in folder.rglob("status.json"))
    for path in folder.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_a_command_line_is_kept_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    words = [
        "pgrl",
        "--token",
        "a",
        "--url=https://me:a@b.c/d",
        f"x={SECRET}",
        "y=api_key=a",
        "max_tokens=5",
        "epochs=2",
    ]
    assert redacted(words) == [
        *("pgrl", "--token", "***", "--url=https://***@b.c/d", "x=***", "y=api_key=***", "max_tokens=5", "epochs=2")
    ]


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "API-KEY",
        "apikey",
        "HF_TOKEN",
        "token",
        "a.token",
        "accessToken",
        "secret",
        "DB_PASSWORD",
        "passwd",
        "passphrase",
        "credentials",
        "private_key",
        "aws_secret_access_key",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name)
    assert is_secret(f"--{name}")


@pytest.mark.parametrize(
    "name",
    [
        "token_budget",
        "max_tokens",
        "token_mean",
        "keys",
        "key",
        "my_secret.py:points",
        "mine_secret.py",
        "SecretError",
        "tokens",
        "epochs",
        "PATH",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert not is_secret(name)


def test_every_key_of_a_config_is_no_secret() -> None:
    from pgrl_cli.config import KEYS
    from pgrl_cli.words import every_knob

    assert [key for key in (*KEYS, *every_knob()) if is_secret(key)] == []


def test_ordinary_texts_stay_as_they_are() -> None:
    for text in (
        "a: b",
        "epochs=5",
        "http://host:80/a@b",
        "me@x.y",
        "/a/my_secret.py:12: the reward failed",
        "12:30",
        "é",
    ):
        assert scrubbed(text) == text
        assert not holds_secret(text)


@pytest.mark.parametrize("text", ["a", "a ", "a:", "://", "token:", "token='", "://a@", "a=\t"])
def test_a_megabyte_is_looked_through_soon(text: str) -> None:
    began = time.process_time()
    scrubbed(text * (1_000_000 // len(text)))
    assert time.process_time() - began < 2
