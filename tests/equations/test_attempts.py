"""Best-of-n and pass@k: by hand, by law, and the estimate unbiased over every draw of samples there is."""

from itertools import pairwise, product
from math import comb

import pytest
import torch

from pgrl_cli.equations.attempts import best_of, best_of_samples


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
