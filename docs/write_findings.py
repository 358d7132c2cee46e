"""Writes docs/findings.md and its pictures from the sweeps in configs/findings: `make findings`.

Every figure on the page is worked out here from runs that this script makes, and every command shown is one that it
ran. The readings, why it may be so, are typed in, and so are the titles; a title that the figures deny says so itself.

    python docs/write_findings.py [KEY=VALUE ...] [--seeds 128] [--only 1 5] [--out FILE --pictures DIR]
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from page import Findings, arrays, cells, correlation, final, first, last, listed, mean_of, percents, share_of

from pgrl_cli.folders import config_of
from pgrl_cli.runs import Run
from pgrl_cli.tasks.sorting import LECTURE_PROMPTS, sort_inclusion_ordering_reward

DOCS = Path(__file__).parent
FRESH = 20000
"""The first of the seeds that neither a search nor an earlier version of the page has used."""
SURE = 0.9
"""A seed sorts where the policy gives the right answer more than this on every prompt."""
DELTAS = ("rewards", "centered_rewards", "normalized_rewards", "max_rewards")


def deltas(page: Findings) -> None:
    folder = page.swept("deltas")
    page.drawn(folder, "deltas", "--by", "delta_mode")
    runs = [cells(folder)[f"delta_mode={mode}"] for mode in DELTAS]
    raw, centered, normalized, best = runs
    centering, normalizing = page.compared(raw, centered), page.compared(centered, normalized)
    best_only = page.compared(centered, best)
    clear = centering["low"] > 0 > best_only["high"] and normalizing["low"] <= 0 <= normalizing["high"]
    page.section(
        "1. Centered rewards learn more than raw ones; normalizing them makes no clear difference", holds=clear
    )
    page.picture("deltas", "Mean reward over optimizer steps for raw, centered, normalized and max rewards")
    rows = []
    for mode, data in zip(DELTAS, map(arrays, runs), strict=True):
        rewards = [mean_of(ends(data, "mean_reward")) for ends in (first, last)]
        rows.append([f"`{mode}`", *rewards, mean_of(final(data, "exact_match"), 3)])
    page.table(["delta mode", "reward, first ten epochs", "last ten", "exact match at the end"], rows)
    page.say(
        f"Raw (A) against centered (B): {centering['sentence']}",
        f"Centered (A) against normalized (B): {normalizing['sentence']}",
        f"Centered (A) against max (B): {best_only['sentence']}",
        "*A reading.* Raw rewards are never negative here, so they push every sampled response up, the bad ones a little less: they "
        "learn, but less. The group's mean takes that push away and leaves the comparison. Dividing by the group's standard "
        "deviation weighs groups against each other, which on three prompts of like difficulty changes little. What both do to one "
        "rollout's gradient is measured in [ground truth](ground-truth.md), 1 and 2.",
    )


def clip_and_kl(page: Findings) -> None:
    folder = page.swept("clip_and_kl")
    page.drawn(folder, "clip_and_kl", "--kind", "final")
    naive, _, _, narrow, pulled = cells(folder).values()
    clip, kl = page.compared(naive, narrow), page.compared(narrow, pulled)
    slower = page.compared(naive, narrow, "--over", "all_epochs")
    page.section(
        "2. A narrow clip slows the start and makes no clear difference at the end; a KL towards a recent self costs both",
        holds=clip["low"] <= 0 <= clip["high"] and slower["high"] < 0 and kl["high"] < 0,
    )
    page.picture(
        "clip_and_kl", "Final mean reward with intervals: naive, unclipped, clipped at 0.2 and 0.01, clipped with a KL"
    )
    rows = []
    for label, run in cells(folder).items():
        data = arrays(run)
        reward, match = mean_of(last(data, "mean_reward")), mean_of(final(data, "exact_match"), 3)
        cut, weight = data["clip_fraction"].mean(axis=0), data["effective_sample_size"].mean(axis=0)
        clipped = mean_of(100 * cut, 1) if np.isfinite(cut).all() else "no clip"
        early = mean_of(first(data, "mean_reward"))
        rows.append([f"`{label}`", early, reward, match, clipped, mean_of(weight, 3)])
    header = ["cell", "reward, first ten epochs", "last ten", "exact match at the end"]
    header += ["tokens clipped, %", "effective sample size"]
    page.table(header, rows)
    page.say(
        f"Naive (A) against a clip of 0.01 (B): {clip['sentence']}",
        f"The same over the whole of training: {slower['sentence']}",
        f"A clip of 0.01 without (A) and with (B) a KL of weight 0.1: {kl['sentence']}",
        "*A reading.* The effective sample size, a share of the rollout, says how far ten small steps lead away from "
        "the policy that sampled: hardly anywhere, so there is little that a clip must hold back. One of 0.01 cuts "
        "tokens off all the same, most of them early, when steps still lead somewhere. The KL pulls towards a copy of "
        "the policy that is refreshed every ten epochs: it sets no destination, it brakes. What ten steps on one rollout bring with "
        "each loss is measured in [ground truth](ground-truth.md), 9.",
    )


def partial_credit(page: Findings) -> None:
    folder = page.swept("rewards")
    page.drawn(folder, "rewards", "--kind", "final", "--metric", "exact_match")
    data = {label.partition("=")[2]: arrays(run) for label, run in cells(folder).items()}
    run = next(iter(cells(folder).values()))
    reward = last(data["sort_inclusion_ordering_reward"], "mean_reward")
    match, most = final(data["sort_inclusion_ordering_reward"], "exact_match"), Run(run).status()["maximum_reward"]
    page.section(
        "3. Partial credit is collected, the task is not solved",
        holds=reward.mean() > most / 2 and all(final(each, "exact_match").mean() < 0.5 for each in data.values()),
    )
    page.picture("rewards", "Exact match at the end of training, for three rewards")
    header = ["reward", "exact match at the end", "probability of the answer", "groups that earn all the same"]
    rows = []
    for name, each in data.items():
        same = each["zero_variance_groups"].mean(axis=0)
        at_end = [mean_of(final(each, metric), 3) for metric in ("exact_match", "solution_probability")]
        rows.append([f"`{name}`", *at_end, mean_of(same, 3)])
    page.table(header, rows)
    prompt, guess = LECTURE_PROMPTS[0], [1, 2, 2]
    earned = sort_inclusion_ordering_reward(torch.tensor([prompt]), torch.tensor([[guess]])).item()
    sparse = data["sort_exact_reward"]
    never = (sparse["mean_reward"] == 0).all(axis=0)
    none = final(sparse, "exact_match") == 0
    page.say(
        f"With the lecture's reward, the first, runs end at {mean_of(reward)} of {most:g}: {100 * reward.mean() / most:.0f} % of what can "
        f"be earned. But only {mean_of(100 * match, 1)} % of their prompts are answered right, and {share_of(match == 0)} of the seeds "
        f"answer none. One point for each number that appears and one for each ordered pair can be had without sorting: "
        f"`{' '.join(map(str, guess))}` earns {earned:g} of {most:g} for `{' '.join(map(str, prompt))}`.",
        f"The sparse reward is no way out: in {mean_of(100 * sparse['zero_variance_groups'].mean(axis=0), 1)} % of its groups all "
        "responses earn the same, nothing or everything, and a centering delta mode learns nothing from them. Whole runs that never "
        f"meet a right answer are {share_of(never)} of the seeds; {share_of(none)} answer no prompt right at the end.",
    )


def the_loss(page: Findings) -> None:
    run = page.trained("train", "lecture/centered_clipped", f"seeds={page.seeds}")
    page.drawn(run, "the_loss")
    data = arrays(run)
    reward, early, late = last(data, "mean_reward"), first(data, "loss"), last(data, "loss")
    together, moved = correlation(late, reward), correlation(late - early, reward)
    climbed = correlation(late - early, reward - first(data, "mean_reward"))
    page.section(
        "4. The loss's level says nothing clear, its change little",
        holds=together[1] <= 0 <= together[2] and moved[0] ** 2 < 0.2,
    )
    page.picture("the_loss", f"Mean reward, exact match and loss of {page.seeds} seeds")
    told = "{:+.2f} [{:+.2f}, {:+.2f}]"
    rows = [
        ["its mean over the last ten epochs", "final reward", told.format(*together)],
        ["the same minus that over the first ten", "final reward", told.format(*moved)],
        ["the same minus that over the first ten", "reward gained since then", told.format(*climbed)],
    ]
    page.table(["of the loss", "with the", "correlation over seeds"], rows)
    at_first = np.abs(data["loss"][:: config_of(run)["steps_per_epoch"]]).max()
    same = "zero_variance_groups"
    page.say(
        f"Over {page.seeds} seeds the mean loss goes from {mean_of(early, 5, '+')} in the first ten epochs to {mean_of(late, 5, '+')} in "
        f"the last, while the reward climbs by {mean_of(reward - first(data, 'mean_reward'))}. A correlation of {moved[0]:+.2f} explains "
        f"{100 * moved[0] ** 2:.0f} % of how the seeds' final rewards differ.",
        "The loss is a surrogate whose gradient counts: on an epoch's first step its value is the mean advantage, zero by "
        f"construction for centered rewards (at most {at_first:.0e} here, rounding). Groups whose responses all earn the same have a "
        f"loss of zero, right or wrong; they grow from {mean_of(100 * first(data, same), 1)} % of all in the first ten epochs to "
        f"{mean_of(100 * last(data, same), 1)} % in the last.",
    )


def one_seed(page: Findings) -> None:
    folder = page.swept("deltas")
    page.drawn(folder, "one_seed", "--kind", "profile", "--by", "delta_mode")
    ends = {mode: last(arrays(cells(folder)[f"delta_mode={mode}"]), "mean_reward") for mode in DELTAS}
    raw, centered, normalized = (ends[mode] for mode in DELTAS[:3])
    wrong, tied = (ordered(raw, centered, 1)[which] for which in (0, 1))
    page.section(
        f"5. One run a side misses what {page.seeds} see in {100 * (wrong + tied):.0f} % of all pairs",
        holds=raw.mean() < centered.mean(),
    )
    page.picture("one_seed", "Share of runs above a reward, for the four delta modes")
    page.say(
        f"Between seeds the final reward has a standard deviation of {raw.std(ddof=1):.2f} (raw) and {centered.std(ddof=1):.2f} (centered); "
        f"the means are {centered.mean() - raw.mean():.2f} apart. How often would a few runs a side, each with seeds of their own, show the wrong "
        "order? Unlike everywhere else on this page, nothing is paired by seed here: one run a side is every pair of a raw and a "
        f"centered run; more are means of runs drawn from these {page.seeds}. Intervals resample the runs."
    )
    rows = []
    for count in (1, 3, 5, 10):
        row = [str(count)]
        for a, b in ((raw, centered), (centered, normalized)):
            row += [percents(*each) for each in with_intervals(a, b, count)]
        rows.append(row)
    header = ["runs a side", "raw above centered", "level", "centered above normalized", "level"]
    page.table(header, rows)
    page.say(
        "Level is exactly level: rewards are averages of few small numbers. Between centered and normalized rewards, where finding 1 "
        "sees no clear difference, one run a side names a winner all the same, now this one and now that."
    )


def ordered(a: np.ndarray, b: np.ndarray, count: int, draws: int = 20_000) -> tuple[float, float]:
    """The shares in which the mean of so many runs of A is above that of as many of B, and exactly level: a, b [seed]."""
    if count == 1:
        x, y = a[:, None], b[None]
    else:
        generator = np.random.default_rng(count)
        x, y = (generator.choice(values, size=(draws, count)).mean(axis=1) for values in (a, b))
    x, y = x.round(6), y.round(6)  # equal sums in another order are level
    return float((x > y).mean()), float((x == y).mean())


def with_intervals(a: np.ndarray, b: np.ndarray, count: int, resamples: int = 400) -> list[tuple[float, float, float]]:
    """Those shares, each with the 95 % interval of a bootstrap over both sides' runs."""
    generator = np.random.default_rng(0)
    again = (generator.choice(values, size=(resamples, len(values))) for values in (a, b))
    drawn = [ordered(x, y, count, draws=2_000) for x, y in zip(*again, strict=True)]
    bounds = np.quantile(np.array(drawn), (0.025, 0.975), axis=0)
    return [(share, *bounds[:, which]) for which, share in enumerate(ordered(a, b, count))]


def really_sorts(page: Findings) -> None:
    fresh = range(FRESH, FRESH + page.seeds)
    names = {
        "really_sorts": "the lecture's budget and reward",
        "sorts_from_240_samples": "a point for each right position, ten for all",
    }
    rows, shares = [], []
    for name, what in names.items():
        run = page.trained("train", f"findings/{name}", f"seeds={listed(fresh)}")
        data, config = arrays(run), config_of(run)
        samples = len(LECTURE_PROMPTS) * config["epochs"] * config["num_responses"]
        shares.append((final(data, "lowest_solution_probability") > SURE).mean())
        rows.append([f"`{name}` ({what})", f"{samples:,}", *sorting(data)])
        if name == "really_sorts":
            page.drawn(run, name)
    page.section("6. At the same budget, it really sorts", holds=min(shares) > 0.9)
    page.picture("really_sorts", f"Mean reward and exact match of the config that sorts, {page.seeds} fresh seeds")
    page.table(["config", "sampled responses", "probability of the answer", f"seeds that sort (above {SURE})"], rows)
    page.say(
        f"A seed sorts if the policy gives the right answer more than {SURE} on its worst prompt. Seeds {fresh[0]} to {fresh[-1]} were in "
        "none of the searches."
    )
    search = page.trained("sweep", "findings/search", *([f"samples={page.draws}"] if page.draws else []))
    told = json.loads((search / "summary.json").read_text(encoding="utf-8"))["cells"]
    good = [cell["parameters"] for cell in told if cell["runs"] and min(cell["values"]) > SURE]
    page.say(f"Where the first comes from: a random search of {len(told)} configs, {told[0]['runs']} seeds each.")
    page.show()
    if good:
        keys = ("learning_rate", "entropy_coefficient", "clip_epsilon")
        spans = [f"`{k}` from {min(p[k] for p in good):.2g} to {max(p[k] for p in good):.2g}" for k in keys]
        page.say(
            f"In {len(good)} of them the answer's mean probability is above {SURE} on every seed: {', '.join(spans)}. `really_sorts` is no "
            "single draw but round numbers from among these."
        )
    page.say(
        "The second comes from a longer search on other seeds, some 11,000 settings at ever smaller budgets, which is not kept "
        "here; this page only says how well its result does on seeds that it never saw."
    )


def sorting(data: dict[str, np.ndarray]) -> list[str]:
    """How probable the answer is at the end, and in what share of seeds on every prompt."""
    sure = final(data, "lowest_solution_probability") > SURE
    return [mean_of(final(data, "solution_probability"), 3), share_of(sure)]


def what_made_it_sort(page: Findings) -> None:
    folder = page.swept("what_made_it_sort")
    page.drawn(folder, "what_made_it_sort", "--kind", "final", "--metric", "solution_probability")
    rows, probabilities = [], []
    for run in cells(folder).values():
        data, config = arrays(run), config_of(run)
        bonus = f"{config['entropy_coefficient']:g}"
        if config["entropy_coefficient"]:
            bonus += ", fading" if config["entropy_decay"] == "linear" else ", constant"
        rewards = [mean_of(ends(data, "mean_reward")) for ends in (first, last)]
        rest = [mean_of(last(data, "zero_variance_groups")), mean_of(last(data, "entropy"))]
        probabilities.append(final(data, "solution_probability").mean())
        rows.append(
            [f"{config['learning_rate']:g}", f"{config['clip_epsilon']:g}", bonus, *rewards, *rest, *sorting(data)]
        )
    whole = probabilities[4]
    page.section(
        "7. It takes larger steps, a wider clip and a bonus that fades, together",
        holds=whole > 0.9 and sorted(probabilities)[-2] < 0.9,
    )
    page.picture("what_made_it_sort", "Probability of the answer at the end, for seven configs")
    header = ["learning rate", "clip", "entropy bonus", "reward, first ten epochs", "last ten"]
    header += ["groups all the same, last ten", "entropy, last ten", "probability of the answer", "seeds that sort"]
    page.table(header, rows)
    page.say(
        "The first five rows add one change after the other; the last two take back from the fifth the learning rate and the clip; "
        "the fourth is the fifth without the fading, the third without the bonus. Larger steps alone gain reward sooner and end no "
        "higher: nearly all groups earn the same by then, and the entropy says that the policy has made up its mind.",
        "*A reading.* The bonus keeps other answers alive until the right one has been met; it must fade, or the policy never "
        "becomes sure of anything. A wide clip lets ten steps use what a rollout holds.",
    )


def from_240_samples(page: Findings) -> None:
    folder = page.swept("what_made_240_sort", seeds=range(FRESH, FRESH + page.seeds))
    every = {label: arrays(run) for label, run in cells(folder).items()}
    whole, *others = ((final(data, "lowest_solution_probability") > SURE).mean() for data in every.values())
    page.section(
        "8. From 240 samples, every change but that to Adam's beta costs seeds",
        holds=sum(whole - o > 0.1 for o in others) >= 8,
    )
    names = ["nothing", *(f"`{label}`" for label in list(every)[1:])]
    rows = [[name, *sorting(data)] for name, data in zip(names, every.values(), strict=True)]
    page.table(["one change to `sorts_from_240_samples`", "probability of the answer", "seeds that sort"], rows)
    page.say(
        "Where nothing is changed, the seeds train in a stack with others, and rounding may let one end otherwise than in finding 6.",
        "*A reading.* With so many steps on one rollout the KL to the policy that sampled holds them where a clip as wide as this does not; and "
        "where only whole answers earn ten points, but each right position one, there is something to learn before the first of them.",
    )


SECTIONS: list[Callable[[Findings], None]] = [
    deltas,
    clip_and_kl,
    partial_credit,
    the_loss,
    one_seed,
    really_sorts,
    what_made_it_sort,
    from_240_samples,
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=128)
    parser.add_argument("--only", type=int, nargs="+", default=range(1, len(SECTIONS) + 1), help="numbers of findings")
    parser.add_argument("--out", type=Path, default=DOCS / "findings.md")
    parser.add_argument("--pictures", type=Path, default=DOCS / "findings")
    parser.add_argument("--draws", type=int, help="of the random search, other than its config's")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every run, for a trial")
    arguments = parser.parse_intermixed_args()
    arguments.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Findings(Path(folder), arguments.pictures, arguments.seeds, arguments.draws, arguments.overrides)
        page.say(
            "# Findings",
            f"What the lecture's experiment says when it is run on {arguments.seeds} seeds instead of one. `make findings` writes this page "
            "anew: it runs the commands shown (a finding's in one shell, with `--runs-dir` and `--json` besides) and works the other figures out "
            "from `pgrl runs export RUN --format npz`. In brackets are 95 % intervals over seeds: Wilson's for a share of seeds, else "
            "percentile bootstraps. Comparisons are paired by seed. Paragraphs that begin with *a reading* say what may lie behind the "
            "figures; no figure here tests them.",
        )
        for number in arguments.only:
            SECTIONS[number - 1](page)
    arguments.out.write_text("\n".join(page.lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
