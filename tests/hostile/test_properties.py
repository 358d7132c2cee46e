"""Whatever is written or typed: no traceback, and what is dumped reads back equal."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile.doors import pgrl, pgrl_at_length
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgrl_cli.config import KEYS, ConfigError, yaml12
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.other_words import OTHER_WORDS
from pgrl_cli.config.sweep_spec import differences, read_sweep
from pgrl_cli.config.sweep_words import OTHER_SWEEP_WORDS, OWN_KEYS
from pgrl_cli.planning import planned
from pgrl_cli.resolution import resolve
from pgrl_cli.runs import in_a_path
from pgrl_cli.secrecy import is_secret
from pgrl_cli.words import TABLES, every_knob, written

often = settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
KNOWN = [*KEYS, *every_knob()]
WORDS = [
    *(word for table in TABLES.values() for word in table),
    "sort_exact_reward",
    "linear",
    "loss",
    "auto",
    "float64",
]
numbers = st.integers(-3, 12) | st.floats() | st.sampled_from([10**40, 2**63, -0.0, 1e-3, 1e308, 5e-324])
scalars = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(WORDS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
keys = st.sampled_from([*KNOWN, *OTHER_WORDS]) | st.text(max_size=8)
sane = st.fixed_dictionaries(
    {"base": st.just("lecture/centered_clipped")},
    optional={
        "name": st.text(min_size=1, max_size=20),
        "epochs": st.integers(1, 9),
        "learning_rate": st.floats(1e-30, 1e30),
        "reward_shift": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30),
        "reward_scale": st.floats(5e-324, 1.7e308),
        "seed": st.integers(0, 2**63 - 1),
        "loss_mode": st.sampled_from(list(TABLES["loss_mode"])),
        "delta_mode": st.sampled_from(list(TABLES["delta_mode"])),
        "kl_coefficient": st.floats(0, 1e300),
        "clip_epsilon": st.floats(1e-10, 0.99),
        "prompts": st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=3),
    },
)


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@often
@given(st.dictionaries(keys, values, max_size=5))
def test_any_config_is_read_or_told(config: dict[str, Any]) -> None:
    text = yaml12.write({"base": "lecture/centered_clipped"} | config)
    Path("mine.yaml").write_text(text, encoding="utf-8", errors="replace")
    assert pgrl_at_length("config", "validate", "mine.yaml").code in (0, 2)


@often
@given(
    st.binary(max_size=60) | st.text(st.sampled_from("ab:-[]{}&*!|>'\"%@`#,? \n\t\\\r0.e"), max_size=40).map(str.encode)
)
def test_any_bytes_are_read_or_told(data: bytes) -> None:
    Path("mine.yaml").write_bytes(b"base: lecture/centered_clipped\n" + data)
    assert pgrl_at_length("config", "validate", "mine.yaml").code in (0, 2)


texts = st.text(max_size=10) | st.text(st.sampled_from("[]{}'\",:#&*!|- \n\t0123e."), max_size=12) | numbers.map(str)
overrides = st.tuples(keys, st.sampled_from(["=", "", "==", ": "]), texts).map("".join) | st.text(max_size=12)


@often
@given(st.lists(overrides, min_size=1, max_size=4))
def test_any_overrides_are_read_or_told(words: list[str]) -> None:
    assert pgrl_at_length("config", "show", "--", "lecture/centered_clipped", *words).code in (0, 2)
    assert pgrl_at_length("sweep", "--dry-run", "--config", "lecture/centered_clipped", "--", *words).code in (0, 2)


@often
@given(sane)
def test_a_config_that_is_shown_reads_back_equal(config: dict[str, Any]) -> None:
    Path("mine.yaml").write_text(yaml12.write(config), encoding="utf-8")
    said = pgrl("config", "show", "mine.yaml")
    if said.code == 2:
        return
    Path("again.yaml").write_bytes(said.out.encode())
    assert pgrl("config", "show", "again.yaml").out == said.out
    first, again = (resolve(layers_of(name)).config for name in ("mine.yaml", "again.yaml"))
    assert first == again
    assert written(first) == said.out


sweep_keys = st.sampled_from([*OWN_KEYS, *OTHER_SWEEP_WORDS, "epochs", "seeds", "reward_fn"]) | st.text(max_size=6)
swept = st.dictionaries(keys, st.lists(scalars, max_size=3) | values, max_size=3)


@often
@given(
    st.dictionaries(sweep_keys, values, max_size=4), swept | values, st.sampled_from(["grid", "zip", "list", "random"])
)
def test_any_sweep_is_planned_or_told(more: dict[str, Any], parameters: Any, method: str) -> None:
    config = {"base": "lecture/centered_clipped", "method": method, "parameters": parameters} | more
    Path("grid.yaml").write_text(yaml12.write(config), encoding="utf-8", errors="replace")
    assert pgrl_at_length("sweep", "--dry-run", "--config", "grid.yaml").code in (0, 2)


@often
@given(
    sane,
    st.dictionaries(
        st.sampled_from(["learning_rate", "reward_shift", "loss_mode", "num_responses", "delta_mode", "clip_epsilon"]),
        st.lists(scalars | st.floats(0, 1) | st.integers(1, 9), min_size=1, max_size=3),
        min_size=1,
        max_size=2,
    ),
)
def test_what_a_sweep_keeps_says_the_same_again_and_its_folders_have_plain_names(
    config: dict[str, Any], parameters: dict[str, Any]
) -> None:
    fixed = {key: value for key, value in config.items() if key not in parameters}
    Path("grid.yaml").write_text(yaml12.write(fixed | {"parameters": parameters}), encoding="utf-8")
    try:
        spec = read_sweep("grid.yaml")
        plan = planned(spec, 1)
    except ConfigError:
        return
    Path("sweep.yaml").write_text(yaml12.write(spec.as_mapping()), encoding="utf-8")
    again = read_sweep("sweep.yaml")
    assert differences(spec.as_mapping(), again.as_mapping()) == []
    assert [cell.id for cell in planned(again, 1).cells] == [cell.id for cell in plan.cells]
    assert all(re.fullmatch(r"cells/[A-Za-z0-9_][A-Za-z0-9._-]*", cell.folder) for cell in plan.cells)


@often
@given(st.text() | st.text(st.sampled_from("./\\-_ aé\0\n\u202e")))
def test_a_name_in_a_path_is_plain(name: str) -> None:
    plain = in_a_path(name)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", plain)
    assert plain not in (".", "..")
    assert len(plain) <= 60


def words_of(value: Any) -> list[str]:
    """The keys of all maps in a value."""
    if isinstance(value, list):
        return [word for inner in value for word in words_of(inner)]
    return [*value, *words_of(list(value.values()))] if isinstance(value, dict) else []


def refused(key: str) -> bool:
    return key == "<<" or is_secret(key)


@often
@given(st.dictionaries(st.text(max_size=6), values, max_size=4))
def test_what_is_written_reads_back_equal_here_and_elsewhere(mapping: dict[str, Any]) -> None:
    text = yaml12.write(mapping)
    if any(refused(key) for key in words_of(mapping)):
        return
    again = yaml12.read(text, "again")
    assert repr(again) == repr(mapping)
    assert yaml.safe_load(text.encode("utf-8", errors="replace")) is not None
