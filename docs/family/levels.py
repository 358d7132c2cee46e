"""What a KL term pulls down when it is made of tokens, and when of whole responses."""

from collections.abc import Sequence

import numpy as np
from page import Findings
from truths.asking import Truths, middle, numbers

CONFIG = "family/levels"
AGES = (30, 100)
"""Epochs after which policies are looked at."""
TERMS = {
    ("k1", "reward"): "forward",
    ("k2", "loss"): "forward",
    ("exact", "loss"): "forward",
    ("k3", "loss"): "reverse",
}
"""Each term, and the KL that it pulls down where tokens do not depend on each other."""
NAMES = {"forward": "KL(policy ∥ ref)", "reverse": "KL(ref ∥ policy)"}
LEVELS = {"token": "kl", "sequence": "kl_sequence"}
"""Values of `kl_level`, and the part of a diagnosis that tells of them."""
BENT, CLOSE = 1e-3, 1e-6


def levels(page: Findings) -> None:
    asking = Truths(page.pictures, page.seeds, AGES, None, [])
    found = asking.of_ages(ages=AGES, config=CONFIG)
    page.ran += asking.ran
    of_tokens, of_sequences = ({term: _cosines(found, level, term) for term in TERMS} for level in LEVELS.values())
    bent = [of_tokens[term] for term in TERMS if term != ("k1", "reward")]
    straight = [each for term, each in of_sequences.items() if each is not None]
    page.section(
        "4. Where tokens depend on each other, a KL term of tokens in the loss is bent, and one of whole responses is not",
        holds=all(np.median(each) < 1 - BENT for each in bent) and all((each > 1 - CLOSE).all() for each in straight),
    )
    page.table(
        ["term", "pulls at", "cosine to it, `kl_level: token`", "scale", "cosine to it, `kl_level: sequence`", "scale"],
        [_row(found, *term) for term in TERMS],
    )
    page.say(_setting(page, found))
    page.say(
        "*A reading.* A token's term counts the KL of that token alone. Where what is written decides what comes next, a token also moves "
        "the policy to where later tokens have more or less of a KL, and the loss of a token's term is not differentiated with respect to that. A whole response's "
        "log-ratio has it in, and so has k1 in the reward, which weighs the whole response's score."
    )


def _cosines(found: np.ndarray, level: str, term: tuple[str, str]) -> np.ndarray | None:
    """Of a term's expected gradient to that of its KL: [age seed]; None where there is no such term."""
    name, where = term
    if name not in found.flat[0][level]:
        return None
    return numbers(found, level, name, where, f"cosine_{TERMS[term]}")


def _row(found: np.ndarray, name: str, where: str) -> list[str]:
    cells: list[str] = []
    for level in LEVELS.values():
        cosines = _cosines(found, level, (name, where))
        known: Sequence[np.ndarray] = () if cosines is None else (cosines, numbers(found, level, name, where, "scale"))
        cells += [middle(each, 3) for each in known] or ["none", "none"]
    return [f"`{name}` in the {where}", NAMES[TERMS[name, where]], *cells]


def _setting(page: Findings, found: np.ndarray) -> str:
    far = numbers(found, "truth", "kl_forward")
    count = found.flat[0]["subject"]
    return (
        "Copy two letters out of two, and end: a transformer of width 16, whose later tokens depend on the earlier ones, with "
        f"{count['responses_per_prompt']} responses to each of {count['prompts']} prompts, all of which are gone through. Each figure is the median over {page.seeds} seeds after {' and '.join(map(str, AGES))} epochs, "
        f"and in brackets the least and the largest; these policies' KL(policy ∥ reference) is {middle(far)} nats, and the reference is the policy after its warm start. Scale: along the "
        "gradient of KL(policy ∥ reference), in lengths of it. Where tokens do not depend on each other both levels pull the same ways "
        "([ground-truth.md](ground-truth.md), section 8)."
    )
