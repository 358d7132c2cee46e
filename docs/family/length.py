"""Whether the way token losses are averaged makes wrong answers longer."""

import warnings
from collections.abc import Mapping

import numpy as np
import torch
from page import Findings, arrays, cells, mean_of
from truths.pictures import grid, looks_of, named

from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.folders import config_of
from pgrl_cli.plots.style import save
from pgrl_cli.registry import apply
from pgrl_cli.statistics import bootstrap_interval, mean

LENGTHS = (2, 4, 8)
"""Of the responses whose tokens are weighed, in tokens."""
BUDGET = 16.0
"""Of `budget_mean` in that table, in tokens."""
GRPO, DR_GRPO = (
    "average=response_mean,delta_mode=normalized_rewards",
    "average=budget_mean,delta_mode=centered_rewards",
)
NAMES = {
    GRPO: "GRPO",
    "average=response_mean,delta_mode=centered_rewards": "GRPO, only centered",
    "average=budget_mean,delta_mode=normalized_rewards": "Dr. GRPO, normalized",
    DR_GRPO: "Dr. GRPO",
}
"""The sweep's cells, and what they are called here."""
WRONG, RIGHT = "wrong_response_length", "right_response_length"
WINDOW = 10
"""Epochs that a point of the picture and a column of the table are averaged over."""
Data = Mapping[str, np.ndarray]


def length_bias(page: Findings) -> None:
    folder = page.trained("sweep", "family/length", f"seeds={page.seeds}")
    runs = cells(folder)
    data = {label: arrays(runs[label]) for label in NAMES}
    rewards = page.compared(runs[DR_GRPO], runs[GRPO])
    longer = over_training(data[GRPO]) - over_training(data[DR_GRPO])
    low, _ = bootstrap_interval([longer], mean)
    page.section(
        "2. Averaged over each response's own tokens, wrong answers become longer than under one budget for all",
        holds=low > 0,
    )
    _draw(page, data)
    page.picture("length", "Length of wrong answers over epochs, for GRPO and for Dr. GRPO, with intervals")
    header = ["", "wrong answers, tokens: first ten epochs", "all epochs", "last ten", "right answers, all epochs"]
    page.table([*header, "reward, last ten"], [_row(NAMES[label], each) for label, each in data.items()])
    page.say(_setting(dict(config_of(runs[GRPO])), page.seeds))
    page.say(
        f"Over the whole of training, by how many tokens wrong answers are longer under GRPO than under Dr. GRPO: {mean_of(longer, sign='+')}; "
        f"they are longer in {(longer > 0).sum()} of {len(longer)} seeds. {_by_parts(data)}",
        f"The reward of the last ten epochs, Dr. GRPO (A) against GRPO (B): {rewards['sentence']}",
    )
    page.table(["average", *(f"a token of {length}" for length in LENGTHS), "8 tokens by 2"], list(weights_told()))
    page.say(
        f"What a token counts in a loss over three responses, of {', '.join(map(str, LENGTHS))} tokens, with a budget of {BUDGET:.0f}: "
        "the derivative of each average with respect to that token's loss. The last column is what all tokens of the longest "
        "response count together, by those of the shortest.",
        "*A reading.* A wrong answer has a negative advantage, and `response_mean` divides it by the answer's own length: each token of a long one is "
        "pushed down less, and so is the whole. What is then left over goes to long wrong answers, for as long as there "
        "are any. It is no pull at right answers, whose length the task gives.",
    )


def over_training(data: Data, metric: str = WRONG) -> np.ndarray:
    """Each seed's mean over all epochs in which there were such answers: [seed]."""
    return _mean(data[metric])


def weights_told() -> list[list[str]]:
    """A row for each average: what a token of each response counts, and the longest response by the shortest."""
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    rows = []
    for name, average in AVERAGES.items():
        values = torch.zeros(1, *mask.shape, dtype=torch.float64, requires_grad=True)
        number = apply(average, {"values": values, "mask": mask[None]}, {"token_budget": BUDGET})
        (weights,) = torch.autograd.grad(number, values)
        whole = weights[0].sum(dim=-1)
        rows.append([f"`{name}`", *(f"{w:.4f}" for w in weights[0, :, 0].tolist()), f"{whole[-1] / whole[0]:.1f}"])
    return rows


def _row(name: str, data: Data) -> list[str]:
    wrong, epochs = data[WRONG], data["epochs"]
    ends = [wrong[epochs < WINDOW], wrong, wrong[epochs > epochs[-1] - WINDOW]]
    reward = data["mean_reward"][epochs > epochs[-1] - WINDOW]
    return [name, *(mean_of(_mean(each)) for each in ends), mean_of(_mean(data[RIGHT])), mean_of(_mean(reward))]


def _by_parts(data: Mapping[str, Data]) -> str:
    """Which of the two differences it is: the average, or the deviation."""
    lengths = {name: over_training(data[label]) for label, name in NAMES.items()}
    average = lengths["GRPO, only centered"] - lengths["Dr. GRPO"]
    deviation = lengths["Dr. GRPO, normalized"] - lengths["Dr. GRPO"]
    return (
        f"Of the two things in which they differ, the average alone makes {mean_of(average, sign='+')} tokens, and the division by the "
        f"group's standard deviation alone {mean_of(deviation, sign='+')}."
    )


def _setting(config: dict, seeds: int) -> str:
    start = config["warm_start"]
    return (
        f"The task is `parity` with a scratchpad: one token for each of up to {config['prompt_length']} bits and an end, so that right answers have at most "
        f"{config['prompt_length'] + 1} tokens, where {config['max_response_tokens']} are allowed. A warm start of {start['epochs']} steps; then "
        f"{config['epochs']} epochs of {config['prompts_per_epoch']} prompts with {config['num_responses']} responses each, one step per epoch, `naive` loss, Adam, "
        f"which makes the same step of a gradient whatever its scale. All four begin with the same policies and see the same prompts, {seeds} seeds each."
    )


def _draw(page: Findings, data: Mapping[str, Data]) -> None:
    told = f"Mean over {page.seeds} seeds with 95 % bootstrap intervals, each seed averaged over {WINDOW} epochs."
    looks = looks_of("GRPO", "Dr. GRPO")
    figure, [[panel]] = grid("How long wrong answers are", told, looks, columns=1)
    for label in (GRPO, DR_GRPO):
        look = looks[NAMES[label]]
        wrong = _in_windows(data[label][WRONG])
        epochs = _in_windows(data[label]["epochs"][:, None].astype(float))[:, 0]
        low, high = bootstrap_interval([wrong], mean)
        panel.fill_between(epochs, low, high, color=look["color"], alpha=0.18, linewidth=0)
        panel.plot(epochs, wrong.mean(axis=1), linewidth=1.4, markersize=3.8, label="_line", **look)
    named(panel, "tokens of a wrong answer", "epochs")
    save(figure, page.pictures / "length.png")


def _in_windows(values: np.ndarray) -> np.ndarray:
    """Means over successive epochs [epoch seed] -> [window seed]; a short last window counts too."""
    return np.stack([_mean(values[start : start + WINDOW]) for start in range(0, len(values), WINDOW)])


def _mean(values: np.ndarray) -> np.ndarray:
    """Over epochs, without those that have none: [epoch seed] -> [seed]; NaN where none has."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mean of empty slice")
        return np.nanmean(values, axis=0)
