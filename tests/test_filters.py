"""The filter's grammar, what a comparison means, and rows chosen and ordered by it."""

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgrl_cli.config.problems import ConfigError
from pgrl_cli.config.yaml12 import scalar
from pgrl_cli.filters import DEEPEST, LONGEST, OPERATORS, ORDERED, All, Comparison, Filter, Not, Some, Word, parsed
from pgrl_cli.selection import selected

ROWS: list[dict[str, Any]] = [
    {"id": "a", "delta_mode": "rewards", "last_mean_reward": 3.5, "epochs": 100, "seeds": None, "done": True},
    {"id": "b", "delta_mode": "max_rewards", "last_mean_reward": 2.5, "epochs": 100, "seeds": 8, "done": False},
    {"id": "c", "delta_mode": "rewards", "last_mean_reward": None, "epochs": 20, "seeds": [0, 3]},
    {"id": "d", "delta_mode": "rewards", "last_mean_reward": 10, "epochs": 20, "name": "12:30 no"},
]


def chosen(where: str | None, sort: str | None = None, limit: int | None = None) -> str:
    """The ids of the rows that are left, in their order."""
    return "".join(row["id"] for row in selected(ROWS, where, sort, limit))


def refused(where: str) -> str:
    with pytest.raises(ConfigError) as caught:
        selected(ROWS, where, None, None)
    return str(caught.value)


# What is read


def test_and_binds_closer_than_or_and_not_closer_than_both() -> None:
    a, b, c = (Comparison(key, "=", Word("1")) for key in "abc")
    assert parsed("a=1 or b = 1 and not c=1") == Some((a, All((b, Not(c)))))
    assert parsed("(a=1 or b=1) and c=1") == All((Some((a, b)), c))
    assert parsed("NOT (a=1 And b=1)") == Not(All((a, b)))


def test_quotes_make_a_word_of_anything_and_a_text_of_a_number() -> None:
    assert parsed("""'a key' = "say \\"no\\" \\\\" """) == Comparison("a key", "=", Word('say "no" \\', quoted=True))
    assert parsed("a='and'") == Comparison("a", "=", Word("and", quoted=True))
    assert (Word("5").value, Word("5", quoted=True).value) == (5, "5")
    assert [Word(text).value for text in ("1e-3", "no", "12:30", "017", "null", "~", "true")] == [
        0.001, "no", "12:30", "017", None, None, True,
    ]  # fmt: skip


def test_an_error_says_the_column_and_what_was_expected_there() -> None:
    for text, told in {
        "": "column 1: expected a key, such as delta_mode; it ends",
        "a": "column 2: expected one of = != < <= > >= ~ after 'a'; it ends",
        "a=": "column 3: expected a value after '='; it ends",
        "a==1": "column 3: expected a value after '='; came '='",
        "a=1 b=2": "column 5: expected 'and', 'or' or the end; a word with a space is put in quotes; came 'b'",
        "(a=1": "column 5: expected ')' for the '(' of column 1; it ends",
        "a=1)": "column 4: expected 'and', 'or' or the end; came ')'",
        "a=1 and or b=1": "column 9: expected a key, such as delta_mode; in quotes it is a word; came 'or'",
        "a='b": "column 3: a quote that is not closed; close it",
        "a ! b": "column 3: came '!'; unequal is written !=, and negation not",
        "a < true": "column 5: expected a number or text here: true, false and null are compared with = and !=",
    }.items():
        with pytest.raises(ConfigError) as caught:
            parsed(text)
        assert str(caught.value).startswith(f"--where: {told}"), text


def test_depth_and_length_have_bounds() -> None:
    inside = "(" * DEEPEST + "a=1" + ")" * DEEPEST
    assert parsed(inside) == parsed("a=1")
    for text in (f"({inside})", "not " * (DEEPEST + 1) + "a=1", "(" * 3000, "a=1 " * LONGEST):
        with pytest.raises(ConfigError, match=r"no more than|too long"):
            parsed(text)
    assert len(getattr(parsed(" and ".join(["a=1"] * 400)), "parts", ())) == 400


# Laws

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
BARE = st.from_regex(r"[A-Za-z0-9_.:*/-]{1,12}", fullmatch=True).filter(
    lambda text: text.lower() not in ("and", "or", "not")
)
WORDS = st.builds(Word, BARE) | st.builds(Word, TEXTS | st.just(""), st.just(True))


def _comparison(key: str, operator: str, word: Word) -> Comparison:
    has_no_order = operator in ORDERED and (word.value is None or isinstance(word.value, bool))
    return Comparison(key, "=" if has_no_order else operator, word)


COMPARISONS = st.builds(_comparison, TEXTS | BARE, st.sampled_from(OPERATORS), WORDS)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(All, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Some, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(FILTERS)
def test_a_filter_written_back_reads_equal(wanted: Filter) -> None:
    assert parsed(str(wanted)) == wanted


@settings(max_examples=300, deadline=None, derandomize=True)
@example("a='\\")
@example("a=1e400 or a<1e400")
@example("a<" + "9" * 999)
@given(st.text() | st.text("ab=!<>~()'\"\\ andort1.e-[*", max_size=30) | FILTERS.map(str))
def test_any_text_is_a_filter_or_one_line_of_help(text: str) -> None:
    told = ""
    try:
        assert parsed(str(parsed(text))) == parsed(text)
        assert len(selected([{"a": 1, "b": "x"}], text, None, None)) <= 1
    except ConfigError as error:
        told = str(error)
    assert not told or (told.startswith("--where: ") and len(told) < 1000)


VALUES = (
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5)
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(VALUES, WORDS, st.sampled_from(OPERATORS))
def test_whatever_is_compared_a_null_is_only_null_and_not_turns_every_answer(
    value: Any, word: Word, operator: str
) -> None:
    comparison = _comparison("a", operator, word)
    rows = [{"a": value, "b": 1}, {"a": 0}, {"a": "0"}]
    found = value in [row["a"] for row in selected(rows, str(comparison), None, None) if "b" in row]
    turned = value in [row["a"] for row in selected(rows, f"not {comparison}", None, None) if "b" in row]
    assert found != turned
    if value is None:
        assert found == (comparison.operator == "=" and word.value is None)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6), st.integers(-(10**6), 10**6))
def test_numbers_compare_as_numbers(value: float, bound: int) -> None:
    answers = {sign: bool(selected([{"a": value}], f"a{sign}{bound}", None, None)) for sign in OPERATORS if sign != "~"}
    assert answers == {
        "=": value == bound,
        "!=": value != bound,
        "<": value < bound,
        "<=": value <= bound,
        ">": value > bound,
        ">=": value >= bound,
    }


# What is chosen


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("delta_mode=rewards", "acd"),
        ("delta_mode != rewards", "b"),
        ("delta_mode ~ max", "b"),
        ("delta_mode ~ 'r*s'", "acd"),
        ("delta_mode=rewards and last_mean_reward>3", "ad"),
        ("last_mean_reward >= 2.5 and last_mean_reward < 10", "ab"),
        ("last_mean_reward = null", "c"),
        ("last_mean_reward != null", "abd"),
        ("not last_mean_reward > 3", "bc"),
        ("seeds = null", "ad"),
        ("seeds = '[0,3]' or seeds = 8", "bc"),
        ("seeds ~ 3", "c"),
        ("seeds > 5", "b"),
        ("done = true", "a"),
        ("done = 1", ""),
        ("epochs = 1e2", "ab"),
        ("epochs = '100'", ""),
        ("name = '12:30 no'", "d"),
        ("delta_mode > 'n'", "acd"),
        ("loss_mode = null", "abcd"),
    ],
)
def test_a_filter_chooses(where: str, ids: str) -> None:
    assert chosen(where) == ids


def test_null_comes_last_whichever_way_rows_are_sorted() -> None:
    assert chosen(None, "last_mean_reward") == "badc"
    assert chosen(None, "-last_mean_reward") == "dabc"
    assert chosen(None, "seeds", limit=2) == "bc"
    assert chosen("epochs=100", "-last_mean_reward", limit=1) == "a"
    assert chosen(None, "done") == "bacd"


def test_a_key_that_no_run_has_is_told_with_the_nearest_and_other_libraries_words_with_ours() -> None:
    assert refused("delta_mod=x") == "--where: no run here has a key 'delta_mod'. Did you mean 'delta_mode'?"
    assert "here it is spelled 'learning_rate'" in refused("lr=1")
    assert "possible: id, delta_mode, last_mean_reward" in refused("quux=1 and epochs=1")
    with pytest.raises(ConfigError, match=r"--sort: no run here has a key 'epoch'. Did you mean 'epochs'"):
        selected(ROWS, None, "-epoch", None)


def test_an_order_that_no_value_has_with_the_word_is_refused_rather_than_empty() -> None:
    assert "delta_mode is 'rewards' here, and 3 is a number; put it in quotes" in refused("delta_mode < 3")
    assert "epochs is 100 here, and ten is text" in refused("epochs > ten")
    assert "done is True here" in refused("done > 0")
    assert chosen("delta_mode < '3'") == ""


def test_numbers_of_filters_are_those_of_configs() -> None:
    assert chosen("last_mean_reward < .inf") == "abd"
    assert chosen("last_mean_reward < .nan") == ""
    assert math.isinf(scalar("1e400"))
    assert chosen("last_mean_reward < 1e400") == "abd"
