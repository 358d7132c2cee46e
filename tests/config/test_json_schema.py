"""The JSON Schema of configs, for editors: it knows every key and refuses what the resolution refuses by kind."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pgrl_cli.config import KEYS, yaml12
from pgrl_cli.config.shipped import shipped_folder
from pgrl_cli.listing import json_schema
from pgrl_cli.words import TABLES, every_knob


def valid(text: str) -> bool:
    config = json.loads(json.dumps(yaml12.read(text, "f")))
    return Draft202012Validator(json_schema()).is_valid(config)


def test_it_is_a_valid_schema_of_2020_12() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_the_file_beside_the_configs_is_the_schema() -> None:
    assert json.loads((shipped_folder() / "schema.json").read_text(encoding="utf-8")) == json_schema()


def test_it_knows_every_key_every_knob_and_base_and_nothing_else() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == {*KEYS, *every_knob(), "base"}
    assert schema["additionalProperties"] is False
    assert "required" not in schema


def test_every_key_says_what_it_is() -> None:
    assert all(len(value["description"]) > 10 for value in json_schema()["properties"].values())


@pytest.mark.parametrize("key", TABLES)
def test_a_key_that_names_a_function_lists_its_words(key: str) -> None:
    value = json_schema()["properties"][key]
    (words,) = [kind["enum"] for kind in value.get("anyOf", [value]) if "enum" in kind]
    assert words == list(TABLES[key])


@pytest.mark.parametrize(
    "text",
    [
        "{}\n",
        "base: lecture/two_state\nseed: 1\n",
        "learning_rate: 1\nepochs: 3\n",
        "reward_fn: {sort_exact_reward: 1, mine.py:points: 0.5}\n",
        "prompts: [[1, 2], [3, 4]]\nprompts_per_epoch: null\n",
        "loss_mode: clipped\nclip_low: null\nclip_high: 0.2\ndual_clip: 3\n",
        "kl_estimator: null\n",
        "warm_start: null\n",
        "warm_start: {epochs: 2, prompts: 1}\n",
        "delta_mode: gae\ncritic: null\nvalue_clip: 1\n",
    ],
)
def test_what_resolves_is_valid(resolved: Callable[..., Any], text: str) -> None:
    assert valid(text)
    if "base" not in text and "mine.py" not in text:
        resolved(text)


@pytest.mark.parametrize(
    "text",
    [
        "epohcs: 3\n",
        "epochs: 0\n",
        "epochs: 2.5\n",
        "epochs: true\n",
        "epochs: '3'\n",
        "epochs: null\n",
        "epochs: 3000000000\n",
        "learning_rate: 0\n",
        "learning_rate: true\n",
        "learning_rate: 1e-3x\n",
        "kl_coefficient: -0.1\n",
        "name: ''\n",
        "name: 5\n",
        f"name: {'x' * 101}\n",
        "seed: -1\n",
        "seed: 9223372036854775808\n",
        "loss_mode: ppo\n",
        "delta_mode: null\n",
        "kl_placement: both\n",
        "reward_fn: {sort_exact_reward: true}\n",
        "reward_fn: [sort_exact_reward]\n",
        "prompts: [1, 2]\n",
        "prompts: [[1.5]]\n",
        "optimizer: sgd\nmomentum: 1\n",
        "loss_mode: clipped\ndual_clip: 1\n",
        "loss_mode: clipped\nclip_low: -1\n",
        "dtype: float16\n",
        "base: 5\n",
        "warm_start: {epochs: 0}\n",
        "warm_start: {learning_rate: 1}\n",
        "warm_start: {epochs: 1, epoch: 1}\n",
        "delta_mode: gae\ncritic: alone\n",
    ],
)
def test_what_is_refused_by_its_kind_is_invalid(problems: Callable[..., list[str]], text: str) -> None:
    assert not valid(text)
    assert problems(text)
