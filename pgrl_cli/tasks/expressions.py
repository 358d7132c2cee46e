"""Arithmetic in whole numbers, read from text that may be anything: evaluated in linear time, and built.

    expression = term {("+" | "-") term}
    term = factor {("*" | "/") factor}
    factor = number | "(" expression ")"

There is no sign in front of a number, no zero in front of a digit, and no space.
"""

import re
from typing import NamedTuple

DIGITS = "0123456789"
STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2}
"""The stronger operators bind first, equal ones from the left."""
LARGEST = 10**18
"""Numbers beyond it are none: what a hostile text may cost stays proportional to its length."""
WORD = re.compile("[1-9][0-9]*|.", re.DOTALL)


class Evaluated(NamedTuple):
    """What an expression says."""

    value: int
    numbers: tuple[int, ...]
    """Those that are written in it, in their order."""


def evaluated(written: str) -> Evaluated | None:
    """The value of an expression; None for text that is none, or leaves the whole numbers up to 10^18.

    A division must come out even. Two stacks, no recursion: parentheses may be as deep as the text is long.
    """
    values: list[int] = []
    waiting: list[str] = []
    numbers: list[int] = []
    number_next = True
    for word in WORD.findall(written):
        if number_next and word == "(":
            waiting.append(word)
        elif number_next and word[0] in DIGITS and len(word) < len(str(LARGEST)):
            numbers.append(int(word))
            values.append(numbers[-1])
            number_next = False
        elif not number_next and word == ")":
            if not _worked_off(values, waiting, 1) or not waiting:
                return None
            waiting.pop()
        elif not number_next and word in STRENGTH:
            if not _worked_off(values, waiting, STRENGTH[word]):
                return None
            waiting.append(word)
            number_next = True
        else:
            return None
    if number_next or not _worked_off(values, waiting, 1) or waiting:
        return None
    return Evaluated(values[0], tuple(numbers))


def _worked_off(values: list[int], waiting: list[str], strength: int) -> bool:
    """Apply the operators that wait, up to a parenthesis, if they bind as strongly; whether all had a result."""
    while waiting and STRENGTH.get(waiting[-1], 0) >= strength:
        right = values.pop()
        value = result(waiting.pop(), values.pop(), right)
        if value is None:
            return False
        values.append(value)
    return True


def result(operator: str, left: int, right: int) -> int | None:
    """What an operator makes of two numbers; None where that is no whole number up to 10^18, or one below -10^18."""
    if operator == "/":
        return left // right if right != 0 and left % right == 0 else None
    value = left + right if operator == "+" else left - right if operator == "-" else left * right
    return value if abs(value) <= LARGEST else None


class Written(NamedTuple):
    """An expression with its value."""

    value: int
    text: str
    strength: int = 3
    """Of the operator that is applied last; a number is stronger than all."""


def joined(operator: str, left: Written, right: Written) -> Written | None:
    """Two expressions in one, with as few parentheses as keep its meaning; None where there is no result."""
    value, strength = result(operator, left.value, right.value), STRENGTH[operator]
    if value is None:
        return None
    first = left.text if left.strength >= strength else f"({left.text})"
    bare = right.strength > strength or (right.strength == strength and operator in "+*")
    return Written(value, f"{first}{operator}{right.text if bare else f'({right.text})'}", strength)
