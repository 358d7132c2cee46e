import json
import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from pgrl_cli.cli import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ground-truth.md").read_text(encoding="utf-8")
TITLES = re.findall(r"^## (\d+)\. (.+)", PAGE, flags=re.MULTILINE)
LOOP = re.compile(r"for ([A-Z]+) in (\$\(seq \d+ \d+\)|[\d. ]+); do (.+); done")


def section(words):
    """The text under the title that holds these words."""
    return next(text for text in PAGE.split("\n## ")[1:] if words in text.partition("\n")[0])


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def table(text):
    """The first table's rows, without its head."""
    return [cells(line) for line in re.search(r"(^\|.*\n)+", text, flags=re.MULTILINE)[0].splitlines()[2:]]


def shown(text):
    """The commands shown, each with the variables of the loops around it: (a first value of each, the words)."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL):
        for line in block.splitlines():
            values = {}
            while loop := LOOP.fullmatch(line):
                values[loop[1]], line = re.search(r"[\d.]+", loop[2])[0], loop[3]
            found.append((values, re.sub(r"\$([A-Z]+)", lambda name, values=values: values[name[1]], line)))
    return found


def test_the_page_is_written_from_a_small_trial_with_its_pictures(tmp_path, monkeypatch):
    words = ["policy=table", "prompts=[[1,0,2]]", "reward_fn=sort_exact_reward", "num_responses=3", "steps_per_epoch=2"]
    words += ["--seeds", "1", "--ages", "0", "1", "--samples", "20"]
    words += ["--out", str(tmp_path / "page.md"), "--pictures", str(tmp_path / "pictures")]
    monkeypatch.syspath_prepend(ROOT / "docs")
    runpy.run_path(str(ROOT / "docs" / "write_ground_truth.py"))["main"](words)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+)\. ", page, flags=re.MULTILINE) == [number for number, _ in TITLES]
    assert "(not on these seeds)" in page  # what the lecture's policies show, others may deny
    drawn = [f"{name}.png" for name in re.findall(r"\]\(ground-truth/(\w+)\.png\)", page)]
    assert sorted(drawn) == sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert len(drawn) == len(TITLES)
    assert len(shown(page)) == len(shown(PAGE))


def test_the_statements_are_borne_out_on_the_page_that_is_shown():
    assert [number for number, _ in TITLES] == [str(number) for number in range(1, len(TITLES) + 1)]
    assert not [title for _, title in TITLES if "not on these seeds" in title]
    assert not re.search(r"\bnan\b|\binf\b", PAGE)


def test_each_statement_has_a_picture_a_table_and_says_what_is_a_reading():
    for text in PAGE.split("\n## ")[1:]:
        assert text.count("](ground-truth/") == 1
        assert table(text)
        assert text.count("*A reading.*") == 1


def test_the_page_shows_the_pictures_that_are_there():
    named = re.findall(r"\]\(ground-truth/(.+?)\)", PAGE)
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs" / "ground-truth").iterdir())


def test_the_commands_shown_exist():
    assert len(shown(PAGE)) > 15
    for _, line in shown(PAGE):
        name, *words = shlex.split(line)[1:]
        get_command(app).commands[name].make_context(name, words)  # raises UsageError


def test_the_figures_are_those_that_the_command_shown_prints():
    text = section("two states")
    [(values, line)] = shown(text)
    printed = CliRunner().invoke(app, shlex.split(line)[1:])
    assert printed.exit_code == 0, printed.output
    found = json.loads(printed.stdout)
    age, none, others, *_ = table(text)[0]
    assert age == values["AGE"]
    assert float(none) == pytest.approx(found["baselines"]["none"]["total_variance"], rel=1e-3)
    assert float(others) == pytest.approx(found["baselines"]["leave_one_out"]["total_variance"], rel=1e-3)
    assert f"{found['spread']['rewards']:.3f} to {found['spread']['centered']:.3f}" in text


def test_the_python_shown_gives_the_weights_of_right_and_wrong_answers():
    text = section("√((1-p)/p)")
    [block] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(block, names)
    advantages, without_variance = (names[name] for name in ("expected_advantages", "share_without_variance"))
    for rate, *columns, population, without in table(text):
        p = float(rate)
        known = [*[advantages(p, size) for size in (2, 4, 10, 64)], weights(p)]
        for column, pair in zip([*columns, population], known, strict=True):
            assert tuple(map(float, column.split(","))) == pytest.approx(pair, abs=0.006)
        assert float(without.removesuffix(" %")) == pytest.approx(100 * without_variance(p, 10), abs=0.06)
    golden = json.loads((ROOT / "tests" / "golden" / "golden.json").read_text(encoding="utf-8"))["cases"]
    [case] = [case for case in golden if case["name"] == "binary_group_weights"]
    assert weights(case["inputs"]["p"]) == pytest.approx(case["expected"], rel=1e-12)
    assert advantages(case["inputs"]["p"], 300) == pytest.approx(case["expected"], rel=0.01)


def weights(rate):
    """The population's, of a right answer and of a wrong one."""
    return ((1 - rate) / rate) ** 0.5, -((rate / (1 - rate)) ** 0.5)


def test_the_readme_and_the_findings_lead_to_the_page():
    assert "(docs/ground-truth.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(ground-truth.md)" in (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
