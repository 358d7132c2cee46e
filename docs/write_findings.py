"""Writes docs/findings.md and its pictures from the sweeps in configs/findings: `make findings`.

Every number on that page comes from a command of this tool that stands above it; nothing is typed in by hand.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from pgrl_cli.statistics import share_interval

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURES = DOCS / "findings"
FRESH = "seeds={}"
"""Seeds that no search has seen."""


class Page:
    """The page as it grows, and where runs go while it does."""

    def __init__(self, runs: Path, seeds: int):
        self.runs, self.seeds = runs, seeds
        self.lines: list[str] = []

    def say(self, *paragraphs: str) -> None:
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def show(self, *commands: str) -> None:
        """Commands as a reader would type them."""
        self.lines += ["```text", *commands, "```", ""]

    def picture(self, name: str, alt: str) -> None:
        self.lines += [f"![{alt}](findings/{name}.png)", ""]

    def table(self, header: list[str], rows: list[list[str]]) -> None:
        self.lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        self.lines += ["| " + " | ".join(row) + " |" for row in rows]
        self.lines.append("")


def pgrl(*words: str) -> str:
    """What a command prints to standard output."""
    done = subprocess.run([sys.executable, "-m", "pgrl_cli", *words], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"pgrl {shlex.join(words)}\n{done.stderr}")
    return done.stdout


def swept(page: Page, name: str, *overrides: str) -> Path:
    """Run a sweep of configs/findings."""
    seeds = () if any(word.startswith("seeds=") for word in overrides) else (f"seeds={page.seeds}",)
    words = ["sweep", "--config", f"findings/{name}", "--runs-dir", str(page.runs), "-q", *seeds, *overrides]
    return Path(pgrl(*words).strip())


def drawn(page: Page, folder: Path, name: str, *words: str) -> None:
    pgrl("plot", str(folder), *words, "--out", str(PICTURES / f"{name}.png"))
    (PICTURES / f"{name}.csv").unlink()


def cells(folder: Path) -> dict[str, Path]:
    """A sweep's cells by their labels."""
    lines = map(json.loads, (folder / "cells.jsonl").read_text().splitlines())
    return {line["label"]: folder / line["folder"] for line in lines}


def compared(a: Path, b: Path, metric: str = "mean_reward") -> dict:
    return json.loads(pgrl("compare", str(a), str(b), "--metric", metric, "--json"))


def arrays(page: Page, run: Path) -> dict[str, np.ndarray]:
    """A run's metrics: [step seed] each."""
    out = page.runs / "exported.npz"
    pgrl("runs", "export", str(run), "--format", "npz", "--out", str(out))
    with np.load(out) as file:
        return dict(file)


def last(values: np.ndarray, epochs: np.ndarray, count: int = 10) -> np.ndarray:
    """Each seed's mean over the last epochs: [step seed] -> [seed]."""
    return values[epochs > epochs[-1] - count].mean(axis=0)


def final(values: np.ndarray) -> np.ndarray:
    """Each seed's last number: [step seed] -> [seed]."""
    return values[-1]


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def summary_rows(page: Page, folder: Path, metrics: tuple[str, ...]) -> list[list[str]]:
    """For each cell the mean over seeds with its standard error, metric by metric."""
    rows = []
    for label, run in cells(folder).items():
        data = arrays(page, run)
        numbers = []
        for metric in metrics:
            ends = last(data[metric], data["epochs"]) if metric == "mean_reward" else final(data[metric])
            numbers.append(f"{ends.mean():.3f} ± {ends.std(ddof=1) / len(ends) ** 0.5:.3f}")
        rows.append([f"`{label}`", *numbers])
    return rows


def deltas(page: Page) -> Path:
    folder = swept(page, "deltas")
    by = {label.partition("=")[2]: run for label, run in cells(folder).items()}
    centering = compared(by["rewards"], by["centered_rewards"])
    normalizing = compared(by["centered_rewards"], by["normalized_rewards"])
    best_only = compared(by["centered_rewards"], by["max_rewards"])
    page.say("## 1. Centering is what makes it learn; normalizing adds nothing here")
    page.show(
        "pgrl sweep --config findings/deltas",
        "pgrl plot SWEEP",
        "pgrl compare SWEEP/cells/…rewards… SWEEP/cells/…centered…",
    )
    drawn(page, folder, "deltas", "--by", "delta_mode")
    page.picture("deltas", "Mean reward over optimizer steps for raw, centered, normalized and max rewards")
    page.table(
        ["delta mode", "mean reward, last ten epochs", "exact match"],
        summary_rows(page, folder, ("mean_reward", "exact_match")),
    )
    page.say(
        f"Raw (A) against centered (B): {centering['sentence']}",
        f"Centered (A) against normalized (B): {normalizing['sentence']}",
        f"Centered (A) against max (B): {best_only['sentence']}",
        "A raw reward pushes every sampled response up, the bad ones a little less: what was sampled first wins. The group's "
        "mean takes that push away and leaves the comparison. Dividing by the group's standard deviation rescales groups "
        "against each other, which on three prompts of like difficulty changes little.",
    )
    return folder


def clip_and_kl(page: Page) -> None:
    folder = swept(page, "clip_and_kl")
    by = cells(folder)
    names = list(by)
    page.say("## 2. A narrow clip costs nothing, a KL towards a recent self costs progress")
    page.show("pgrl sweep --config findings/clip_and_kl", "pgrl plot SWEEP --kind final")
    drawn(page, folder, "clip_and_kl", "--kind", "final", "--statistic", "mean")
    page.picture(
        "clip_and_kl", "Final mean reward with intervals: naive, unclipped, clipped at 0.2 and 0.01, clipped with a KL"
    )
    page.table(
        ["cell", "mean reward, last ten epochs", "exact match"],
        summary_rows(page, folder, ("mean_reward", "exact_match")),
    )
    page.say(
        f"Naive (A) against a clip of 0.01 (B): {compared(by[names[0]], by[names[3]])['sentence']}",
        f"A clip of 0.01 without (A) and with (B) a KL of weight 0.1: {compared(by[names[3]], by[names[4]])['sentence']}",
        "With ten small steps on a rollout the policy hardly leaves the one that sampled, so there is little for a clip to hold. "
        "The KL pulls towards a copy of the policy that is refreshed every ten epochs: not a destination, but a brake.",
    )


def partial_credit(page: Page, deltas_folder: Path) -> None:
    folder = swept(page, "rewards")
    centered = arrays(page, next(run for label, run in cells(deltas_folder).items() if "centered" in label))
    reward, match = last(centered["mean_reward"], centered["epochs"]), final(centered["exact_match"])
    page.say("## 3. Partial credit is collected, the task is not solved")
    page.show("pgrl sweep --config findings/rewards", "pgrl plot SWEEP --metric exact_match --kind final")
    drawn(
        page,
        folder,
        "rewards",
        "--kind",
        "final",
        "--metric",
        "exact_match",
        "--over",
        "all_epochs",
        "--statistic",
        "mean",
    )
    page.picture("rewards", "Exact match, averaged over training, for three rewards")
    header = ["reward", "exact match at the end", "probability of the answer"]
    page.table(header, summary_rows(page, folder, ("exact_match", "solution_probability")))
    page.say(
        f"The centered run of finding 1 ends at a reward of {reward.mean():.2f} of 5, which reads like three quarters of the way. "
        f"But only {percent(match.mean())} of its prompts are answered right, and {percent((match == 0).mean())} of its "
        "seeds sort none of the three. One point for each number that appears and one for each ordered pair can be had "
        "without sorting: 1 2 2 earns four of five for 1 0 2. The sparse reward is no way out either: a policy that never "
        "meets a right answer has nothing to learn from.",
    )


def the_loss(page: Page) -> None:
    run = Path(
        pgrl(
            "train", "--config", "lecture/centered_clipped", f"seeds={page.seeds}", "--runs-dir", str(page.runs), "-q"
        ).strip()
    )
    data = arrays(page, run)
    reward = last(data["mean_reward"], data["epochs"])
    loss = last(data["loss"], data["epochs"])
    early = data["loss"][data["epochs"] < 10].mean(axis=0)
    change = loss - early
    together = float(np.corrcoef(loss, reward)[0, 1])
    moved = float(np.corrcoef(change, reward)[0, 1])
    (PICTURES / "the_loss.png").write_bytes((run / "curves.png").read_bytes())
    page.say("## 4. The loss curve says nothing")
    page.show(
        "pgrl train --config lecture/centered_clipped seeds=128", "pgrl runs export RUN --format npz --out RUN.npz"
    )
    page.picture("the_loss", "Mean reward, exact match and loss of 128 seeds")
    page.say(
        f"Over {page.seeds} seeds the mean loss goes from {early.mean():+.5f} in the first ten epochs to {loss.mean():+.5f} in the "
        f"last, while the reward climbs by {(reward - data['mean_reward'][data['epochs'] < 10].mean(axis=0)).mean():.2f}. "
        f"The correlation over seeds of a run's final loss with its final reward is {together:+.2f}, that of the loss's change "
        f"{moved:+.2f}. The loss is a surrogate whose gradient counts: on an epoch's first step its value is the mean advantage, "
        "zero by construction for centered rewards. What shrinks it is that groups agree with themselves, right or wrong.",
    )


def one_seed(page: Page, folder: Path) -> None:
    ends = {}
    for label, run in cells(folder).items():
        data = arrays(page, run)
        ends[label.partition("=")[2]] = last(data["mean_reward"], data["epochs"])
    raw, centered = ends["rewards"], ends["centered_rewards"]
    wrong = float((raw[:, None] >= centered[None, :]).mean())
    generator = np.random.default_rng(0)
    few = {n: float((_means(raw, n, generator) >= _means(centered, n, generator)).mean()) for n in (3, 5, 10)}
    normalized = ends["normalized_rewards"]
    coin = float((centered[:, None] < normalized[None, :]).mean())
    page.say("## 5. One seed is a coin with a bias")
    page.show("pgrl plot SWEEP --kind profile")
    drawn(page, folder, "one_seed", "--kind", "profile", "--by", "delta_mode")
    page.picture("one_seed", "Share of runs above a reward, for the four delta modes")
    page.say(
        f"Between seeds the final reward has a standard deviation of {raw.std(ddof=1):.2f} (raw) and {centered.std(ddof=1):.2f} "
        f"(centered), and the difference between them is {centered.mean() - raw.mean():.2f}. Whoever compares one run of each, "
        f"with seeds of their own, sees the wrong order in {percent(wrong)} of all pairs; with three seeds a side in "
        f"{percent(few[3])}, with five in {percent(few[5])}, with ten in {percent(few[10])}. Centered against normalized on one seed each: "
        f"normalized wins in {percent(coin)}, and means nothing by it.",
    )


def _means(values: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    return generator.choice(values, size=(20_000, count)).mean(axis=1)


def really_sorts(page: Page) -> None:
    fresh = FRESH.format([*range(1000, 1000 + page.seeds)]).replace(" ", "")
    page.say("## 6. At the same budget, it really sorts")
    shown = "pgrl train --config findings/{} seeds='[1000, …, 1127]'"
    names = {
        "really_sorts": "the lecture's budget",
        "sorts_from_240_samples": "a point for each right position, ten for all",
    }
    page.show(*(shown.format(name) for name in names))
    rows = []
    for name, what in names.items():
        run = Path(pgrl("train", "--config", f"findings/{name}", fresh, "--runs-dir", str(page.runs), "-q").strip())
        data = arrays(page, run)
        probability, lowest = final(data["solution_probability"]), final(data["lowest_solution_probability"])
        sure = int((lowest > 0.9).sum())
        low, high = share_interval(sure, len(lowest))
        samples = 3 * int(_config(run, "epochs")) * int(_config(run, "num_responses"))
        error = probability.std(ddof=1) / len(probability) ** 0.5
        every = f"{100 * sure / len(lowest):.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
        rows.append([f"`{name}` ({what})", f"{samples:,}", f"{probability.mean():.4f} ± {error:.4f}", every])
        if name == "really_sorts":
            (PICTURES / "really_sorts.png").write_bytes((run / "curves.png").read_bytes())
    page.picture("really_sorts", "Mean reward and exact match of the config that sorts, 128 fresh seeds")
    header = ["config", "sampled responses", "probability of the sorted answer", "seeds with every prompt above 0.9"]
    page.table(header, rows)
    page.say(
        f"{page.seeds} seeds that no search has seen; Wilson's interval behind the share. The first was found by the random search "
        "below, in half a minute on two cores:",
    )
    page.show("pgrl sweep --config findings/search")


def what_made_it_sort(page: Page) -> None:
    folder = swept(page, "what_made_it_sort")
    page.say("## 7. What made the difference, one change at a time")
    page.show(
        "pgrl sweep --config findings/what_made_it_sort", "pgrl plot SWEEP --kind final --metric solution_probability"
    )
    rows = []
    for label, run in cells(folder).items():
        data = arrays(page, run)
        probability, lowest = final(data["solution_probability"]), final(data["lowest_solution_probability"])
        reward = last(data["mean_reward"], data["epochs"])
        rows.append([f"`{label}`", f"{reward.mean():.2f}", f"{probability.mean():.3f}", percent((lowest > 0.9).mean())])
    page.table(["cell", "mean reward", "probability of the answer", "seeds with every prompt above 0.9"], rows)
    page.say(
        "The first five rows add one change after the other, the last two take one back. Speed alone collects partial credit "
        "faster and then stops: the policy has become sure of a wrong answer, its groups all earn the same, and no gradient is "
        "left. The entropy bonus keeps other answers alive until the right one has been met; it must fade, or the policy never "
        "becomes sure of anything. A wide clip lets ten steps use what a rollout holds.",
    )


def _config(run: Path, key: str) -> str:
    lines = (run / "config.yaml").read_text().splitlines()
    return next(line.partition(": ")[2] for line in lines if line.startswith(f"{key}: "))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=128)
    parser.add_argument("--out", type=Path, default=DOCS / "findings.md")
    arguments = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Page(Path(folder), arguments.seeds)
        page.say(
            "# Findings",
            f"What the lecture's experiment says when it is run on {arguments.seeds} seeds instead of one: every claim with an interval, "
            "under the command that made it. `SWEEP` and `RUN` stand for the folder that the command before printed. Intervals are 95 % "
            "bootstraps over seeds, comparisons are paired by seed, ± is one standard error. `make findings` writes this page anew.",
        )
        folder_of_deltas = deltas(page)
        clip_and_kl(page)
        partial_credit(page, folder_of_deltas)
        the_loss(page)
        one_seed(page, folder_of_deltas)
        really_sorts(page)
        what_made_it_sort(page)
    arguments.out.write_text("\n".join(page.lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
