"""How stale a rollout may get before its gradient misleads, and whether a clip helps."""

from collections.abc import Iterator, Sequence
from typing import Any

from pgrl_cli.readings.numbers import are_level, names, points, ratio, share
from pgrl_cli.readings.reading import Found, Reading, has_no_gradient

MOST_STEPS = 10
"""Rows of the table; of more steps some are shown."""
LEGEND = (
    "The cosine of the loss's gradient to the true one, at the parameters before that step. Mean over sampled "
    "rollouts, each of which trains a copy of the policy with this config's average, optimizer and rate, and nothing "
    "but that loss."
)
LEGEND_OF_SAMPLES = (
    "The effective size of a rollout, a share of its tokens, before the step that the heading names, and the share of "
    "tokens that a clip gives no gradient there. Means over the same rollouts."
)
SHOWN = {"effective_sample_size": "sample, step", "clip_fraction": "cut, step"}
Steps = Sequence[dict[str, Any]]


def losses(found: Found) -> Reading:
    """The cosine of each loss's gradient to the truth before each of an epoch's steps."""
    modes: dict[str, Steps] = found["losses"]
    count = len(next(iter(modes.values())))
    rows = []
    for step in _chosen(count):
        here = [steps[step] for steps in modes.values()]
        rows.append((str(step + 1), *(ratio(each["cosine"], each["standard_error"]) for each in here)))
    return Reading(
        section="losses",
        question="How stale may a rollout get, and when does clipping help?",
        columns=("step", *modes),
        rows=tuple(rows),
        legend=LEGEND,
        sentences=tuple(_sentences(found, count)),
    )


def samples(found: Found) -> Reading | None:
    """How much of a rollout is still worth something, and how much a clip cuts off, in the middle and at the end.

    None for an epoch of one step, where nothing has moved.
    """
    modes: dict[str, Steps] = found["losses"]
    count = len(next(iter(modes.values())))
    if count == 1:
        return None
    shown = sorted({(count - 1) // 2, count - 1} - {0})
    columns = [(step, name) for name in ("effective_sample_size", "clip_fraction") for step in shown]
    return Reading(
        section="losses",
        question="How far has each loss led away from its rollout?",
        columns=("loss", *(f"{SHOWN[name]} {step + 1}" for step, name in columns)),
        rows=tuple((mode, *(share(steps[step][name]) for step, name in columns)) for mode, steps in modes.items()),
        legend=LEGEND_OF_SAMPLES,
        sentences=(),
    )


def _chosen(count: int) -> list[int]:
    """All steps, or of many some, the first and the last among them."""
    few = min(count, MOST_STEPS)
    return sorted({round(place * (count - 1) / max(few - 1, 1)) for place in range(few)})


def _sentences(found: Found, count: int) -> Iterator[str]:
    if has_no_gradient(found):
        exact = found["subject"]["exact"]
        told = "there is no true gradient to point along" if exact else "the sample does not tell the true gradient"
        yield f"Before the first step {told}."
    if count == 1:
        yield "An epoch has one step here: a rollout is never stale, every ratio is 1, and a clip has nothing to do."
        return
    modes = found["losses"]
    if "clipped" in modes and "unclipped" in modes:
        yield _of_the_clip(modes["clipped"], modes["unclipped"])
    yield from _of_its_own(found)
    first = points(next(iter(modes.values()))[0]["expected_reward"])
    last = {mode: points(steps[-1]["expected_reward"]) for mode, steps in modes.items()}
    if set(last.values()) == {first}:
        yield f"The expected reward stays at {first}."
    else:
        reached = [f"{reward} with {mode}" for mode, reward in last.items()]
        yield f"Before the last step the expected reward has come from {first} to {names(reached)}."


def _of_the_clip(clipped: Steps, unclipped: Steps) -> str:
    better: list[int] = []
    worse: list[int] = []
    still = [place for place, clip in enumerate(clipped, start=1) if clip["clip_fraction"] == 1]
    for place, (clip, free) in enumerate(zip(clipped, unclipped, strict=True), start=1):
        if place in still or None in (clip["cosine"], free["cosine"]):
            continue
        if not are_level(clip["cosine"], free["cosine"], clip["standard_error"], free["standard_error"]):
            (better if clip["cosine"] > free["cosine"] else worse).append(place)
    stops = f"At {_steps(still)} the clip cuts everything off: the clipped loss stands still. " if still else ""
    if not better and not worse and still:
        return stops.rstrip()
    if not better and not worse:
        cuts = any(step["clip_fraction"] for step in clipped)
        return "The clip makes no difference that these rollouts show." if cuts else "The clip never cuts anything off."
    helps = f"The clip helps at {_steps(better)}" if better else "The clip helps at no step"
    harms = f"; at {_steps(worse)} the clipped loss points farther from the truth than the unclipped" if worse else ""
    return f"{stops}{helps}{harms}."


def _of_its_own(found: Found) -> Iterator[str]:
    """From where on the config's own loss has lost half of what it knew."""
    mode = found["subject"]["loss_mode"]
    cosines = [step["cosine"] for step in found["losses"].get(mode, ())]
    if not cosines or None in cosines or cosines[0] <= 0:
        return
    lost = next((place for place, cosine in enumerate(cosines, start=1) if cosine < cosines[0] / 2), None)
    if lost is None:
        yield f"This config's {mode} loss keeps more than half of its first cosine through all {len(cosines)} steps."
    else:
        turned = ", where it points away from the truth" if cosines[lost - 1] < 0 else ""
        yield f"This config's {mode} loss has lost half of its first cosine by step {lost}{turned}."


def _steps(numbers: Sequence[int]) -> str:
    """Steps in words: step 3, steps 2 to 10, steps 2 and 7."""
    if len(numbers) == 1:
        return f"step {numbers[0]}"
    whole = numbers[-1] - numbers[0] + 1 == len(numbers)
    return f"steps {numbers[0]} to {numbers[-1]}" if whole else f"steps {names([str(each) for each in numbers])}"
