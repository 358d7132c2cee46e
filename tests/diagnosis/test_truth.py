"""The truth against plain sums over all responses, and against the golden file."""

import json
import math
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from diagnosis.small import (
    Bandit,
    agrees,
    bandits,
    chains,
    counting,
    double,
    every_subject,
    expected_reward,
    known,
    subject_of,
    task_of,
)

from pgrl_cli.diagnosis.population import enumerated
from pgrl_cli.diagnosis.truth import true_gradient, truth

CASES = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text())["cases"]
GOLDEN = [case for case in CASES if case["name"] == "bandit/exact"]


def golden_bandit(case):
    """One prompt, one token, one response to a group."""
    inputs = case["inputs"]
    subject = subject_of(
        task_of([inputs["rewards"]], 1), Bandit(1, len(inputs["rewards"])), num_responses=1, delta_mode="rewards"
    )
    with torch.no_grad():
        subject.policy.own.copy_(double([inputs["logits"]]))
    return subject


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{len(case['inputs']['rewards'])} actions")
def test_a_bandit_has_its_golden_probabilities_value_and_gradient(case):
    population, expected = enumerated(golden_bandit(case)), case["expected"]
    agrees(population.weights[0], expected["probabilities"], 1e-12)
    agrees(truth(population)["expected_reward"], expected["value"], 1e-12)
    own, shared = true_gradient(population).split(len(expected["gradient"]))
    agrees(own, expected["gradient"], 1e-12)
    agrees(shared, expected["gradient"], 1e-12)


@every_subject
def test_expectations_are_sums_over_all_responses(name):
    _, population, answers, gradient = known(name)
    found = truth(population)
    agrees(found["expected_reward"], mean_over_prompts(answers, lambda each: each.chance * each.reward))
    agrees(found["maximum_reward"], sum(max(each.reward for each in here) for here in answers) / len(answers))
    agrees(found["gradient_norm"], gradient.norm())
    agrees(true_gradient(population), gradient)


@every_subject
def test_entropy_and_both_divergences_are_those_of_distinct_responses(name):
    subject, population, answers, _ = known(name)
    found, entropy, forward, reverse = truth(population), 0.0, 0.0, 0.0
    for here in answers:
        own, reference = defaultdict(float), {}
        for each in here:
            kept = tuple(each.tokens[t] for t in counting(subject, each.tokens))
            own[kept] += each.chance
            reference[kept] = math.exp(each.reference_log_prob)
        agrees(sum(reference.values()), 1.0)
        entropy -= sum(p * math.log(p) for p in own.values())
        forward += sum(p * math.log(p / reference[kept]) for kept, p in own.items())
        reverse += sum(q * math.log(q / own[kept]) for kept, q in reference.items())
    agrees(found["entropy"], entropy / len(answers))
    agrees(found["kl_forward"], forward / len(answers))
    agrees(found["kl_reverse"], reverse / len(answers))


def test_the_gradient_is_what_a_small_difference_says_it_is():
    subject, gradient, small = chains(), true_gradient(enumerated(chains())), 1e-5
    for place in (0, 4, 11):
        values = []
        for sign in (1, -1):
            moved = chains().policy
            with torch.no_grad():
                parameters = torch.cat([parameter.flatten() for parameter in moved.parameters()])
                parameters[place] += sign * small
                torch.nn.utils.vector_to_parameters(parameters, moved.parameters())
            values.append(expected_reward(subject, moved).item())
        agrees((values[0] - values[1]) / (2 * small), gradient[place], 1e-8)


def test_the_gradient_is_of_the_shaped_reward_and_the_expected_reward_of_the_tasks():
    plain, shaped = (truth(enumerated(bandits(**keys))) for keys in ({}, {"reward_scale": 3.0, "reward_shift": -7.0}))
    agrees(shaped["expected_reward"], plain["expected_reward"])
    agrees(shaped["gradient_norm"], 3 * plain["gradient_norm"])


def mean_over_prompts(answers, function):
    return sum(sum(function(each) for each in here) for here in answers) / len(answers)
