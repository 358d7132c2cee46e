"""Which way each delta mode's gradient points, and how surely."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pgrl_cli.readings.numbers import CERTAIN, NONE, are_level, counted, estimate, names, ratio, share
from pgrl_cli.readings.reading import Found, Reading, has_no_gradient

LARGEST = 64
"""How many times the config's responses are tried, as `diagnosis.deltas` does."""
SURE = 4.0
"""Standard errors beyond which a sampled share across is no accident."""
LIKELY = 3.0
NOISE = 1e-13
"""Of a variance, the share of the largest one that is rounding."""
TOLD = {
    ("unbiased", True): "Unbiased",
    ("unbiased", False): "Unbiased, as far as the sample tells",
    ("longer", True): "Of the right direction, but of another length",
    ("longer", False): "Of another length, and as far as the sample tells of the right direction",
    ("bent", True): "Bent, with so much of it across",
    ("bent", False): "Bent, with about so much of it across",
}
"""Which way a mode points, by whether that is exact."""


def delta_modes(found: Found) -> Reading:
    """Each delta mode's expected gradient against the true one, and its noise."""
    modes = found["delta_modes"]
    least = least_variance(modes)
    return Reading(
        section="delta_modes",
        question="Does each delta mode's gradient point the right way, and how noisy is it?",
        columns=(
            "delta mode",
            "scale",
            "across",
            "total variance",
            "signal to noise",
            "cosine 5, 50, 95 %",
            "needed",
            "exact",
        ),
        rows=tuple((mode, *_cells(found, each, least)) for mode, each in modes.items()),
        legend=_legend(found),
        sentences=tuple(_sentences(found)),
    )


def least_variance(modes: Mapping[str, Mapping[str, Any]]) -> float:
    """The total variance up to which a mode has none: what is left is rounding of the largest one's."""
    return NOISE * max((each["total_variance"] or 0.0 for each in modes.values()), default=0.0)


def _cells(found: Found, each: Mapping[str, Any], least: float) -> Iterator[str]:
    errors, across = each["standard_error"] or {}, each["off_direction"]
    lost, unseen = has_no_gradient(found), _is_unseen(each)
    yield NONE if lost or unseen else ratio(each["scale"], errors.get("scale"))
    rounding = across is not None and each["exact"] and across <= CERTAIN
    yield NONE if lost or unseen else share(0.0 if rounding else across, errors.get("off_direction"))
    yield NONE if unseen else estimate(each["total_variance"], errors.get("total_variance"), least)
    yield NONE if lost or unseen else ratio(each["signal_to_noise"], errors.get("signal_to_noise"))
    yield NONE if lost else " ".join(_bare(value) for value in each["cosine"].values())
    yield NONE if unseen else _needed(found, each["responses_needed"])
    yield "yes" if each["exact"] else "no"


def _is_unseen(each: Mapping[str, Any]) -> bool:
    """Whether of a sample no group has an advantage: that says nothing of the others."""
    return not each["exact"] and not each["total_variance"]


def _bare(cosine: float) -> str:
    """A cosine in few letters."""
    return f"{cosine:.2f}".replace("0.", ".", 1) if abs(cosine) < 0.995 else f"{cosine:.2f}"


def _needed(found: Found, responses: int | None) -> str:
    if responses is not None:
        return str(responses)
    return NONE if has_no_gradient(found) else f"> {LARGEST * found['subject']['group_size']}"


def _legend(found: Found) -> str:
    subject = found["subject"]
    sampled = any(not each["exact"] for each in found["delta_modes"].values())
    return (
        "Scale: the expected gradient's part along the true one, in lengths of that; across: the share of it that "
        "points elsewhere. Cosine: of one rollout's gradient to the true one, over "
        f"{subject['rollouts']:,} sampled rollouts (0 for one without any gradient). Needed: responses to each prompt, "
        f"to be as accurate as the best is with {subject['group_size']}, found with sampled groups where there are "
        "many. All of it is of one step at this policy: where training ends is another question."
    ) + (" What is not exact was sampled; ± is its standard error." if sampled else "")


def _sentences(found: Found) -> Iterator[str]:
    modes = found["delta_modes"]
    if has_no_gradient(found) and not found["subject"]["exact"]:
        yield "The sample does not tell which way the true gradient points, so neither what is along it."
        return
    if has_no_gradient(found):
        yield from _without_truth(modes)
        return
    yield from _directions(modes)
    if unseen := [mode for mode, each in modes.items() if _is_unseen(each)]:
        yield f"No drawn group has an advantage with {names(unseen)}, which tells nothing: --samples draws more."
    yield from _best(found)


def _without_truth(modes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    least = least_variance(modes)
    still = [mode for mode, each in modes.items() if (each["total_variance"] or 0.0) <= least]
    if len(still) == len(modes):
        yield "There is no true gradient here, and with no delta mode does a rollout have one."
        return
    yield "There is no true gradient here: what a rollout's gradient shows is noise."
    if still:
        yield f"No rollout shows any with {names(still)}."


def _directions(modes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Which modes are unbiased, which change the length alone, and which bend."""
    words: dict[str, list[str]] = {told: [] for told in TOLD.values()}
    for mode, each in modes.items():
        kind = _kind(each)
        if kind is None:
            continue
        told = TOLD[kind, bool(each["exact"])]
        value = {"longer": f" ({ratio(each['scale'])})", "bent": f" ({share(each['off_direction'])})"}.get(kind, "")
        words[told].append(f"{mode}{value}")
    for told, named in words.items():
        if named:
            yield f"{told}: {names(named)}."


def _kind(each: Mapping[str, Any]) -> str | None:
    """unbiased, longer (or shorter), or bent; None where a sample does not tell."""
    errors = each["standard_error"] or {}
    scale, across = each["scale"], each["off_direction"]
    if scale is None or across is None or _is_unseen(each):
        return None
    if across > max(SURE * (errors.get("off_direction") or 0.0), CERTAIN):
        return "bent"
    if across > max(LIKELY * (errors.get("off_direction") or 0.0), CERTAIN):
        return None
    return "unbiased" if abs(scale - 1) <= max(LIKELY * (errors.get("scale") or 0.0), CERTAIN) else "longer"


def _best(found: Found) -> Iterator[str]:
    """Which mode is the most accurate, and what this config's costs beside it."""
    modes, own, size = found["delta_modes"], found["subject"]["delta_mode"], found["subject"]["group_size"]
    known = {mode: value for mode, each in modes.items() if (value := accuracy(each)) is not None}
    if not known:
        return
    best = max(known.values())
    first = next(mode for mode, each in known.items() if each == best)
    level = [mode for mode, each in known.items() if mode == first or are_level(best[0], each[0], best[1], each[1])]
    what = "Most accurate" if len(level) == 1 else "Level as the most accurate"
    told = (
        f"{what} with {counted(size, 'response')} to each prompt: {names(level)} (the expected gradient's part along "
        f"the true one is {ratio(*best)} of the length of one rollout's, in root mean square)"
    )
    if own in known and own not in level:
        needed = modes[own]["responses_needed"]
        more = f"{needed}" if needed is not None else f"more than {LARGEST * size}"
        told += f"; this config's {own} needs {more} for the same"
    elif own in level and len(level) < len(known):
        told += "; it is this config's" if len(level) == 1 else f"; this config's {own} is one of them"
    yield f"{told}."


def accuracy(each: Mapping[str, Any]) -> tuple[float, float] | None:
    """A delta mode's accuracy, and its standard error, which is 0 where it is exact.

    The component of its expected gradient along the true one by the root mean square length of one rollout's: 1 for an
    estimate without error. It is what `responses_needed` brings to the best mode's. None where there is no gradient.
    """
    scale, across, signal = each["scale"], each["off_direction"], each["signal_to_noise"]
    if scale is None or across is None or (signal is None and each["total_variance"]) or _is_unseen(each):
        return None
    errors = each["standard_error"] or {}
    along = math.copysign(math.sqrt(max(1 - across**2, 0.0)), scale)
    heard = 1.0 if signal is None else signal / math.hypot(1, signal)  # without noise all is signal
    doubts = (
        along * (errors.get("signal_to_noise") or 0.0) / (1 + (signal or 0.0) ** 2) ** 1.5,
        heard * (errors.get("off_direction") or 0.0) * across / max(abs(along), CERTAIN),
    )
    return along * heard, math.hypot(*doubts)
