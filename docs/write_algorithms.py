"""Writes docs/algorithms.md and its pictures from configs/algorithms: `make algorithms`.

Every figure on the page is worked out here from runs that this script makes, and every command shown is one that it ran. The readings,
why it may be so, are typed in, and so are the titles; a title that the figures deny says so itself.

    python docs/write_algorithms.py [KEY=VALUE ...] [--seeds 8] [--only 1 2] [--out FILE --pictures DIR]
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from family.comparison import comparison
from family.credit import credit_assignment
from family.length import length_bias
from family.levels import levels
from page import Findings

DOCS = Path(__file__).parent
SECTIONS: list[Callable[[Findings], None]] = [comparison, length_bias, credit_assignment, levels]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--only", type=int, nargs="+", default=range(1, len(SECTIONS) + 1), help="numbers of sections")
    parser.add_argument("--out", type=Path, default=DOCS / "algorithms.md")
    parser.add_argument("--pictures", type=Path, default=DOCS / "algorithms")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every run, for a trial")
    arguments = parser.parse_intermixed_args(words)
    arguments.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Findings(Path(folder), arguments.pictures, arguments.seeds, None, arguments.overrides)
        page.folder = "algorithms"
        page.say(
            "# The whole family",
            f"Fourteen algorithms, from REINFORCE to CISPO, as short files over exchangeable parts under one trainer. `make algorithms` writes this page anew: it runs the "
            f"commands shown on seeds 0 to {arguments.seeds - 1} (with `--runs-dir` besides) and works the figures out from `pgrl runs export RUN --format npz`. In brackets are "
            "95 % bootstrap intervals over seeds. Paragraphs that begin with *a reading* say what may lie behind the figures; no figure here tests them.",
        )
        for number in arguments.only:
            SECTIONS[number - 1](page)
    arguments.out.write_text("\n".join(page.lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
