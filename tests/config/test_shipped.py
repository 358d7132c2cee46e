"""The configs that come along: each says what it is, resolves without a word of doubt, and teaches an editor."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from pgrl_cli import sweep as sweeps
from pgrl_cli.config import ConfigError, yaml12
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.shipped import find, first_comment, shipped_folder, shipped_names, shipped_sweeps
from pgrl_cli.config.sweep_spec import read_sweep
from pgrl_cli.listing import json_schema
from pgrl_cli.planning import planned
from pgrl_cli.resolution import resolve
from pgrl_cli.stacks import train_stack
from pgrl_cli.words import written

LECTURE = [name for name in shipped_names() if name.startswith("lecture/")]


def text_of(name: str) -> str:
    return (shipped_folder() / f"{name}.yaml").read_text(encoding="utf-8")


def test_the_lectures_four_delta_modes_and_three_losses_are_shipped() -> None:
    configs = [resolve(layers_of(name)).config for name in LECTURE]
    assert {config.delta_mode for config in configs} >= {
        "rewards",
        "centered_rewards",
        "normalized_rewards",
        "max_rewards",
    }
    assert {config.loss_mode for config in configs} >= {"naive", "unclipped", "clipped"}
    assert {config.task for config in configs} == {"sorting", "two_state"}
    assert any(config.kl_coefficient > 0 for config in configs)


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_config_resolves_without_notes_under_its_own_name(name: str) -> None:
    resolved = resolve(layers_of(name))
    assert resolved.notes == ()
    assert resolved.config.name == Path(name).name


@pytest.mark.parametrize("name", LECTURE)
def test_a_lecture_config_starts_with_a_comment_and_names_its_schema(name: str) -> None:
    lines = text_of(name).splitlines()
    assert lines[0].startswith("# ")
    assert not lines[0].startswith("# yaml-language-server")
    assert "# yaml-language-server: $schema=../schema.json" in lines
    assert (shipped_folder() / name).parent.joinpath("../schema.json").is_file()
    assert first_comment(shipped_folder() / f"{name}.yaml")


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_config_is_valid_by_the_schema_as_written_and_as_resolved(name: str) -> None:
    validator = Draft202012Validator(json_schema())
    validator.validate(json.loads(json.dumps(yaml12.read(text_of(name), name))))
    validator.validate(json.loads(json.dumps(yaml12.read(written(resolve(layers_of(name)).config), name))))


def test_what_a_config_is_is_the_first_sentence_of_its_first_comment(tmp_path: Path) -> None:
    config = tmp_path / "a.yaml"
    config.write_text("# One thing, over\n# two lines. And more.\n# yaml-language-server: x\nseed: 1\n# late\n")
    assert first_comment(config) == "One thing, over two lines"
    config.write_text("seed: 1\n# late\n")
    assert first_comment(config) == ""
    config.write_text("# Costs 0.5 a step\nseed: 1\n")
    assert first_comment(config) == "Costs 0.5 a step"


def test_a_title_and_an_equation_end_no_sentence(tmp_path: Path) -> None:
    config = tmp_path / "a.yaml"
    config.write_text("# Dr. GRPO: Liu et al. 2025, eq. 4 and 5. And more.\nseed: 1\n")
    assert first_comment(config) == "Dr. GRPO: Liu et al. 2025, eq. 4 and 5"
    config.write_text("# The seq. Eq\nseed: 1\n")
    assert first_comment(config) == "The seq"


def test_a_config_is_found_by_path_and_by_name_with_or_without_its_ending(tmp_path: Path) -> None:
    shipped = shipped_folder() / "lecture" / "two_state.yaml"
    (tmp_path / "mine.yaml").write_text("seed: 1\n")
    assert find("lecture/two_state", tmp_path) == find("lecture/two_state.yaml", tmp_path) == shipped
    assert find("mine", tmp_path) == find("mine.yaml", tmp_path) == tmp_path / "mine.yaml"
    assert find(str(tmp_path / "mine.yaml"), shipped_folder()) == tmp_path / "mine.yaml"


def test_shipped_names_are_sorted_and_have_no_ending() -> None:
    names = shipped_names()
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"[a-z0-9_/]+", name) for name in names)
    assert "lecture/centered_clipped" in names


def test_the_nearest_shipped_name_is_offered(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'lecture/two_state'\?"):
        find("lecture/twostate.yaml", tmp_path)


@pytest.mark.parametrize("name", shipped_sweeps())
def test_every_shipped_sweep_trains_two_epochs(name: str, tmp_path: Path) -> None:
    few = ["epochs=2", "steps_per_epoch=2", "seeds=2", "eval_period=1"]
    few += ["samples=3"] if name == "findings/search" else []
    few += ["warm_start.epochs=2", "width=8", "num_responses=2"] if name.startswith("family/") else []
    spec = read_sweep(name, few)
    sweep = sweeps.begin(spec, planned(spec, 1), tmp_path, ["pgrl"])
    for number in {cell.stack for cell in sweep.cells}:
        wanted = [cell.id for cell in sweep.stack(number)]
        train_stack(
            sweep, number, wanted, pictures=False, watch=lambda done, reward: None, ended=lambda cell, book: None
        )
    assert {sweep.status(cell)["status"] for cell in sweep.cells} == {"completed"}
    rows, notes = sweeps.finish(sweep, spec.metric)
    assert not notes
    assert len(rows) == len(sweep.cells) > 1
