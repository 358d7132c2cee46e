"""What attempts earn: by hand, by law, and the estimates unbiased over every draw of samples there is."""

from itertools import pairwise, product
from math import comb

import pytest
import torch

from pgrl_cli.equations.attempts import all_equal, best_of, best_of_samples, expected_reward, kinds_of


def test_the_best_of_two_by_hand():
    rewards, probabilities = torch.tensor([2.0, 0.0, 1.0]), torch.tensor([0.25, 0.5, 0.25])
    # 0 with 1/4; 1 with (3/4)^2 - (1/2)^2 = 5/16; 2 with 1 - (3/4)^2 = 7/16
    assert best_of(rewards, probabilities, 2).item() == pytest.approx(5 / 16 + 2 * 7 / 16)


def test_of_right_and_wrong_it_is_pass_at_k():
    rewards, probabilities = torch.tensor([1.0, 0.0, 0.0]).double(), torch.tensor([0.3, 0.6, 0.1]).double()
    for attempts in (1, 2, 7):
        assert best_of(rewards, probabilities, attempts).item() == pytest.approx(1 - 0.7**attempts)


def test_one_attempt_earns_the_mean_and_more_earn_no_less():
    torch.manual_seed(0)
    rewards, probabilities = torch.randn(4, 9).double(), torch.rand(4, 9).double().softmax(dim=-1)
    earned = [best_of(rewards, probabilities, attempts) for attempts in (1, 2, 3, 50, 5000)]
    assert torch.allclose(earned[0], (rewards * probabilities).sum(dim=-1))
    assert all((more >= less - 1e-12).all() for less, more in pairwise(earned))
    assert torch.allclose(earned[-1], rewards.amax(dim=-1))


@pytest.mark.parametrize("attempts", [1, 2, 3, 4])
def test_the_estimate_is_unbiased_over_every_draw_of_four_samples(attempts):
    rewards, probabilities = torch.tensor([0.0, 1.0, 3.0]).double(), torch.tensor([0.5, 0.25, 0.25]).double()
    expected = 0.0
    for draw in product(range(3), repeat=4):
        chance = probabilities[list(draw)].prod().item()
        expected += chance * best_of_samples(rewards[list(draw)], attempts).item()
    assert expected == pytest.approx(best_of(rewards, probabilities, attempts).item(), abs=1e-12)


@pytest.mark.parametrize(("right", "attempts"), [(0, 1), (3, 2), (10, 5), (1, 10), (4, 10)])
def test_of_right_and_wrong_samples_it_is_the_estimate_of_chen_and_others(right, attempts):
    samples = torch.tensor([1.0] * right + [0.0] * (10 - right)).double()
    expected = 1 - comb(10 - right, attempts) / comb(10, attempts)
    assert best_of_samples(samples, attempts).item() == pytest.approx(expected, abs=1e-12)


def test_leading_axes_are_kept_and_too_few_samples_are_refused():
    rewards = torch.arange(12.0).view(2, 2, 3)
    assert torch.allclose(best_of_samples(rewards, 3), rewards.amax(dim=-1).double())
    assert best_of_samples(torch.tensor([1, 2, 3]), 2).item() == pytest.approx((2 + 3 + 3) / 3)
    assert best_of_samples(torch.tensor([True, False]), 1).item() == pytest.approx(0.5)
    for refused in (lambda: best_of_samples(rewards, 0), lambda: best_of(rewards, rewards, 0)):
        with pytest.raises(ValueError, match="0 attempts"):
            refused()
    with pytest.raises(ValueError, match="3 samples cannot tell what 4 attempts earn"):
        best_of_samples(rewards, 4)


def test_the_expected_reward_by_hand():
    rewards, probabilities = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([[0.25, 0.5, 0.25]])
    assert expected_reward(rewards, probabilities).tolist() == [0.75]


def test_one_attempt_at_its_best_earns_the_expected_reward():
    torch.manual_seed(1)
    rewards, probabilities = torch.randn(4, 9).double(), torch.rand(4, 9).double().softmax(dim=-1)
    torch.testing.assert_close(expected_reward(rewards, probabilities), best_of(rewards, probabilities, 1))


@pytest.mark.parametrize("reward", [0.1, -1 / 3, 1e9, 0.0])
def test_of_equal_rewards_that_one_is_expected_exactly_whatever_the_rounding_of_the_probabilities(reward):
    probabilities = torch.full((1000,), 1.001e-3)
    assert expected_reward(torch.full((1000,), reward), probabilities).item() == torch.tensor(reward).item()


def test_a_large_shift_costs_the_expected_reward_no_digits():
    """Probabilities that add up to 1.001, worse than rounding would: their sum is not multiplied by the shift."""
    probabilities, rewards = torch.full((1000,), 1.001e-3), torch.arange(1000) % 2.0
    assert expected_reward(rewards + 2.0**20, probabilities).item() == pytest.approx(2.0**20 + 0.5005, abs=0.1)


def test_responses_that_earn_the_same_are_of_one_kind():
    rewards = torch.tensor([[3.0, 1.0, 1.0, 0.0, 3.0], [float("inf"), 1.0, float("inf"), -0.0, 0.0]])
    assert kinds_of(rewards).tolist() == [[2, 1, 1, 0, 2], [2, 1, 2, 0, 0]]


def test_the_probability_of_a_group_that_is_all_equal_by_hand():
    probabilities, kinds = torch.tensor([0.1, 0.2, 0.3, 0.4]).double(), torch.tensor([0, 1, 0, 1])
    assert all_equal(probabilities, kinds, 2).item() == pytest.approx(0.4**2 + 0.6**2)
    assert all_equal(probabilities, kinds, 1).item() == pytest.approx(1)


@pytest.mark.parametrize("attempts", [1, 2, 3, 4])
def test_it_is_the_share_of_all_groups_there_are_by_their_probability(attempts):
    torch.manual_seed(2)
    rewards = torch.tensor([[0.5, 2.0, 0.5, 1.0], [1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 3.0]])
    probabilities = torch.rand(2, 3, 4).double().softmax(dim=-1)
    found = all_equal(probabilities, kinds_of(rewards), attempts)
    for run, prompt in product(range(2), range(3)):
        share = 0.0
        for group in map(list, product(range(4), repeat=attempts)):
            if len(set(rewards[prompt, group].tolist())) == 1:
                share += probabilities[run, prompt, group].prod().item()
        assert found[run, prompt].item() == pytest.approx(share, abs=1e-14)
    with pytest.raises(ValueError, match="0 attempts"):
        all_equal(probabilities, kinds_of(rewards), 0)
