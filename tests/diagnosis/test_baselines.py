"""What baselines are worth, against sums over all groups and the golden file."""

import math
from itertools import product

import pytest
import torch
from diagnosis.small import agrees, every_subject, known, one_rollout, subject_of
from diagnosis.test_truth import CASES, GOLDEN, golden_bandit

from pgrl_cli.diagnosis.baselines import baselines, spread
from pgrl_cli.diagnosis.population import enumerated

TWICE = 2
"""The golden bandit's parameters stand twice in the policy of these tests, and so does its variance."""


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{len(case['inputs']['rewards'])} actions")
def test_a_bandits_baselines_have_their_golden_variances(case):
    found, expected = baselines(enumerated(golden_bandit(case))), case["expected"]
    agrees(found["optimal"]["values"], [expected["optimal_baseline"]], 1e-12)
    for ours, theirs in (("none", "none"), ("expected_reward", "mean"), ("optimal", "optimal")):
        agrees(found[ours]["total_variance"], TWICE * expected["total_variance"][theirs], 1e-12)


def test_the_two_states_deltas_spread_as_the_lecture_says():
    (case,) = [case for case in CASES if case["name"] == "two_state/standard_deviation"]
    found = spread(enumerated(subject_of(task="two_state", policy="table")))
    agrees([found["rewards"], found["centered"]], list(case["expected"].values()), 1e-12)
    assert found["responses"] == 4
    assert [round(found["rewards"], 3), round(found["centered"], 3)] == [5.323, 1.155]


@every_subject
def test_a_constants_variance_is_that_of_all_groups(name):
    _, population, answers, _ = known(name, 2)
    found = baselines(population)
    by_reference = [sum(share(each) * each.reward for each in here) for here in answers]
    agrees(found["old_policy_value"]["values"], by_reference)
    agrees(found["expected_reward"]["values"], [sum(each.chance * each.reward for each in here) for here in answers])
    for name in ("none", "expected_reward", "old_policy_value", "optimal"):
        agrees(found[name]["total_variance"], enumerated_variance(answers, found[name]["values"], 2))


def share(each):
    """How likely the reference draws an answer, told apart behind its end as this policy does."""
    return each.chance * math.exp(each.reference_log_prob - each.log_prob)


def enumerated_variance(answers, constants, size):
    total = 0.0
    for here, constant in zip(answers, constants, strict=True):
        mean, square = 0.0, 0.0
        for group in product(here, repeat=size):
            chance = math.prod(each.chance for each in group)
            gradient = sum((each.reward - constant) * each.score for each in group) / size
            mean, square = mean + chance * gradient, square + chance * (gradient @ gradient)
        total += square - mean @ mean
    return total / len(answers) ** 2


@every_subject
@pytest.mark.parametrize("size", [2, 3])
def test_leave_one_out_and_the_group_mean_have_the_variance_of_all_groups(name, size):
    _, population, answers, _ = known(name, size)
    found = baselines(population)
    for ours, mode in (("leave_one_out", "leave_one_out_rewards"), ("group_mean", "centered_rewards")):
        agrees(found[ours]["total_variance"], one_rollout(answers, mode, size).variance)


@every_subject
def test_no_constant_has_less_variance_than_the_optimal_one(name):
    _, population, answers, _ = known(name, 2)
    best = baselines(population)["optimal"]
    for prompt in range(len(answers)):
        for step in (-0.1, 0.1):
            moved = list(best["values"])
            moved[prompt] += step
            assert enumerated_variance(answers, moved, 1) / 2 > best["total_variance"]


@every_subject
def test_the_optimal_baseline_is_the_mean_reward_weighted_by_squared_scores(name):
    _, population, answers, _ = known(name, 2)
    for here, value in zip(answers, baselines(population)["optimal"]["values"], strict=True):
        weights = [each.chance * each.score.square().sum() for each in here]
        agrees(value, sum(w * each.reward for w, each in zip(weights, here, strict=True)) / sum(weights))


def test_a_group_of_one_has_no_other_response_to_be_compared_with():
    found = baselines(enumerated(golden_bandit(GOLDEN[0])))
    assert {"leave_one_out", "group_mean"}.isdisjoint(found)
    assert torch.isfinite(torch.tensor(found["none"]["total_variance"]))
