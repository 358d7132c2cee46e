import math

import pytest

from pgrl_cli.training.schedules import DECAYS, decayed, scheduled


@pytest.mark.parametrize(
    ("decay", "warmup", "factors"),
    [
        ("none", 0, [1, 1, 1, 1, 1]),
        ("linear", 0, [1, 0.75, 0.5, 0.25, 0]),
        ("cosine", 0, [1, (2 + math.sqrt(2)) / 4, 0.5, (2 - math.sqrt(2)) / 4, 0]),
        ("none", 2, [0.5, 1, 1, 1, 1]),
        ("linear", 2, [0.5, 1, 1, 0.5, 0]),
        ("cosine", 2, [0.5, 1, 1, 0.5, 0]),
        ("linear", 4, [0.25, 0.5, 0.75, 1, 1]),
        ("cosine", 10, [0.1, 0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_the_factors_of_five_epochs(decay, warmup, factors):
    assert [scheduled(decay, warmup, epoch, 5) for epoch in range(5)] == pytest.approx(factors, abs=1e-15)


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 100, 333])
def test_without_a_warm_up_linear_is_to_the_bit_what_it_has_always_been(epochs):
    always = [1 - epoch / max(1, epochs - 1) for epoch in range(epochs)]
    assert [scheduled("linear", 0, epoch, epochs) for epoch in range(epochs)] == always
    assert [decayed("linear", epoch, epochs) for epoch in range(epochs)] == always
    assert {decayed("none", epoch, epochs) for epoch in range(epochs)} == {1.0}


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("warmup", [0, 1, 3, 10, 40])
def test_it_never_starts_at_zero_rises_to_one_and_then_only_falls(decay, warmup):
    factors = [scheduled(decay, warmup, epoch, 10) for epoch in range(10)]
    assert factors[0] > 0
    assert max(factors) == (1.0 if warmup <= 10 else 10 / warmup)
    assert factors[:warmup] == sorted(set(factors[:warmup]))
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)
    assert all(0 <= factor <= 1 for factor in factors)


@pytest.mark.parametrize("decay", ["linear", "cosine"])
@pytest.mark.parametrize("warmup", [0, 5, 98])
def test_a_decay_is_exactly_zero_in_the_last_epoch(decay, warmup):
    assert scheduled(decay, warmup, 99, 100) == 0.0


def test_a_run_of_one_epoch_gets_the_whole_rate():
    assert [scheduled(decay, warmup, 0, 1) for decay in DECAYS for warmup in (0, 1)] == [1.0] * 6
