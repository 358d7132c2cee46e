"""Schedules: how much of a rate or a bonus an epoch gets, from 0 to 1.

A decay is a function of progress, which runs from 0 to 1 at the last epoch.
"""

import math

from pgrl_cli.registry import table


def none(progress: float) -> float:
    """The same to the end."""
    return 1.0


def linear(progress: float) -> float:
    """From 1 to 0, the same amount less in every epoch."""
    return 1 - progress


def cosine(progress: float) -> float:
    """From 1 to 0, slowly at both ends (Loshchilov & Hutter, 2017, "SGDR", eq. 5, without restarts)."""
    return (1 + math.cos(math.pi * progress)) / 2


DECAYS = table(none, linear, cosine)


def scheduled(decay: str, warmup: int, epoch: int, epochs: int) -> float:
    """The factor of a schedule in an epoch: a linear warm-up over so many epochs, then the decay over the others.

    The first epoch gets 1 / warmup and the last one of the warm-up 1, as does the first one after it; a decay is at 0
    in the last epoch, unless that is the only one after the warm-up.
    """
    if epoch < warmup:
        return (epoch + 1) / warmup
    return float(DECAYS[decay]((epoch - warmup) / max(1, epochs - 1 - warmup)))


def decayed(decay: str, epoch: int, epochs: int) -> float:
    """The factor of a schedule that has no warm-up."""
    return scheduled(decay, 0, epoch, epochs)
