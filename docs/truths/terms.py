"""Which KL each term pulls down."""

from collections.abc import Iterator

import numpy as np

from pgrl_cli.plots.kl_terms import draw_kl_terms
from truths.asking import LECTURE, ROUNDING, Truths, middle, numbers

CLOSE = 1e-6
TERMS = tuple((name, where) for name in ("k1", "k2", "k3", "exact") for where in ("loss", "reward"))


def kl_terms(page: Truths) -> None:
    own = page.asked(LECTURE)
    ages = page.of_ages()[1:]
    forward, reverse = (
        {term: numbers(ages, "kl", *term, f"cosine_{which}") for term in TERMS} for which in ("forward", "reverse")
    )
    down = {
        which: {t for t in TERMS if (c[t] > 1 - CLOSE).all()}
        for which, c in (("forward", forward), ("reverse", reverse))
    }
    nowhere = {term for term in TERMS if np.isnan(forward[term]).all()}
    page.section(
        "8. Three KL terms pull down KL(policy ∥ reference), one KL(reference ∥ policy), and four neither",
        holds=down == {"forward": {("k1", "reward"), ("k2", "loss"), ("exact", "loss")}, "reverse": {("k3", "loss")}}
        and nowhere == {("k1", "loss"), ("exact", "reward")},
    )
    draw_kl_terms(own[()], page.pictures / "kl.png", title=_title(own[()]))
    page.picture("kl", "Cosines of every KL term's gradient to those of both KLs, its bias and its variance")
    page.table(
        ["term", "cosine to KL(policy ∥ ref)", "cosine to KL(ref ∥ policy)", "scale", "bias, nats", "variance"],
        list(_rows(ages[0])),
    )
    page.say(_setting(page, ages), _said(page, ages, forward, reverse), _of_sequences(page, ages))
    page.say(
        "*A reading.* A loss is differentiated, and its samples are not: k1 loses all of its gradient so, and k3 is left with that of the other "
        "KL. In the reward a term only weighs the scores, and only k1 "
        "weighs them as the KL does. The exact KL does not depend on the response here, since no token of this policy depends on another: as a reward it "
        "says nothing.",
    )


def _title(found: dict) -> str:
    subject = found["subject"]
    return f"Which KL a term pulls down: seed {subject['seed']}, after {subject['epochs']} epochs"


def _rows(diagnoses: np.ndarray) -> Iterator[list[str]]:
    for name, where in TERMS:
        cells = []
        for key in ("cosine_forward", "cosine_reverse", "scale", "bias", "variance"):
            values = numbers(diagnoses, "kl", name, where, key)
            cells.append("none" if np.isnan(values).all() else middle(np.where(np.abs(values) < ROUNDING, 0, values)))
        yield [f"`{name}` in the {where}", *cells]


def _setting(page: Truths, ages: np.ndarray) -> str:
    far = numbers(ages, "truth", "kl_forward")
    return (
        f"The table is of {page.seeds} seeds after {page.ages[1]} epochs, the picture of the config's own; the title holds at every later age, too. The reference "
        "is the policy before training, since beside itself a policy has no KL (the lecture's config refreshes its reference every ten epochs). "
        f"KL(policy ∥ reference) is then {middle(far[0])} nats, and after {page.ages[-1]} epochs {middle(far[-1])}. Expected gradients, on fresh "
        "samples; scale: along that of KL(policy ∥ reference), in lengths of it; bias and variance: of one response's value. `--out` "
        "draws the picture for any config."
    )


def _said(page: Truths, ages: np.ndarray, forward: dict, reverse: dict) -> str:
    upwards = {term: int((reverse[term] < 0).sum()) for term in (("k2", "reward"), ("k3", "reward"))}
    variance = {name: np.median(numbers(ages[-1], "kl", name, "loss", "variance")) for name in ("k1", "k2", "k3")}
    bias = numbers(ages[-1], "kl", "k2", "loss", "bias")
    count = reverse["k3", "reward"].size
    between = reverse["k2", "loss"]
    return (
        f"In the reward, k3 pulls KL(reference ∥ policy) *up* in {upwards['k3', 'reward']} of {count} policies, and k2 in "
        f"{upwards['k2', 'reward']}. The gradients of the two KLs are not the same thing: their cosine is {middle(between[0])} after {page.ages[1]} epochs, "
        f"{middle(between[-1])} after {page.ages[-1]}. The farther the policy has come, the noisier is k3 as a value: after {page.ages[-1]} epochs the median "
        f"variances are {variance['k1']:.2f} (k1), {variance['k2']:.2f} (k2) and {variance['k3']:,.0f} (k3), and k2 is off by {middle(bias)} nats."
    )


def _of_sequences(page: Truths, ages: np.ndarray) -> str:
    def variance(section: str, age: int) -> float:
        return float(np.median(numbers(ages[age], section, "k3", "loss", "variance")))

    tokens, whole = (numbers(ages, section, "k2", "loss", "bias") for section in ("kl", "kl_sequence"))
    pulls = [
        numbers(ages, "kl_sequence", name, "loss", f"cosine_{which}")
        for name, which in (("k2", "forward"), ("k3", "reverse"))
    ]
    shift = numbers(ages, "kl_sequence", "k3", "loss", "bias")
    return (
        "Estimators that are given a whole response's log-ratio instead of each token's pull the same ways as losses (least cosine "
        f"of k2 to KL(policy ∥ reference): {pulls[0].min():.3f}, of k3 to KL(reference ∥ policy): {pulls[1].min():.3f}; a log-ratio is "
        f"exponentiated no further than ±20, which gives k3 a bias of up to {np.abs(shift).max():.2g} nats). As values they are worse: the variance of k3 goes from a "
        f"median of {variance('kl', 0):,.2f} to {variance('kl_sequence', 0):,.2f} after {page.ages[1]} epochs, from {variance('kl', -1):,.0f} to {variance('kl_sequence', -1):,.0f} after "
        f"{page.ages[-1]}; the bias of k2 from {np.median(tokens[-1]):.2f} to {np.median(whole[-1]):.2f} nats. That tokens and whole responses agree in "
        "direction holds for policies like this one, whose tokens do not depend on each other."
    )
