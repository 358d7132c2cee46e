"""How numbers are written for people: few digits, and no more of them than are known."""

import math
from collections.abc import Sequence

ROUNDING = 1e-12
"""Of numbers that are ratios: what is smaller is zero that was worked out in another order."""
NONE = "-"
CERTAIN = 1e-9
"""A standard error that is smaller than this share of its number is rounding."""
MOST_NAMED = 8


def number(value: float | None, least: float = 0.0, digits: int = 4) -> str:
    """A number in so many digits; what is no larger than `least` is zero."""
    if value is None:
        return NONE
    if abs(value) <= least:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    if not 1e-3 <= abs(rounded) < 1e5:
        return f"{value:.1e}"
    return f"{rounded:.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def points(value: float | None) -> str:
    """A reward: as short as it is."""
    return NONE if value is None else f"{value + 0.0:.4g}"  # -0 is 0


def ratio(value: float | None, error: float | None = None) -> str:
    """A number without a unit, in three digits."""
    return estimate(value, error, ROUNDING, 3)


def estimate(value: float | None, error: float | None = None, least: float = 0.0, digits: int = 4) -> str:
    """A number with its standard error, if it has one, to the digit that the error leaves."""
    if value is None or error is None or error <= CERTAIN * abs(value) or error <= least:
        return number(value, least, digits)
    place = math.floor(math.log10(error))
    if error / 10**place < 2:  # one digit of 0.14 would hide a third of it
        place -= 1
    if not -6 <= place <= 4:
        return f"{value:.1e} ±{error:.0e}"
    return f"{value:.{max(0, -place)}f} ±{error:.{max(0, -place)}f}"


def share(value: float | None, error: float | None = None) -> str:
    """A share in percent; 0 and 100 are said of none and of all alone."""
    if value is None:
        return NONE
    if error is not None and error > ROUNDING:
        return f"{estimate(100 * value, 100 * error)} %"
    percent = 100 * value
    if abs(percent) <= 100 * ROUNDING:
        return "0 %"
    if abs(percent) < 0.01:
        return "<0.01 %"
    if abs(percent - 100) <= 100 * ROUNDING:
        return "100 %"
    if 99.95 <= percent < 100:
        return ">99.9 %"
    return f"{percent:.{1 if abs(percent) >= 1 else 2}f} %" if abs(percent) < 1e5 else f"{percent:.1e} %"


def names(words: Sequence[str]) -> str:
    """Words as a sentence lists them; of very many, the first."""
    told = list(words[:MOST_NAMED])
    if len(words) > MOST_NAMED:
        told.append(f"{len(words) - MOST_NAMED} more")
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def counted(count: int, what: str) -> str:
    """So many of something: 1 response, 1,000 responses."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def are_level(a: float, b: float, *errors: float | None) -> bool:
    """Whether two numbers are equal, or too close for their standard errors to tell them apart."""
    doubt = 2 * math.hypot(*(error or 0.0 for error in errors))
    return abs(a - b) <= max(doubt, CERTAIN * max(abs(a), abs(b)))
