"""Expressions: their values against trees that are evaluated node by node, and texts that are none."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrl_cli.tasks.expressions import LARGEST, Evaluated, Written, evaluated, joined, result

examples = settings(max_examples=100, deadline=None, derandomize=True)
numbers = st.integers(0, 40)
trees = st.recursive(numbers, lambda inner: st.tuples(st.sampled_from("+-*/"), inner, inner), max_leaves=12)


def value(tree):
    """A tree's value as a fraction; None where a division is by zero or leaves a rest, or a number is too large."""
    if isinstance(tree, int):
        return Fraction(tree)
    operator, left, right = tree[0], value(tree[1]), value(tree[2])
    if left is None or right is None or (operator == "/" and right == 0):
        return None
    found = {"+": left + right, "-": left - right, "*": left * right, "/": left / (right or 1)}[operator]
    return found if found.denominator == 1 and abs(found) <= LARGEST else None


def leaves(tree):
    return (tree,) if isinstance(tree, int) else leaves(tree[1]) + leaves(tree[2])


def spelled(tree):
    """A tree with parentheses around every part of it."""
    return str(tree) if isinstance(tree, int) else f"({spelled(tree[1])}){tree[0]}({spelled(tree[2])})"


def built(tree):
    if isinstance(tree, int):
        return Written(tree, str(tree))
    left, right = built(tree[1]), built(tree[2])
    return None if left is None or right is None else joined(tree[0], left, right)


@examples
@given(trees)
def test_an_expression_has_the_value_of_its_tree(tree):
    expected = value(tree)
    told = None if expected is None else Evaluated(int(expected), leaves(tree))
    assert evaluated(spelled(tree)) == told
    assert evaluated(f"(({spelled(tree)}))") == told


@examples
@given(trees)
def test_with_as_few_parentheses_as_possible_it_still_has(tree):
    expected, written = value(tree), built(tree)
    assert (written is None) == (expected is None)
    if written is not None:
        assert written.value == expected
        assert evaluated(written.text) == Evaluated(int(expected), leaves(tree))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (("-", 9, ("-", 5, 3)), "9-(5-3)"),
        (("-", ("-", 9, 5), 3), "9-5-3"),
        (("+", 9, ("-", 5, 3)), "9+5-3"),
        (("/", 8, ("*", 2, 4)), "8/(2*4)"),
        (("*", 2, ("/", 8, 4)), "2*8/4"),
        (("*", ("+", 1, 2), ("-", 9, 4)), "(1+2)*(9-4)"),
        (("+", ("*", 1, 2), ("/", 9, 3)), "1*2+9/3"),
    ],
)
def test_parentheses_stand_where_they_are_needed_and_nowhere_else(tree, text):
    assert built(tree).text == text


def read(text):
    """What a text says, by the grammar's own recursion."""
    told, rest = read_sum(text)
    return told if rest == "" else None


def read_sum(text):
    return read_chain(text, "+-", lambda text: read_chain(text, "*/", read_factor))


def read_chain(text, operators, part):
    told, rest = part(text)
    while told is not None and rest[:1] and rest[0] in operators:
        operator = rest[0]
        right, rest = part(rest[1:])
        found = None if right is None else value((operator, int(told[0]), int(right[0])))
        told = None if found is None else (found, told[1] + right[1])
    return told, rest


def read_factor(text):
    if text[:1] == "(":
        told, rest = read_sum(text[1:])
        return (told, rest[1:]) if rest[:1] == ")" else (None, rest)
    rest = text.lstrip("0123456789")
    number = text[: len(text) - len(rest)]
    good = number and (number == "0" or number[0] != "0")
    return ((Fraction(int(number)), (int(number),)) if good else None), rest


def test_every_short_text_is_read_as_the_grammar_says():
    found = 0
    for length in range(6):
        for letters in product("02+-/()", repeat=length):
            text = "".join(letters)
            told, expected = evaluated(text), read(text)
            assert (told is None) == (expected is None), text
            if told is not None:
                found += 1
                assert (told.value, told.numbers) == (expected[0], expected[1]), text
    assert found > 150


@pytest.mark.parametrize(
    "text",
    ["", "()", "1+", "+1", "-1", "1(2)", "(1)(2)", "01", "1 + 2", "1_0", "1.5", "1//2", "2**3", "x", "٣", "²", "1\n"],
)
def test_what_is_no_expression_has_no_value(text):
    assert evaluated(text) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("(" * 50_000 + "7" + ")" * 50_000, 7),
        ("(" * 50_000, None),
        ("(" * 50_000 + "7" + ")" * 49_999, None),
        (")" * 50_000, None),
        ("9" * 50_000, None),
        ("*".join(["999999999"] * 20_000), None),
        ("+".join(["1"] * 50_000), 50_000),
        ("1-(" * 20_000 + "1" + ")" * 20_000, 1),
        ("*".join(["0"] + ["999999999"] * 20_000), 0),
        ("1/0", None),
        ("0/0", None),
        ("7/2*2", None),
    ],
    ids=lambda value: str(value)[:9],
)
def test_hostile_texts_have_a_value_or_none_and_nothing_breaks(text, told):
    found = evaluated(text)
    assert (None if found is None else found.value) == told


def test_results_end_at_the_largest_number():
    assert result("+", LARGEST - 1, 1) == LARGEST
    assert result("+", LARGEST, 1) is None
    assert result("-", -LARGEST, 1) is None
    assert result("*", -(10**9), 10**9) == -LARGEST
    assert result("/", -6, 4) is None
    assert result("/", -6, 3) == -2
