"""What a baseline takes away of the noise."""

from collections.abc import Iterator

from pgrl_cli.readings.deltas import NOISE
from pgrl_cli.readings.numbers import ROUNDING, are_level, counted, estimate, names, number, share
from pgrl_cli.readings.reading import Found, Reading, error_of

SHORTER = "group_mean"
"""It makes the gradient shorter, too, so it is no measure for the others."""
MOST_VALUES = 3
TOLD = {
    "none": "none",
    "expected_reward": "expected reward V(s)",
    "old_policy_value": "the reference's V(s)",
    "optimal": "optimal constant b*(s)",
    "leave_one_out": "mean of the others",
    SHORTER: "mean of the group",
}


def baselines(found: Found) -> Reading:
    """The total variance of one rollout's gradient with each baseline."""
    each = found["baselines"]
    none = each["none"]["total_variance"] or 0.0
    prompts = min(found["subject"]["prompts"], MOST_VALUES)
    rows = []
    for name, numbers in each.items():
        variance = numbers["total_variance"]
        shown = estimate(variance, error_of(found, "baselines", name, "total_variance"), NOISE * none)
        part = share(variance / none) if none and variance is not None else "-"
        values = [number(value) for value in numbers.get("values", [])[:prompts]]
        rows.append((TOLD.get(name, name), shown, part, *values, *[""] * (prompts - len(values))))
    heads = [f"at prompt {place + 1}" for place in range(prompts)]
    return Reading(
        section="baselines",
        question="What does a baseline take away of the noise?",
        columns=("baseline", "total variance", "of none's", *heads),
        rows=tuple(rows),
        legend=f"The values that are subtracted at {_places(prompts, found['subject']['prompts'])} stand to the right.",
        sentences=(*_least(found), *_spread(found)),
    )


def _places(shown: int, prompts: int) -> str:
    if prompts == shown:
        return "the prompt" if prompts == 1 else "each prompt"
    return f"the first {shown} of {prompts} prompts"


def _least(found: Found) -> Iterator[str]:
    known = {
        name: each["total_variance"]
        for name, each in found["baselines"].items()
        if name != SHORTER and each["total_variance"] is not None
    }
    none, exact = known["none"], found["subject"]["exact"]
    if none == 0:
        yield (
            "Without a baseline there is no noise to take away: no rollout has any gradient."
            if exact
            else "In this sample there is no noise that a baseline could take away."
        )
        return
    noise = NOISE * none
    least = min(known, key=lambda name: known[name])
    level = [name for name, variance in known.items() if are_level(variance, known[least]) or variance <= noise]
    told = names([TOLD.get(name, name) for name in level])
    if known[least] <= noise:
        yield f"No noise is left with {told}{'' if exact else ', as far as the sample tells'}."
    else:
        are = "is" if len(level) == 1 else "are level as"
        yield f"{told[0].upper()}{told[1:]} {are} the least noisy, with {share(known[least] / none)} of the variance."
    worse = [TOLD.get(name, name) for name, variance in known.items() if variance > none * (1 + 1e-9)]
    if worse:
        yield f"Noisier than none: {names(worse)}."
    if SHORTER in found["baselines"]:
        size = found["subject"]["group_size"]
        yield (
            f"The mean of a group of {size} contains the response itself: that takes its gradient, noise and all, to "
            f"{size - 1}/{size} of the one with the mean of the others."
        )


def _spread(found: Found) -> Iterator[str]:
    """The lecture's look at it."""
    spread = found["spread"]
    before, after = spread["rewards"], spread["centered"]
    if before is None or after is None:
        return
    which = "response" if found["subject"]["exact"] else "sampled response"
    told = (
        f"With each of the {counted(spread['responses'], which)} counted once, the standard deviation (n-1) of the "
        "deltas"
    )
    first, then = number(before), number(after, ROUNDING * before)
    if first == then:
        yield f"{told} is {first}, whether each prompt's mean is taken away or not."
    else:
        falls = "falls" if after < before else "rises"
        yield f"{told} {falls} from {first} to {then} when each prompt's mean is taken away."
