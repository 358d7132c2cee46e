"""Whether there is anything to learn from: rewards that tell responses apart, and a policy that still tries others."""

import numpy as np

from pgrl_cli.findings.kinds import Kind, Numbers, of_maximum, share
from pgrl_cli.findings.window import CLEARLY, SETTLED, Facts, Look, Window

MOST = 0.5
"""Share of groups without variance from which on most of what is sampled teaches nothing."""
SPREAD = 0.25
"""Share of a uniform policy's entropy from which on a policy still tries many answers."""


def local_optimum(window: Window) -> Look:
    """The policy has settled while the reward is under its known maximum: the lecture's main observation.

    Over two windows, or the last of a run, the mean entropy is below a tenth of a uniform policy's; the mean reward no
    longer rises beyond chance, and more than a tenth of the way from the first epoch to the maximum is missing. What a
    policy no longer samples it cannot learn, so it mostly stays. (Of the lecture's seeds one in eight gets free at a
    prompt later on, and none solves the task.) Without a known maximum a policy that has settled may have solved its
    task, and nothing is said.
    """
    now, previous = window.now, window.previous
    figures = {"entropy": window.mean("entropy"), "entropy_share": now.spread, "mean_reward": now.mean_reward}
    holds = window.settled & window.unsolved
    if window.facts.maximum_reward is None or (previous is None and not window.is_last):
        holds = window.nowhere
    if holds.any() and previous is not None:
        risen = now.mean_reward - previous.mean_reward > CLEARLY * np.hypot(now.error, previous.error)
        holds = holds & ~risen & ((previous.spread < SETTLED) | window.is_last)
    return Look(holds & ~window.rising if holds.any() else holds, figures)


def deadlock(window: Window) -> Look:
    """All responses to each prompt have earned the same for ten epochs or more, and there is more to earn.

    Equal rewards cancel out in a delta mode that compares a group's responses, and tell it nothing in another one: the
    rewards' gradient is zero, or nothing but noise. A policy that has settled has equal rewards too, but another ill.
    """
    holds = (window.equal_for >= window.length) & window.unsolved & ~window.settled
    equal = np.where(window.alive, window.equal_for.astype(float), np.nan)
    return Look(holds, {"equal_epochs": equal, "mean_reward": window.now.mean_reward})


def silent_groups(window: Window) -> Look:
    """Most groups have equal rewards, so that they teach nothing, though the policy still tries many answers.

    Half of the window's groups or more are without variance, under a delta mode that compares a group's responses,
    while the entropy is a quarter of a uniform policy's or more, and there is more to earn. `expected` is the share
    that this very policy has in expectation, where it was measured: both high means that the rewards are too coarse
    for groups of this size; only the observed one high is chance. Wasted groups: DAPO's dynamic sampling drops them
    (Yu et al., 2025, section 3.2).
    """
    names = ("observed", "expected", "entropy_share", "mean_reward")
    if not window.facts.compares or window.facts.num_responses == 1:
        return window.nothing_to_see(*names)
    now, observed = window.now, window.mean("zero_variance_groups")
    holds = (observed >= MOST) & (now.spread >= SPREAD) & window.unsolved
    expected = window.latest("expected_zero_variance_groups")
    return Look(holds, dict(zip(names, (observed, expected, now.spread, now.mean_reward), strict=True)))


def _settled_on(numbers: Numbers, facts: Facts) -> str:
    entropy = f"the entropy is {share(numbers['entropy_share'])} of a uniform policy's"
    return f"{entropy}, the mean reward {of_maximum(numbers['mean_reward'], facts)}"


def _equal_for(numbers: Numbers, facts: Facts) -> str:
    epochs = numbers["equal_epochs"]
    told = f"the responses to a prompt have all earned the same for {epochs:.0f} epoch{'' if epochs == 1 else 's'}"
    return f"{told}; the mean reward is {of_maximum(numbers['mean_reward'], facts)}"


def _groups(numbers: Numbers, facts: Facts) -> str:
    told = f"{share(numbers['observed'])} of the groups had equal rewards"
    if not np.isnan(numbers["expected"]):
        told += f"; {share(numbers['expected'])} are expected of this policy"
    return f"{told} with {facts.num_responses} responses to a prompt"


KINDS = (
    Kind(
        "local_optimum",
        "settled below the maximum",
        local_optimum,
        _settled_on,
        means="it nearly always gives the same answers, and they are not the best: what it no longer samples it cannot "
        "learn, so that more epochs alone mostly change nothing",
        helps=(
            "an entropy bonus that fades (findings/really_sorts: entropy_coefficient 0.4, entropy_decay linear)",
            "more num_responses",
            "a smaller learning_rate",
            "another seed",
        ),
        absent="no entropy was measured, or there is but one token",
    ),
    Kind(
        "deadlock",
        "the rewards tell nothing apart",
        deadlock,
        _equal_for,
        means="where all rewards are equal no response is better than another: the rewards' gradient is zero (noise, "
        "under a delta mode that compares nothing), and only a KL or an entropy bonus leads anywhere",
        helps=(
            "a denser reward (partial credit)",
            "more num_responses",
            "an easier task to begin with",
            "a start from a policy that succeeds now and then (init_from)",
        ),
        absent="no rewards were measured",
        yields_to=("local_optimum",),
    ),
    Kind(
        "silent_groups",
        "most groups teach nothing",
        silent_groups,
        _groups,
        means="a group whose rewards are all equal has no better and no worse response: most of what is sampled is "
        "thrown away",
        helps=(
            "more num_responses",
            "a denser reward (partial credit)",
            "prompts that are neither too hard nor too easy",
        ),
        absent="it takes a delta mode that compares two responses or more",
        may_lack=("expected",),
        yields_to=("deadlock", "local_optimum"),
    ),
)
