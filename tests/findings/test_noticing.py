"""Findings are said once each, counted over seeds, and read off the lines alone."""

import json

import numpy as np
import orjson
import pytest
from findings.looking import FLAT, kinds, line, looked, trained
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrl_cli import runs
from pgrl_cli.config import Config
from pgrl_cli.epochs import epochs_of
from pgrl_cli.findings import Facts, Findings

LOW = {"maximum_reward": 5.0, "uniform_entropy": 1.6}
SETTLED = {"entropy": 0.01}


def test_each_is_said_once_after_the_window_in_which_it_is_seen():
    findings, said = Findings(Facts(epochs=60, **LOW)), {}
    for epoch in range(60):
        if found := findings.add([line(epoch, **SETTLED)]):
            said[epoch] = [finding.kind.word for finding in found]
    assert said == {19: ["local_optimum"]}
    assert [finding.epoch for finding in findings.all()] == [19]


def test_a_run_is_looked_at_every_ten_epochs_and_at_its_end():
    silent = {"zero_variance_groups": [0.0] * 10 + [1.0] * 90}
    for epochs, expected in ((14, []), (20, [19]), (100, [19])):
        findings = looked(Facts(epochs=epochs, **LOW), epochs, **silent)
        assert [finding.epoch for finding in findings.all()] == expected
    findings = looked(Facts(epochs=13, compares=False, **LOW), 13, zero_variance_groups=[0.0] * 3 + [1.0] * 10)
    assert [(finding.kind.word, finding.epoch) for finding in findings.all()] == [("deadlock", 12)]
    going_on = looked(Facts(epochs=100, compares=False, **LOW), 13, zero_variance_groups=[0.0] * 3 + [1.0] * 10)
    assert going_on.all() == []


@pytest.mark.parametrize(("epochs", "said"), [(1, []), (4, []), (5, ["deadlock"]), (9, ["deadlock"])])
def test_a_run_of_less_than_ten_epochs_is_looked_at_once_if_it_has_five(epochs, said):
    assert kinds(looked(Facts(epochs=epochs, **LOW), epochs, zero_variance_groups=1.0)) == said
    assert kinds(looked(Facts(epochs=10, **LOW), epochs, zero_variance_groups=1.0)) == []


def test_of_seeds_it_is_said_when_a_tenth_have_it_and_counted_on_from_there():
    facts = Facts(epochs=100, seeds=40, **LOW)
    findings, said = Findings(facts), []
    for epoch in range(100):
        having = 3 if epoch < 30 else 4 if epoch < 60 else 25
        entropy = np.where(np.arange(40) < having, 0.01, 1.0)
        said += findings.add([line(epoch, 40, entropy=entropy)])
    assert [finding.epoch for finding in said] == [49]
    assert said[0].seen.startswith("in 4 of 40 seeds the entropy is 0.62 %")
    (finding,) = findings.all()
    assert (finding.epoch, len(finding.places), finding.living) == (49, 25, 40)
    assert finding.as_json() | {"means": "", "helps": ""} == {
        "kind": "local_optimum",
        "epoch": 49,
        "seen": "in 25 of 40 seeds the entropy is 0.62 % of a uniform policy's, the mean reward 2 of 5",
        "means": "",
        "helps": "",
        "seeds": 25,
        "living": 40,
    }


def test_one_seed_of_few_is_enough():
    entropy = np.array([1.0, 0.01, 1.0])
    (finding,) = looked(Facts(epochs=30, seeds=3, **LOW), 30, entropy=entropy).all()
    assert (finding.places, finding.living) == ((1,), 3)


def test_seeds_that_have_died_do_not_count():
    facts = Facts(epochs=60, seeds=4, **LOW)
    findings = Findings(facts)
    entropy = np.array([0.01, 0.01, 1.0, 1.0])
    for epoch in range(60):
        dead = np.array([epoch >= 35, epoch >= 25, epoch >= 5, False])
        metrics = {"mean_reward": 2.0, "entropy": entropy, "loss": 0.1}
        findings.add([line(epoch, 4, **{name: np.where(dead, np.nan, value) for name, value in metrics.items()})])
    (finding,) = findings.all()
    assert finding.epoch == 19
    assert (finding.places, finding.living) == ((0,), 2)  # as when one of them last lived
    assert finding.seen.startswith("in 1 of 2 seeds")


def test_what_is_no_number_is_no_finding():
    facts = Facts(epochs=40, steps_per_epoch=2, pull_weight=1.0, **LOW)
    for spoilt in (np.nan, np.inf, None):
        columns = dict.fromkeys(
            ("entropy", "loss", "clip_fraction", "effective_sample_size", "kl", "ratio_max"), spoilt
        )
        findings = looked(facts, 40, reward_std=spoilt, zero_variance_groups=spoilt, exact_match=spoilt, **columns)
        assert findings.all() == []


def test_lines_of_an_older_run_may_lack_metrics():
    findings = Findings(Facts(epochs=20, **LOW))
    for epoch in range(20):
        findings.add([{"epoch": epoch, "step": epoch, "mean_reward": np.float32(1)}])
    assert findings.all() == []
    assert all(look.figures for look in findings.looks.values())


def test_each_seed_of_a_stack_is_judged_as_if_it_had_been_alone():
    keys = {"seeds": 5, "epochs": 30, "steps_per_epoch": 2, "learning_rate": 0.01}
    together, _, epochs = trained("lecture/max_naive", **keys)
    facts = Facts(**vars(together.facts) | {"seeds": None})
    having: dict[str, list[int]] = {}
    for place in range(5):
        alone = Findings(facts)
        for rows in epochs:
            alone.add([{k: v[place] if isinstance(v, np.ndarray) else v for k, v in row.items()} for row in rows])
        for kind in kinds(alone):
            having.setdefault(kind, []).append(place)
    assert having
    assert {finding.kind.word: list(finding.places) for finding in together.all()} == having


def test_what_is_told_is_strict_json():
    facts = Facts(epochs=20, seeds=2, **LOW)
    findings = looked(facts, 20, entropy=0.01, clip_fraction=0.9, effective_sample_size=0.01)
    told = [finding.as_json() for finding in findings.all()]
    assert {each["kind"] for each in told} == {"local_optimum", "tight_clip", "stale_samples"}
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_arrays_of_a_stack_are_not_held_on_to():
    findings = Findings(Facts(epochs=20, seeds=3, **LOW))
    for epoch in range(20):
        row = line(epoch, 3, **SETTLED)
        findings.add([row])
        for value in row.values():
            if isinstance(value, np.ndarray):
                value[:] = 0.5  # whoever made them may use them again
    assert kinds(findings) == ["local_optimum"]
    assert findings.all()[0].numbers["entropy"] == pytest.approx(0.01)


NUMBERS = st.sampled_from([0.0, 1.0, 0.01, 0.5, 2.0, -3.0, 4.999, 1e-30, 1e30, np.nan, np.inf, -np.inf])
MEASURED = (*FLAT, "kl", "clip_fraction", "exact_match", "solution_probability", "expected_zero_variance_groups")


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([None, 1, 3]), st.integers(5, 45))
def test_whatever_was_written_tells_the_same_when_it_is_read_again(data, seeds, epochs):
    some = {name: data.draw(st.lists(st.none() | NUMBERS, min_size=1, max_size=3)) for name in MEASURED}
    facts = Facts(epochs=epochs, steps_per_epoch=2, pull_weight=1.0, seeds=seeds, **LOW)
    rows = []
    for epoch in range(epochs):
        for step in (0, 1):
            values = {name: each[(epoch // 9) % len(each)] for name, each in some.items()}
            rows.append(line(epoch, seeds, **values) | {"step": 2 * epoch + step})
    live, again = Findings(facts), Findings(facts)
    heard = [finding for epoch in range(epochs) for finding in live.add(rows[2 * epoch : 2 * epoch + 2])]
    lines = [orjson.loads(text) for text in runs.lines_of(rows).splitlines()]
    repeated = [finding for epoch in epochs_of(lines, Config(name="x")) for finding in again.add(epoch)]
    assert [finding.as_json() for finding in repeated] == [finding.as_json() for finding in heard]
    told = [finding.as_json() for finding in live.all()]
    assert [finding.as_json() for finding in again.all()] == told
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert [each["kind"] for each in told] == [finding.kind.word for finding in heard]
