import math

import pytest
import torch

from pgrl_cli.training.coefficients import LEAST, MOST, adapted, steered

TARGET = 0.02


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("kl", "factor"),
    [
        (0.0, 0.5),
        (0.0133, 0.5),  # the target over 1.5 is 0.01333...
        (0.0134, 1.0),
        (0.02, 1.0),
        (0.0299, 1.0),
        (0.0301, 2.0),
        (math.inf, 2.0),
        (-1e-18, 0.5),  # what rounding may make of 0
        (math.nan, 1.0),
    ],
)
def test_the_penalty_is_doubled_far_above_its_target_and_halved_far_below(kl, factor):
    for before in (0.3, 0.0):
        assert adapted(numbers(before)[0], numbers(kl)[0], old_kl_target=TARGET).item() == before * factor


@pytest.mark.parametrize(
    ("kl", "responses", "factor"),
    [
        (6.0, 1000, 1.0),
        (6.6, 1000, 1.01),  # a tenth above, a tenth of the horizon
        (5.4, 1000, 0.99),
        (60.0, 1000, 1.02),  # counts as a fifth above
        (0.0, 1000, 0.98),
        (60.0, 10_000, 1.2),
        (0.0, 25_000, 0.5),
        (0.0, 1_000_000, 0.5),
        (60.0, 1_000_000, 2.0),
        (math.inf, 1000, 1.02),
        (math.nan, 1000, 1.0),
    ],
)
def test_the_controller_moves_in_proportion_to_how_far_off_the_kl_is(kl, responses, factor):
    for before in (0.3, 0.0):
        after = steered(numbers(before)[0], numbers(kl)[0], kl_target=6.0, kl_horizon=10_000, responses=responses)
        assert after.item() == pytest.approx(before * factor, rel=1e-12)


def test_each_run_of_a_stack_follows_its_own_kl_and_its_own_target():
    coefficient, kl = numbers(1, 2, 3, 4), numbers(0.1, 0.1, math.nan, 0.1)
    targets = numbers(0.01, 0.1, 0.01, 1.0).view(-1, 1, 1, 1)  # as a stack's knobs arrive
    assert adapted(coefficient, kl, old_kl_target=targets).tolist() == [2, 2, 3, 2]
    horizons = numbers(100, 100, 100, 200).view(-1, 1, 1, 1)
    after = steered(coefficient, kl, kl_target=targets, kl_horizon=horizons, responses=50)
    torch.testing.assert_close(after, numbers(1.1, 2, 3, 3.8), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kl", "end"), [(0.0, LEAST), (1e30, MOST)])
def test_however_long_a_coefficient_is_driven_it_neither_vanishes_nor_overflows(kl, end, dtype):
    one = other = torch.tensor(1.0, dtype=dtype)
    for _ in range(200):
        one = adapted(one, torch.tensor(kl, dtype=dtype), old_kl_target=TARGET)
        other = steered(other, torch.tensor(kl, dtype=dtype), kl_target=TARGET, kl_horizon=10, responses=1000)
    assert one.item() == other.item() == end
    assert one.dtype == other.dtype == dtype


def test_a_coefficient_given_beyond_the_bounds_is_left_there_or_comes_nearer():
    beyond = numbers(1e-12, 1e-12, 1e-12, 1e12, 1e12, 1e12)
    kl = numbers(0, 1, math.nan, 0, 1, math.nan)
    assert adapted(beyond, kl, old_kl_target=TARGET).tolist() == [1e-12, 2e-12, 1e-12, 5e11, 1e12, 1e12]


def test_a_doubling_and_a_halving_give_back_the_same_bits():
    before = torch.rand(100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    doubled = adapted(before, torch.full_like(before, 1.0), old_kl_target=TARGET)
    assert torch.equal(adapted(doubled, torch.zeros_like(before), old_kl_target=TARGET), before)


def test_a_kl_that_answers_its_coefficient_is_brought_to_the_target():
    steady, rough = numbers(100.0, 0.001), numbers(100.0, 0.001)
    for _ in range(200):
        steady = steered(steady, 0.1 / steady, kl_target=TARGET, kl_horizon=100, responses=100)
        rough = adapted(rough, 0.1 / rough, old_kl_target=TARGET)
    torch.testing.assert_close(0.1 / steady, numbers(TARGET, TARGET), rtol=1e-6, atol=0)
    assert ((0.1 / rough < 1.5 * TARGET) & (0.1 / rough > TARGET / 1.5)).all()
