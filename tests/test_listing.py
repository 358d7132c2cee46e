"""What there is to choose from: each kind names exactly its table's words, with every knob and default."""

import re

import pytest

from pgrl_cli.config import KEYS, yaml12
from pgrl_cli.listing import KINDS, markdown, words_of
from pgrl_cli.registry import REQUIRED, knobs, smallest_group
from pgrl_cli.tasks import TASKS
from pgrl_cli.words import TABLES


def rows(text: str) -> list[list[str]]:
    """The cells of a markdown table's rows, without its head."""
    table = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_every_table_that_a_key_has_is_listed_and_rewards_beside_them() -> None:
    assert {*KINDS.values(), "kl_average", "critic_optimizer"} == {*TABLES, "reward_fn"}
    assert set(KINDS.values()) <= set(KEYS)
    assert TABLES["kl_average"] is TABLES["average"]
    assert TABLES["critic_optimizer"].items() < TABLES["optimizer"].items()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rewards"])
def test_a_kind_names_exactly_the_words_of_its_table(kind: str) -> None:
    assert [word.name for word in words_of(kind)] == list(TABLES[KINDS[kind]])


def test_rewards_are_those_of_every_task_told_once_for_all_tasks_where_they_mean_the_same() -> None:
    found = [(word.name, re.search(r"\(tasks? ([\w, ]+)\)$", word.meaning)) for word in words_of("rewards")]
    listed = [(name, match[1].split(", ")) for name, match in found if match]
    told = [(task, name) for name, tasks in listed for task in tasks]
    assert sorted(told) == sorted((task, name) for task, build in TASKS.items() for name in build().rewards)
    assert ("sort_exact_reward", ["sorting"]) in listed
    assert ("digits", ["copy", "reverse", "addition", "multiplication"]) in listed
    assert [name for name, _ in listed].count("exact") == 2  # countdown's means something else


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_has_a_meaning_of_its_own(kind: str) -> None:
    meanings = [word.meaning for word in words_of(kind)]
    assert all(len(meaning) > 15 for meaning in meanings)
    assert len(set(meanings)) == len(meanings)
    assert not any("\n" in meaning or meaning.endswith(".") for meaning in meanings)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rewards"])
def test_every_knob_is_told_with_its_default(kind: str) -> None:
    for word in words_of(kind):
        expected = knobs(TABLES[KINDS[kind]][word.name])
        told = dict(re.split(r": | (?=\()", knob) for knob in word.knobs.split(", ") if knob)
        assert list(told) == list(expected)
        for name, knob in expected.items():
            if knob.default is None:
                assert told[name] == "null"
            elif knob.default is REQUIRED:
                assert told[name] == "(the task's)"
            elif isinstance(knob.default, bool | str):
                assert yaml12.scalar(told[name]) == knob.default
            else:
                assert float(told[name]) == knob.default


def test_defaults_that_are_words_or_yes_and_no_are_told_as_a_config_writes_them() -> None:
    told = {word.name: word.knobs for kind in ("losses", "deltas") for word in words_of(kind)}
    assert told["importance_sampled"] == "importance_level: token, importance_cap: null"
    assert told["reward_to_go"] == "discount: 1, discount_outer: false"


def test_a_mode_that_compares_responses_says_how_many_it_needs() -> None:
    for word in words_of("deltas"):
        needed = smallest_group(TABLES["delta_mode"][word.name])
        assert (f"needs num_responses {needed} or more" in word.meaning) is (needed > 1)


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_has_a_row_of_three_cells_per_word(kind: str) -> None:
    text = markdown({kind: KINDS[kind]})
    assert text.startswith(f"**{kind}**\n\n| `{KINDS[kind]}` | meaning | knobs |\n|---|---|---|\n")
    cells = rows(text)
    assert all(len(row) == 3 for row in cells)
    assert [row[0] for row in cells] == [f"`{word.name}`" for word in words_of(kind)]
    assert [row[1] for row in cells] == [word.meaning.replace("|", "∥") for word in words_of(kind)]
    assert [row[2].replace("`", "") for row in cells] == [word.knobs for word in words_of(kind)]


def test_markdown_of_all_is_that_of_each() -> None:
    assert markdown() == "\n".join(markdown({kind: key}) for kind, key in KINDS.items())
