"""Which of a response's tokens a reward is put down to: noise and bias over all responses, and learning."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from page import Findings, arrays, cells, last, mean_of, pgrl
from torch import Tensor
from truths.asking import below, middle, percent
from truths.pictures import draw_line, grid, looks_of, named, plain_numbers

from pgrl_cli.diagnose import at_run
from pgrl_cli.diagnosis import credit
from pgrl_cli.diagnosis.population import Population, enumerated
from pgrl_cli.diagnosis.truth import true_gradient
from pgrl_cli.equations.returns import gae, reward_to_go
from pgrl_cli.plots.style import save
from pgrl_cli.runs import Run

AGES = (0, 30, 100)
"""Epochs after which policies are looked at."""
FIXED = ("optimizer=sgd", "learning_rate=1e-30", "critic_optimizer=adam", "critic_learning_rate=3e-3")
"""A policy that no step moves, for float32 knows no number so near to another."""
RAW, CENTERED, CRITIC, EXACT, TO_GO = (
    "outcome",
    "outcome, centered",
    "GAE, critic",
    "GAE, true values",
    "process, to go",
)
"""What is drawn."""
LAMBDAS = {CRITIC: (1.0, 0.95, 0.0), EXACT: (1.0, 0.95, 0.0)}
DRAWN = {RAW: RAW, CENTERED: CENTERED, CRITIC: f"{CRITIC}, λ 0.95", EXACT: f"{EXACT}, λ 0.95", TO_GO: TO_GO}
"""The row of the table that each line of the picture is."""
CELLS = {
    RAW: "reward_fn=partial,delta_mode=rewards",
    CENTERED: "reward_fn=partial,delta_mode=centered_rewards",
    CRITIC: "reward_fn=partial,delta_mode=gae",
    TO_GO: "reward_fn=digits,delta_mode=reward_to_go",
    "GAE, critic, process": "reward_fn=digits,delta_mode=gae",
}
"""The sweep's cells, and what they are called here."""
ROUNDING = 1e-6
"""Of rewards, which are float32."""
APART = 0.09
"""Places of kinds at one age in the picture, so that their bars do not hide each other."""
SMOOTH = 10
"""Epochs that a point of a learning curve is averaged over."""


def credit_assignment(page: Findings) -> None:
    found, (by_critics, by_truth) = _measured(page)
    curves = {policy: _learned(page, *words) for policy, words in POLICIES.items()}
    bias = {row: numbers[0] for row, numbers in found.items()}
    variance = {row: numbers[1] for row, numbers in found.items()}
    unbiased = np.concatenate([bias[row].ravel() for row in found if row not in BIASED])
    falling = [variance[row] for row in (RAW, TO_GO, CENTERED, f"{EXACT}, λ 1")]
    page.section(
        "3. Rewards to go are less noisy than whole outcomes, a baseline takes away more noise, and true values of states still more",
        holds=all(np.median(after / before) < 1 for before, after in pairwise(falling)),
    )
    _draw(page, variance, curves)
    page.picture("credit", "Total variance of one estimate by age, and learning curves, for five kinds of credit")
    header = ["advantage", "off the true gradient", *(f"variance, after {age}" for age in AGES)]
    page.table([*header, f"signal to noise, after {AGES[-1]}"], [_row(row, *numbers) for row, numbers in found.items()])
    page.say(
        "Copy three letters out of two, and end: a transformer of width 16 has 31 responses to each of eight prompts, and all are gone through. "
        "An estimate is that of one response to each prompt, `response_sum`, with respect to the parameters. *Outcome* is `partial`, the share "
        "of right places, paid for the whole response and put down to every token; *centered*: less the prompt's true expected reward, which "
        "a large group's mean comes to. *Process* is `digits`, the same sum for every response, paid place by place, and *to go* what is still to come. GAE has "
        "the outcome, paid at the last token. Its critic has learned (`monte_carlo`) from the fixed policy in as many epochs as the config has; *true values* are sums over all "
        f"responses. *Off*: the length of the expected gradient's difference from the true one, by the true one's. Each figure is the median over {page.seeds} seeds, and "
        "in brackets the least and the largest; *off* over all ages, too. Seeds differ more than kinds of credit do, so a column's medians are of different seeds; below, noise is compared seed by seed.",
        f"Without a trained critic, or with one and λ = 1, no expected gradient is off by more than {below(unbiased)} of the true one. With "
        f"λ < 1 what the critic has wrong bends it; the critics explain {_share(by_critics)} of the variance of what is to come, where true values explain {_share(by_truth)}. Noise by that of the raw outcome, over all "
        f"ages and seeds: rewards to go {_by_raw(variance, TO_GO)}, the centered outcome {_by_raw(variance, CENTERED)}, GAE with a critic and λ 0.95 "
        f"{_by_raw(variance, DRAWN[CRITIC])}, with true values and λ 1 {_by_raw(variance, f'{EXACT}, λ 1')}, and with λ 0 {_by_raw(variance, f'{EXACT}, λ 0')}. "
        "Rewards to go here have no baseline: GAE with true values and λ 1 is what they are with one, since with true values it makes no difference when a reward is paid.",
    )
    for policy, data in curves.items():
        page.say(f"In practice, {policy}, {page.seeds} seeds; an epoch is eight prompts with eight responses each:")
        page.table(["", "reward, all epochs", "last ten"], [_ends(name, each) for name, each in data.items()])
    page.say(
        "*A reading.* A token can earn nothing for what was written before it, so rewards that lie behind it are noise to it: that is what "
        "rewards to go leave out. A baseline takes away what is to be expected, which is another part of the noise; values of states do both. "
        "What a run gains from it depends on where its noise comes from: a group of eight has a baseline of its own, which rewards to go have not, and a "
        "critic has to be learned first; one that explains next to nothing is one baseline for all states.",
    )


POLICIES: Mapping[str, Sequence[str]] = {
    "the transformer": (),
    "a table, whose tokens do not depend on each other": ("policy=table", "learning_rate=1e-2"),
}
BIASED = tuple(f"{CRITIC}, λ {part:g}" for part in LAMBDAS[CRITIC] if part < 1)
"""Rows whose expectation is not the true gradient."""


def _measured(page: Findings) -> tuple[dict[str, tuple[np.ndarray, ...]], tuple[np.ndarray, np.ndarray]]:
    """How far each kind is off, its total variance and its signal to noise; what critics and true values explain.

    [age seed] each.
    """
    every, explained = [], []
    for age in AGES:
        folder = _critics(page, age)
        for seed in range(page.seeds):
            with at_run(Run(folder), seed) as subject:
                population = enumerated(subject)
                every.append(_of_policy(population))
                explained.append(_explained(population))
    shape = (len(AGES), page.seeds)
    found = {row: tuple(np.reshape([each[row][k] for each in every], shape) for k in range(3)) for row in every[0]}
    by_critics, by_truth = (np.reshape(column, shape) for column in zip(*explained, strict=True))
    return found, (by_critics, by_truth)


def _explained(population: Population) -> tuple[float, float]:
    """The share of the variance of what is still to come that the critic's values explain, and that true ones do.

    Over tokens, each as likely as it is drawn.
    """
    rewards = credit.token_rewards(population)
    to_come = reward_to_go(rewards)
    weights = population.weights[..., None] * population.mask

    def variance(values: Tensor) -> Tensor:
        mean = (weights * values).sum() / weights.sum()
        return (weights * (values - mean).square()).sum()

    known = credit.critics_values(population), credit.true_values(population, rewards)
    by_critic, by_truth = (float(1 - variance(to_come - each[..., :-1]) / variance(to_come)) for each in known)
    return by_critic, by_truth


def _critics(page: Findings, age: int) -> Path:
    """A run whose policies are those after so many epochs, and whose critics have learned what those are worth."""
    seeds = f"seeds={page.seeds}"
    if age == 0:
        return _trained(page, "CRITIC_0", seeds, *FIXED)
    policy = _trained(page, f"POLICY_{age}", seeds, f"epochs={age}")
    return _trained(page, f"CRITIC_{age}", seeds, f"init_from={policy}", "warm_start=null", *FIXED)


def _trained(page: Findings, name: str, *words: str) -> Path:
    keys = {word.partition("=")[0] for word in words}
    others = [word for word in page.overrides if word.partition("=")[0] not in keys]
    given = ["--config", "family/credit", "-q", *words, *others]
    folder = Path(pgrl("train", *given, "--runs-dir", str(page.runs)).strip())
    shown = page.typed("train", *given)
    for known, variable in page.names.items():
        shown = shown.replace(str(known), variable)
    page.names[folder] = f"${name}"
    page.ran.append(f"{name}=$({shown})")
    return folder


def _of_policy(population: Population) -> dict[str, tuple[float, float, float]]:
    truth = true_gradient(population)
    found = credit.estimates(population, _advantages(population))
    return {
        row: (float((each.mean - truth).norm() / truth.norm()), each.total_variance, each.signal_to_noise)
        for row, each in found.items()
    }


def _advantages(population: Population) -> dict[str, Tensor]:
    """[prompt response token] by row, the last axis 1 where a response's tokens all have the same."""
    subject = population.subject
    outcome = credit.token_rewards(population)
    process = subject.parts.task.rewards["digits"](subject.prompts, population.responses).double()
    torch.testing.assert_close(credit.at_the_end(population, process), outcome, rtol=0, atol=ROUNDING)
    whole = outcome.sum(dim=-1, keepdim=True)
    values = {CRITIC: credit.critics_values(population), EXACT: credit.true_values(population, outcome)}
    by_values = {
        f"{name}, λ {part:g}": gae(outcome, values[name], gae_lambda=part)
        for name, parts in LAMBDAS.items()
        for part in parts
    }
    return {RAW: whole, CENTERED: whole - values[EXACT][..., :1]} | by_values | {TO_GO: reward_to_go(process)}


def _learned(page: Findings, *words: str) -> dict[str, dict[str, np.ndarray]]:
    """What the sweep's cells have measured, by name."""
    folder = page.trained("sweep", "family/credit_modes", *words, f"seeds={page.seeds}")
    if words:  # another variable than the first sweep's
        page.names[folder] += "_TABLE"
        page.ran[-1] = page.ran[-1].replace("=", "_TABLE=", 1)
    runs = cells(folder)
    return {name: arrays(runs[label]) for name, label in CELLS.items()}


def _share(explained: np.ndarray) -> str:
    return middle(np.round(100 * explained.ravel()) + 0.0, 0, " %")


def _by_raw(variance: Mapping[str, np.ndarray], row: str) -> str:
    return middle((variance[row] / variance[RAW]).ravel())


def _row(name: str, bias: np.ndarray, variance: np.ndarray, signal: np.ndarray) -> list[str]:
    off = percent(bias) if bias.max() > ROUNDING else "no more than rounding"
    return [name, off, *(middle(row, 3) for row in variance), middle(signal[-1])]


def _ends(name: str, data: dict[str, np.ndarray]) -> list[str]:
    rewards = data["mean_reward"]
    return [name, mean_of(rewards.mean(axis=0), 3), mean_of(last(data, "mean_reward"), 3)]


def _draw(
    page: Findings, variance: Mapping[str, np.ndarray], curves: Mapping[str, Mapping[str, dict[str, np.ndarray]]]
) -> None:
    looks = looks_of(*DRAWN)
    told = (
        f"Left: one response to each prompt, as a share of the raw outcome's variance; medians over {page.seeds} seeds, bars from the least to the "
        f"largest; GAE with λ 0.95. Right: the transformer's mean reward over the seeds, averaged over {SMOOTH} epochs; no run has true values."
    )
    figure, [[left, right]] = grid("What credit costs in noise, and what it brings", told, looks, columns=2)
    for index, (name, row) in enumerate(DRAWN.items()):
        places = np.arange(len(AGES)) + (index - (len(DRAWN) - 1) / 2) * APART
        shares = variance[row] / variance[RAW]
        draw_line(left, places, np.median(shares, axis=1), looks[name])
        left.vlines(places, shares.min(axis=1), shares.max(axis=1), color=looks[name]["color"], linewidth=0.9)
    left.set_xticks(range(len(AGES)), list(map(str, AGES)))
    left.set_yscale("log")
    plain_numbers(left)
    named(left, "total variance, share", "epochs of training")
    for name in (RAW, CENTERED, CRITIC, TO_GO):
        rewards = next(iter(curves.values()))[name]["mean_reward"].mean(axis=1)
        windows = [rewards[start : start + SMOOTH].mean() for start in range(0, len(rewards), SMOOTH)]
        epochs = [min(start + SMOOTH, len(rewards)) for start in range(0, len(rewards), SMOOTH)]
        right.plot(epochs, windows, linewidth=1.4, markersize=3.0, label="_line", **looks[name])
    named(right, "mean reward", "epochs")
    save(figure, page.pictures / "credit.png")
