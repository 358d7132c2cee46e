"""A page of findings as it grows: text, tables and pictures, and the commands that made them, shown as they ran."""

import json
import re
import shlex
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from pgrl_cli.cli import app
from pgrl_cli.exports import exported
from pgrl_cli.statistics import bootstrap_interval, mean, share_interval


class Page:
    """The page's lines, and where pictures go while it grows."""

    folder: str
    """Of the pictures, beside the page."""

    def __init__(self, pictures: Path, seeds: int, overrides: Sequence[str]):
        self.pictures, self.seeds, self.overrides = pictures, seeds, overrides
        self.lines: list[str] = []
        self.ran: list[str] = []
        """Commands that no block shows yet."""

    def say(self, *paragraphs: str) -> None:
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def section(self, title: str, *, holds: bool) -> None:
        """A heading, and under it the commands that ran since the last; a title that the figures deny says so."""
        self.say(f"## {title}" + ("" if holds else " (not on these seeds)"))
        self.show()

    def show(self) -> None:
        """The commands that ran since the last block, as they can be typed."""
        if self.ran:
            self.code("sh", self.ran)
        self.ran = []

    def code(self, language: str, lines: Sequence[str]) -> None:
        self.lines += [f"```{language}", *lines, "```", ""]

    def picture(self, name: str, alt: str) -> None:
        self.lines += [f"![{alt}]({self.folder}/{name}.png)", ""]

    def table(self, header: list[str], rows: list[list[str]]) -> None:
        self.lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        self.lines += ["| " + " | ".join(row) + " |" for row in rows]
        self.lines.append("")


class Findings(Page):
    """A page that runs sweeps and configs, and says where the runs lie."""

    folder = "findings"

    def __init__(self, runs: Path, pictures: Path, seeds: int, draws: int | None, overrides: Sequence[str]):
        super().__init__(pictures, seeds, overrides)
        self.runs, self.draws = runs, draws
        self.names: dict[Path, str] = {}
        """The shell variables that folders are shown as."""

    def swept(self, name: str, *words: str, seeds: Sequence[int] | None = None) -> Path:
        """Run a sweep of configs/findings, on 0 to the page's number of seeds if no others are asked for."""
        given = [f"seeds={listed(seeds) if seeds else self.seeds}"]
        return self.trained("sweep", f"findings/{name}", *words, *given)

    def trained(self, command: str, config: str, *words: str) -> Path:
        """Run a sweep or a config, and name its folder after the config."""
        given = ["--config", config, "-q", *words, *self.overrides]
        folder = Path(pgrl(command, *given, "--runs-dir", str(self.runs)).strip())
        name = Path(config).name.upper()
        self.names[folder] = f"${name}"
        self.ran.append(f"{name}=$({self.typed(command, *given)})")
        return folder

    def drawn(self, folder: Path, name: str, *words: str) -> None:
        file = self.pictures / f"{name}.png"
        pgrl("plot", str(folder), *words, "--out", str(file))
        file.with_suffix(".csv").unlink(missing_ok=True)
        self.ran.append(self.typed("plot", str(folder), *words, "--out", file.name))

    def compared(self, a: Path, b: Path, *words: str) -> dict:
        """What `pgrl compare` says of the mean reward."""
        self.ran.append(self.typed("compare", str(a), str(b), *words))
        return json.loads(pgrl("compare", str(a), str(b), *words, "--json"))

    def typed(self, *words: str) -> str:
        """A command as a shell takes it, folders by their names."""
        return "pgrl " + " ".join(map(self._typed, words))

    def _typed(self, word: str) -> str:
        if ranged := re.fullmatch(r"seeds=\[(\d+),.*,(\d+)\]", word):
            return 'seeds="[$(seq -s, {} {})]"'.format(*ranged.groups())
        for folder, name in self.names.items():
            if word.startswith(str(folder)):
                return word.replace(str(folder), name)
        return shlex.quote(word)


def pgrl(*words: str) -> str:
    """What a command prints to standard output; within this process, which has loaded everything once."""
    done = CliRunner().invoke(app, words)
    if done.exit_code:
        raise SystemExit(f"pgrl {shlex.join(words)}\n{done.output}") from done.exception
    return done.stdout


def cells(folder: Path) -> dict[str, Path]:
    """A sweep's cells by their labels."""
    lines = map(json.loads, (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines())
    return {line["label"]: folder / line["folder"] for line in lines}


def arrays(run: Path) -> dict[str, np.ndarray]:
    """A run's metrics, as `pgrl runs export --format npz` writes them: [step seed] each."""
    with np.load(BytesIO(b"".join(exported(run, None, "npz")))) as file:
        return dict(file)


def listed(seeds: Sequence[int]) -> str:
    return "[" + ",".join(map(str, seeds)) + "]"


def first(data: dict[str, np.ndarray], metric: str, count: int = 10) -> np.ndarray:
    """Each seed's mean over the first epochs: [step seed] -> [seed]."""
    return data[metric][data["epochs"] < count].mean(axis=0)


def last(data: dict[str, np.ndarray], metric: str, count: int = 10) -> np.ndarray:
    """Each seed's mean over the last epochs: [step seed] -> [seed]."""
    return data[metric][data["epochs"] > data["epochs"][-1] - count].mean(axis=0)


def final(data: dict[str, np.ndarray], metric: str) -> np.ndarray:
    """Each seed's last number: [step seed] -> [seed]."""
    return data[metric][-1]


def mean_of(values: np.ndarray, digits: int = 2, sign: str = "") -> str:
    """A mean over seeds with its 95 % bootstrap interval."""
    low, high = bootstrap_interval([values], mean)
    return "{:{f}} [{:{f}}, {:{f}}]".format(values.mean(), low, high, f=f"{sign}.{digits}f")


def share_of(happened: np.ndarray) -> str:
    """The share of seeds that something happened to, in percent, with Wilson's 95 % interval."""
    low, high = share_interval(int(happened.sum()), len(happened))
    return percents(happened.mean(), low, high)


def percents(share: float, low: float, high: float) -> str:
    """A share with its interval."""
    return f"{100 * share:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def correlation(a: np.ndarray, b: np.ndarray, resamples: int = 2000) -> tuple[float, float, float]:
    """Pearson's correlation over seeds with its 95 % percentile bootstrap interval: a, b [seed]."""
    drawn = np.random.default_rng(0).integers(len(a), size=(resamples, len(a)))
    places = np.concatenate([np.arange(len(a))[None], drawn])  # all seeds once, and the resamples
    x, y = (v[places] - v[places].mean(axis=1, keepdims=True) for v in (a.astype(float), b.astype(float)))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    known = found[1:][np.isfinite(found[1:])]
    low, high = np.quantile(known, (0.025, 0.975)) if len(known) else (np.nan, np.nan)
    return float(found[0]), float(low), float(high)
