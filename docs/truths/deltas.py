"""What the lecture's delta modes do to the expected gradient, and to its noise."""

from typing import Any

import numpy as np

from pgrl_cli.plots.style import QUIET, save
from pgrl_cli.readings.deltas import accuracy
from truths.asking import LECTURE, ROUNDING, Truths, below, middle, numbers, percent, rows_of
from truths.pictures import draw_ages, draw_line, grid, looks_of, named, plain_numbers

SIZES = (2, 4, 8, 16, 32)
DOTS = "a dot for each of {} seeds, a line through their medians"
TRAINED = "epochs of training"


def of_mode(diagnoses: np.ndarray, mode: str, what: str) -> np.ndarray:
    return numbers(diagnoses, "delta_modes", mode, what)


def accuracies_of(diagnoses: np.ndarray, mode: str) -> np.ndarray:
    """What the terminal tells of a mode, from its scale's direction and its signal to noise."""

    def told(diagnosis: dict[str, Any]) -> float:
        found = accuracy(diagnosis["delta_modes"][mode])
        return np.nan if found is None else found[0]

    return np.vectorize(told, otypes=[float])(diagnoses)


def centering(page: Truths) -> None:
    sizes = page.asked(LECTURE, "num_responses=$SIZE", "--after", "0", SIZE=SIZES)
    ages = page.of_ages()
    exact = np.array([bool(d["delta_modes"]["centered_rewards"]["exact"]) for d in sizes])
    expected = np.array([(size - 1) / size for size in numbers(sizes, "subject", "group_size")])
    scales, size = of_mode(sizes, "centered_rewards", "scale"), int(numbers(ages, "subject", "group_size")[0, 0])
    errors = [*(scales - expected)[exact], *(of_mode(ages, "centered_rewards", "scale") - (size - 1) / size).flat]
    across = of_mode(ages, "centered_rewards", "off_direction")
    raw, centered = (of_mode(ages, mode, "total_variance") for mode in ("rewards", "centered_rewards"))
    page.section(
        f"1. Centering scales the gradient by (G-1)/G, bends nothing, and takes at least {100 * (1 - (centered / raw).max()):.0f} % of the "
        "noise away",
        holds=np.abs(errors).max() < ROUNDING and across.max() < ROUNDING and (centered < raw).all(),
    )
    _draw_centering(page, sizes, expected, raw, centered)
    page.picture(
        "centering", "Scale of the expected gradient by group size; total variance of raw and centered rewards"
    )
    page.table(
        [
            "after epochs",
            "scale of `centered_rewards`",
            "variance of `rewards`",
            "of `centered_rewards`",
            "one by the other",
        ],
        rows_of(
            page.ages,
            [middle(row, 3) for row in of_mode(ages, "centered_rewards", "scale")],
            [middle(row, 1) for row in raw],
            [middle(row) for row in centered],
            [middle(row, 0) for row in raw / centered],
        ),
    )
    page.say(
        f"Where every group can be gone through, which here goes up to {max(numbers(sizes, 'subject', 'group_size')[exact]):.0f} responses, the "
        f"scale differs from (G-1)/G by less than {below(errors)}, at every size, seed and age, and the share across the true gradient is "
        f"less than {below(across)}: rounding. {_sampled(sizes[~exact])}The mean of the *others* (`leave_one_out_rewards`) has a scale of 1, "
        "and (G/(G-1))² times the variance: the same estimate, made longer, and still with at least "
        f"{100 * (1 - (of_mode(ages, 'leave_one_out_rewards', 'total_variance') / raw).max()):.0f} % less noise than none.",
        "*A reading.* The mean of the group contains the response's own reward and takes a G-th of it away; that is all that it does to "
        "the expected gradient. The noise without a baseline is that of large rewards, which are much the same for every response: two or three "
        "points of five, right or wrong. The mean takes away what is the same.",
    )


def _sampled(sizes: np.ndarray) -> str:
    told = ""
    for found in sizes:
        mode, size = found["delta_modes"]["centered_rewards"], found["subject"]["group_size"]
        told += (
            f"With {size} responses the groups are a sample, and say {mode['scale']:.3f} ± {mode['standard_error']['scale']:.3f}, where "
            f"{(size - 1) / size:.3f} is expected. "
        )
    return told


def _draw_centering(
    page: Truths, sizes: np.ndarray, expected: np.ndarray, raw: np.ndarray, centered: np.ndarray
) -> None:
    looks = looks_of("rewards", "centered_rewards", "leave_one_out_rewards")
    told = f"left: seed 7 before training, grey (G-1)/G; right: {DOTS.format(page.seeds)}"
    figure, [[left, right]] = grid("What the group's mean does to the gradient", told, looks, columns=2)
    x = numbers(sizes, "subject", "group_size")
    left.plot(x, expected, color=QUIET, linewidth=5, alpha=0.4, solid_capstyle="round")
    for mode in ("centered_rewards", "leave_one_out_rewards"):
        draw_line(left, x, of_mode(sizes, mode, "scale"), looks[mode])
    left.set_xscale("log", base=2)
    left.set_xticks(x, [f"{size:.0f}" for size in x])
    left.set_ylim(0, 1.1)
    named(left, "scale of the gradient", "responses in a group")
    draw_ages(right, page.ages, [(looks["rewards"], raw), (looks["centered_rewards"], centered)])
    right.set_yscale("log")
    plain_numbers(right)
    named(right, "total variance", TRAINED)
    save(figure, page.pictures / "centering.png")


def dividing(page: Truths) -> None:
    sizes = page.asked(LECTURE, "num_responses=$SIZE", "--after", "0", SIZE=SIZES)
    ages = page.of_ages()
    across = of_mode(ages, "normalized_rewards", "off_direction")
    accuracies = [accuracies_of(ages, mode) for mode in ("centered_rewards", "normalized_rewards")]
    by = np.median(accuracies[1] / accuracies[0], axis=1)
    page.section(
        "2. Dividing by the standard deviation bends the gradient; one rollout is about as accurate with it as without",
        holds=across.min() > ROUNDING and np.abs(by - 1).max() < 0.05,
    )
    _draw_bend(page, "normalized", "normalized_rewards", ages, sizes)
    page.picture("normalized", "Share of the expected gradient of normalized rewards that is across the true one")
    page.table(
        ["after epochs", "across the true gradient", "scale", "accuracy of a rollout, centered", "normalized"],
        rows_of(
            page.ages,
            [percent(row) for row in across],
            [middle(row) for row in of_mode(ages, "normalized_rewards", "scale")],
            *[[middle(row) for row in mode] for mode in accuracies],
        ),
    )
    few, many = (sizes[which]["delta_modes"]["normalized_rewards"]["off_direction"] for which in (0, -1))
    worst = across.max()
    page.say(
        "Accuracy is the expected gradient's part along the true one, by the root mean square length of a rollout's: 1 without any "
        f"error. That of normalized by that of centered rewards has at every age a median within {100 * np.abs(by - 1).max():.0f} % of 1.",
        f"With {SIZES[0]} responses {100 * few:.1f} % lies across, with {SIZES[-1]} {100 * many:.1f} % (seed 7, before training). No number of "
        f"responses averages that out: with the most that is seen here, {100 * worst:.0f} %, an estimate without any noise would have an "
        f"accuracy of {(1 - worst**2) ** 0.5:.2f}.",
        "*A reading.* With ten responses a rollout's own noise is several times as large as the bend, and hides it. Dividing also makes "
        "gradients longer where rewards differ little; Adam, which rescales its steps, hardly sees that.",
    )


def _draw_bend(page: Truths, name: str, mode: str, ages: np.ndarray, sizes: np.ndarray) -> None:
    looks = looks_of(mode)
    told = f"left: {DOTS.format(page.seeds)}; right: seed 7 before training"
    figure, [[left, right]] = grid(f"{mode}: share of the gradient across the true one", told, {}, columns=2)
    draw_ages(left, page.ages, [(looks[mode], 100 * of_mode(ages, mode, "off_direction"))])
    named(left, "across, %", TRAINED)
    x = numbers(sizes, "subject", "group_size")
    draw_line(right, x, 100 * of_mode(sizes, mode, "off_direction"), looks[mode])
    right.set_xscale("log", base=2)
    right.set_xticks(x, [f"{size:.0f}" for size in x])
    named(right, "across, %", "responses in a group")
    for panel in (left, right):
        panel.set_ylim(bottom=0)
    save(figure, page.pictures / f"{name}.png")


def keeping_the_best(page: Truths) -> None:
    ages = page.of_ages()
    across, scale = (of_mode(ages, "max_rewards", what) for what in ("off_direction", "scale"))
    more = across > of_mode(ages, "normalized_rewards", "off_direction")
    noise = of_mode(ages, "max_rewards", "total_variance") / of_mode(ages, "leave_one_out_rewards", "total_variance")
    page.section(
        f"5. `max_rewards` bends the gradient more than dividing does in {more.sum()} of {more.size} policies, and makes it longer",
        holds=more.mean() > 0.5 and scale.min() > 1,
    )
    _draw_best(page, across, scale)
    page.picture("max", "Share across and scale of the expected gradient of max rewards, by age")
    page.table(
        [
            "after epochs",
            "across the true gradient",
            "scale",
            "variance by that of the mean of the others",
            "responses needed",
        ],
        rows_of(
            page.ages,
            [percent(row) for row in across],
            [middle(row) for row in scale],
            [middle(row, 0) for row in noise],
            [_needed(row) for row in ages],
        ),
    )
    size, reached = int(numbers(ages, "subject", "group_size")[0, 0]), _needed_of(ages, "centered_rewards")
    page.say(
        f"Needed are so many responses to each prompt until a rollout is as accurate as the best mode's is with {size}; more than "
        f"{64 * size} are not tried. With `centered_rewards` it takes a median of {np.median(reached):.0f} over all these policies, and at most "
        f"{reached.max():.0f}.",
        "*A reading.* It pays a response for being the best of its group, and so mixes how good it is with how good its company happened "
        "to be. Nothing is ever subtracted: the noise is again that of whole rewards.",
    )


def _needed_of(diagnoses: np.ndarray, mode: str) -> np.ndarray:
    return np.nan_to_num(of_mode(diagnoses, mode, "responses_needed"), nan=np.inf)


def _needed(diagnoses: np.ndarray) -> str:
    needed = _needed_of(diagnoses, "max_rewards")
    known = needed[np.isfinite(needed)]
    missing = len(needed) - len(known)
    if not len(known):
        return f"out of reach in all {missing}"
    return middle(known, 0) + (f", out of reach in {missing} of {len(needed)}" if missing else "")


def _draw_best(page: Truths, across: np.ndarray, scale: np.ndarray) -> None:
    looks: dict[str, Any] = looks_of("max_rewards")
    told = f"{DOTS.format(page.seeds)}; grey: the true gradient's own length"
    figure, [[left, right]] = grid("max_rewards: how much it bends and stretches the gradient", told, {}, columns=2)
    draw_ages(left, page.ages, [(looks["max_rewards"], 100 * across)])
    left.set_ylim(bottom=0)
    named(left, "across, %", TRAINED)
    right.axhline(1, color=QUIET, linewidth=1.4)
    draw_ages(right, page.ages, [(looks["max_rewards"], scale)])
    right.set_ylim(bottom=0)
    named(right, "scale", TRAINED)
    save(figure, page.pictures / "max.png")
