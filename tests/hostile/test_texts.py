"""Every file of the corpus is read correctly, or refused with one helpful line; nothing is written outside the runs."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.doors import listing, pgrl
from hostile.texts import TEXTS

FILES = Path(__file__).parent / "files"
OPENED = {
    "validate": ["config", "validate"],
    "show": ["config", "show"],
    "train": ["train", "-q", "--runs-dir", "inside/runs", "--config"],
    "dry_run": ["sweep", "--dry-run", "--runs-dir", "inside/runs", "--config"],
}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beside")
    shutil.copytree(FILES, folder / "here")
    (folder / "here" / "inside").mkdir()
    return folder


@pytest.fixture
def surrounded(beside: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files in it; what lies there and around it is the same afterwards, but for the runs."""
    monkeypatch.chdir(beside / "here")
    before = listing(beside)
    yield beside / "here" / "inside" / "runs"
    shutil.rmtree("inside/runs", ignore_errors=True)
    assert listing(beside) == before


def test_the_table_tells_of_every_file() -> None:
    assert sorted(TEXTS) == sorted(path.name for path in FILES.iterdir())


@pytest.mark.parametrize("file", TEXTS)
def test_a_file_is_read_correctly_or_refused_with_a_helpful_line(surrounded: Path, file: str) -> None:
    how, code, told = TEXTS[file]
    said = pgrl(*OPENED[how], file)
    assert said.code == code, said
    if code:
        assert told in said.err
        assert said.err.startswith("error: ")
        assert "hunter2" not in said.out + said.err
    elif how == "show":
        assert told in said.out.splitlines()
    else:
        assert told in said.out
    if how == "train":
        (run,) = surrounded.iterdir()
        assert re.fullmatch(r"[A-Za-z0-9._-]+", run.name)
        assert not [path for path in run.rglob("*") if path.is_symlink()]
    else:
        assert not surrounded.exists()
    assert not Path("outside").exists()
