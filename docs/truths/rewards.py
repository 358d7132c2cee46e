"""What a temperature, a reward and a group of equal rewards do to learning."""

import numpy as np

from pgrl_cli.plots.style import QUIET, save
from truths.asking import Truths, middle, numbers, percent, rows_of
from truths.deltas import DOTS, TRAINED, of_mode
from truths.pictures import draw_ages, draw_line, grid, looks_of, named

SURE = 4.0
"""Standard errors."""


def cold_samples(page: Truths) -> None:
    ages = page.of_ages()
    across, scale, earned = (
        numbers(ages, "traps", "cold_samples", n) for n in ("off_direction", "scale", "expected_reward")
    )
    dividing = of_mode(ages, "normalized_rewards", "off_direction")
    higher = earned - numbers(ages, "truth", "expected_reward")
    page.section(
        "10. Sampling at a temperature of 0.6 and scoring at 1 bends the gradient more than dividing does",
        holds=(across > dividing).mean() > 0.9,
    )
    looks = looks_of("sampled at 0.6, scored at 1", "normalized_rewards")
    told = DOTS.format(page.seeds)
    figure, [[left, right]] = grid("Samples of temperature 0.6, scored at 1", told, looks, columns=2)
    cold, divided = looks.values()
    draw_ages(left, page.ages, [(cold, 100 * across), (divided, 100 * dividing)])
    left.set_ylim(bottom=0)
    named(left, "across, %", TRAINED)
    right.axhline(0, color=QUIET, linewidth=0.9)
    draw_ages(right, page.ages, [(cold, higher)])
    named(right, "reward seen, less true one", TRAINED)
    save(figure, page.pictures / "cold.png")
    page.picture("cold", "Share of the expected gradient across the true one, and how much too high the reward looks")
    page.table(
        [
            "after epochs",
            "across the true gradient",
            "by `normalized_rewards`",
            "scale",
            "reward seen, less the true one",
        ],
        rows_of(
            page.ages,
            [percent(row) for row in across],
            [percent(row) for row in dividing],
            [middle(row) for row in scale],
            [middle(row, 3) for row in higher],
        ),
    )
    page.say(
        f"With `centered_rewards`, whose scale is {numbers(ages, 'delta_modes', 'centered_rewards', 'scale')[0, 0]:.2f} on samples that are what they should be. More bent than "
        f"with `normalized_rewards` are {(across > dividing).sum()} of {across.size} policies; the reward looks too high in {(higher > 0).sum()}.",
        "*A reading.* Cold samples hold the likely responses more often than the policy gives them, and hardly any of the rare ones, from "
        "which there was something to learn: the older the policy, the less of the gradient is left. No loss and no reward curve shows it.",
    )


def loopholes(page: Truths) -> None:
    ages = page.of_ages()
    prompts = range(int(numbers(ages, "subject", "prompts").flat[0]))
    wrong, reward, most = (
        np.stack([numbers(ages, "reward", "prompts", p, f"{what}") for p in prompts], axis=-1)
        for what in ("best_wrong_probability", "best_wrong_reward", "maximum_reward")
    )
    right, likely = numbers(ages, "reward", "exact_match"), wrong.mean(axis=-1)
    page.section(
        f"11. {_points(reward)} of {_points(most)} points can be had without sorting, and that is what training finds",
        holds=bool((reward < most).all()) and np.median(likely[-1]) > 0.5 > np.median(right[-1]) and _rises(likely),
    )
    looks = looks_of("a best wrong response", "the right response")
    told = f"probability, averaged over the prompts; {DOTS.format(page.seeds)}"
    figure, [[panel]] = grid("Where the probability goes", told, looks, columns=1)
    draw_ages(panel, page.ages, list(zip(looks.values(), (likely, right), strict=True)))
    named(panel, "probability under the policy", TRAINED)
    save(figure, page.pictures / "loopholes.png")
    page.picture("loopholes", "Probability of the likeliest best wrong response, and of the right one, by age")
    page.table(
        [
            "after epochs",
            "expected reward",
            "probability of a best wrong response",
            "of the right one",
            "correlation of reward and being right",
        ],
        rows_of(
            page.ages,
            [middle(row) for row in numbers(ages, "truth", "expected_reward")],
            [middle(row) for row in likely],
            [middle(row, 3) for row in right],
            [middle(row) for row in numbers(ages, "reward", "correlation")],
        ),
    )
    last = wrong[-1]
    page.say(
        "A best wrong response earns the most of all that are not right; of equals it is the likeliest. After "
        f"{page.ages[-1]} epochs one has more than half of the probability at {(last > 0.5).sum()} of {last.size} prompts (each seed's counted), the "
        f"right response at {_solved(ages[-1])}.",
        "*A reading.* A policy that nearly always gives a response worth four points meets others that earn as much or less; the right one, worth "
        "one point more, it samples too seldom to hear of it.",
    )


def _points(rewards: np.ndarray) -> str:
    return middle(rewards.ravel(), 0).partition(" ")[0]


def _rises(values: np.ndarray) -> bool:
    return bool((np.diff(np.median(values, axis=1)) > 0).all())


def _solved(diagnoses: np.ndarray) -> int:
    """At how many prompts the expected reward is nearer to the most than to what a wrong response can earn."""
    return sum(
        value > (prompt["maximum_reward"] + prompt["best_wrong_reward"]) / 2
        for found in diagnoses
        for value, prompt in zip(
            found["baselines"]["expected_reward"]["values"], found["reward"]["prompts"], strict=True
        )
    )


def informative_groups(page: Truths) -> None:
    ages = page.of_ages()
    sizes = [int(size) for size in ages[0, 0]["reward"]["informative_groups"]]
    expected = np.stack([numbers(ages, "reward", "informative_groups", str(size)) for size in sizes], axis=-1)
    size = int(numbers(ages, "reward", "observed_informative_groups", "size").flat[0])
    seen, error = (numbers(ages, "reward", "observed_informative_groups", what) for what in ("share", "standard_error"))
    known = expected[..., sizes.index(size)]
    off = np.abs(seen - known) / np.where(error > 0, error, np.inf)
    end = np.median(expected[-1], axis=0)
    page.section(
        f"12. After {page.ages[-1]} epochs {100 * end[sizes.index(size)]:.0f} % of the groups of ten still teach, and {100 * end[-1]:.0f} % of groups of {sizes[-1]}",
        holds=off.max() < SURE and _rises(-known),
    )
    _draw_groups(page, sizes, expected, known, seen)
    page.picture("groups", "Share of groups whose rewards are not all equal, by size and age, expected and observed")
    shown = [each for each in sizes if each in {2, size, 32, 64}]
    page.table(
        [
            "after epochs",
            *[f"expected, G = {each}" for each in shown],
            f"observed, G = {size}",
            "largest difference, standard errors",
        ],
        rows_of(
            page.ages,
            *[[percent(row) for row in expected[..., sizes.index(each)]] for each in shown],
            [percent(row) for row in seen],
            [f"{row.max():.1f}" for row in off],
        ),
    )
    page.say(
        "Expected: one less the sum over rewards of q^G, q being the probability of a response that earns this reward, averaged over prompts; "
        f"observed: in {numbers(ages, 'subject', 'rollouts').flat[0]:,.0f} rollouts of each policy. In a run, `expected_zero_variance_groups` in `metrics.jsonl` is one less the first, and "
        "`zero_variance_groups` one less the second.",
        f"After {page.ages[-1]} epochs {sizes[-1] / size:.1f} times the responses bring {end[-1] / end[sizes.index(size)]:.1f} times the groups that teach.",
        "*A reading.* A policy that has made up its mind gives the same answer to all of a group. A larger group meets another one nearly in "
        "proportion to its size, so little is wasted and little is won: what it then learns from is one odd response among many.",
    )


def _draw_groups(page: Truths, sizes: list[int], expected: np.ndarray, known: np.ndarray, seen: np.ndarray) -> None:
    looks = looks_of(*[f"after {age} epochs" for age in page.ages])
    told = f"left: expected, medians over {page.seeds} seeds; right: groups of ten, a mark for each seed, observed against expected"
    figure, [[left, right]] = grid("Groups in which not all responses earn the same", told, looks, columns=2)
    for look, each in zip(looks.values(), expected, strict=True):
        draw_line(left, sizes, 100 * np.median(each, axis=0), look)
    left.set_xscale("log", base=2)
    left.set_xticks([each for each in sizes if each & (each - 1) == 0], minor=False)
    left.set_xticklabels([str(each) for each in sizes if each & (each - 1) == 0])
    named(left, "groups that teach, %", "responses in a group")
    right.plot([0, 100], [0, 100], color=QUIET, linewidth=0.9)
    for look, x, y in zip(looks.values(), known, seen, strict=True):
        right.plot(100 * x, 100 * y, markersize=3.8, label="_marks", **{**look, "linestyle": "none"})
    named(right, "observed, %", "expected, %")
    for panel in (left, right):
        panel.set_ylim(0, 103)
    save(figure, page.pictures / "groups.png")
