"""What the reward pays for, against loops over responses and over groups."""

import math
from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest
from diagnosis.small import agrees, bandits, every_subject, known

from pgrl_cli.diagnosis.population import enumerated
from pgrl_cli.diagnosis.rewards import informative, reward
from pgrl_cli.diagnosis.rollouts import rollouts


def told(population, count=8):
    return reward(population, rollouts(population, count))


@every_subject
def test_the_best_wrong_response_is_the_likeliest_of_those_that_earn_most(name):
    _, population, answers, _ = known(name)
    for here, found in zip(answers, told(population)["prompts"], strict=True):
        wrong = [each for each in here if not each.right]
        most = max(each.reward for each in wrong)
        chosen = max((each for each in wrong if each.reward == most), key=lambda each: each.log_prob)
        assert found["best_wrong_reward"] == most
        assert found["maximum_reward"] == max(each.reward for each in here)
        agrees(found["best_wrong_probability"], math.exp(chosen.log_prob))
        assert tuple(found["solution"]) == next(each.tokens for each in here if each.right)
        assert any(each.tokens == tuple(found["best_wrong_response"]) and not each.right for each in here)


def test_where_every_response_is_right_there_is_no_wrong_one():
    population = enumerated(bandits())
    every = replace(population, right=population.right | True)
    for found in told(every)["prompts"]:
        assert [found[f"best_wrong_{what}"] for what in ("response", "reward", "probability")] == [None] * 3
    assert told(every)["correlation"] is None


@every_subject
def test_exact_match_and_the_correlation_are_those_of_all_responses_to_each_prompt(name):
    _, population, answers, _ = known(name)
    products, reward_spread, right_spread, exact = 0.0, 0.0, 0.0, 0.0
    for here in answers:
        reward, right = (sum(e.chance * value for e, value in pairs) for pairs in _values(here))
        exact += right
        products += sum(e.chance * (e.reward - reward) * (e.right - right) for e in here)
        reward_spread += sum(e.chance * (e.reward - reward) ** 2 for e in here)
        right_spread += sum(e.chance * (e.right - right) ** 2 for e in here)
    found = told(population)
    agrees(found["exact_match"], exact / len(answers))
    agrees(found["correlation"], products / math.sqrt(reward_spread * right_spread))


def _values(here):
    return [(each, each.reward) for each in here], [(each, float(each.right)) for each in here]


@every_subject
@pytest.mark.parametrize("size", [2, 3])
def test_the_share_of_informative_groups_is_a_sum_over_all_of_them(name, size):
    _, population, answers, _ = known(name)
    share, closed = 0.0, 0.0
    for here in answers:
        chances = defaultdict(float)
        for each in here:
            chances[each.reward] += each.chance
        for group in product(chances, repeat=size):
            share += math.prod(chances[each] for each in group) * (len(set(group)) > 1)
        closed += 1 - sum(chance**size for chance in chances.values())
    agrees(informative(population, size), share / len(answers))
    agrees(informative(population, size), closed / len(answers))


def test_the_observed_share_of_informative_groups_is_the_expected_one_but_for_noise():
    subject = bandits(num_responses=2)
    population = enumerated(subject)
    drawn = rollouts(population, 2000)
    found = reward(population, drawn)
    seen, expected = found["observed_informative_groups"], found["informative_groups"]["2"]
    unequal = [[len(set(group)) > 1 for group in rollout] for rollout in drawn.task_rewards.tolist()]
    shares = [sum(rollout) / len(rollout) for rollout in unequal]
    agrees(seen["share"], sum(shares) / len(shares))
    assert seen["size"] == 2
    assert abs(seen["share"] - expected) < 4 * seen["standard_error"]
    variance = expected * (1 - expected) / 2  # of one rollout's share, were both prompts' the same
    assert seen["standard_error"] == pytest.approx(math.sqrt(variance / 2000), rel=0.1)


def test_a_reward_that_never_changes_has_no_correlation_whatever_rounding_leaves():
    for points in (3.1, 1 / 3):
        population = enumerated(bandits([[points] * 3, [points] * 3]))
        half = replace(population, right=population.log_probs > population.log_probs.median())
        assert told(half)["correlation"] is None
