"""What an epoch's optimizer steps do with a rollout: the clip, the KL, and how many samples the later ones rest on."""

import numpy as np

from pgrl_cli.findings.kinds import Kind, Numbers, of_maximum, plainly, share
from pgrl_cli.findings.signal import MOST
from pgrl_cli.findings.window import WINDOW, Facts, Look, Window

PATIENCE = 3 * WINDOW
"""Epochs after which a clip that has not acted is said to be idle."""
NEARLY_ALL = 0.6
"""Share of the tokens that rewards push, from which on the clip holds nearly all that it can."""
FEW = 0.1
"""Share of the samples, below which the later steps rest on few of them."""
OFTEN = 0.3
"""Share of the window's epochs in which that must be so; one or two in ten are so in runs that learn well."""
RARE = 0.2
"""Informative groups are taken for so large a share at least: of fewer, no share can be told."""


def idle_clip(window: Window) -> Look:
    """The clip has held no token at any step since the start, though an epoch has several steps.

    Said after thirty epochs, or at the end of a shorter run: `clip_fraction` has been exactly 0 at all steps. With one
    step per epoch every ratio is 1 by construction, which is said before the run.
    """
    facts = window.facts
    late = window.epoch + 1 >= PATIENCE or window.is_last
    holds = (window.most_clipped == 0) & (facts.steps_per_epoch > 1) & late
    return Look(holds, {"most_clipped": window.most_clipped, "largest_ratio": window.largest_ratio})


def tight_clip(window: Window) -> Look:
    """At an epoch's last step the clip holds six tenths or more of the tokens that rewards push.

    Where the delta mode compares a group's responses, tokens of groups with equal rewards are pushed nowhere, and the
    share is of the others; where such groups are dropped it is so by itself. All of them it never is: a clip holds what
    has moved along its advantage, and tokens of good and of bad responses have many in common. (In the lecture's
    clipped experiment it tends to two thirds as `clip_epsilon` goes to 0.)
    """
    if np.isnan(window.most_clipped).all():
        return window.nothing_to_see("held")
    held = _of_informative(window, window.mean("clip_fraction"))
    return Look(held >= NEARLY_ALL, {"held": held})


def strong_kl(window: Window) -> Look:
    """The KL pulls the policy as hard as the rewards push it, and the mean reward does not rise.

    Values of the two terms cannot be compared: a centred policy loss is 0 by construction. What they multiply the same
    scores by can be: grad log pi has the weight A in the policy term and, for k2, exact, k1 in the reward, and k3 while
    it is small, beta log(pi/ref) in the KL's. Their spread over responses is the push, std(R) with what the averaging
    makes of it and without the tokens that the clip holds, and the pull, beta sqrt(2 KL), since the variance of
    log(pi/ref) is twice the KL to second order. At the optimum of E[R] - beta KL both are equal. Said where the pull
    has been the stronger over the window, while the policy has not settled, most groups teach something, and there
    is more to earn.
    """
    facts = window.facts
    if facts.pull_weight == 0:
        return window.nothing_to_see("pull", "push", "kl", "mean_reward")
    zero = window.mean("zero_variance_groups")
    told_apart = 1 - zero if facts.scaled is None else window.mean("reward_std") * facts.scaled
    if facts.drops:
        told_apart = told_apart / np.maximum(1 - zero, RARE)
    held = _of_informative(window, np.nan_to_num(window.mean("mean clip_fraction")))
    push = facts.push_weight * told_apart * (1 - held)
    whole = np.maximum(window.columns["mean kl"] / facts.kl_weight, 0)
    pull = facts.pull_weight * np.sqrt(2 * whole).mean(axis=0)
    holds = (pull > push) & ~window.settled & (zero < MOST) & window.unsolved & ~window.rising
    figures = {"pull": pull, "push": push, "kl": window.mean("mean kl"), "mean_reward": window.now.mean_reward}
    return Look(holds, figures)


def stale_samples(window: Window) -> Look:
    """In three of ten epochs that learn from something, the effective sample size ends under a tenth of the tokens.

    (sum w)^2 / (n sum w^2) of the ratios w = pi/pi_old (Kong, 1992): the later steps rest on few of the samples. In an
    epoch or two of ten it also happens in runs that learn well, such as while a policy settles.
    """
    sizes = window.columns["effective_sample_size"]
    often = (sizes < FEW).sum(axis=0) / np.isfinite(sizes).sum(axis=0)
    figures = {"epochs_share": often, "effective_sample_size": np.fmin.reduce(sizes)}
    figures |= {"largest_ratio": window.largest_ratio}
    return Look(often >= OFTEN, figures)


def _of_informative(window: Window, tokens: np.ndarray) -> np.ndarray:
    """Of a share [seed] of all tokens, the share of those that the rewards push."""
    thinned = window.facts.compares and not window.facts.drops
    pushed = 1 - window.mean("zero_variance_groups") if thinned else np.ones_like(tokens)
    return np.asarray(np.clip(tokens / np.maximum(pushed, RARE), 0, 1))


def _most_held(numbers: Numbers, facts: Facts) -> str:
    most = numbers["most_clipped"]
    held = "no token" if most == 0 else f"{share(most)} of the tokens, at most,"
    told = f"since the start the clip has held {held} at any step"
    return f"{told}; the largest ratio at an epoch's end was {numbers['largest_ratio']:.4g}"


def _held(numbers: Numbers, facts: Facts) -> str:
    return f"at an epoch's last step the clip holds {share(numbers['held'])} of the tokens that the rewards push"


def _forces(numbers: Numbers, facts: Facts) -> str:
    pull, push = plainly(numbers["pull"]), plainly(numbers["push"])
    forces = f"the KL pulls with {pull} where the rewards push with {push}"
    return f"{forces}; the mean reward is {of_maximum(numbers['mean_reward'], facts)}"


def _effective(numbers: Numbers, facts: Facts) -> str:
    often = f"in {share(numbers['epochs_share'])} of the epochs the effective sample size fell under {share(FEW)}"
    least = share(numbers["effective_sample_size"])
    return f"{often} of the tokens; the least was {least}, the largest ratio so far {plainly(numbers['largest_ratio'])}"


KINDS = (
    Kind(
        "idle_clip",
        "the clip never acts",
        idle_clip,
        _most_held,
        means="the policy never moves far enough within an epoch, so that the clipped loss is the unclipped one",
        helps=(
            "nothing need be done, if it learns",
            "a smaller clip_epsilon, more steps_per_epoch or a larger learning_rate would make it act",
        ),
        absent="the loss does not clip",
        yields_to=("deadlock", "local_optimum"),
    ),
    Kind(
        "tight_clip",
        "the clip holds nearly all that it can",
        tight_clip,
        _held,
        means="after a few steps hardly a token is pushed on, but for those that have moved the wrong way: an epoch's "
        "later steps do little",
        helps=("a larger clip_epsilon", "fewer steps_per_epoch", "a smaller learning_rate"),
        absent="the loss does not clip, or all groups of an epoch were dropped",
    ),
    Kind(
        "strong_kl",
        "the KL holds the policy back",
        strong_kl,
        _forces,
        means="the pull towards the reference is as strong as what the rewards ask for, or stronger, and the reward "
        "stays where it is",
        helps=(
            "a smaller kl_coefficient",
            "a reference that follows sooner (a smaller reference_period, but not 0)",
            "a kl_average that weighs a token like average does",
        ),
        absent="it takes a kl_coefficient above 0, two responses or more to a prompt, and groups in every epoch",
    ),
    Kind(
        "stale_samples",
        "the later steps rest on few samples",
        stale_samples,
        _effective,
        means="the policy has moved so far from the one that sampled that a few tokens outweigh all others: the "
        "gradient is mostly noise",
        helps=("a smaller learning_rate", "fewer steps_per_epoch", "loss_mode: clipped"),
        absent="no ratios were measured",
    ),
)
