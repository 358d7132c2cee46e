"""What a baseline is worth, and what is lost where it is estimated."""

import numpy as np

from pgrl_cli.plots.style import QUIET, save
from pgrl_cli.readings.numbers import number
from truths.asking import ROUNDING, Truths, middle, numbers, rows_of
from truths.deltas import DOTS, TRAINED, of_mode
from truths.pictures import draw_ages, draw_line, grid, looks_of, named, plain_numbers

TOLD = {
    "none": "none",
    "old_policy_value": "initial policy's V(s)",
    "expected_reward": "V(s)",
    "leave_one_out": "mean of the others",
    "optimal": "optimal b*(s)",
}
"""Those that leave the gradient as long as it is."""
LOOKS = (*TOLD.values(), "b*(s), estimated")
LARGE = 32
TWO_STATES = "lecture/two_state"


def variances(diagnoses: np.ndarray, name: str) -> np.ndarray:
    return numbers(diagnoses, "baselines", name, "total_variance")


def baselines(page: Truths) -> None:
    ages = page.of_ages()
    large = page.of_seeds(f"num_responses={LARGE}", "--after", "0", "--samples", "1024")
    others = variances(ages, "leave_one_out")
    best, mean = variances(ages, "optimal") / others, variances(ages, "expected_reward") / others
    estimated = of_mode(ages, "optimal_baseline", "total_variance") / others
    of_large = of_mode(large, "optimal_baseline", "total_variance") / variances(large, "leave_one_out")
    limit = variances(large, "optimal") / variances(large, "leave_one_out")
    page.section(
        f"6. The optimal baseline would take another {100 * (1 - np.median(best)):.0f} % of the noise away; estimated from nine others, it takes none",
        holds=(best < mean).all() and 0.95 < np.median(estimated) < 1.05 and np.median(of_large) < 0.95,
    )
    _draw(page, ages, best, mean, estimated)
    page.picture("baselines", "Total variance of each baseline by age, and by that of the mean of the others")
    page.table(
        ["after epochs", "none", "initial policy's V(s)", "V(s)", "b*(s)", "b*(s) estimated: `optimal_baseline`"],
        rows_of(
            page.ages,
            *[
                [middle(row) for row in variances(ages, name) / others]
                for name in ("none", "old_policy_value", "expected_reward", "optimal")
            ],
            [middle(row) for row in estimated],
        ),
    )
    page.say(
        "Total variances, by that of the mean of the group's others, which leaves the gradient as long as it is; the group's own mean is the "
        "same estimate, shorter. b*(s) = E[‖∇log π‖² R] / E[‖∇log π‖²] is the constant with the least variance (Greensmith, Bartlett and "
        "Baxter, 2004). `optimal_baseline` estimates it from the group's others, with the scores of the logits in place of the parameters'.",
        f"In groups of ten the estimate takes the variance to {middle(estimated.ravel())} times that of the plain mean over all these "
        f"policies; in groups of {LARGE}, before training, to {middle(of_large)}, where the constant itself takes it to {middle(limit)}.",
        f"V(s) of the policy *before* training, a critic that never learned, has {middle((variances(ages, 'old_policy_value') / others)[-1], 1)} times "
        "the variance of the mean at the last age.",
        "*A reading.* The mean is near enough to the expected reward that nothing is gained by knowing that exactly. b* lies elsewhere, where "
        "large scores are: responses that the policy seldom gives. Of nine others few are such, so the estimate is itself noise.",
    )


def _draw(page: Truths, ages: np.ndarray, best: np.ndarray, mean: np.ndarray, estimated: np.ndarray) -> None:
    looks = looks_of(*LOOKS)
    told = f"groups of ten; {DOTS.format(page.seeds)}"
    figure, [[left, right]] = grid("What baselines leave of the noise", told, looks, columns=2, high=2.0)
    each = {TOLD[name]: variances(ages, name) for name in TOLD}
    each[LOOKS[-1]] = of_mode(ages, "optimal_baseline", "total_variance")
    for name, values in each.items():
        draw_line(left, range(len(page.ages)), np.median(values, axis=1), looks[name])
    left.set_xticks(range(len(page.ages)), list(map(str, page.ages)))
    left.set_yscale("log")
    plain_numbers(left)
    named(left, "total variance (medians)", TRAINED)
    right.axhline(1, color=QUIET, linewidth=0.9)
    series = [("V(s)", mean), ("b*(s), estimated", estimated), ("optimal b*(s)", best)]
    draw_ages(right, page.ages, [(looks[name], values) for name, values in series])
    right.set_ylim(bottom=0)
    named(right, "relative to mean of others", TRAINED)
    save(figure, page.pictures / "baselines.png")


def two_states(page: Truths) -> None:
    found = page.asked(TWO_STATES, "--after", "$AGE", AGE=page.ages)
    spread = found[0]["spread"]
    each = {name: variances(found, name) for name in TOLD}
    each["estimated"] = of_mode(found, "optimal_baseline", "total_variance")
    rounding = ROUNDING * each["none"]
    page.section(
        "7. In the lecture's two states V(s) takes the deltas' deviation from 5.323 to 1.155, and b*(s) all of the noise",
        holds=f"{spread['rewards']:.3f} {spread['centered']:.3f}" == "5.323 1.155"
        and bool((each["optimal"] < rounding).all()),
    )
    _draw_two_states(page, {name: np.where(v < rounding, np.nan, v) for name, v in each.items()})
    page.picture("two_states", "Total variance of one rollout's gradient with each baseline, in two states, by age")
    shown = ("none", "leave_one_out", "expected_reward", "estimated", "optimal")
    cells = [[number(v, least) for v, least in zip(each[name], rounding, strict=True)] for name in shown]
    header = ["none", "mean of the others", "V(s)", "b*(s) estimated: `optimal_baseline`", "b*(s)"]
    page.table(["after epochs", *header], rows_of(page.ages, *cells))
    values = [found[age]["baselines"][name]["values"] for age in (0, -1) for name in ("expected_reward", "optimal")]
    v_first, b_first, v_last, b_last = (" and ".join(f"{value:.2f}" for value in pair) for pair in values)
    page.say(
        f"The rewards are 11 and 9 in one state, 0 and 2 in the other. Over these {spread['responses']}, each counted once, the standard deviation (n-1) "
        f"of the deltas falls from {spread['rewards']:.3f} to {spread['centered']:.3f} when each state's mean is taken away. Before training V(s) and b*(s) are both "
        f"{v_first if v_first == b_first else f'{v_first}, and {b_first}'}; after {page.ages[-1]} epochs V(s) is {v_last} and b*(s) {b_last}. Total variances, groups of ten, seed 7.",
        "*A reading.* Most of what is earned depends on the state, and no action can change that. With two actions the two scores point in "
        "opposite directions, so a constant can be chosen with which both pull equally, whichever is sampled: nothing is left to "
        "chance. It is the reward's mean only while both actions are equally likely; later it lies nearer to the reward of the rare one.",
    )


def _draw_two_states(page: Truths, each: dict[str, np.ndarray]) -> None:
    looks = looks_of(*LOOKS)
    told = "lecture/two_state, seed 7, groups of ten; what is missing is zero, as is b*(s) everywhere"
    shown = {
        TOLD.get(name, LOOKS[-1]): values
        for name, values in each.items()
        if name not in ("optimal", "old_policy_value")
    }
    figure, [[panel]] = grid(
        "What baselines leave of the noise in two states", told, {name: looks[name] for name in shown}, columns=1
    )
    for name, values in shown.items():
        draw_line(panel, range(len(page.ages)), values, looks[name])
    panel.set_xticks(range(len(page.ages)), list(map(str, page.ages)))
    panel.set_yscale("log")
    plain_numbers(panel)
    named(panel, "total variance", TRAINED)
    save(figure, page.pictures / "two_states.png")
