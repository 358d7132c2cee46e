"""`pgrl diagnose`: its numbers as JSON, as tables with sentences, as a page with pictures; and what it refuses."""

import json
import re
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from plots.shown import assert_readable
from typer.testing import CliRunner

from pgrl_cli import cli_diagnose, diagnose, diagnosed
from pgrl_cli.cli import app
from pgrl_cli.config.layers import layers_from, layers_of
from pgrl_cli.diagnosis import sections
from pgrl_cli.diagnosis.modes import visible
from pgrl_cli.diagnosis.subject import Subject
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.experiment import run
from pgrl_cli.readings import divergences, losses, page
from pgrl_cli.readings.numbers import estimate, names, number, points, share
from pgrl_cli.resolution import resolve
from pgrl_cli.runs import Run

PLAIN = {"COLUMNS": "300", "NO_COLOR": "1", "FORCE_COLOR": None}
FEW = 64
SHORT = {"task": "two_state", "policy": "table", "epochs": 3, "steps_per_epoch": 2, "num_responses": 3, "name": "short"}
Found = dict[str, Any]
VISIBLE = {name for name, mode in ADVANTAGES.items() if visible(mode) is not None}


def pgrl(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, words, env=PLAIN)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, re.sub(r"\x1b\[[0-9;]*m", "", result.stderr)


def trained(name: str, *overrides: str, epochs: int | None = None, **more: Any) -> AbstractContextManager[Subject]:
    return diagnose.after(resolve(layers_of(name, list(overrides))).config, epochs, **more)


def diagnosed_as(name: str, *overrides: str, epochs: int | None = None) -> Found:
    with trained(name, *overrides, epochs=epochs) as subject:
        return diagnose.diagnosis(subject, FEW)


@pytest.fixture(scope="session")
def two_state() -> Found:
    return diagnosed_as("lecture/two_state")


@pytest.fixture(scope="session")
def clipped() -> Found:
    """Of one prompt of the lecture's."""
    with trained("lecture/centered_clipped", "num_responses=4", prompts=1) as subject:
        return diagnose.diagnosis(subject, FEW)


@pytest.fixture(scope="session")
def sample() -> Found:
    """The same where there are too many responses to go through."""
    with pytest.MonkeyPatch.context() as patch, trained("lecture/centered_clipped", "num_responses=4", prompts=1) as it:
        patch.setattr(sections, "MOST_ENUMERATED", 100)
        return diagnose.diagnosis(it, 200)


@pytest.fixture(scope="session")
def solved() -> Found:
    return diagnosed_as("lecture/two_state", "learning_rate=30")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# The object


@pytest.mark.parametrize("which", ["two_state", "clipped", "sample"])
def test_the_object_has_the_sections_and_keys_that_are_promised(which: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(which)
    truth = {"expected_reward", "maximum_reward", "gradient_norm", "entropy", "kl_forward", "kl_reverse"}
    assert set(found["truth"]) == truth
    assert set(found["delta_modes"]) == VISIBLE
    for each in found["delta_modes"].values():
        numbers = {"scale", "off_direction", "total_variance", "signal_to_noise"}
        assert set(each) == numbers | {"cosine", "responses_needed", "exact", "standard_error"}
        assert set(each["cosine"]) == {"p05", "p50", "p95"}
        assert (each["standard_error"] is None) == each["exact"]
        assert each["exact"] or set(each["standard_error"]) <= numbers
    kinds = {"none", "expected_reward", "old_policy_value", "optimal", "leave_one_out", "group_mean"}
    assert set(found["baselines"]) == kinds
    assert all("total_variance" in each for each in found["baselines"].values())
    assert set(found["losses"]) == set(LOSSES)
    assert all(len(steps) == 10 for steps in found["losses"].values())
    step = {"cosine", "standard_error", "effective_sample_size", "clip_fraction", "expected_reward"}
    assert all(set(each) == step for steps in found["losses"].values() for each in steps)
    assert set(found["kl"]) == set(DIVERGENCES)
    for section in ("kl", "kl_sequence"):
        for placements in found[section].values():
            assert set(placements) == {"loss", "reward"}
            term = {"bias", "variance", "cosine_forward", "cosine_reverse", "scale"}
            assert all(set(each) == term for each in placements.values())
    assert {"prompts", "exact_match", "correlation", "informative_groups"} <= set(found["reward"])
    assert set(found["traps"]) == {"unfrozen_old_log_probs", "first_ratio", "cold_samples"}
    assert found["subject"]["exact"] == (which != "sample")
    assert (found["standard_errors"] is None) == found["subject"]["exact"]


def test_standard_errors_of_a_sample_stand_where_its_numbers_stand(sample: Found) -> None:
    def paths(part: Any, head: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        if not isinstance(part, dict):
            return {head}
        return {path for name, inner in part.items() for path in paths(inner, (*head, name))}

    errors = sample["standard_errors"]
    assert {"truth", "baselines", "kl", "kl_sequence", "reward"} <= set(errors)
    assert paths(errors) <= paths(sample)
    assert errors["truth"]["expected_reward"] > 0


def test_what_is_no_finite_number_is_null(solved: Found) -> None:
    assert json.loads(json.dumps(solved, allow_nan=False)) == solved
    assert solved["delta_modes"]["rewards"]["scale"] is None
    assert solved["truth"]["kl_reverse"] == pytest.approx(solved["truth"]["kl_reverse"])  # far away, but a number


def test_json_is_the_object_and_nothing_else(two_state: Found) -> None:
    words = ["diagnose", "--config", "lecture/two_state", "--samples", str(FEW), "--json"]
    code, out, err = pgrl(*words)
    assert (code, err) == (0, "")
    assert json.loads(out, parse_constant=pytest.fail) == two_state


# Tables and sentences


def told(found: Found) -> dict[str, list[str]]:
    """The sentences by section; of two tables of one section together."""
    sentences: dict[str, list[str]] = {}
    for reading in page.readings(found):
        sentences.setdefault(reading.section, []).extend(reading.sentences)
    return sentences


@pytest.mark.parametrize("which", ["two_state", "clipped", "sample", "solved"])
def test_no_sentence_and_no_cell_shows_what_is_no_number(which: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(which)
    shown = page.markdown(found, {})
    assert not re.search(r"\b(None|nan|inf)\b", shown)
    for reading in page.readings(found):
        assert all(len(row) == len(reading.columns) for row in reading.rows)


def test_the_lectures_figure_of_a_baseline_is_told() -> None:
    code, out, _ = pgrl("diagnose", "--config", "lecture/two_state", "--samples", str(FEW))
    assert code == 0
    words = " ".join(out.split())
    assert "each of the 4 responses counted once" in words
    assert "the deltas falls from 5.323 to 1.155 when each prompt's mean is taken away" in words
    assert max(map(len, out.splitlines())) <= 80
    assert not [line for line in out.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("which", ["clipped", "sample", "solved"])
def test_every_table_fits_into_80_columns(which: str, request: pytest.FixtureRequest, capsys: Any) -> None:
    from pgrl_cli.cli_diagnose import _show

    _show(request.getfixturevalue(which))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert all(word in text for word in [*VISIBLE, *LOSSES, "k1", "exact"])  # no word is broken


def test_sentences_of_delta_modes_follow_their_numbers(two_state: Found) -> None:
    said = told(two_state)["delta_modes"]
    unbiased = "rewards, leave_one_out_rewards, optimal_baseline, true_value_baseline and greedy_baseline"
    assert said[0] == f"Unbiased: {unbiased}."
    assert said[1] == "Of the right direction, but of another length: centered_rewards (0.900)."
    assert said[2] == "Bent, with so much of it across: normalized_rewards (1.2 %) and max_rewards (59.6 %)."
    assert said[3].startswith("Most accurate with 10 responses to each prompt: normalized_rewards")
    assert said[3].endswith("this config's centered_rewards needs 14 for the same.")
    needed = {mode: each["responses_needed"] for mode, each in two_state["delta_modes"].items()}
    assert (needed["rewards"], needed["normalized_rewards"]) == (278, 10)  # as the README has it
    level = deepcopy(two_state)
    level["delta_modes"]["max_rewards"] = level["delta_modes"]["normalized_rewards"]
    assert "Level as the most accurate" in told(level)["delta_modes"][3]
    best = deepcopy(two_state)
    best["subject"]["delta_mode"] = "normalized_rewards"
    assert told(best)["delta_modes"][3].endswith("; it is this config's.")
    far = deepcopy(two_state)
    far["subject"]["delta_mode"] = "max_rewards"
    assert told(far)["delta_modes"][3].endswith("this config's max_rewards needs more than 640 for the same.")


def test_a_sample_is_not_said_to_be_bent_where_it_may_be_chance(two_state: Found) -> None:
    found = deepcopy(two_state)
    mode = found["delta_modes"]["optimal_baseline"]
    mode |= {"exact": False, "off_direction": 0.02, "scale": 1.01}
    mode["standard_error"] = dict.fromkeys(("scale", "off_direction", "signal_to_noise", "total_variance"), 0.01)
    assert "Unbiased, as far as the sample tells: optimal_baseline." in told(found)["delta_modes"]
    mode["off_direction"] = 0.035
    assert not [line for line in told(found)["delta_modes"][:-1] if "optimal_baseline" in line]
    mode["off_direction"] = 0.09
    assert "Bent, with about so much of it across: optimal_baseline (9.0 %)." in told(found)["delta_modes"]


def test_a_config_whose_mode_cannot_be_looked_at_is_looked_at_all_the_same_and_told_so() -> None:
    found = diagnosed_as("lecture/two_state", "delta_mode=gae", "optimizer=trpo", "epochs=2", "steps_per_epoch=2")
    assert (found["subject"]["delta_mode"], found["subject"]["looked_at_as"]) == ("gae", "true_value_baseline")
    assert set(found["delta_modes"]) == VISIBLE
    shown = page.markdown(found, {})
    assert "gae makes of a response does not follow from one group of whole responses, so it is not looked at" in shown
    assert "in the expected gradient of true\\_value\\_baseline" in shown
    assert found["losses"]["naive"][-1]["expected_reward"] > found["truth"]["expected_reward"]
    own = diagnosed_as("lecture/two_state", "epochs=1", "steps_per_epoch=1")
    assert own["subject"]["looked_at_as"] == own["subject"]["delta_mode"] == "centered_rewards"
    assert "stands in" not in page.markdown(own, {})
    assert [reading.section for reading in page.readings(own)].count("losses") == 1  # after one step nothing has moved


def test_how_far_losses_have_led_is_told_of_the_middle_and_the_end(two_state: Found) -> None:
    found = two_state | {"losses": {"naive": steps(0.9, 0.8, 0.7), "clipped": steps(0.9, 0.8, 0.7, cut=0.25)}}
    found["losses"]["naive"][2]["effective_sample_size"] = 0.5
    (reading,) = [each for each in page.readings(found) if "led away" in each.question]
    assert reading.columns == ("loss", "sample, step 2", "sample, step 3", "cut, step 2", "cut, step 3")
    assert reading.rows == (("naive", "100 %", "50.0 %", "-", "-"), ("clipped", "100 %", "100 %", "25.0 %", "25.0 %"))


def test_sentences_of_baselines_name_the_quietest_and_ties(two_state: Found, clipped: Found) -> None:
    assert told(two_state)["baselines"][0] == "No noise is left with optimal constant b*(s)."
    assert told(clipped)["baselines"][0].startswith("Optimal constant b*(s) is the least noisy, with ")
    tie = deepcopy(clipped)
    tie["baselines"]["expected_reward"] = tie["baselines"]["optimal"]
    assert "V(s) and optimal constant b*(s) are level as the least noisy" in told(tie)["baselines"][0]
    worse = deepcopy(clipped)
    worse["baselines"]["old_policy_value"]["total_variance"] = 1e9
    assert "Noisier than none: the reference's V(s)." in told(worse)["baselines"]
    same = deepcopy(clipped)
    same["spread"] |= {"rewards": 0.25, "centered": 0.25}
    assert told(same)["baselines"][-1].endswith(
        "of the deltas is 0.2500, whether each prompt's mean is taken away or not."
    )


def steps(*cosines: float, cut: float | None = None, error: float = 0.01) -> list[Found]:
    rest = {"standard_error": error, "effective_sample_size": 1.0, "clip_fraction": cut, "expected_reward": 1.0}
    return [{"cosine": cosine, **rest} for cosine in cosines]


@pytest.mark.parametrize(
    ("clip", "free", "said"),
    [
        ((0.9, 0.8, 0.7), (0.9, 0.8, 0.7), "The clip makes no difference that these rollouts show."),
        ((0.9, 0.8, 0.7), (0.9, 0.6, 0.1), "The clip helps at steps 2 to 3."),
        ((0.9, 0.1, 0.2), (0.9, 0.8, 0.1), "The clip helps at step 3; at step 2 the clipped loss points farther from"),
        ((0.9, 0.1, 0.7, 0.1), (0.9, 0.8, 0.7, 0.8), "The clip helps at no step; at steps 2 and 4 the clipped"),
    ],
)
def test_where_a_clip_helps_is_worked_out(two_state: Found, clip: Any, free: Any, said: str) -> None:
    found = two_state | {"losses": {"unclipped": steps(*free), "clipped": steps(*clip, cut=0.1)}}
    assert losses.losses(found).sentences[0].startswith(said)


def test_a_clip_that_cuts_everything_off_is_not_said_to_point_anywhere(two_state: Found) -> None:
    found = two_state | {"losses": {"unclipped": steps(0.9, 0.8), "clipped": [*steps(0.9), *steps(0.0, cut=1.0)]}}
    said = losses.losses(found).sentences[0]
    assert said == "At step 2 the clip cuts everything off: the clipped loss stands still."


def test_an_epoch_of_one_step_and_one_of_very_many_are_told_as_they_are(two_state: Found) -> None:
    one = two_state | {"losses": {"naive": steps(0.9), "clipped": steps(0.9, cut=0.0)}}
    assert told(one)["losses"] == [
        "An epoch has one step here: a rollout is never stale, every ratio is 1, and a clip has nothing to do."
    ]
    many = two_state | {"losses": {"naive": steps(*[0.9] * 30, *[-0.2] * 70)}}
    reading = losses.losses(many)
    assert [row[0] for row in reading.rows] == ["1", "12", "23", "34", "45", "56", "67", "78", "89", "100"]
    assert reading.sentences[0].endswith(
        "has lost half of its first cosine by step 31, where it points away from the truth."
    )


def test_every_kl_term_is_said_to_pull_where_it_pulls(clipped: Found) -> None:
    said = told(clipped)["kl"]
    assert "Pull down KL(policy ∥ reference): k1 in the reward; k2 and exact in the loss." in said
    assert "Pulls down KL(reference ∥ policy): k3 in the loss." in said
    assert "Pull nowhere: k1 in the loss; exact in the reward." in said
    assert "k1, k3 and exact are unbiased, exact the least noisy; k2 is off by" in said[-1]


@pytest.mark.parametrize(
    ("forward", "reverse", "error", "kind"),
    [
        (1.0, 1.0, 0.0, "both"),
        (0.98, 0.5, 0.02, "forward"),
        (0.98, 0.5, 0.001, "other"),
        (0.9, 0.5, 0.1, "unknown"),
        (-0.3, -0.4, 0.01, "up"),
        (-0.3, -0.4, 0.3, "unknown"),
        (0.9999, 0.9995, 0.0, "nearly"),
        (None, None, 0.0, "unknown"),
    ],
)
def test_a_sample_says_of_a_direction_what_it_can(forward: Any, reverse: Any, error: float, kind: str) -> None:
    term = {"cosine_forward": forward, "cosine_reverse": reverse, "scale": 0.5}
    assert divergences.kind_of(term, {"cosine_forward": error, "cosine_reverse": error}) == kind


def test_a_policy_that_is_its_reference_is_told_how_to_get_another() -> None:
    found = diagnosed_as("lecture/two_state", epochs=0)
    assert found["truth"]["kl_forward"] == 0
    (said,) = told(found)["kl"]
    assert said.startswith(
        "The policy is its reference, so both KLs are zero and no term has a direction; `--after 10`"
    )
    assert "kl_sequence" not in told(found)
    found["subject"]["reference"] = "the run's own, which is the policy itself, just refreshed"
    assert "`--config` takes the run's config.yaml" in told(found)["kl"][0]


def test_a_solved_policy_has_nothing_to_learn_and_no_estimator_is_praised(solved: Found) -> None:
    said = told(solved)
    assert "The gradient is zero, since whatever the policy answers earns the most" in said["truth"][1]
    assert said["delta_modes"] == ["There is no true gradient here, and with no delta mode does a rollout have one."]
    assert "there is no noise to take away" in said["baselines"][0]
    assert said["losses"][-1] == "The expected reward stays at 6.5."


def test_a_sample_without_a_gradient_does_not_say_that_there_is_none(sample: Found) -> None:
    found = deepcopy(sample)
    found["truth"]["gradient_norm"] = 0.0
    found["baselines"]["none"]["total_variance"] = 0.0
    found["reward"]["informative_groups"]["4"] = 0.0
    said = told(found)
    assert said["truth"][1].startswith("The sample does not tell the gradient from zero")
    assert said["delta_modes"][0].startswith("The sample does not tell which way the true gradient points")
    assert said["losses"][0] == "Before the first step the sample does not tell the true gradient."
    assert said["baselines"][0] == "In this sample there is no noise that a baseline could take away."
    assert "With this config's 4 it is none: all sampled responses to a prompt earn the same." in said["reward"]


def test_a_mode_that_no_drawn_group_shows_has_no_numbers_and_is_named(clipped: Found) -> None:
    found = deepcopy(clipped)
    mode = found["delta_modes"]["optimal_baseline"] | {"exact": False, "responses_needed": None, "standard_error": {}}
    unseen = dict.fromkeys(("scale", "off_direction", "total_variance", "signal_to_noise"))
    found["delta_modes"]["optimal_baseline"] = mode | unseen
    by = {reading.section: reading for reading in page.readings(found)}["delta_modes"]
    row = next(row for row in by.rows if row[0] == "optimal_baseline")
    assert [*row[1:5], *row[6:]] == ["-"] * 5 + ["no"]
    assert any(line.startswith("No drawn group has an advantage with optimal_baseline") for line in by.sentences)


def test_of_one_response_in_all_there_is_no_standard_deviation_and_no_complaint() -> None:
    found = diagnosed_as("lecture/centered_clipped", "prompts=[[0]]", "vocab_size=1", "steps_per_epoch=2", epochs=1)
    assert found["spread"] == {"rewards": None, "centered": None, "responses": 1}
    assert not any("standard deviation" in line for line in told(found)["baselines"])


def test_numbers_of_any_size_are_told_in_few_digits(two_state: Found) -> None:
    found = deepcopy(two_state)
    found["spread"] |= {"rewards": 7.2e29, "centered": 7.2e-31}
    assert " falls from 7.2e+29 to 0 when " in told(found)["baselines"][-1]
    assert points(-0.0) == "0"


def test_a_wrong_response_that_never_comes_is_not_said_to_be_given(solved: Found) -> None:
    assert solved["reward"]["prompts"][0]["best_wrong_probability"] == 0
    assert not any("the policy gives the wrong" in line for line in told(solved)["reward"])


def test_a_reward_that_fails_is_told_as_by_train(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def points(prompt, response):\n    return None\n")
    code, out, err = pgrl("diagnose", "--config", "lecture/centered_clipped", "reward_fn=mine.py:points")
    assert (code, out) == (1, "")
    assert re.match(r"error: \S+/mine.py:1: the reward returned ", err)


def test_of_many_prompts_it_is_said_that_they_take_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_diagnose, "MANY_PROMPTS", 1)
    words = ["diagnose", "--config", "lecture/two_state", "--samples", "20"]
    assert "note: all 2 prompts are looked at" in pgrl(*words)[2]
    assert pgrl(*words, "--prompts", "1")[2] == ""


def test_rewards_that_never_differ_leave_noise_to_those_who_do_not_center() -> None:
    with trained("lecture/two_state") as subject:
        (share_,) = subject.parts.shares
        always = replace(
            share_, rewards={"always": (lambda prompts, responses: torch.full(responses.shape[:-1], 3.1), 1)}
        )
        found = diagnose.diagnosis(replace(subject, parts=replace(subject.parts, shares=(always,))), FEW)
    assert found["truth"]["gradient_norm"] == 0
    assert all(each["responses_needed"] is None for each in found["delta_modes"].values())
    said = told(found)
    assert "since whatever the policy answers earns the most" in said["truth"][1]
    assert said["delta_modes"][0] == "There is no true gradient here: what a rollout's gradient shows is noise."
    assert "centered_rewards" in said["delta_modes"][1]
    assert "max_rewards" not in said["delta_modes"][1]


def test_groups_that_show_nothing_are_not_taken_for_nothing(two_state: Found) -> None:
    found = deepcopy(two_state)
    nothing = {"scale": 0.0, "off_direction": None, "total_variance": 0.0, "signal_to_noise": None, "exact": False}
    found["delta_modes"]["optimal_baseline"] |= nothing | {"standard_error": {"scale": 0.0, "total_variance": 0.0}}
    said = told(found)["delta_modes"]
    assert "No drawn group has an advantage with optimal_baseline, which tells nothing" in said[-2]
    assert not [line for line in said if line.startswith(("Unbiased", "Bent")) and "optimal_baseline" in line]
    (reading,) = (each for each in page.readings(found) if each.section == "delta_modes")
    (row,) = (row for row in reading.rows if row[0] == "optimal_baseline")
    assert row[1:5] == ("-", "-", "-", "-")


def test_a_policy_that_is_as_good_as_certain_has_no_directions_that_count(two_state: Found) -> None:
    found = deepcopy(two_state)
    found["truth"]["entropy"] = 1e-40
    assert told(found)["kl"] == [divergences.CERTAINLY]


def test_a_group_of_one_has_the_modes_that_it_can_have() -> None:
    found = diagnosed_as("lecture/two_state", "delta_mode=rewards", "num_responses=1")
    assert set(found["delta_modes"]) == {"rewards", "max_rewards", "true_value_baseline", "greedy_baseline"}
    assert "there is nothing to compare it with" in told(found)["reward"][-1]
    assert "group" not in told(found)["baselines"][1]


def test_loopholes_and_their_absence_are_told(two_state: Found) -> None:
    assert told(two_state)["reward"][0] == "Without a right answer 4.5 of 6.5 can be earned, averaged over prompts."
    open_ = deepcopy(two_state)
    open_["reward"]["prompts"][1]["best_wrong_reward"] = 2.0
    assert told(open_)["reward"][0].startswith("A loophole: to 1 of 2 prompts a wrong response earns as much as")
    none = deepcopy(two_state)
    for prompt in none["reward"]["prompts"]:
        prompt |= dict.fromkeys(("best_wrong_response", "best_wrong_reward", "best_wrong_probability"))
    none["reward"]["correlation"] = None
    assert told(none)["reward"][0] == "No response is wrong."
    assert "have no correlation" in told(none)["reward"][1]


def test_a_sample_says_that_it_is_one(sample: Found) -> None:
    text = " ".join(page.opening(sample))
    assert "There are 125 responses, too many to go through: 200 sampled ones stand for them." in text
    assert "exact" not in text
    by = {reading.section: reading for reading in page.readings(sample)}
    assert by["truth"].columns == ("", "sampled")
    assert all("±" in row[1] for row in by["truth"].rows if "most" not in row[0])
    assert [row[-1] for row in by["delta_modes"].rows] == ["no"] * len(VISIBLE)
    assert "as far as the sample tells" in " ".join(told(sample)["kl"])


def test_a_sample_that_sees_no_gradient_does_not_say_that_there_is_none(sample: Found) -> None:
    found = deepcopy(sample)
    found["truth"]["gradient_norm"] = 0.0
    assert told(found)["truth"][1].startswith("The sample does not tell the gradient from zero")
    assert told(found)["delta_modes"] == [
        "The sample does not tell which way the true gradient points, so neither what is along it."
    ]
    assert not [line for line in told(found)["losses"] if "no true gradient" in line]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (5.322906, "5.323"), (0.0213496, "0.02135"), (99999.6, "1.0e+05"), (7.4e-05, "7.4e-05")],
)
def test_numbers_have_four_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_an_error_says_how_many_digits_a_number_has() -> None:
    assert estimate(0.99728, 0.00333) == "0.997 ±0.003"
    assert estimate(0.99728, 0.0149) == "0.997 ±0.015"
    assert estimate(5160.4, 174.9) == "5160 ±175"
    assert estimate(1.5, 1e-14) == "1.500"
    assert [share(each) for each in (None, 0.0, 1e-6, 0.0841, 0.9999, 1.0)] == [
        "-",
        "0 %",
        "<0.01 %",
        "8.4 %",
        ">99.9 %",
        "100 %",
    ]
    assert [names("a"), names("ab"), names("abc")] == ["a", "a and b", "a, b and c"]


# Files


def test_out_has_the_numbers_a_page_and_pictures_and_may_be_written_again(two_state: Found, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    words = ["diagnose", "--config", "lecture/two_state", "--samples", str(FEW), "--out", str(folder)]
    code, out, err = pgrl(*words)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == str(folder)
    files = {path.name for path in folder.iterdir()}
    assert files == {"diagnosis.json", "diagnosis.md", "delta_modes.png", "losses.png", "kl.png"}
    assert json.loads((folder / "diagnosis.json").read_text()) == two_state
    text = (folder / "diagnosis.md").read_text()
    assert all(f"({name})" in text for name in files if name.endswith(".png"))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    diagnosed.write(folder, two_state)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_pages_numbers_are_those_of_the_json(clipped: Found) -> None:
    tables = [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]
        for block in page.markdown(clipped, {}).split("\n\n")
        if block.startswith("|")
    ]
    truth, modes, baselines = tables[:3]
    for row, value in zip(truth, clipped["truth"].values(), strict=True):
        assert float(row[1]) == pytest.approx(value, rel=1e-3)
    for row, (mode, each) in zip(modes, clipped["delta_modes"].items(), strict=True):
        assert row[0].replace("\\", "") == mode
        if each["exact"]:
            assert float(row[1]) == pytest.approx(each["scale"], rel=5e-3)
            assert float(row[3]) == pytest.approx(each["total_variance"], rel=1e-3)
        else:
            assert float(row[1].split()[0]) == pytest.approx(each["scale"], abs=each["standard_error"]["scale"])
        assert [float(word) for word in row[5].split()] == pytest.approx(list(each["cosine"].values()), abs=0.006)
    for row, each in zip(baselines, clipped["baselines"].values(), strict=True):
        assert float(row[1]) == pytest.approx(each["total_variance"], rel=1e-3)
    terms = [row for row in tables[5] if row[0] == "k2"]
    assert float(terms[0][2]) == pytest.approx(clipped["kl"]["k2"]["loss"]["bias"], rel=1e-3)


def test_files_that_are_not_a_diagnosiss_stay_and_the_work_does_not_begin(tmp_path: Path) -> None:
    words = ["diagnose", "--config", "lecture/two_state", "--out"]
    for name, text in (("diagnosis.md", "# Mine"), ("diagnosis.json", '{"mine": 1}'), ("kl.png", "mine")):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_text(text)
        code, out, err = pgrl(*words, str(folder))
        assert (code, out) == (2, "")
        assert f"{name}: is there, and was not " in err
        assert [path.name for path in folder.iterdir()] == [name]
        assert (folder / name).read_text() == text
    assert "kl.png is no folder" in pgrl(*words, str(folder / "kl.png" / "under"))[2]
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert "is no folder" in pgrl(*words, "link")[2]


def test_a_name_does_nothing_to_the_page(two_state: Found) -> None:
    hostile = deepcopy(two_state)
    hostile["subject"]["config"] = "a|b <i>[x](y)\x1b[2J"
    heading = page.markdown(hostile, {}).splitlines()[2]
    assert heading == r"# Diagnosis of a\|b \<i>\[x](y)\\x1b\[2J, seed 7, after 10 epochs"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that would be saved from now on."""
    kept: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *words, **more: kept.append(figure))
    return kept


@pytest.mark.parametrize("which", ["clipped", "sample", "solved"])
def test_pictures_can_be_read(which: str, request: pytest.FixtureRequest, drawn: list, tmp_path: Path) -> None:
    found = request.getfixturevalue(which)
    diagnosed.write(tmp_path, found)
    assert len(drawn) == 3
    for figure in drawn:
        assert_readable(figure)
    (panel,) = drawn[-1].axes
    middle = [text.get_text() for text in panel.texts if text.get_position()[0] == 0 and text.get_ha() == "center"]
    expected = [term["cosine_forward"] for places in found["kl"].values() for term in places.values()]
    shown = [None if text == "none" else float(text) for text in middle[: len(expected)]]
    assert shown == pytest.approx(expected, abs=0.06 if which == "sample" else 6e-3)


# Runs


@pytest.fixture
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgrl_cli.notebook.draw", lambda *words, **more: None)


def a_run(**keys: Any) -> Run:
    return run(resolve(layers_from(SHORT | keys, folder=Path.cwd())), Path("runs"))[0]


@pytest.mark.usefixtures("_without_pictures")
def test_a_run_is_looked_at_as_the_same_training_would_be() -> None:
    folder = a_run(delta_mode="centered_rewards")
    code, out, _ = pgrl("diagnose", "--run", "short", "--samples", str(FEW), "--json")
    config = str(folder.folder / "config.yaml")
    again = pgrl("diagnose", "--config", config, "--after", "3", "--samples", str(FEW), "--json")[1]
    assert code == 0
    assert json.loads(out) == json.loads(again)


@pytest.mark.usefixtures("_without_pictures")
def test_one_seed_of_many_is_looked_at(tmp_path: Path) -> None:
    a_run(seeds=[3, 8], dtype="float64", name="many")
    words = ["--samples", str(FEW), "--json"]
    last = json.loads(pgrl("diagnose", "--run", "many", "--seed", "8", *words)[1])
    assert last["subject"]["seed"] == 8
    with diagnose.after(resolve(layers_from(SHORT | {"seed": 8, "dtype": "float64"})).config) as alone:
        there = diagnose.diagnosis(alone, FEW)
    assert there["truth"]["gradient_norm"] == pytest.approx(last["truth"]["gradient_norm"], rel=1e-9)
    code, _, err = pgrl("diagnose", "--run", "many", "--seed", "5")
    assert (code, "has no seed 5; it has 3, 8" in err) == (2, True)
    code, _, err = pgrl(
        "diagnose", "--config", "lecture/two_state", "seeds=3", "num_responses=2", "--after", "0", *words
    )
    assert (code, err) == (0, "note: of 3 seeds the first, 0; --seed names another\n")


@pytest.mark.usefixtures("_without_pictures")
def test_kls_are_measured_from_a_runs_own_reference_if_that_is_another_policy() -> None:
    own = {"kl_coefficient": 0.1, "delta_mode": "centered_rewards"}
    a_run(**own, name="pulled")
    found = json.loads(pgrl("diagnose", "--run", "pulled", "--samples", str(FEW), "--json")[1])
    assert found["subject"]["reference"] == "the run's own"
    a_run(**own, reference_period=1, learning_rate_decay="linear", name="fresh")
    found = json.loads(pgrl("diagnose", "--run", "fresh", "--samples", str(FEW), "--json")[1])
    assert found["subject"]["reference"].startswith("the policy before training (the run's own is the policy itself")
    assert found["truth"]["kl_forward"] > 0


@pytest.mark.usefixtures("_without_pictures")
def test_a_run_whose_beginning_has_gone_is_refused_only_if_its_kl_would_start_there() -> None:
    first = a_run(name="first")
    a_run(name="second", init_from="first")
    a_run(name="third", init_from="first", kl_coefficient=0.1)
    first.folder.rename("elsewhere")
    code, out, err = pgrl("diagnose", "--run", "second")
    assert (code, out) == (2, "")
    assert "KLs would be measured from there, but: there is no" in err
    assert pgrl("diagnose", "--run", "third", "--samples", str(FEW), "--json")[0] == 0
    Path("elsewhere", "checkpoints").rename("gone")
    assert "has no checkpoint yet" in pgrl("diagnose", "--run", "elsewhere")[2]


# What is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--config is missing: name what to look at: pgrl diagnose --config lecture/centered_clipped"),
        (["lecture/two_state"], "put --config, or --run, before lecture/two_state"),
        (["--run", "x", "-c", "y", "--after", "2"], "--config: a run has its own config"),
        (["--run", "x", "-c", "y", "--after", "2"], "--after: a run has its own config"),
        (["--run", "x", "epochs=3"], "KEY=VALUE: a run is looked at with its own config; leave epochs=3 out"),
        (["--run", "nothing"], "nothing: there is no such folder"),
        (["-c", "findings/deltas"], "is a sweep: pgrl sweep --config findings/deltas trains it"),
        (["-c", "lecture/two_state", "--after", "101"], "came 101; the config trains for 100 epochs: epochs=101 makes"),
        (["-c", "lecture/two_state", "--seed", "3"], "--seed: came 3; the config has 7; seed=3 chooses another"),
        (["-c", "lecture/two_state", "--samples", "3"], "--samples"),
        (["-c", "lecture/two_state", "deltas_mode=x"], "here it is spelled 'delta_mode'"),
        (["-c", "lecture/two_state", "learning_rate=1e300", "--after", "3"], "the policy is not finite"),
    ],
)
def test_what_cannot_be_looked_at_is_told(words: list[str], said: str) -> None:
    code, out, err = pgrl("diagnose", *words)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())


@pytest.mark.parametrize(("length", "told"), [(9, "9^9 = 387,420,489 responses"), (400, "9^400 responses")])
def test_more_responses_than_can_be_gone_through_are_refused_with_their_number(length: int, told: str) -> None:
    keys = ["prompts=null", "prompt_count=2", f"prompt_length={length}", "vocab_size=9"]
    code, out, err = pgrl("diagnose", "-c", "lecture/centered_clipped", *keys)
    assert (code, out) == (2, "")
    assert f"{told} to each prompt are more than the 1,048,576 that can be gone through; --samples N draws" in err


def test_it_says_what_it_is_at(two_state: Found) -> None:
    seen: list[str] = []
    with trained("lecture/two_state", epochs=2, watch=seen.append) as subject:
        diagnose.diagnosis(subject, FEW, seen.append)
    assert seen[:3] == ["training, epoch 1 of 2", "training, epoch 2 of 2", "the responses"]
    assert seen[-1] == "standard errors"
    assert "delta modes" in seen
    steps = subject.config.steps_per_epoch
    assert [f"losses: clipped, step {step + 1} of {steps}" for step in range(steps)] == [
        what for what in seen if what.startswith("losses: clipped,")
    ]
