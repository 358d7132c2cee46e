"""Writes docs/ground-truth.md and its pictures from `pgrl diagnose`: `make ground-truth`.

Every figure on the page is read from a diagnosis that this script makes, and every command shown is one that it ran; the
one section of equations shows its Python. The readings, why it may be so, are typed in, and so are the titles; a title that
the figures deny says so itself.

    python docs/write_ground_truth.py [KEY=VALUE ...] [--seeds 8] [--only 1 5] [--out FILE --pictures DIR]
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from truths.asking import Truths
from truths.baselines import baselines, two_states
from truths.binary import binary_weights
from truths.deltas import centering, dividing, keeping_the_best
from truths.difficulty import difficulty
from truths.losses import staleness
from truths.rewards import cold_samples, informative_groups, loopholes
from truths.terms import kl_terms

DOCS = Path(__file__).parent
AGES = (0, 10, 30, 100)
"""Epochs of training after which the lecture's policies are looked at."""
SECTIONS: list[Callable[[Truths], None]] = [
    centering,
    dividing,
    difficulty,
    binary_weights,
    keeping_the_best,
    baselines,
    two_states,
    kl_terms,
    staleness,
    cold_samples,
    loopholes,
    informative_groups,
]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--ages", type=int, nargs="+", default=AGES, help="epochs of training; the first is 0")
    parser.add_argument("--only", type=int, nargs="+", default=range(1, len(SECTIONS) + 1), help="numbers of sections")
    parser.add_argument("--out", type=Path, default=DOCS / "ground-truth.md")
    parser.add_argument("--pictures", type=Path, default=DOCS / "ground-truth")
    parser.add_argument("--samples", type=int, help="of every diagnosis, for a trial")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every diagnosis, for a trial")
    arguments = parser.parse_intermixed_args(words)
    arguments.pictures.mkdir(parents=True, exist_ok=True)
    page = Truths(arguments.pictures, arguments.seeds, arguments.ages, arguments.samples, arguments.overrides)
    page.say(
        "# Ground truth",
        "What theory says of policy gradients, measured where nothing has to be estimated: the lecture's policies have 125 responses to "
        "each prompt, and `pgrl diagnose` goes through all of them. `make ground-truth` writes this page anew: it runs the commands shown "
        "and reads every figure from the JSON that they print. Policies are those of `lecture/centered_clipped` after so many epochs of its own training, "
        f"with seeds 0 to {arguments.seeds - 1} unless something else is said; 3.1 [2.5, 4.0] is the median over these seeds and, in brackets, the least "
        "and the largest. Gradients are with respect to the parameters, of one rollout: ten responses to each of three prompts. *Scale* is the "
        "length of a mode's expected gradient along the true one, in lengths of the true one; *across* the share of it that points elsewhere; "
        "*total variance* the trace of the covariance of one rollout's gradient. Paragraphs that begin with *a reading* say what may lie "
        "behind the figures; no figure here tests them.",
    )
    for number in arguments.only:
        SECTIONS[number - 1](page)
    arguments.out.write_text("\n".join(page.lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
