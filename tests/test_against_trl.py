"""The benchmark beside TRL, as far as it goes without TRL."""

import importlib
import re

import pytest
import torch
from test_benchmarks import ROOT, labels, printed


@pytest.fixture
def against_trl(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)  # of the process that all tests share
    return importlib.import_module("against_trl")


def told(module, milliseconds):
    return module.Told(milliseconds, 2 * milliseconds, 3.0, 4.0, (0.5, 1.5), (10, 20), 1.0)


def test_the_readme_shows_the_lines_that_it_prints_beside_trl(against_trl, capsys):
    def ask(series, steps, chosen):
        assert (series, steps) == (2, 30)
        return {name: [told(against_trl, 24.0), told(against_trl, 30.0)] for name in chosen}

    against_trl.main(["--series", "2", "--steps", "30"], ask)
    assert labels(capsys.readouterr().out) == labels(printed("make bench-trl"))
    recipe = re.search(r"^bench-trl:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert "benchmarks/against_trl.py\n" in recipe[1]


def test_ratios_are_taken_series_by_series(against_trl, capsys):
    theirs, ours = ([told(against_trl, ms) for ms in series] for series in ((24.0, 30.0), (8.0, 6.0)))
    found = {"TRL": theirs, "ours": ours}
    against_trl.report(found, 2)
    assert "| ours | 7.0 (6.0 to 8.0) | 4.0 (3.0 to 5.0) |" in capsys.readouterr().out


def test_a_series_leaves_out_the_first_steps_and_the_last_and_shares_its_time_among_runs(against_trl):
    ends = [100.0, *range(101, 105), 106.0, 108.0, 110.0, 500.0]
    series = [[(end, 2 * end) for end in ends], list(range(9)), (4, 5), 9]
    found = against_trl.told(series, 2, began=190.0)
    assert (found.step, found.step_by_clock) == (1000.0, 2000.0)
    assert (found.start, found.start_by_clock, found.updates) == (100.0, 10.0, 1.0)


@pytest.mark.parametrize(("what", "runs"), [("files", 1), ("alone", 2)])
def test_our_side_takes_a_step_per_rollout_and_reads_every_prompt_once(against_trl, what, runs, monkeypatch):
    from pgrl_cli.policies.transformer import TransformerPolicy

    monkeypatch.setattr(TransformerPolicy, "embedded", TransformerPolicy.embedded)  # put back what it replaces
    series = against_trl.child(what, runs, 2)
    prompts, responses, tokens = 8, 8, 5
    once = prompts * tokens + prompts * responses * (tokens - 1)  # nothing is written after the last token
    assert series.updates == len(series.rewards) == len(series.stamps) == 2
    assert series.read[1] == once
