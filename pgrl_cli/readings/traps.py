"""What becomes of mistakes that raise no error."""

import math
from collections.abc import Iterator

from pgrl_cli.readings.numbers import CERTAIN, are_level, number, ratio, share
from pgrl_cli.readings.reading import Found, Reading, error_of, has_no_gradient


def traps(found: Found) -> Reading:
    """Three mistakes, made on this policy."""
    unfrozen, cold = found["traps"]["unfrozen_old_log_probs"], found["traps"]["cold_samples"]
    length = unfrozen["gradient_norm_frozen"]
    rows = [
        ("gradient through old log-probs", "its length", _length(found), number(length)),
        ("clip at an epoch's first step", "ratio", ratio(found["traps"]["first_ratio"]["ratio"]), ""),
        (
            f"sampled at {cold['temperature']:g}, scored at 1",
            "expected reward",
            number(cold["expected_reward"]),
            number(found["truth"]["expected_reward"]),
        ),
    ]
    if not has_no_gradient(found):
        scale, cosine = _own(found)
        rows += [
            ("", "scale", ratio(cold["scale"]), ratio(scale)),
            ("", "cosine", ratio(cold["cosine"]), ratio(cosine)),
        ]
    return Reading(
        section="traps",
        question="Which mistakes raise no error?",
        columns=("mistake", "seen in", "with it", "without"),
        rows=tuple(rows),
        legend=(
            "The first two are seen on one rollout, the last in the expected gradient of "
            f"{found['subject']['looked_at_as']}, against the true one."
        ),
        sentences=tuple(_sentences(found)),
        words=2,
    )


def _length(found: Found) -> str:
    """Of the gradient that is left: rounding is none."""
    unfrozen = found["traps"]["unfrozen_old_log_probs"]
    return number(unfrozen["gradient_norm"], CERTAIN * (unfrozen["gradient_norm_frozen"] or 0.0))


def _own(found: Found) -> tuple[float | None, float | None]:
    """Scale and cosine of the same expected gradient, without the mistake."""
    each = found["delta_modes"].get(found["subject"]["looked_at_as"], {})
    scale, across = each.get("scale"), each.get("off_direction")
    if scale is None or across is None:
        return scale, None
    return scale, math.copysign(math.sqrt(max(1 - across**2, 0.0)), scale)


def _sentences(found: Found) -> Iterator[str]:
    unfrozen, cold = found["traps"]["unfrozen_old_log_probs"], found["traps"]["cold_samples"]
    if not unfrozen["gradient_norm_frozen"]:
        yield "The rollout that shows old log-probs has no gradient anyway."
    elif _length(found) == "0":
        yield "Old log-probs that carry a gradient cancel the new ones': nothing is learned, and nothing fails."
    if are_level(found["traps"]["first_ratio"]["ratio"], 1.0):
        yield "On fresh samples every ratio is 1: a clip, and whether the loss has ratios at all, makes no difference."
    expected, seen = found["truth"]["expected_reward"], cold["expected_reward"]
    doubt = error_of(found, "truth", "expected_reward")  # that of both, as far as it is known
    if are_level(expected, seen, doubt, doubt):
        looks = "looks the same"
    else:
        looks = f"looks {'higher' if seen > expected else 'lower'} than it is"
    told = f"With samples drawn at a temperature of {cold['temperature']:g} the reward {looks}"
    if has_no_gradient(found) or cold["off_direction"] is None:
        yield f"{told}."
    else:
        mode, across = found["subject"]["looked_at_as"], share(cold["off_direction"])
        yield f"{told}, and of the expected gradient of {mode} {across} points across the true one."
