"""The whole family on one task, from one warm start, with one budget of samples."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from page import Findings, arrays, cells, mean_of
from truths.asking import middle
from truths.pictures import grid

from pgrl_cli.folders import config_of
from pgrl_cli.machine import processors
from pgrl_cli.plots.style import ACCENT, FAINT, INK, QUIET, SMALL, save
from pgrl_cli.statistics import bootstrap_interval, mean

ALGORITHMS = (
    "reinforce",
    "reinforce_baseline",
    "rloo",
    "remax",
    "reinforce_pp",
    "a2c",
    "ppo_clip",
    "ppo_penalty",
    "trpo",
    "grpo",
    "dr_grpo",
    "dapo",
    "gspo",
    "cispo",
)
"""In the order of their ideas; each is a file of configs/algorithms."""
TITLES = {
    "reinforce": "REINFORCE",
    "reinforce_baseline": "with a baseline",
    "rloo": "RLOO",
    "remax": "ReMax",
    "reinforce_pp": "REINFORCE++",
    "a2c": "A2C",
    "ppo_clip": "PPO, clip",
    "ppo_penalty": "PPO, penalty",
    "trpo": "TRPO",
    "grpo": "GRPO",
    "dr_grpo": "Dr. GRPO",
    "dapo": "DAPO",
    "gspo": "GSPO",
    "cispo": "CISPO",
}
GOAL, NEAR = 0.95, 0.9
"""Of the held-out prompts, right: what is asked of an algorithm, and what tells how fast it is."""
LATE = 0.05
"""The share of the responses, the last, that the table's rewards are those of."""
FALL = 0.05
"""Of the held-out prompts, so many fewer right than before, a curve is told to fall."""
COLUMNS = 3


@dataclass(frozen=True)
class Trained:
    """One algorithm's run."""

    name: str
    folder: Path

    @cached_property
    def config(self) -> dict:
        return dict(config_of(self.folder))

    @cached_property
    def data(self) -> dict[str, np.ndarray]:
        """[step seed] each."""
        return arrays(self.folder)

    @cached_property
    def ends(self) -> np.ndarray:
        """The last line of every epoch: places [epoch]."""
        epochs = self.data["epochs"]
        return np.flatnonzero(np.append(epochs[1:] != epochs[:-1], True))

    @cached_property
    def responses(self) -> np.ndarray:
        """Sampled so far, at the end of every epoch: [epoch seed]; without those that only a baseline is made of."""
        shape = (len(self.ends), self.data["loss"].shape[1])
        each = np.full(shape, float(self.config["prompts_per_epoch"] * self.config["num_responses"]))
        if "sampled_responses" in self.data:
            each = self.data["sampled_responses"][self.ends]
        return each.cumsum(axis=0)

    @cached_property
    def evaluated(self) -> tuple[np.ndarray, np.ndarray]:
        """Responses sampled and the share of held-out prompts that are right: [evaluation seed] each."""
        return self.responses[self.looked_at], self.data["held_out_exact_match"][self.ends][self.looked_at]

    @cached_property
    def looked_at(self) -> np.ndarray:
        """The epochs whose policies were measured: bool [epoch]."""
        return np.isfinite(self.data["held_out_exact_match"][self.ends]).all(axis=1)

    @property
    def right(self) -> np.ndarray:
        """The share of held-out prompts that each seed has right at the end: [seed]."""
        return self.evaluated[1][-1]

    @property
    def late_reward(self) -> np.ndarray:
        """The mean reward of the last of its responses: [seed]; an epoch counts by how many of them are its own."""
        before = np.concatenate([np.zeros_like(self.responses[:1]), self.responses[:-1]])
        own = self.responses - np.maximum(before, (1 - LATE) * self.responses[-1])
        return np.average(self.data["mean_reward"][self.ends], weights=own.clip(min=0), axis=0)

    @property
    def epoch_kl(self) -> float:
        """How far an epoch's steps have led, over seeds and the epochs that are measured of every algorithm."""
        return float(self.data["epoch_kl"][self.ends][self.looked_at].mean())

    @property
    def seconds(self) -> float:
        """Of training, as its timing.jsonl tells."""
        lines = (self.folder / "timing.jsonl").read_text(encoding="utf-8").splitlines()
        return sum(json.loads(line)["seconds"] for line in lines)

    def until_near(self) -> str:
        """Responses until a seed is near: the median over seeds, where more than half come there."""
        responses, right = self.evaluated
        reached = right >= NEAR
        first = np.where(reached.any(axis=0), reached.argmax(axis=0), -1)
        counts = np.where(first >= 0, np.take_along_axis(responses, first[None].clip(0), axis=0)[0], np.inf)
        median = np.median(counts)
        return f"{median:,.0f}" if np.isfinite(median) else "not by most seeds"


def comparison(page: Findings) -> None:
    runs = _all_trained(page)
    start = _at_the_start(page)
    there = [run for run in runs if run.right.mean() >= GOAL]
    most = max(int(run.responses[-1].max()) for run in runs)
    missing = [run for run in runs if run not in there]
    counted = f"{'All' if not missing else len(there)} {'' if not missing else 'of the '}fourteen"
    page.section(f"1. {counted} come to {100 * GOAL:.0f} % within {most:,} responses", holds=len(there) > 0)
    page.picture("comparison", "Held-out exact match over sampled responses, a panel for each of fourteen algorithms")
    _draw(page, runs)
    page.say(
        f"All begin with the same policies: a transformer of {parameters(runs[0]):,} parameters that a short warm start on solutions has "
        f"brought to {_percent(start.mean())} of the held-out prompts, right in its likeliest response ({_percent(start.min())} to "
        f"{_percent(start.max())} over the seeds). The task is to sort five numbers below six; the reward is half a point for the whole answer and a tenth for "
        f"each position. An epoch samples eight responses to each of {_prompts(runs)}. *Until 90 %* is the median over seeds of the responses "
        "sampled until the policy was right on 90 % of the held-out prompts, as it was measured every `eval_period` epochs; *KL per epoch* how far the steps of those epochs, on average, have moved the "
        "policy, in nats per token of the rollout; seconds are those of all seeds together, as one stack on one thread. The reward is that of sampled responses, exact match that of the likeliest. "
        "The curves begin at the first measurement. *A reading.* Several lie below the warm start there: Adam's first steps are of full size whatever their gradients' noise.",
    )
    header = [
        "algorithm",
        f"reward, last {100 * LATE:.0f} % of responses",
        "held-out exact match",
        "until 90 %",
        "KL per epoch",
        "seconds",
    ]
    page.table(header, [_row(run) for run in runs])
    for run in missing:
        page.say(f"{TITLES[run.name]} ends at {mean_of(100 * run.right, 1)} %. {REASONS.get(run.name, '')}".rstrip())
    page.say(*penalty_told(next(run for run in runs if run.name == "ppo_penalty")))
    _rates(page)
    page.say(
        "What each is made of is its file: a delta mode, a loss, an average, and what it needs besides. ReMax's greedy responses, one to each "
        "prompt, come on top of the responses that are counted. One learning rate serves all. How many prompts an epoch of A2C, ReMax and TRPO has, and TRPO's `max_kl`, were chosen among a few.",
    )


REASONS = {
    "reinforce": (
        "The file *with a baseline* differs in nothing but the baseline. *A reading.* Every response is pushed up, a bad one "
        "a little less; what is learned is the difference."
    ),
    "remax": (
        "*A reading.* Nearly all that is sampled earns less than the likeliest response, so nearly every advantage is negative: "
        "a step pushes away from what was sampled more than it pulls towards anything."
    ),
    "trpo": (
        "*A reading.* A step goes as far as `max_kl` allows up to the last epoch, whatever its gradient's noise, while all other "
        "rates fall to zero."
    ),
}
"""Readings, why an algorithm may not come there."""


def penalty_told(run: Trained) -> list[str]:
    """What PPO's penalty does where its curve falls farthest, if it falls."""
    responses, right = (each.mean(axis=1) for each in run.evaluated)
    falls = np.triu(right[:, None] - right[None, :])
    high, low = np.unravel_index(falls.argmax(), falls.shape)
    coefficients = run.data["old_kl_coefficient"][run.ends][run.looked_at][low]
    return (
        []
        if falls.max() < FALL
        else [
            f"Under PPO's penalty {_percent(right[high])} of the held-out prompts are right after {responses[high]:,.0f} responses, and "
            f"{_percent(right[low])} after {responses[low]:,.0f}. The coefficient, {run.config['old_kl_coefficient']:g} at first, is then at {middle(coefficients, 1)} "
            "(the median over seeds, the least and the largest). *A reading.* Where one rollout's steps go too far it is doubled, and again after the next. Adam's steps are as long whatever "
            "the loss weighs, so steps that are nearly all penalty still move the policy, only not towards reward; and it "
            "takes as many rollouts to halve the coefficient as it took to double it."
        ]
    )


def _rates(page: Findings) -> None:
    """REINFORCE with and without a baseline at several learning rates: what is right in the end."""
    folder = page.trained("sweep", "family/baselines", f"seeds={page.seeds}")
    runs = [Trained(label, place) for label, place in cells(folder).items()]
    found = {(run.config["delta_mode"], run.config["learning_rate"]): mean_of(run.right, 3) for run in runs}
    rates = sorted({rate for _, rate in found})
    page.say(
        "Is it the learning rate? The held-out exact match of REINFORCE at half of it and at twice of it, with and without a baseline:"
    )
    page.show()
    page.table(
        ["learning rate", *(f"{rate:g}" for rate in rates)],
        [[name, *(found[mode, rate] for rate in rates)] for mode, name in BASELINES.items()],
    )
    page.say(
        "The middle column's runs are those of the two files, but in a stack of six cells, where float32 rounds otherwise."
    )


BASELINES = {"rewards": "without a baseline", "moving_average_baseline": "with a baseline"}


def parameters(run: Trained) -> int:
    """Of one seed's policy, as its checkpoint holds it."""
    from pgrl_cli.runs import Run
    from pgrl_cli.training.checkpoints import newest_whole

    _, found, _ = newest_whole(Run(run.folder).checkpoints)
    seeds = run.data["loss"].shape[1]
    return sum(t.numel() for name, t in found.tensors.items() if name.startswith("policy.")) // seeds


def _all_trained(page: Findings) -> list[Trained]:
    """Train them all, as many at a time as there are processors."""
    given = [f"seeds={page.seeds}", *page.overrides]
    with ThreadPoolExecutor(processors()) as pool:
        folders = pool.map(lambda name: _trained(page.runs, f"algorithms/{name}", given), ALGORITHMS)
        runs = [Trained(name, folder) for name, folder in zip(ALGORITHMS, folders, strict=True)]
    page.ran += [page.typed("train", "--config", f"algorithms/{name}", "-q", *given) for name in ALGORITHMS]
    return runs


def _trained(runs: Path, config: str, words: Sequence[str]) -> Path:
    """A run, trained in a process of its own."""
    command = [sys.executable, "-m", "pgrl_cli", "train", "--config", config, "-q", "--runs-dir", str(runs), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    if done.returncode:
        raise SystemExit(f"{config}\n{done.stderr}")
    return Path(done.stdout.strip().splitlines()[-1])


def _at_the_start(page: Findings) -> np.ndarray:
    """The share of held-out prompts that the warm policies have right before anything is sampled: [seed]."""
    given = [word for word in page.overrides if not word.startswith("epochs=")]
    words = [f"seeds={page.seeds}", *given, "epochs=1", "learning_rate=1e-12"]
    return Trained("start", _trained(page.runs, "algorithms/reinforce", words)).right


def _row(run: Trained) -> list[str]:
    return [
        f"[{TITLES[run.name]}](../configs/algorithms/{run.name}.yaml)",
        mean_of(run.late_reward, 3),
        mean_of(run.right, 3),
        run.until_near(),
        f"{run.epoch_kl:.4f}",
        f"{run.seconds:.0f}",
    ]


def _prompts(runs: Sequence[Trained]) -> str:
    """How many prompts an epoch draws: of most, and of those that have other epochs."""
    asked = {run.name: _asked(run.config) for run in runs}
    usual = max(asked.values(), key=list(asked.values()).count)
    others = [
        f"{TITLES[run.name]} to {asked[run.name]} in each of its {run.config['epochs']:,} epochs"
        for run in runs
        if asked[run.name] != usual
    ]
    return "; ".join([f"{usual} prompts", *others])


def _asked(config: dict) -> str:
    """The prompts of an epoch; where groups that are dropped are replaced, at most."""
    count, rounds = config["prompts_per_epoch"], config.get("resampling_rounds", 0)
    return f"{count} and up to {count * (1 + rounds)}" if rounds else str(count)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _draw(page: Findings, runs: Sequence[Trained]) -> None:
    rows = -(-len(runs) // COLUMNS)
    told = (
        f"Dark: the mean over {page.seeds} seeds, with 95 % bootstrap intervals. Light: the means of all others. "
        f"Broken: {100 * GOAL:.0f} %."
    )
    figure, panels = grid(
        "Held-out exact match over sampled responses", told, {}, columns=COLUMNS, rows=rows, high=0.95
    )
    curves = [_curve(run) for run in runs]
    flat = [panel for row in panels for panel in row]
    for index, (panel, run) in enumerate(zip(flat, runs, strict=False)):
        for x, average, _, _ in curves:
            panel.plot(x, average, color=FAINT, linewidth=0.7)
        x, average, low, high = curves[index]
        panel.axhline(GOAL, color=QUIET, linewidth=0.8, linestyle=(0, (4, 2)))
        panel.fill_between(x, low, high, color=ACCENT, alpha=0.3, linewidth=0)
        panel.plot(x, average, color=INK, linewidth=1.5)
        panel.set_ylim(0, 1.02)
        panel.text(0.97, 0.1, TITLES[run.name], transform=panel.transAxes, fontsize=SMALL, color=INK, ha="right")
        panel.set_yticks([0, 0.5, 1])
        panel.set_yticklabels([])
        panel.set_xticklabels([])
        if index % COLUMNS == 0:
            panel.set_yticklabels(["0", "0.5", "1"])
        if index + COLUMNS >= len(runs):
            panel.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:.0f}k")
    for panel in flat[len(runs) :]:
        panel.set_visible(False)
    save(figure, page.pictures / "comparison.png")


def _curve(run: Trained) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Responses, and the mean over seeds of what is right, with its interval: [evaluation] each."""
    responses, right = run.evaluated
    low, high = bootstrap_interval([right], mean)
    return responses.mean(axis=1), right.mean(axis=1), low, high
