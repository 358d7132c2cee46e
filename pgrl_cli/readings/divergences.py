"""Which KL each term measures, and which one it pulls down."""

from collections.abc import Iterator, Mapping
from typing import Any

from pgrl_cli.readings.numbers import CERTAIN, ROUNDING, estimate, names, number, points, ratio
from pgrl_cli.readings.reading import Found, Reading, error_of, is_certain

OWN = "the run's own"
"""How a reference is told that is not the policy before training."""
FORWARD, REVERSE = "KL(policy ∥ reference)", "KL(reference ∥ policy)"
NEAR = 1e-6
"""A cosine that is so close to 1 is 1."""
NEARLY = 0.99
"""A term with both cosines above it goes down both KLs, though along the gradient of neither."""
SURE, CLOSE, DOUBTFUL = 2.0, 0.05, 0.3
"""Standard errors that a cosine may be off by; how much that may be of one that is 1, and of any other."""
LEGEND = (
    f"Bias and variance: of one response's value against {FORWARD}, in nats. Cosines: of the term's expected "
    "gradient on fresh samples to those of both KLs; scale: its length along the first, in lengths of that."
)
CERTAINLY = (
    "The policy is as good as certain of its responses: what is left of the gradients of the KLs is lost in rounding, "
    "and so are cosines and scales."
)
TOLD = {
    "both": "down both KLs, whose gradients agree here",
    "forward": f"down {FORWARD}",
    "reverse": f"down {REVERSE}",
    "nowhere": "nowhere",
    "up": "up both KLs",
    "nearly": "nearly down both KLs, as the cosines say",
    "other": "along neither",
    "unknown": "in a direction that the sample does not tell",
}


def kl_terms(found: Found) -> Reading:
    """The terms as the trainer makes them, token by token."""
    return Reading(
        section="kl",
        question="Which KL does each term measure, and which one does it pull down?",
        columns=("estimator", "in the", "bias", "variance", "cosine KL(policy∥ref)", "cosine KL(ref∥policy)", "scale"),
        rows=tuple(_rows(found, "kl")),
        legend=LEGEND,
        sentences=tuple(_sentences(found)),
        words=2,
    )


def kl_terms_of_sequences(found: Found) -> Reading | None:
    """The same, of estimators that see whole responses; None where that makes no difference."""
    if all(_alike(each, found["kl"][name]) for name, each in found["kl_sequence"].items()):
        return None
    return Reading(
        section="kl_sequence",
        question="And if the estimators see whole responses instead of tokens?",
        columns=("estimator", "in the", "bias", "variance", "cosine KL(policy∥ref)", "cosine KL(ref∥policy)", "scale"),
        rows=tuple(_rows(found, "kl_sequence")),
        legend="Each estimator is given the log-ratio of the whole response.",
        sentences=tuple(_sentences_of_sequences(found)),
        words=2,
    )


def _rows(found: Found, section: str) -> Iterator[tuple[str, ...]]:
    known = max(found["truth"]["kl_forward"] or 0.0, 0.0)
    for name, placements in found[section].items():
        for placement, each in placements.items():
            errors = error_of(found, section, name, placement) or {}
            yield (
                name,
                placement,
                estimate(each["bias"], errors.get("bias"), CERTAIN * known),
                estimate(each["variance"], errors.get("variance"), ROUNDING * known**2),
                *(ratio(each[key], errors.get(key)) for key in ("cosine_forward", "cosine_reverse")),
                ratio(each["scale"], errors.get("scale")),
            )


def _sentences(found: Found) -> Iterator[str]:
    if not found["truth"]["kl_forward"]:
        yield _of_no_kl(found)
        return
    if is_certain(found):
        yield CERTAINLY
        return
    yield from _of_directions(found, "kl")
    yield from _of_values(found, "kl")
    yield from _of_its_own(found)


def _of_no_kl(found: Found) -> str:
    subject = found["subject"]
    if subject["reference"].startswith(OWN):
        fix = "to measure from the policy before training, `--config` takes the run's config.yaml, with `--after`"
    else:
        fix = "training has not moved it yet" if subject["epochs"] else "`--after 10` lets it train first"
    return f"The policy is its reference, so both KLs are zero and no term has a direction; {fix}."


def _sentences_of_sequences(found: Found) -> Iterator[str]:
    if found["truth"]["kl_forward"] and not is_certain(found):
        yield from _of_directions(found, "kl_sequence")
        yield from _of_values(found, "kl_sequence")


def kind_of(each: Mapping[str, Any], errors: Mapping[str, Any] | None) -> str:
    """Where a term pulls: a key of TOLD; of a sample, with the standard errors, only what that tells."""
    forward, reverse, scale = each["cosine_forward"], each["cosine_reverse"], each["scale"]
    if forward is None or reverse is None:
        return "nowhere" if scale is not None and abs(scale) <= CERTAIN else "unknown"
    doubts = [SURE * ((errors or {}).get(name) or 0.0) for name in ("cosine_forward", "cosine_reverse")]
    perhaps = [1 - cosine <= NEAR + doubt for cosine, doubt in zip((forward, reverse), doubts, strict=True)]
    along = [near and doubt <= CLOSE for near, doubt in zip(perhaps, doubts, strict=True)]
    if any(along):
        return "both" if all(along) else "forward" if along[0] else "reverse"
    if any(perhaps) or max(doubts) > DOUBTFUL:
        return "unknown"
    if forward < -doubts[0] and reverse < -doubts[1]:
        return "up"
    return "nearly" if min(forward, reverse) > NEARLY else "other"


def _of_directions(found: Found, section: str) -> Iterator[str]:
    kinds: dict[str, dict[str, list[str]]] = {}
    for name, placements in found[section].items():
        for placement, each in placements.items():
            kind = kind_of(each, error_of(found, section, name, placement))
            kinds.setdefault(kind, {}).setdefault(placement, []).append(name)
    sampled = "" if found["subject"]["exact"] else ", as far as the sample tells"
    for kind, told in TOLD.items():
        if kind in kinds:
            terms = [f"{names(estimators)} in the {placement}" for placement, estimators in kinds[kind].items()]
            several = sum(map(len, kinds[kind].values())) > 1
            proviso = "" if kind in ("unknown", "nowhere") else sampled
            yield f"Pull{'' if several else 's'} {told}{proviso}: {'; '.join(terms)}."
    between = _between(found, section)
    if between is not None and "both" not in kinds:
        yield f"The gradients of the two KLs have a cosine of {ratio(between)}."


def _between(found: Found, section: str) -> float | None:
    """The cosine of the two KLs' gradients, from a term that has the direction of one."""
    for name, placements in found[section].items():
        for placement, each in placements.items():
            kind = kind_of(each, error_of(found, section, name, placement))
            if kind in ("forward", "reverse"):
                return float(each["cosine_reverse" if kind == "forward" else "cosine_forward"])
    return None


def _of_values(found: Found, section: str) -> Iterator[str]:
    """Which estimators are off, and which is the least noisy of those that are not."""
    known = found["truth"]["kl_forward"]
    right: list[str] = []
    off: list[str] = []
    for name, placements in found[section].items():
        each = placements["loss"]
        doubt = 3 * (error_of(found, section, name, "loss", "bias") or 0.0)
        is_right = abs(each["bias"]) <= max(doubt, CERTAIN * known)
        (right if is_right else off).append(name)
    parts = []
    if right:
        variances = {name: found[section][name]["loss"]["variance"] for name in right}
        least = [name for name in right if variances[name] <= min(variances.values()) + ROUNDING * known**2]
        quiet = f", {names(least)} the least noisy" if len(least) < len(right) else ""
        seen = "" if found["subject"]["exact"] else " as far as the sample tells"
        parts.append(f"{names(right)} {'is' if len(right) == 1 else 'are'} unbiased{seen}{quiet}")
    parts += [f"{name} is off by {number(found[section][name]['loss']['bias'])} nats" for name in off]
    yield f"As values of {FORWARD}, {number(known)} nats: {'; '.join(parts)}."


def _of_its_own(found: Found) -> Iterator[str]:
    subject = found["subject"]
    if not subject["kl_coefficient"]:
        return
    where = subject["kl_estimator"], subject["kl_placement"]
    told = TOLD[kind_of(found["kl"][where[0]][where[1]], error_of(found, "kl", *where))]
    yield (
        f"This config's term, {where[0]} in the {where[1]} with a weight of "
        f"{points(subject['kl_coefficient'])}, pulls {told}."
    )


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    pairs = [(one[placement][key], other[placement][key]) for placement in one for key in one[placement]]
    return all(a == b or (None not in (a, b) and abs(a - b) <= CERTAIN * max(1.0, abs(a))) for a, b in pairs)
