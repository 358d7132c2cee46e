"""Files that are none, or far too large, and bases without an end: told at once, in little memory."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile.doors import listing, pgrl, pgrl_child

HUNDRED_MEGABYTES = 100_000_000
DOORS = {
    "train": ["train", "--config"],
    "validate": ["config", "validate"],
    "show": ["config", "show"],
    "sweep": ["sweep", "--dry-run", "--config"],
}


def scalar(path: Path, before: str = "name: ") -> None:
    with path.open("w") as file:
        file.write(before)
        for _ in range(HUNDRED_MEGABYTES // 1_000_000):
            file.write("x" * 1_000_000)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def bases(path: Path) -> None:
    for number in range(1000):
        Path(f"base_{number}.yaml").write_text(f"base: base_{number + 1}.yaml\n")
    Path("base_1000.yaml").write_text("epochs: 2\n")
    path.write_text("base: base_0.yaml\n")


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "is a pipe or a device; a config is a file"),
    "endless zeros": (lambda path: path.symlink_to("/dev/zero"), "is a pipe or a device; a config is a file"),
    "standard input": (lambda path: path.symlink_to("/dev/stdin"), "is a pipe or a device; a config is a file"),
    "nothing": (lambda path: path.symlink_to("/dev/null"), "is a pipe or a device; a config is a file"),
    "a folder": (Path.mkdir, "is a folder, not a config"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "is a link to something that is not there"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
    "a thousand bases": (bases, "base: more than 10 files build on each other"),
    "a scalar of 100 MB": (scalar, "is longer than 1048576 characters"),
    "a terabyte of zeros": (sparse, "is longer than 1048576 characters"),
}


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_config_is_told_at_once(tmp_path: Path, kind: str, door: str) -> None:
    make, told = STRANGE[kind]
    make(Path("strange.yaml"))
    before = listing(tmp_path, but="")
    said = pgrl(*DOORS[door], "strange.yaml")
    assert (said.code, told in said.err) == (2, True), said
    assert listing(tmp_path, but="") == before


@pytest.mark.parametrize("kind", ["endless zeros", "a pipe", "a scalar of 100 MB", "a terabyte of zeros"])
def test_a_base_that_is_no_config_is_told_at_once(kind: str) -> None:
    make, told = STRANGE[kind]
    make(Path("strange.yaml"))
    Path("mine.yaml").write_text("base: strange.yaml\n")
    said = pgrl("config", "validate", "mine.yaml")
    assert (said.code, told in said.err) == (2, True), said


def test_the_worst_texts_are_refused_in_little_memory() -> None:
    scalar(Path("scalar.yaml"))
    sparse(Path("sparse.yaml"))
    Path("zero.yaml").symlink_to("/dev/zero")
    Path("prompts.yaml").write_text(f"prompts: [{'[1],' * 240_000}]\n")
    said = pgrl_child("config", "validate", "scalar.yaml", "sparse.yaml", "zero.yaml", "prompts.yaml", gigabytes=2)
    assert said.code == 2
    assert said.err.count("error: ") == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_config_that_may_not_be_read_is_told() -> None:
    Path("mine.yaml").write_text("epochs: 2\n")
    Path("mine.yaml").chmod(0)
    for door in DOORS.values():
        said = pgrl(*door, "mine.yaml")
        assert (said.code, "cannot be read: Permission denied" in said.err) == (2, True), said


def test_a_file_may_be_called_as_it_likes() -> None:
    for name in (
        "a\nb.yaml",
        "-dash.yaml",
        "...yaml",
        "é ü.yaml",
        "🦆.yaml",
        "x" * 250 + ".yaml",
        "$(x).yaml",
        "\x1b[2J.yaml",
    ):
        Path(name).write_text("base: lecture/centered_clipped\nepochs: 2\nseed: -1\n")
        said = pgrl("config", "validate", f"./{name}")
        assert (said.code, "seed: came -1" in said.err) == (2, True), said
        Path(name).write_text("base: lecture/centered_clipped\nepochs: 2\n")
        assert pgrl("config", "show", f"./{name}").code == 0


def test_a_copied_config_does_not_go_through_a_link(tmp_path: Path) -> None:
    Path("mine.yaml").symlink_to(tmp_path / "outside.yaml")
    said = pgrl("config", "cp", "lecture/centered_clipped", "mine.yaml")
    assert (said.code, "exists; nothing was copied" in said.err) == (2, True)
    assert not (tmp_path / "outside.yaml").exists()


REWARDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "there is no file 'mine.py'"),
    "a megabyte of brackets": (lambda path: path.write_text("(" * 1_000_000), "is not valid Python: "),
    "deep conditions": (
        lambda path: path.write_text("if 1: pass\n" + "elif 1: pass\n" * 5000),
        "is not valid Python: ",
    ),
    "long sums": (lambda path: path.write_text("x = " + "1+" * 100_000 + "1\n"), "mine.py"),
    "NULs": (lambda path: path.write_bytes(b"\0" * 100), "is not valid Python: "),
    "100 MB": (lambda path: scalar(path, "#"), "cannot be read: is larger than 1048576 bytes"),
}


DEEP = ("deep conditions", "long sums")
"""What might overflow the interpreter's own stack."""


@pytest.mark.parametrize("kind", REWARDS)
def test_a_hostile_file_of_a_reward_is_looked_at_and_refused(kind: str) -> None:
    make, told = REWARDS[kind]
    make(Path("mine.py"))
    words = ["config", "show", "lecture/centered_clipped", "reward_fn=mine.py:points"]
    said = pgrl_child(*words, gigabytes=8) if kind in DEEP else pgrl(*words)
    assert (said.code, told in said.err) == (2, True), said
