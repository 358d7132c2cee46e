"""What the policy is like, whatever estimates it."""

import math
from collections.abc import Iterator

from pgrl_cli.readings.numbers import estimate, points
from pgrl_cli.readings.reading import Found, Reading, error_of, has_no_gradient

WIDE = 13.0
"""Nats: a choice among more responses than this is told as a power."""
AS_GOOD_AS = 1e-9


def truth(found: Found) -> Reading:
    """Expected reward and its gradient, entropy, and both KLs."""
    exact = found["subject"]["exact"]
    rows = {
        "expected_reward": "expected reward",
        "maximum_reward": "the most that a response earns" if exact else "the most that a sampled response earned",
        "gradient_norm": "length of the expected reward's gradient",
        "entropy": "entropy of a whole response, nats",
        "kl_forward": "KL(policy ∥ reference), nats",
        "kl_reverse": "KL(reference ∥ policy), nats",
    }
    doubtful = {name: error_of(found, "truth", name) for name in rows} | {"maximum_reward": None}
    return Reading(
        section="truth",
        question="What is true of this policy?",
        columns=("", "exact" if exact else "sampled"),
        rows=tuple((told, estimate(found["truth"][name], doubtful[name])) for name, told in rows.items()),
        legend="Means over prompts.",
        sentences=tuple(_sentences(found)),
    )


def _sentences(found: Found) -> Iterator[str]:
    truth = found["truth"]
    expected, most = truth["expected_reward"], truth["maximum_reward"]
    at_least = "" if found["subject"]["exact"] else "at least "
    entropy = max(truth["entropy"], 0.0)
    wide = points(math.exp(entropy)) if entropy < WIDE else f"e^{entropy:.0f}"
    yield (
        f"The policy earns {points(expected)}, where {at_least}{points(most)} can be earned; its choice among "
        f"responses is as wide as one among {wide} equally likely ones (e to the power of the entropy)."
    )
    if has_no_gradient(found) and not found["subject"]["exact"]:
        yield (
            f"The {found['subject']['responses_looked_at']:,} responses that were sampled to each prompt show no "
            "gradient: what it is may be smaller than their noise, or come from responses that are not among them."
        )
    elif has_no_gradient(found):
        earns_all = most - expected <= AS_GOOD_AS * max(abs(most), abs(expected))
        why = ", since whatever the policy answers earns the most" if earns_all else ""
        yield f"The gradient is zero{why}: no estimator has anything to learn here."
    if truth["kl_forward"] == 0:
        yield "The policy is its reference: both KLs are zero."
