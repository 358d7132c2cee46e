"""Baselines that the group alone does not know: by hand, by law, and exactly, over every response there is."""

import math
import statistics
from itertools import product

import pytest
import torch
from equations.exact import WORLDS, numbers, off_direction, one_token

from pgrl_cli.equations.advantages import ADVANTAGES, normalized_rewards
from pgrl_cli.equations.baselines import (
    batch_normalized_rewards,
    greedy_baseline,
    moving_average,
    moving_average_baseline,
    old_policy_baseline,
)
from pgrl_cli.registry import Fraction, apply, knobs, needs, remembered, smallest_group

worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
NOTHING_YET = torch.tensor(math.nan, dtype=torch.float64)


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


# By hand


def test_each_baseline_is_what_its_first_line_says():
    rewards = double([[3, 0, 1], [2, 2, 5]])
    assert moving_average_baseline(rewards, double(1.5)).tolist() == [[1.5, -1.5, -0.5], [0.5, 0.5, 3.5]]
    older = double([[2, 4], [0, 1]])
    assert old_policy_baseline(rewards, older).tolist() == [[0, -3, -2], [1.5, 1.5, 4.5]]
    assert greedy_baseline(rewards, double([3, 2])).tolist() == [[0, -3, -2], [0, 0, 3]]


def test_a_moving_average_by_hand():
    past = NOTHING_YET
    for rewards, expected in (([[0, 2], [1, 1]], 1.0), ([[3, 3]], 1.5), ([[-2, 1]], 1.0)):
        past = moving_average(past, double(rewards), baseline_decay=0.75)
        assert past.item() == expected
    assert moving_average(past, double([[5.0]]), baseline_decay=0.0).item() == 5


def test_a_batch_is_normalized_as_a_whole():
    rewards = numbers(2, 3, seed=1)
    every = rewards.flatten().tolist()
    mean, deviation = statistics.mean(every), statistics.stdev(every)
    close(batch_normalized_rewards(rewards).flatten(), double([(r - mean) / (deviation + 1e-5) for r in every]))


# By law


def test_before_the_first_epoch_the_moving_average_is_nothing_for_that_run_alone():
    rewards = numbers(2, 2, 3, seed=1)
    found = moving_average_baseline(rewards, torch.stack([NOTHING_YET, double(2.0)]))
    assert torch.equal(found, rewards - double([0.0, 2.0]).view(2, 1, 1))
    past = moving_average(torch.stack([NOTHING_YET, double(2.0)]), rewards)
    close(past, torch.stack([rewards[0].mean(), 1.8 + 0.1 * rewards[1].mean()]))


def test_a_moving_average_of_rewards_that_stay_the_same_arrives_at_them():
    past = double(0.0)
    for _ in range(100):
        past = moving_average(past, double([[4.0, 4.0]]), baseline_decay=0.8)
    assert past.item() == pytest.approx(4, abs=1e-8)


def test_what_a_mode_remembers_lends_it_its_knobs_and_asks_for_the_old_memory():
    assert remembered(moving_average_baseline) is moving_average
    assert {name: knob.default for name, knob in knobs(moving_average_baseline).items()} == {"baseline_decay": 0.9}
    assert knobs(moving_average_baseline)["baseline_decay"].annotation == Fraction
    assert needs(moving_average) == ("past_mean", "rewards")
    assert "past_mean" in needs(moving_average_baseline)
    tensors, settings = {"rewards": double([[3.0, 1.0]]), "past_mean": double(1.0)}, {"baseline_decay": 0.5}
    assert apply(moving_average_baseline, tensors, settings).tolist() == [[2, 0]]
    assert apply(moving_average, tensors, settings).item() == 1.5


def test_only_the_moving_average_remembers_and_none_of_these_compares_a_group():
    assert [mode for mode in ADVANTAGES.values() if remembered(mode)] == [moving_average_baseline]
    here = [moving_average_baseline, old_policy_baseline, greedy_baseline, batch_normalized_rewards]
    assert {smallest_group(mode) for mode in here} == {1}


def test_with_one_prompt_the_batch_is_the_group():
    group = numbers(4, 1, 5, seed=1)
    assert torch.equal(batch_normalized_rewards(group), normalized_rewards(group))


@pytest.mark.parametrize("reward", [0.1, 1 / 3, -123.456, 1e30])
def test_a_batch_of_equal_rewards_teaches_exactly_nothing(reward):
    assert torch.equal(batch_normalized_rewards(torch.full((5, 2), reward)), torch.zeros(5, 2))


def test_a_batch_of_one_is_refused_and_a_group_of_one_is_not():
    with pytest.raises(ValueError, match="batch of one"):
        batch_normalized_rewards(torch.zeros(3, 1, 1))
    assert batch_normalized_rewards(double([[1.0], [3.0]])).flatten().tolist() == pytest.approx(
        [-(0.5**0.5), 0.5**0.5], abs=1e-5
    )


# Exactly


def ascent(world, advantages, chances):
    """Where advantages [case response] drive the policy on average, when each case has a chance [case]."""
    expected = chances @ advantages
    return world.gradient(lambda logits: world.chances(world.logits) @ (expected * world.log_probs(logits).sum(dim=-1)))


@worlds
@pytest.mark.parametrize("past_mean", [math.nan, -3.0, 2.5])
def test_the_mean_of_earlier_epochs_is_an_unbiased_baseline_for_one_response(world, past_mean):
    found = moving_average_baseline(world.points[:, None, None], torch.full((len(world.points),), past_mean).double())
    close(ascent(world, found.view(1, -1), double([1.0])), world.gradient(world.value))


@worlds
def test_what_the_greedy_response_earns_is_an_unbiased_baseline_for_one_response(world):
    greedy = world.points[world.chances(world.logits).argmax()]
    found = greedy_baseline(world.points[:, None, None], greedy.expand(len(world.points), 1))
    assert not torch.equal(found.flatten(), world.points)
    close(ascent(world, found.view(1, -1), double([1.0])), world.gradient(world.value))


@worlds
def test_what_two_responses_of_an_older_policy_earn_is_an_unbiased_baseline_for_one_response(world):
    older = world.chances(world.reference)
    pairs = torch.tensor(list(product(range(len(older)), repeat=2)))
    shape = (len(pairs), len(older), 1, 2)  # [pair response prompt old]
    found = old_policy_baseline(world.points[:, None, None], world.points[pairs][:, None, None].expand(shape))
    close(
        ascent(world, found.squeeze(dim=(-2, -1)), older[pairs].prod(dim=-1)),
        world.gradient(world.value),
    )


def test_a_batch_that_is_normalized_climbs_but_points_elsewhere_than_the_true_gradient():
    """Two prompts with one response each: who earns more gains, who earns less loses, however much it is."""
    world = one_token()
    members, chances = world.groups(2)
    found = batch_normalized_rewards(world.points[members].unsqueeze(-1)).squeeze(-1)
    climbed = world.gradient(lambda logits: chances @ (found * world.log_probs(logits)[members, 0]).mean(dim=-1))
    assert off_direction(climbed, world.gradient(world.value)) > 0.05
    assert world.value(world.logits + 0.01 * climbed) > world.value(world.logits)
