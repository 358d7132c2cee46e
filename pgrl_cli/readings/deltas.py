"""Which way each delta mode's gradient points, and how surely."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pgrl_cli.readings.numbers import CERTAIN, NONE, are_level, counted, names, number, ratio, share
from pgrl_cli.readings.reading import Found, Reading, has_no_gradient

SEARCHED = 64
"""How many times the config's responses are tried."""
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
    least = NOISE * max((each["total_variance"] or 0.0 for each in modes.values()), default=0.0)
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


def _cells(found: Found, each: Mapping[str, Any], least: float) -> Iterator[str]:
    errors = each["standard_error"] or {}
    yield ratio(each["scale"], errors.get("scale"))
    yield share(each["off_direction"], errors.get("off_direction"))
    yield (
        number(each["total_variance"], least)
        if not errors
        else ratio(each["total_variance"], errors.get("total_variance"))
    )
    yield ratio(each["signal_to_noise"], errors.get("signal_to_noise"))
    yield NONE if has_no_gradient(found) else " ".join(f"{value:.2f}" for value in each["cosine"].values())
    yield _needed(found, each["responses_needed"], _is_unseen(each))
    yield "yes" if each["exact"] else "no"


def _needed(found: Found, responses: int | None, is_unseen: bool) -> str:
    if responses is not None:
        return str(responses)
    return NONE if has_no_gradient(found) or is_unseen else f"> {SEARCHED * found['subject']['group_size']}"


def _legend(found: Found) -> str:
    subject = found["subject"]
    sampled = any(not each["exact"] for each in found["delta_modes"].values())
    return (
        "Scale and across: the expected gradient's length along the true one, and the share of it that points "
        f"elsewhere. Cosine: of one rollout's gradient to the true one, over {subject['rollouts']:,} sampled rollouts. "
        f"Needed: responses to each prompt, to be as accurate as the best is with {subject['group_size']}."
    ) + (" What is not exact was sampled; ± is its standard error." if sampled else "")


def _sentences(found: Found) -> Iterator[str]:
    modes = found["delta_modes"]
    if has_no_gradient(found):
        yield from _without_truth(modes, found["subject"]["exact"])
        return
    yield from _directions(modes)
    if unseen := [mode for mode, each in modes.items() if _is_unseen(each)]:
        yield f"The sample says nothing of {names(unseen)}: none of the groups that were drawn has a gradient."
    yield from _best(found)


def _is_unseen(each: Mapping[str, Any]) -> bool:
    """Whether no group that was drawn has a gradient with a mode, though the truth has one."""
    return each["scale"] is None and each["total_variance"] is None


def _without_truth(modes: Mapping[str, Mapping[str, Any]], exact: bool) -> Iterator[str]:
    where = "There is no true gradient here" if exact else "The sample shows no true gradient"
    least = NOISE * max((each["total_variance"] or 0.0 for each in modes.values()), default=0.0)
    still = [mode for mode, each in modes.items() if (each["total_variance"] or 0.0) <= least]
    if len(still) == len(modes):
        yield f"{where}, and with no delta mode does a rollout have one."
        return
    yield f"{where}: what a rollout's gradient shows is {'noise' if exact else 'lost in its noise'}."
    if still:
        yield f"None{', as it should be,' if exact else ''} has a rollout with {names(still)}."


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
    if scale is None or across is None:
        return None
    if across > max(SURE * (errors.get("off_direction") or 0.0), CERTAIN):
        return "bent"
    if across > max(LIKELY * (errors.get("off_direction") or 0.0), CERTAIN):
        return None
    return "unbiased" if abs(scale - 1) <= max(LIKELY * (errors.get("scale") or 0.0), CERTAIN) else "longer"


def _best(found: Found) -> Iterator[str]:
    """Which mode is the most accurate, and what this config's costs beside it."""
    modes, own, size = found["delta_modes"], found["subject"]["delta_mode"], found["subject"]["group_size"]
    known = {mode: known for mode, each in modes.items() if (known := accuracy(each)) is not None}
    if not known:
        return
    best = max(known.values())
    first = next(mode for mode, each in known.items() if each == best)
    level = [mode for mode, each in known.items() if mode == first or are_level(best[0], each[0], best[1], each[1])]
    what = "Most accurate" if len(level) == 1 else "Level as the most accurate"
    told = (
        f"{what} with {counted(size, 'response')} to each prompt: {names(level)} (of one rollout's gradient "
        f"{ratio(*best)} lies along the true one, in root mean square)"
    )
    if own in known and own not in level:
        needed = modes[own]["responses_needed"]
        more = f"{needed}" if needed is not None else f"more than {SEARCHED * size}"
        told += f"; this config's {own} needs {more} for the same"
    elif own in level and len(level) < len(known):
        told += "; it is this config's" if len(level) == 1 else f"; this config's {own} is one of them"
    yield f"{told}."


def accuracy(each: Mapping[str, Any]) -> tuple[float, float] | None:
    """Of a delta mode: the component of one rollout's gradient along the true one by its length, both in root mean
    square, with its standard error, 0 where it is exact; 1 is an estimate without error.

    It is what `responses_needed` brings to the best mode's. None where there is no gradient.
    """
    scale, across, signal = each["scale"], each["off_direction"], each["signal_to_noise"]
    if scale is None or across is None or (signal is None and each["total_variance"]):
        return None
    errors = each["standard_error"] or {}
    along = math.copysign(math.sqrt(max(1 - across**2, 0.0)), scale)
    heard = 1.0 if signal is None else signal / math.hypot(1, signal)  # without noise all is signal
    doubts = (
        along * (errors.get("signal_to_noise") or 0.0) / (1 + (signal or 0.0) ** 2) ** 1.5,
        heard * (errors.get("off_direction") or 0.0) * across / max(abs(along), CERTAIN),
    )
    return along * heard, math.hypot(*doubts)
