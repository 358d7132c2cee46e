"""What a value may be: checked strictly, and told in words."""

from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Lt, MaxLen, MinLen

from pgrl_cli.config.kinds import described, fitted, misfit, told
from pgrl_cli.registry import Count, Fraction, Positive, Seed, Unit

FITTING: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [0, -3, 10**30], [True, 1.0, "1", None, [1], {}]),
    (float, [0.5, 1, -0.0, 1e300], [True, False, "1e-3", None, float("nan"), float("inf"), 10**400, [1.0]]),
    (bool, [True, False], [0, 1, "true", "yes", None]),
    (str, ["", "no"], [1, True, None, ["a"], b"a"]),
    (Count, [1, 2**31 - 1], [0, -1, True, 1.0, 2**70]),
    (Positive, [1e-300, 1], [0, 0.0, -1, float("inf")]),
    (Fraction, [0, 0.5], [1, 1.5, -0.1, True]),
    (Unit, [0, 0.5, 1], [1.5, -0.1, True]),
    (Seed, [0, 2**63 - 1], [-1, 2**63]),
    (Annotated[str, MinLen(1), MaxLen(3)], ["a", "abc"], ["", "abcd", 1]),
    (Literal["loss", "reward"], ["loss"], ["Loss", "rewards", None, 1]),
    (Count | None, [None, 3], [0, "None", False]),
    (list[list[int]], [[], [[]], [[1, 2], [3]]], [[1], [[1.0]], [["a"]], [[True]], None, "[[1]]", {}]),
    (str | dict[str, float] | None, ["a", {"a": 1}, {}, None], [{"a": True}, {"a": "1"}, {"a": None}, {1: 1}, 1, []]),
]
CASES = [(annotation, value, True) for annotation, good, _ in FITTING for value in good]
CASES += [(annotation, value, False) for annotation, _, bad in FITTING for value in bad]


@pytest.mark.parametrize(("annotation", "value", "fits"), CASES, ids=lambda case: f"{case!s:.30}")
def test_a_value_fits_its_kind_strictly(annotation: Any, value: Any, fits: bool) -> None:
    problem = misfit(annotation, value)
    assert (problem is None) is fits
    if problem is not None:
        assert problem.startswith(f"came {told(value)}; expected {described(annotation)}")


def test_a_whole_number_becomes_a_float_where_any_number_may_stand() -> None:
    assert isinstance(fitted(Positive, 1), float)
    assert isinstance(fitted(str | dict[str, float] | None, {"a": 1})["a"], float)
    assert isinstance(fitted(Count, 1), int)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Count, "a whole number from 1"),
        (Positive, "a number above 0"),
        (Fraction, "a number from 0, below 1"),
        (Unit, "a number from 0, up to 1"),
        (Annotated[int, Ge(2), Lt(5)], "a whole number from 2, below 5"),
        (Annotated[str, MinLen(1), MaxLen(100)], "text that is not empty, of at most 100 characters"),
        (Annotated[str, MinLen(3)], "text of at least 3 characters"),
        (bool, "true or false"),
        (Literal["loss", "reward"], "loss or reward"),
        (Count | None, "a whole number from 1 or null"),
        (list[list[int]] | None, "a list of lists of whole numbers or null"),
        (str | dict[str, float] | None, "text or a map of names to numbers or null"),
    ],
    ids=lambda case: f"{case!s:.40}",
)
def test_a_kind_is_described_in_words(annotation: Any, words: str) -> None:
    assert described(annotation) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "true (a boolean)"),
        (1, "1"),
        (-0.001, "-0.001"),
        ("1", "'1' (text)"),
        (None, "null"),
        ([1], "[1] (a list)"),
        ({"a": 1}, "{'a': 1} (a map)"),
        ("x" * 1000, f"'{'x' * 60}' (text)"),
    ],
    ids=lambda case: f"{case!s:.20}",
)
def test_a_value_is_told_with_what_it_is(value: Any, words: str) -> None:
    assert told(value) == words


@pytest.mark.parametrize(
    ("annotation", "value", "fix"),
    [
        (Count, 5.0, "; write 5"),
        (Count, 2.5, ""),
        (Count, 0.0, ""),
        (Count, "5", "; write 5 without quotes, underscores or leading zeros"),
        (Positive, "1_000", "; write 1000 without quotes, underscores or leading zeros"),
        (Count, "017", "; write 17 without quotes, underscores or leading zeros"),
        (float, "-00.5", "; write -0.5 without quotes, underscores or leading zeros"),
        (Positive, "small", ""),
        (Count | None, "None", "; write null for none"),
        (bool, "no", "; write false"),
        (bool, "On", "; write true"),
        (bool | None, "off", "; write false"),
        (Positive, float("inf"), "; it must be finite"),
        (Positive, float("nan"), "; it must be finite"),
    ],
)
def test_the_likely_fix_is_offered(annotation: Any, value: Any, fix: str) -> None:
    assert (misfit(annotation, value) or "").endswith(described(annotation) + fix)


def test_no_fix_is_offered_that_would_be_refused() -> None:
    for annotation, value in ((Count, "2.5"), (Count, "-3"), (Positive, "inf"), (Positive, "0")):
        assert "; write" not in (misfit(annotation, value) or "")
