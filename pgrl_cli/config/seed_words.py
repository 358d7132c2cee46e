"""Seeds in words: a range such as 1000..1127, and what is wrong with a list, element by element."""

import re
from typing import Any

from pgrl_cli.config.kinds import misfit, told
from pgrl_cli.config.problems import short
from pgrl_cli.registry import Seed

MOST_SEEDS = 100_000
LARGEST = 2**63 - 1
RANGE = re.compile(r"\s*([0-9]{1,19})\s*\.\.\s*([0-9]{1,19})\s*")
LIKE_A_RANGE = re.compile(r"\s*([0-9]{1,19})\s*(?:-|\u2013|:|\.{3}|to)\s*([0-9]{1,19})\s*")
LIKE_A_LIST = re.compile(r"\s*[0-9]+\s*(?:[, ]\s*[0-9]+\s*)+,?\s*")


def seeds_written_out(value: Any) -> Any:
    """The seeds of a range, first and last included; any other value, and a range that is wrong, as it is."""
    ends = _ends(value)
    if ends is None or not 0 <= ends[1] - ends[0] < MOST_SEEDS or ends[1] > LARGEST:
        return value
    return list(range(ends[0], ends[1] + 1))


def wrong_with_seeds(value: Any) -> str | None:
    """Why seeds cannot be read, where more can be said than that they do not fit: which element, how to write it."""
    if isinstance(value, list):
        return next((_wrong_with(place, seed) for place, seed in enumerate(value, start=1) if misfit(Seed, seed)), None)
    if not isinstance(value, str):
        return None
    if ends := _ends(value):
        return _wrong_range(*ends)
    if like := LIKE_A_RANGE.fullmatch(value):
        return f"came {told(value)}; write {like[1]}..{like[2]} for all from {like[1]} to {like[2]}"
    if LIKE_A_LIST.fullmatch(value):
        return f"came {told(value)}; write brackets: '[{short(', '.join(re.findall('[0-9]+', value)))}]'"
    return None


def _ends(value: Any) -> tuple[int, int] | None:
    written = RANGE.fullmatch(value) if isinstance(value, str) else None
    return (int(written[1]), int(written[2])) if written else None


def _wrong_range(first: int, last: int) -> str | None:
    came = f"came {first}..{last}"
    if last < first:
        return f"{came}, which ends before it begins; write {last}..{first}"
    if last > LARGEST:
        return f"{came}; a seed is at most {LARGEST} (2^63 - 1)"
    if last - first >= MOST_SEEDS:
        return f"{came}, which are {last - first + 1} seeds; {MOST_SEEDS} are the most"
    return None


def _wrong_with(place: int, seed: Any) -> str:
    which = f"element {place} came {told(seed)}; a seed is a whole number"
    if isinstance(seed, str) and _ends(seed):
        return f"{which}: a range stands alone, without brackets: {seed.strip()}"
    if isinstance(seed, int) and not isinstance(seed, bool):
        return f"{which} from 0" if seed < 0 else f"{which} up to {LARGEST} (2^63 - 1)"
    bare = misfit(Seed, seed) or ""
    fix = bare.partition("; write ")[2]
    return f"{which} from 0" + (f"; write {fix}" if fix else "")
