"""The weights that GRPO's z-score gives to right and wrong answers (Mroueh, 2025)."""

from math import sqrt
from pathlib import Path

import numpy as np

from pgrl_cli.plots.style import save
from truths import weights
from truths.asking import Truths
from truths.pictures import draw_line, grid, looks_of, named, plain_numbers
from truths.weights import expected_advantages, share_without_variance

SIZES = (2, 4, 10, 64)
RATES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
LARGE = 1000
"""Responses in a group that stands for all there are."""


def binary_weights(page: Truths) -> None:
    right = np.array([[expected_advantages(rate, size)[0] for rate in RATES] for size in SIZES])
    wrong = np.array([[expected_advantages(rate, size)[1] for rate in RATES] for size in SIZES])
    population = np.array([sqrt((1 - rate) / rate) for rate in RATES])
    most = np.array([(size - 1) / sqrt(size) for size in SIZES])
    ends = [expected_advantages(rate, LARGE)[0] * sqrt(rate / (1 - rate)) for rate in (RATES[0], RATES[-1])]
    far = max(abs(end - 1) for end in ends)
    page.section(
        "4. A right answer with success rate p is worth √((1-p)/p) to GRPO, and to a group of G never more than (G-1)/√G",
        holds=(right < most[:, None]).all() and np.allclose(right, -wrong[:, ::-1], atol=1e-9) and far < 0.02,
    )
    page.code("python", Path(weights.__file__).read_text(encoding="utf-8").partition('"""\n\n')[2].rstrip().split("\n"))
    _draw(page)
    page.picture(
        "binary", "Expected advantage of a right answer, and share of groups without variance, by success rate"
    )
    header = [
        "success rate p",
        *[f"right, wrong: G = {size}" for size in SIZES],
        "√((1-p)/p), -√(p/(1-p))",
        f"no variance, G = {SIZES[-2]}",
    ]
    rows = []
    for index, rate in enumerate(RATES):
        cells = [f"{right[s, index]:+.2f}, {wrong[s, index]:+.2f}" for s in range(len(SIZES))]
        limit = f"{population[index]:+.2f}, {-1 / population[index]:+.2f}"
        rows.append([f"{rate:g}", *cells, limit, f"{100 * share_without_variance(rate, SIZES[-2]):.1f} %"])
    page.table(header, rows)
    ten, rare = SIZES.index(10), RATES.index(0.01)
    page.say(
        "Youssef Mroueh (2025, \"Reinforcement learning with verifiable rewards: GRPO's effective loss, dynamics, and success "
        f"amplification\") works the population's weights out; groups of {LARGE:,} come within {100 * far:.1g} % of them at both ends of the "
        "table. The figures are exact sums over how many of the others are right, through the package's own `normalized_rewards`: a "
        "standard deviation with n-1, 1e-5 added, and an advantage of 0 where a group's rewards are all equal.",
        f"A lone right answer among G has an advantage of (G-1)/√G, and no answer has more. So at a success rate of {RATES[rare]:g} "
        f"the weight is {right[ten, rare]:.2f} in groups of {SIZES[ten]} and {population[rare]:.2f} in the population; a wrong one's is the mirror image, "
        f"at a rate of {1 - RATES[rare]:g}. At a rate of a half, groups of {SIZES[0]} pay {right[0, RATES.index(0.5)]:.2f} instead of 1: half of them "
        "have no variance. All right or all wrong is what a share of p^G + (1-p)^G of the groups is, and these teach nothing: at "
        f"{RATES[rare]:g}, {100 * share_without_variance(RATES[rare], 10):.0f} % of the groups of 10 and {100 * share_without_variance(RATES[rare], 64):.0f} % of those of 64.",
        "*A reading.* Where successes are rare in every group's eyes, each prompt's gradient is stretched by the same (G-1)/√G and none is "
        "preferred; the amplification of rare successes that the population promises needs groups that see several of them.",
    )


def _draw(page: Truths) -> None:
    looks = looks_of("population", *[f"G = {size}" for size in SIZES])
    looks["population"] = {**looks["population"], "marker": None}
    told = "a wrong answer's advantage at p is a right one's at 1-p, with the other sign"
    figure, [[left, right]] = grid(
        "What a right answer is worth, and groups that teach nothing", told, looks, columns=2
    )
    rates = 1 / (1 + np.exp(-np.linspace(-5.3, 5.3, 60)))  # closer to each other where curves are steep
    draw_line(left, rates, np.sqrt((1 - rates) / rates), looks["population"])
    for size in SIZES:
        look = {**looks[f"G = {size}"], "markevery": (SIZES.index(size) * 3, 12)}
        draw_line(left, rates, [expected_advantages(float(rate), size)[0] for rate in rates], look)
        draw_line(right, rates, [100 * share_without_variance(float(rate), size) for rate in rates], look)
    left.set_yscale("log")
    left.set_ylim(0.03, 15)
    plain_numbers(left)
    named(left, "advantage of a right answer", "success rate p")
    named(right, "groups without variance, %", "success rate p")
    save(figure, page.pictures / "binary.png")
