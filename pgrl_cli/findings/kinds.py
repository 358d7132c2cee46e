"""What a kind of finding is, and what it sees in a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgrl_cli.findings.window import Facts, Look, Window

Numbers = Mapping[str, float]
"""One number for each figure: a run's own, or the median over seeds."""


@dataclass(frozen=True)
class Kind:
    """A kind of finding: what it looks at, and what it says."""

    word: str
    title: str
    """What has been found, in a few words."""
    look: Callable[[Window], Look]
    seen: Callable[[Numbers, Facts], str]
    """The numbers in a sentence, which is as true of a healthy run."""
    means: str
    helps: tuple[str, ...]
    """What usually does, the likeliest first."""
    absent: str
    """Why there may be nothing to look at."""
    may_lack: tuple[str, ...] = ()
    """Figures without which the others mean no less."""
    yields_to: tuple[str, ...] = ()
    """Kinds that say more of the same: where one of them has been seen, this one is not."""


def share(value: float) -> str:
    """A share as per cent, with as many digits as tell it from all and from nothing."""
    percent = 100 * value
    if 0 < percent < 0.01:
        return "< 0.01 %"
    if 99.95 <= percent < 100:
        return "> 99.9 %"
    if 0 < percent < 1 or 99 < percent < 100:
        return f"{percent:.2g} %" if percent < 50 else f"{percent:.1f} %"
    return f"{percent:.0f} %"


def plainly(value: float) -> str:
    """A number with three digits."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def of_maximum(value: float, facts: Facts) -> str:
    """A mean reward, beside the most there is to earn, where that is known."""
    most = "" if facts.maximum_reward is None else f" of {plainly(facts.maximum_reward)}"
    return f"{plainly(value)}{most}"
