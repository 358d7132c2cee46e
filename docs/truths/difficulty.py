"""When dividing by the standard deviation bends the gradient: a reward of 0 or 1, and prompts that differ."""

from collections.abc import Sequence

import numpy as np

from pgrl_cli.plots.style import save
from truths.asking import ROUNDING, Truths, below, middle, numbers, percent, rows_of
from truths.deltas import of_mode
from truths.pictures import grid, looks_of, named

BINARY = ("policy=table", "reward_fn=sort_exact_reward", "prompts=[[1,0,2],[2,1,0],[0,2,1]]", "learning_rate=0.03")
"""Three prompts that are alike, and a reward of 0 or 1: a tabular policy begins with the same chances at each."""
BINARY_AGES = (0, 20, 40, 70, 100)


def difficulty(page: Truths) -> None:
    ages = tuple(sorted({0, *page.ages})) if page.ages[-1] < BINARY_AGES[-1] else BINARY_AGES
    three = page.of_ages(*BINARY, "--samples", "100", ages=ages)
    one = page.of_ages(*BINARY, "--samples", "100", "--prompts", "1", ages=ages)
    graded = page.of_seeds("--prompts", "1", "--samples", "100")
    mode = "normalized_rewards"
    across, alone = (of_mode(each, mode, "off_direction") for each in (three, one))
    page.section(
        "3. Where a reward is 0 or 1, dividing bends only as far as prompts differ in difficulty",
        holds=alone.max() < ROUNDING and across[0].max() < ROUNDING and across[1:].min() > 1e-3,
    )
    rates = np.stack([numbers(three, "baselines", "expected_reward", "values", p) for p in range(3)], axis=-1)
    deviations = np.sqrt(rates * (1 - rates))
    ratios = deviations.max(axis=-1) / deviations.min(axis=-1)
    _draw_difficulty(page, ages, ratios, across)
    page.picture("difficulty", "Share across the true gradient against how far the prompts' standard deviations differ")
    page.table(
        [
            "after epochs",
            "success rate of the hardest prompt",
            "of the easiest",
            "largest by smallest deviation",
            "across, three prompts",
            "the first alone",
        ],
        rows_of(
            ages,
            [middle(row) for row in rates.min(axis=-1)],
            [middle(row) for row in rates.max(axis=-1)],
            [middle(row) for row in ratios],
            [percent(row) if row.max() > ROUNDING else f"below {below(row)}" for row in across],
            [f"below {below(row)}" for row in alone],
        ),
    )
    page.say(
        "The standard deviation of a prompt's rewards is √(p(1-p)) for a success rate of p, which `pgrl diagnose` tells as the expected "
        f"reward V(s). The three prompts are alike, and a tabular policy begins with the same chance of 1 in 27 at each; it learns them one after the other, at a "
        "rate of 0.03. With the lecture's graded reward and policies one prompt is enough to bend: after ten epochs, with the first "
        f"alone, {percent(of_mode(graded, mode, 'off_direction'))} lies across.",
        "*A reading.* Two rewards leave a group nothing to say but how many were right, and with one prompt every such group pulls along "
        "the same line. Several prompts are weighed anew, each by one over its deviation: the gradient of the prompts together turns "
        "towards those that are nearly solved or nearly hopeless. Where one prompt alone still has a gradient, or all are "
        "alike, there is nothing to turn.",
    )


def _draw_difficulty(page: Truths, ages: Sequence[int], ratios: np.ndarray, across: np.ndarray) -> None:
    looks = looks_of(*[f"after {age} epochs" for age in ages])
    told = f"a tabular policy, three prompts, a reward of 0 or 1; marks: {page.seeds} seeds"
    marks = {name: {**look, "linestyle": "none"} for name, look in looks.items()}
    figure, [[panel]] = grid("normalized_rewards: unequal prompts bend the gradient", told, marks, columns=1)
    for look, x, y in zip(marks.values(), ratios, across, strict=True):
        panel.plot(x, 100 * y, markersize=4.2, label="_marks", **look)
    named(panel, "across the true gradient, %", "largest by smallest standard deviation of a prompt's rewards")
    save(figure, page.pictures / "difficulty.png")
