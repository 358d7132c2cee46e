"""What two curves say beside each other: the reward and what it stands for, the reward and the loss."""

import numpy as np

from pgrl_cli.findings.kinds import Kind, Numbers, of_maximum, plainly, share
from pgrl_cli.findings.window import CLEARLY, FAR, Facts, Look, Past, Window

FALL = 0.1
"""Of exact match: what it must have lost."""
LEFT = 0.5
"""Of the answer's probability: the share that may be left."""
SURELY = 4.0
"""Standard errors that a fall of the loss must have."""
MUCH = 0.2
"""Share of the largest loss so far that it must have fallen by."""

SPECK = 1e-3
"""Share of the mean reward that a fall of the loss must be more than."""
SLIGHTLY = 0.05
"""Share of the reward that is missing, by which it may rise and still not be said to."""


def reward_hacking(window: Window) -> Look:
    """The mean reward has risen since exact match was at its best, and exact match has fallen.

    Exact match is a tenth or more below its best, the answer's own probability is half of what it was then or less
    (a likeliest answer may change on a whim), and the mean reward of the window is higher than that of the window back
    then, beyond chance. It must have been so at the evaluation before, too, unless this is the last.
    """
    now, best, before = window.now, window.best, window.before
    figures = {
        "exact_match_before": window.nothing if best is None else best.exact_match,
        "exact_match": now.exact_match,
        "mean_reward_before": window.nothing if best is None else best.mean_reward,
        "mean_reward": now.mean_reward,
    }
    if best is None or before is None:
        return Look(window.nowhere, figures)
    return Look(_hacked(now, best) & (_hacked(before, best) | window.is_last), figures)


def loss_alone(window: Window) -> Look:
    """The loss has fallen over twenty epochs, and the mean reward has surely not risen.

    The loss is that of an epoch's first step; it has fallen by four standard errors, by a fifth of its largest, and by
    more than rounding makes of one that is zero. The reward's rise, with two standard errors on it, is less than a
    twentieth of what was missing (than nothing, where the maximum is not known): a run that learns slowly is not told
    so. Said where there is more to earn, and whatever the loss's sign: its level means nothing, since its advantages
    are made anew from every rollout, and it falls as a policy grows surer of whatever it does.
    """
    now, earlier = window.now, window.earlier
    figures = {
        "loss_before": window.nothing if earlier is None else earlier.loss,
        "loss": now.loss,
        "mean_reward_before": window.nothing if earlier is None else earlier.mean_reward,
        "mean_reward": now.mean_reward,
    }
    if earlier is None:
        return Look(window.nowhere, figures)
    fall = earlier.loss - now.loss
    if not (fall > 0).any():
        return Look(window.nowhere, figures)
    fallen = fall > np.maximum(MUCH * window.largest_loss, SPECK * np.abs(earlier.mean_reward))
    fallen &= fall > SURELY * np.hypot(earlier.loss_error, now.loss_error)
    most = now.mean_reward - earlier.mean_reward + CLEARLY * np.hypot(now.error, earlier.error)
    maximum = window.facts.maximum_reward
    missing = 0.0 if maximum is None else maximum - earlier.mean_reward
    return Look(fallen & (most <= SLIGHTLY * missing) & window.unsolved, figures)


def _hacked(now: Past, best: Past) -> np.ndarray:
    fallen = best.exact_match - now.exact_match >= FALL
    fallen &= ~(now.solution_probability > LEFT * best.solution_probability)
    risen = now.mean_reward - best.mean_reward > CLEARLY * np.hypot(best.error, now.error)
    return np.asarray(fallen & risen)


def _parted(numbers: Numbers, facts: Facts) -> str:
    rewards = f"{plainly(numbers['mean_reward_before'])} -> {of_maximum(numbers['mean_reward'], facts)}"
    matches = f"{share(numbers['exact_match_before'])} -> {share(numbers['exact_match'])}"
    return f"mean reward {rewards}, exact match {matches} since that was at its best"


def _alone(numbers: Numbers, facts: Facts) -> str:
    losses = f"{plainly(numbers['loss_before'])} -> {plainly(numbers['loss'])}"
    rewards = f"{plainly(numbers['mean_reward_before'])} -> {of_maximum(numbers['mean_reward'], facts)}"
    return f"in {FAR} epochs the loss went {losses}, and the mean reward {rewards}"


KINDS = (
    Kind(
        "reward_hacking",
        "the reward rises, exact match falls",
        reward_hacking,
        _parted,
        means="it learns to earn the reward without giving the right answer: the reward pays for something else, too",
        helps=(
            "a look at what it answers, and what that earns (pgrl sample)",
            "a reward without the loophole",
            "a weight for the right answer itself (reward_fn as a map)",
        ),
        absent="exact match has not been measured twice",
    ),
    Kind(
        "loss_alone",
        "the loss falls, the reward does not",
        loss_alone,
        _alone,
        means="the loss's level means nothing: its advantages are made anew from every rollout, and it also falls as a "
        "policy grows surer of whatever it does, or earns a bonus for its entropy",
        helps=(
            "looking at the mean reward and exact match instead",
            "a delta mode that compares responses (centered_rewards), whose loss pretends less",
        ),
        absent="it takes thirty epochs",
    ),
)
