"""The statistics of seeds: by hand, by law, and against scipy."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pgrl_cli.statistics import (
    STATISTICS,
    bootstrap_interval,
    interquartile_mean,
    mean,
    paired,
    performance_profile,
    standard_deviation,
)

NAN = float("nan")
numbers = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40).map(np.array)


def test_a_missing_run_is_left_out_and_no_run_has_no_mean():
    assert mean(np.array([[1.0, NAN, 4.0], [NAN, NAN, NAN]])) == pytest.approx([2.5, NAN], nan_ok=True)
    assert interquartile_mean(np.array([[1.0, NAN, 4.0], [NAN, NAN, NAN]])) == pytest.approx([2.5, NAN], nan_ok=True)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert interquartile_mean(np.array([8.0, 1.0, 2.0, 100.0])) == 5.0  # the mean of 2 and 8
    assert interquartile_mean(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1000.0])) == 3.5
    assert interquartile_mean(np.array([0.0, 1.0, 2.0, 3.0, 100.0])) == 2.0  # int(5 / 4) = 1 at each end
    assert interquartile_mean(np.array([1.0, 5.0, 100.0])) == pytest.approx(106 / 3)  # fewer than four: all of them


@given(numbers)
def test_the_interquartile_mean_is_scipys_trimmed_mean(values):
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25), abs=1e-9)


@given(numbers, st.floats(-5, 5), st.floats(0.1, 5))
@settings(max_examples=25)
def test_shifting_and_scaling_all_runs_shifts_and_scales_statistic_and_interval(values, shift, scale):
    for statistic in STATISTICS.values():
        assert statistic(values * scale + shift) == pytest.approx(statistic(values) * scale + shift, abs=1e-6)
        low, high = bootstrap_interval([values], statistic, resamples=50)
        moved = bootstrap_interval([values * scale + shift], statistic, resamples=50)
        assert np.array(moved) == pytest.approx([low * scale + shift, high * scale + shift], abs=1e-6, nan_ok=True)


def test_the_interval_of_two_runs_is_known_exactly():
    """Four equally likely resamples of {0, 1}: means 0, 1/2, 1/2, 1. 95 % of them need both ends."""
    low, high = bootstrap_interval([np.array([0.0, 1.0])], mean)
    assert (low, high) == (0.0, 1.0)
    low, high = bootstrap_interval([np.array([0.0, 1.0])], mean, level=0.4)  # the middle half and no more
    assert (low, high) == (0.5, 0.5)


def test_an_interval_by_enumerating_every_resample():
    """Four runs have 256 equally likely resamples: their exact quantiles are what many random ones come to."""
    values = np.array([1.0, 2.0, 4.0, 9.0])
    every = np.array([np.mean(drawn) for drawn in itertools.product(values, repeat=4)])
    low, high = bootstrap_interval([values], mean, resamples=20_000)
    assert low == pytest.approx(np.quantile(every, 0.025), abs=0.26)  # means of four lie a quarter apart
    assert high == pytest.approx(np.quantile(every, 0.975), abs=0.26)


@pytest.mark.parametrize("name", ["mean", "iqm"])
def test_an_interval_is_scipys_percentile_bootstrap_but_for_the_draws(name):
    values = np.random.default_rng(3).gamma(2.0, size=60)
    theirs = stats.bootstrap(
        (values,),
        lambda sample, axis: STATISTICS[name](np.moveaxis(sample, axis, -1)),
        method="percentile",
        n_resamples=9999,
        rng=np.random.default_rng(1),
    ).confidence_interval
    ours = bootstrap_interval([values], STATISTICS[name], resamples=9999)
    spread = theirs.high - theirs.low
    assert np.array(ours) == pytest.approx([theirs.low, theirs.high], abs=0.05 * spread)


def test_a_ninety_five_percent_interval_holds_the_truth_about_that_often():
    generator = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        low, high = bootstrap_interval([generator.normal(size=40)], mean, resamples=400)
        inside += int(low <= 0 <= high)
    assert 0.90 <= inside / 400 <= 0.975  # 0.935 expected at n = 40, give or take 0.025


def test_strata_are_resampled_each_by_itself():
    """Two experiments far apart, each without spread: pooled, nothing can vary; unstratified, the mean would."""
    apart = [np.zeros(10), np.full(10, 100.0)]
    assert bootstrap_interval(apart, mean) == (50.0, 50.0)
    low, high = bootstrap_interval([np.concatenate(apart)], mean)
    assert high - low > 20


def test_whole_runs_are_resampled_so_points_that_differ_by_a_constant_have_bands_that_do():
    runs = np.random.default_rng(1).normal(size=12)
    low, high = bootstrap_interval([np.stack([runs, runs + 5])], mean)
    assert low[1] - low[0] == pytest.approx(5)
    assert high[1] - high[0] == pytest.approx(5)


def test_a_curve_has_the_same_band_whatever_else_is_drawn():
    values = np.random.default_rng(1).normal(size=(3, 12))
    assert np.array_equal(bootstrap_interval([values], mean), bootstrap_interval([values], mean))


def test_one_run_says_nothing_about_the_spread():
    for statistic in STATISTICS.values():
        assert np.isnan(bootstrap_interval([np.array([[3.0], [4.0]])], statistic)).all()
        assert np.isnan(bootstrap_interval([np.array([3.0, NAN])], statistic)).all()
        assert np.isnan(bootstrap_interval([np.array([])], statistic)).all()


def test_strata_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="same axes"):
        bootstrap_interval([np.zeros((2, 3)), np.zeros((4, 3))], mean)
    with pytest.raises(ValueError, match="same axes"):
        bootstrap_interval([], mean)


def test_a_paired_comparison_by_hand():
    """Gaps 1, 1, 0, -2 and one pair that is not there: mean 0; better in two, level in one of four."""
    found = paired(np.array([1.0, 2.0, 3.0, 4.0, NAN]), np.array([2.0, 3.0, 3.0, 2.0, 1.0]))
    assert (found.pairs, found.missing, found.ties) == (4, 1, 1)
    assert found.difference == 0
    assert found.probability == 0.625
    assert found.low < 0 < found.high
    assert found.probability_low < 0.625 < found.probability_high


def test_pairing_takes_out_what_both_share():
    """Seeds far apart, a difference of exactly one on each: the interval of the difference is a point."""
    a = np.linspace(0, 100, 20)
    found = paired(a, a + 1)
    assert (found.difference, found.probability) == (1.0, 1.0)
    assert found.low == pytest.approx(1)
    assert found.high == pytest.approx(1)


def test_comparisons_of_no_pair_and_of_one():
    nothing = paired(np.array([]), np.array([]))
    assert nothing.pairs == 0
    assert np.isnan([nothing.difference, nothing.low, nothing.probability]).all()
    one = paired(np.array([1.0]), np.array([3.0]))
    assert (one.pairs, one.difference, one.probability) == (1, 2.0, 1.0)
    assert np.isnan([one.low, one.high]).all()


def test_a_profile_is_the_share_of_runs_above_each_value():
    profile = performance_profile(np.array([1.0, 2.0, 2.0, NAN]), np.array([0.0, 1.0, 1.5, 2.0]))
    assert profile == pytest.approx([1, 2 / 3, 2 / 3, 0])


def test_the_spread_between_seeds_has_n_minus_one():
    assert standard_deviation(np.array([1.0, NAN, 3.0])) == pytest.approx(np.sqrt(2))
    assert np.isnan(standard_deviation(np.array([1.0])))
