"""Delta modes against sums over all ordered groups of responses."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from diagnosis.small import (
    MODES,
    SEE_MORE,
    SUBJECTS,
    agrees,
    answers,
    bandits,
    double,
    every_subject,
    known,
    one_rollout,
    reseeded,
)
from diagnosis.test_truth import CASES

from pgrl_cli.diagnosis import groups
from pgrl_cli.diagnosis.baselines import baselines
from pgrl_cli.diagnosis.deltas import MEASURED, delta_modes
from pgrl_cli.diagnosis.deltas import one_rollout as estimate_of
from pgrl_cli.diagnosis.modes import visible
from pgrl_cli.diagnosis.population import enumerated
from pgrl_cli.diagnosis.rollouts import rollouts
from pgrl_cli.diagnosis.truth import true_gradient
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.readings.deltas import accuracy
from pgrl_cli.registry import smallest_group

UNBIASED = ["rewards", "leave_one_out_rewards", "optimal_baseline", "true_value_baseline", "greedy_baseline"]


def told(subject, samples=16):
    """What `delta_modes` says of a subject."""
    population = enumerated(replace(subject, samples=samples))
    return delta_modes(population, rollouts(population, samples), true_gradient(population))


def test_the_modes_of_these_tests_are_all_there_are_but_for_those_that_see_more_than_a_group():
    assert {name for name, mode in ADVANTAGES.items() if visible(mode) is not None} == set(MODES)
    assert set(ADVANTAGES) - set(MODES) == set(SEE_MORE)


@pytest.mark.parametrize("mode", SEE_MORE)
def test_a_mode_that_sees_more_than_a_group_is_stood_in_for_by_the_true_value(mode):
    keys = {"num_responses": 3, "delta_mode": mode} | ({"critic": "separate"} if mode in ("n_step", "gae") else {})
    subject = bandits(**keys)
    assert subject.advantage is ADVANTAGES["true_value_baseline"]
    assert set(told(subject)) == set(MODES)


@every_subject
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_modes_numbers_are_sums_over_all_ordered_groups(name, size, mode):
    _, population, every, truth = known(name, size)
    found = estimate_of(ADVANTAGES[mode], population)
    expected = one_rollout(every, mode, size)
    agrees(found.mean, expected.mean)
    agrees(found.truth, truth)
    numbers, theirs = found.numbers(), expected.against(truth)
    for each in ("scale", "total_variance", "signal_to_noise", "accuracy"):
        agrees(numbers[each], theirs[each])
    agrees(numbers["off_direction"], theirs["off_direction"], 1e-7)
    assert found.errors() is None


@pytest.mark.parametrize("name", ["bandits", "ended"])
def test_what_is_told_of_a_mode_are_these_numbers_and_the_laws_hold(name):
    subject, population, _, _ = known(name)
    found = told(subject)
    for mode in MODES:
        numbers = estimate_of(ADVANTAGES[mode], population).numbers()
        agrees([found[mode][each] for each in MEASURED], [numbers[each] for each in MEASURED])
        assert found[mode]["exact"]
        assert found[mode]["standard_error"] is None
    for mode in UNBIASED:
        agrees([found[mode]["scale"], found[mode]["off_direction"]], [1.0, 0.0])
    agrees([found["centered_rewards"]["scale"], found["centered_rewards"]["off_direction"]], [2 / 3, 0.0])
    assert found["normalized_rewards"]["off_direction"] > 0.05
    assert found["max_rewards"]["off_direction"] > 0.05


def test_a_group_of_one_is_told_only_of_modes_that_compare_nothing():
    assert set(told(bandits(num_responses=1, delta_mode="rewards"))) == {
        "rewards",
        "max_rewards",
        "true_value_baseline",
        "greedy_baseline",
    }


PAYMENTS = {"far from zero": ((9.0, 5.0), (1.0, 4.0)), "around zero": ((2.0, -1.0), (0.5, -1.0))}
SCANNED = 8


@cache
def accuracies(payments, mode):
    """Of a mode with groups of 1, 2, 3, ... by all ordered groups; 0 where a mode has no group so small."""
    subject = bandits(points=PAYMENTS[payments], num_responses=2)
    every, truth = answers(subject), true_gradient(enumerated(subject))
    smallest = smallest_group(ADVANTAGES[mode])
    found = [one_rollout(every, mode, size).against(truth)["accuracy"] for size in range(smallest, SCANNED + 1)]
    return [0.0] * (smallest - 1) + found


@pytest.mark.parametrize("payments", PAYMENTS)
def test_the_responses_that_a_mode_needs_are_what_a_scan_over_all_sizes_finds(payments):
    within_reach = set()
    for size in (2, 3, 4):
        found = told(bandits(points=PAYMENTS[payments], num_responses=size))
        best = max(accuracies(payments, mode)[size - 1] for mode in MODES)
        for mode in MODES:
            scan = accuracies(payments, mode)
            enough = [place + 1 for place, accuracy in enumerate(scan) if accuracy >= best * (1 - 1e-9)]
            needed = found[mode]["responses_needed"]
            if enough:
                within_reach.add(enough[0])
                assert needed == enough[0], mode
            else:
                assert needed is None or needed > SCANNED, mode
    assert len(within_reach) >= 4


def test_no_number_of_responses_helps_where_nothing_points_to_the_truth():
    found = told(bandits(points=((2.0, 2.0, 2.0),)))
    assert {each["responses_needed"] for each in found.values()} == {None}
    assert np.isnan(found["rewards"]["scale"])
    assert np.isnan(found["centered_rewards"]["signal_to_noise"])


def test_normalizing_right_and_wrong_weighs_them_as_in_a_group_without_end():
    (case,) = [case for case in CASES if case["name"] == "binary_group_weights"]
    chance, (right, wrong) = case["inputs"]["p"], case["expected"]
    subject = bandits(points=((1.0, 0.0),), num_responses=1000)
    with torch.no_grad():
        subject.policy.shared.zero_()
        subject.policy.own.copy_(double([[math.log(chance), math.log(1 - chance)]]))
    found = estimate_of(ADVANTAGES["normalized_rewards"], enumerated(subject)).numbers()
    assert found["scale"] == pytest.approx(right - wrong, rel=2e-3)
    agrees(found["off_direction"], 0.0)


def drawn(subject, mode, seed, samples):
    """A mode's numbers and their standard errors from groups that are drawn: [number] each."""
    population = enumerated(reseeded(replace(subject, samples=samples), seed))
    found = estimate_of(ADVANTAGES[mode], population)
    numbers, errors = found.numbers(), found.errors()
    return [numbers[each] for each in MEASURED], [errors[each] for each in MEASURED]


@pytest.mark.parametrize("mode", MODES)
def test_groups_that_are_drawn_say_the_same_as_all_of_them(mode, monkeypatch):
    subject, population, _, _ = known("chains")
    exact = estimate_of(ADVANTAGES[mode], population).numbers()
    monkeypatch.setattr(groups, "MOST_GROUPS", 0)
    values, errors = drawn(subject, mode, seed=3, samples=2000)
    for name, value, error in zip(MEASURED, values, errors, strict=True):
        assert abs(value - exact[name]) < 5 * error, name
        assert error < 0.15


@pytest.mark.parametrize(("mode", "name"), [("normalized_rewards", "sorters"), ("leave_one_out_rewards", "bandits")])
def test_numbers_of_drawn_groups_are_right_on_average_and_scatter_as_their_standard_errors_say(mode, name, monkeypatch):
    subject = SUBJECTS[name](num_responses=3)
    exact = estimate_of(ADVANTAGES[mode], enumerated(subject)).numbers()
    monkeypatch.setattr(groups, "MOST_GROUPS", 0)
    many = np.array([drawn(subject, mode, seed, samples=400) for seed in range(30)])
    values, errors = many[:, 0], np.sqrt((many[:, 1] ** 2).mean(axis=0))
    for place, number in enumerate(MEASURED):
        if number == "off_direction" and exact[number] < 1e-9:
            continue  # what noise is left of a zero is told by the test below
        scatter = values[:, place].std(ddof=1)
        assert abs(values[:, place].mean() - exact[number]) < 4 * scatter / np.sqrt(len(values)) + 0.2 * errors[place]
        assert 0.65 < errors[place] / scatter < 1.6, number


def test_drawn_groups_take_noise_for_no_direction(monkeypatch):
    subject = SUBJECTS["bandits"](num_responses=3)
    monkeypatch.setattr(groups, "MOST_GROUPS", 0)
    place = MEASURED.index("off_direction")
    many = np.array([drawn(subject, "leave_one_out_rewards", seed, samples=100) for seed in range(30)])
    values, errors = many[:, 0, place], many[:, 1, place]
    assert (values == 0).mean() > 0.3  # half the squares lie below zero, where noise alone would lie above
    assert (values <= 3 * errors).all()
    assert errors.mean() < 0.15


def test_a_mode_without_any_noise_is_the_best_there_is():
    subject = bandits([[11.0, 9.0], [0.0, 2.0]], num_responses=10)
    with torch.no_grad():
        for parameter in subject.policy.parameters():
            parameter.zero_()
    found = told(subject)
    assert found["true_value_baseline"]["total_variance"] == 0
    assert found["true_value_baseline"]["responses_needed"] == 1
    assert accuracy(cleared(found["true_value_baseline"])) == pytest.approx((1, 0))
    assert baselines(enumerated(subject))["expected_reward"]["total_variance"] == 0


def test_a_large_shift_of_the_reward_leaves_the_gradient_where_it_was():
    near, far = (true_gradient(enumerated(bandits(reward_shift=shift))) for shift in (0.0, 1e11))
    assert torch.allclose(near, far, atol=1e-4)
    assert near.norm() > 0.1


def test_where_there_is_no_true_gradient_nothing_points_across_it():
    found = told(bandits([[3.1, 3.1, 3.1]]))
    assert {each["off_direction"] for each in map(cleared, found.values())} == {None}


def test_of_a_mode_that_no_drawn_group_shows_nothing_is_said(monkeypatch):
    monkeypatch.setattr(groups, "MOST_GROUPS", 0)
    subject = bandits([[1.0, 0.0]])
    with torch.no_grad():
        subject.policy.own[:] = double([[-15.0, 15.0]])
    found = told(subject)["centered_rewards"]
    assert {cleared(found)[name] for name in MEASURED} == {None}
    assert found["responses_needed"] is None


def cleared(found):
    return {name: None if value in (math.inf, None) or value != value else value for name, value in found.items()}
