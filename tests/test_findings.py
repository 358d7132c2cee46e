import re
import shlex
import subprocess
import sys
from pathlib import Path

from typer.main import get_command

from pgrl_cli.cli import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
TITLES = re.findall(r"^## (\d+)\. (.+)", PAGE, flags=re.MULTILINE)


def shown():
    """The page's commands: (the variable its folder goes into, the words)."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]
    return [re.fullmatch(r"(?:(\w+)=\$\()?(pgrl .*?)\)?", line).groups() for line in lines]


def test_the_page_is_written_from_a_small_trial_with_its_pictures(tmp_path):
    words = ["epochs=3", "steps_per_epoch=2", "--seeds", "2", "--draws", "2"]
    words += ["--out", str(tmp_path / "page.md"), "--pictures", str(tmp_path / "pictures")]
    script = ROOT / "docs" / "write_findings.py"
    ran = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+)\. ", page, flags=re.MULTILINE) == [number for number, _ in TITLES]
    drawn = {f"{name}.png" for name in re.findall(r"\]\(findings/(\w+)\.png\)", page)}
    assert drawn == {path.name for path in (tmp_path / "pictures").iterdir()}
    assert drawn == set(re.findall(r"--out (\S+)", page))


def test_the_findings_are_borne_out_on_the_page_that_is_shown():
    assert [number for number, _ in TITLES] == [str(number) for number in range(1, len(TITLES) + 1)]
    assert not [title for _, title in TITLES if "not on these seeds" in title]
    assert "nan" not in PAGE


def test_the_page_shows_the_pictures_that_are_there():
    named = re.findall(r"\]\(findings/(.+?)\)", PAGE)
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs" / "findings").iterdir())


def test_the_commands_shown_exist_and_speak_of_folders_that_were_made_above():
    made = set()
    assert len(shown()) > 10
    for variable, line in shown():
        name, *words = shlex.split(line)[1:]
        get_command(app).commands[name].make_context(name, words)  # raises UsageError
        assert set(re.findall(r"\$([A-Z]\w*)", line)) <= made
        made |= {variable} - {None}
