"""How stale a rollout may get, and whether a clip helps."""

import numpy as np

from pgrl_cli.plots.style import QUIET, SMALL, save
from truths.asking import LECTURE, Truths, middle, numbers, percent, rows_of
from truths.pictures import draw_line, grid, looks_of, named

SETTINGS = {
    "G=10, rate 0.001": ("num_responses=10", "learning_rate=0.001"),
    "G=10, rate 0.01": ("num_responses=10", "learning_rate=0.01"),
    "G=2, rate 0.01": ("num_responses=2", "learning_rate=0.01"),
}
CLIPS = ("0.01", "0.2")
LOSSES = ("naive", "unclipped", *[f"clipped at {clip}" for clip in CLIPS])


def staleness(page: Truths) -> None:
    asked = {name: _asked(page, words) for name, words in SETTINGS.items()}
    settings = {name: _losses(found) for name, found in asked.items()}
    ages = page.of_ages()
    ends = {name: {loss: gained[:, -1] for loss, (_, gained) in each.items()} for name, each in settings.items()}
    ten, fast, few = (ends[name] for name in SETTINGS)
    helped = [(each["clipped at 0.2"] > each["unclipped"]).mean() for each in (ten, fast, few)]
    narrow = [(each["clipped at 0.01"] > each["unclipped"]).mean() for each in (ten, fast)]
    page.section(
        f"9. With groups of ten a clip gives away part of what a rollout is good for; with groups of two and large steps it gains in "
        f"{helped[2] * page.seeds:.0f} of {page.seeds} seeds",
        holds=max(*helped[:2], *narrow) == 0
        and helped[2] > 0.5
        and np.median(ten["clipped at 0.01"]) < np.median(ten["clipped at 0.2"]) < np.median(ten["unclipped"]),
    )
    _draw(page, settings)
    cut = numbers(ages[0], "losses", "clipped", 1, "clip_fraction")
    page.picture("staleness", "Cosine to the true gradient and reward gained before each step on one rollout")
    steps = len(ages[0, 0]["losses"]["naive"])
    page.table(
        ["setting", *[f"{loss}: reward gained" for loss in LOSSES], "effective sample, unclipped"],
        [
            [name, *[middle(ends[name][loss], 3) for loss in LOSSES], middle(_last_sample(found[0]))]
            for name, found in asked.items()
        ],
    )
    page.say(
        f"A rollout is drawn before training, and {steps} steps are taken on it; cosine and reward are those before a step, each a mean over 256 "
        f"rollouts of the truth at their own parameters; in the table the reward is that {steps - 1} steps in. There the clip of 0.2 is above the "
        f"unclipped loss in {', '.join(f'{share * page.seeds:.0f}' for share in helped)} of the {page.seeds} seeds. A clip of 0.01 has cut {percent(cut)} of the "
        "tokens before the second step, at the lecture's rate.",
        "Later in training, with the config's own clip of 0.01 and rate, what the same number of steps gains:",
    )
    page.table(
        [
            "after epochs",
            *[f"`{loss}`" for loss in ("naive", "unclipped", "clipped")],
            "clipped: cosine before the second step",
        ],
        rows_of(
            page.ages,
            *[
                [middle(row.round(3), 3) for row in _gained(ages, loss)[..., -1]]
                for loss in ("naive", "unclipped", "clipped")
            ],
            [middle(row) for row in numbers(ages, "losses", "clipped", 1, "cosine")],
        ),
    )
    page.say(
        "*A reading.* One step already moves many ratios by more than 0.01. Tokens that went as they should get no gradient any more; "
        "what is left is the others, and these point away from the truth at first, later nowhere in particular. The reward still grows because Adam remembers the steps "
        "before. A clip pays where a rollout says little and steps are large enough to believe all of it: with two responses at ten times the "
        "rate it keeps the unluckiest policies from gaining next to nothing. Over a whole training with the lecture's rate none of this "
        "makes a clear difference at the end ([findings](findings.md), 2).",
    )


def _asked(page: Truths, words: tuple[str, ...]) -> np.ndarray:
    """[clip seed]."""
    words = (*words, "clip_epsilon=$CLIP", "seed=$SEED", "--after", "0", "--samples", "256")
    return page.asked(LECTURE, *words, CLIP=CLIPS, SEED=range(page.seeds))


def _losses(found: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Cosine and reward gained of each loss: [seed step], from [clip seed]."""
    told = {loss: (_cosine(found[0], loss), _gained(found[0], loss)) for loss in ("naive", "unclipped")}
    clipped = {f"clipped at {clip}": each for clip, each in zip(CLIPS, found, strict=True)}
    return told | {name: (_cosine(each, "clipped"), _gained(each, "clipped")) for name, each in clipped.items()}


def _along(diagnoses: np.ndarray, loss: str, what: str) -> np.ndarray:
    steps = len(diagnoses.flat[0]["losses"][loss])
    return np.stack([numbers(diagnoses, "losses", loss, step, what) for step in range(steps)], axis=-1)


def _cosine(diagnoses: np.ndarray, loss: str) -> np.ndarray:
    return _along(diagnoses, loss, "cosine")


def _gained(diagnoses: np.ndarray, loss: str) -> np.ndarray:
    rewards = _along(diagnoses, loss, "expected_reward")
    return rewards - rewards[..., :1]


def _last_sample(diagnoses: np.ndarray) -> np.ndarray:
    return _along(diagnoses, "unclipped", "effective_sample_size")[:, -1]


def _draw(page: Truths, settings: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]) -> None:
    looks = looks_of(*LOSSES)
    told = f"medians over {page.seeds} seeds of means over 256 rollouts; G: responses in a group; rate: learning rate"
    figure, panels = grid("One rollout, used again and again", told, looks, columns=3, rows=2, high=1.3, left=0.74)
    names = ("cosine to the truth", "reward gained")
    for row, name in enumerate(names):
        most = max(np.median(values[row], axis=0).max() for each in settings.values() for values in each.values())
        for panel, (setting, each) in zip(panels[row], settings.items(), strict=True):
            for loss, look in looks.items():
                values = np.median(each[loss][row], axis=0)
                draw_line(panel, range(1, len(values) + 1), values, look)
            panel.axhline(0, color=QUIET, linewidth=0.8, zorder=0.6)
            panel.set_ylim(-0.45 if row == 0 else -0.05 * most, 1.05 * most)
            panel.set_xlim(0.5, len(values) + 0.5)
            panel.set_xticks(sorted({1, (len(values) + 1) // 2, len(values)}))
            if row == 0:
                named(panel, setting)
                panel.tick_params(labelbottom=False)
            else:
                panel.set_xlabel("before step", fontsize=SMALL + 0.5)
            if panel is not panels[row][0]:
                panel.tick_params(labelleft=False)
        panels[row][0].set_ylabel(name, fontsize=SMALL + 0.5)
        panels[row][0].yaxis.set_label_coords(-0.36, 0.5)
    save(figure, page.pictures / "staleness.png")
