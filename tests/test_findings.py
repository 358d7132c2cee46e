"""The pages of findings show what was found, drawn and typed; and the lecture's is written as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from pgrl_cli.cli import app

ROOT = Path(__file__).parents[1]
every_page = pytest.mark.parametrize("name", ["findings", "algorithms"])


def page_of(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def titles_of(page):
    return re.findall(r"^## (\d+)\. (.+)", page, flags=re.MULTILINE)


def shown(page):
    """A page's commands: (the variable its folder goes into, the words, the variables of the loops around it)."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL) for line in block.splitlines()]
    loops = [re.findall(r"for (\w+) in [^;]*; do ", line) for line in lines]
    plain = [re.sub(r"for \w+ in [^;]*; do |; done", "", line) for line in lines]
    each = [re.fullmatch(r"(?:(\w+)=\$\()?(pgrl .*?)\)?", line).groups() for line in plain]
    return [(*one, names) for one, names in zip(each, loops, strict=True)]


def test_the_page_is_written_from_a_small_trial_with_its_pictures(tmp_path):
    words = ["epochs=3", "steps_per_epoch=2", "--seeds", "2", "--draws", "2"]
    words += ["--out", str(tmp_path / "page.md"), "--pictures", str(tmp_path / "pictures")]
    script = ROOT / "docs" / "write_findings.py"
    ran = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert [number for number, _ in titles_of(page)] == [number for number, _ in titles_of(page_of("findings"))]
    drawn = {f"{name}.png" for name in re.findall(r"\]\(findings/(\w+)\.png\)", page)}
    assert drawn == {path.name for path in (tmp_path / "pictures").iterdir()}
    assert drawn == set(re.findall(r"--out (\S+)", page))


@every_page
def test_the_findings_are_borne_out_on_the_page_that_is_shown(name):
    titles = titles_of(page_of(name))
    assert [number for number, _ in titles] == [str(number) for number in range(1, len(titles) + 1)]
    assert not [title for _, title in titles if "not on these seeds" in title]
    assert not re.search(r"\bnan\b", page_of(name))


@every_page
def test_the_page_shows_the_pictures_that_are_there(name):
    named = re.findall(rf"\]\({name}/(.+?)\)", page_of(name))
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs" / name).iterdir())


@every_page
def test_the_commands_shown_exist_and_speak_of_folders_that_were_made_above(name):
    commands = shown(page_of(name))
    made = set()
    assert len(commands) > 10
    for variable, line, loops in commands:
        assert set(re.findall(r"\$([A-Z]\w*)", line)) <= made | set(loops)
        command, *words = shlex.split(re.sub(rf"\$({'|'.join(loops)})\b", "1", line) if loops else line)[1:]
        get_command(app).commands[command].make_context(command, words)  # raises UsageError
        made |= {variable} - {None}


def test_the_page_on_the_family_has_a_row_for_every_algorithm_that_is_shipped():
    shipped = {path.stem for path in (ROOT / "configs" / "algorithms").glob("*.yaml")} - {"base"}
    assert set(re.findall(r"\(\.\./configs/algorithms/(\w+)\.yaml\) \|", page_of("algorithms"))) == shipped
