import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pgrl_cli import cli_sweep, listing
from pgrl_cli.cli import app
from pgrl_cli.config import KEYS
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.shipped import is_sweep
from pgrl_cli.config.sweep_spec import read_sweep
from pgrl_cli.experiment import run
from pgrl_cli.planning import planned
from pgrl_cli.resolution import resolve

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = [line.partition("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


def test_every_command_of_the_readme_runs_as_typed_in_its_order(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli_sweep, "processors", lambda: 1)  # a worker takes longer to begin than to train these cells
    ran = [line for line in commands() if line.startswith("pgrl ")]
    assert len(ran) >= 10
    for line in ran:
        result = CliRunner().invoke(app, [found for word in shlex.split(line)[1:] for found in expanded(word)])
        assert result.exit_code == 0, f"{line}\n{result.output}"
        assert result.stdout.strip()
        if line.startswith("pgrl compare "):
            shown = README.partition("its last line above is\n\n```text\n")[2].partition("\n")[0]
            assert without_numbers(result.stdout.splitlines()[-1]) == without_numbers(shown)
        if line.startswith("pgrl explain "):
            shown = README.partition("here it says\n\n```text\n")[2].partition("```")[0]
            assert without_numbers(shown) in without_numbers(result.stdout)


def expanded(word):
    """What a shell makes of a word."""
    return (sorted(map(str, Path().glob(word))) if "*" in word else []) or [word]


def without_numbers(text):
    return re.sub(r"\d+(\.\d+)?", "N", text)


def test_every_make_command_of_the_readme_is_a_target_of_the_makefile():
    asked = set(re.findall(r"(?:^|`|&& )make\s+([a-z-]+)", README, flags=re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    phony = set(re.search(r"^\.PHONY: (.*)", makefile, flags=re.MULTILINE)[1].split())
    assert {"demo", "test", "seeds", "bench", "bench-many", "findings"} <= asked <= targets
    assert phony == targets


def test_the_tables_of_words_are_those_that_pgrl_list_prints():
    shown = README.partition("<!-- words -->\n")[2].partition("<!-- /words -->")[0]
    assert shown == listing.markdown()


def test_every_key_is_told_of():
    table = README.partition("**The other keys**")[2].partition("Conventions that")[0]
    told = set(re.findall(r"`([a-z_]+)`", table)) | set(listing.KINDS.values())
    assert set(KEYS) <= told


def test_the_map_names_every_module():
    drawn = README.partition("## The map of the house")[2].partition("configs/lecture/")[0]
    modules = [path for path in (ROOT / "pgrl_cli").rglob("*.py") if not path.name.startswith("__")]
    assert not [path for path in modules if path.stem not in re.findall(r"\w+", drawn)]


@pytest.mark.parametrize("example", blocks("yaml"))
def test_the_examples_of_configs_resolve(tmp_path, example):
    (tmp_path / "mine.yaml").write_text(example, encoding="utf-8")
    if is_sweep(tmp_path / "mine.yaml"):
        assert len(planned(read_sweep("mine.yaml", beside=tmp_path), 1).cells) == 8
        return
    assert resolve(layers_of("mine.yaml", beside=tmp_path)).config.name == "mine"


def test_the_example_of_a_config_really_sorts(tmp_path):
    (tmp_path / "mine.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    _, summary = run(resolve(layers_of("mine.yaml", beside=tmp_path)), tmp_path / "runs")
    assert summary.exact_match == 1
    assert summary.last_mean_reward > 4.8


def test_the_example_of_an_own_reward_trains(tmp_path):
    (tmp_path / "my_rewards.py").write_text(blocks("python")[0], encoding="utf-8")
    (tmp_path / "mine.yaml").write_text("reward_fn: my_rewards.py:points\nepochs: 2\n", encoding="utf-8")
    result = CliRunner().invoke(
        app, ["train", "-c", str(tmp_path / "mine.yaml"), "-q", "--runs-dir", str(tmp_path / "runs")]
    )
    assert result.exit_code == 0, result.output


def test_pictures_of_the_readme_are_there():
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", README)
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_changelog_names_this_version():
    from pgrl_cli import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
