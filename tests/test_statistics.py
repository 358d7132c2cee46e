"""Statistics over runs: cases worked by hand, laws, simulated coverage, and scipy as the second opinion."""

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pgrl_cli.statistics import (
    STATISTICS,
    above,
    bootstrap,
    bootstrap_interval,
    interquartile_mean,
    mean,
    paired,
    performance_profile,
    share_interval,
)

NAN = math.nan
any_statistic = pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)
finite = st.floats(-1e6, 1e6, width=32)
some_runs = st.lists(finite, min_size=2, max_size=30).map(np.array)
some_runs_or_none = st.lists(finite | st.just(NAN), min_size=1, max_size=20).map(np.array)
examples = settings(max_examples=30, deadline=None)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# Means


def test_a_mean_is_over_the_runs_that_are_present():
    points = [[1, 2, 4], [1, NAN, 4], [NAN, NAN, 4], [NAN, NAN, NAN]]
    np.testing.assert_allclose(mean(points), [7 / 3, 5 / 2, 4, NAN], rtol=1e-15)
    np.testing.assert_allclose(interquartile_mean(points), [7 / 3, 5 / 2, 4, NAN], rtol=1e-15)


@pytest.mark.parametrize(
    ("n", "kept"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 4), (7, 5), (8, 4), (9, 5), (11, 7), (12, 6)]
)
def test_a_quarter_of_the_runs_rounded_down_is_trimmed_at_either_end(n, kept):
    squares = [Fraction(number * number) for number in range(n)]
    cut = (n - kept) // 2
    expected = sum(squares[cut : n - cut]) / kept
    shuffled = np.random.default_rng(n).permutation(np.array(squares, dtype=float))
    assert interquartile_mean(shuffled) == pytest.approx(float(expected), rel=1e-14)
    assert interquartile_mean([NAN, *shuffled, NAN]) == pytest.approx(float(expected), rel=1e-14)


def test_a_wild_run_does_not_reach_the_interquartile_mean_or_its_rounding():
    assert interquartile_mean([1e30, 1, 2, -1e30]) == 1.5
    counts = np.array([[1.0, 1, 2], [1, 1, 1], [1, 2, 0], [1, 0, 1]])
    np.testing.assert_array_equal(interquartile_mean([1e30, 1, 2, -1e30], counts), [1.5, 2, (1 + 1e30) / 2])


@examples
@given(values=some_runs)
def test_the_interquartile_mean_is_scipys_trimmed_mean(values):
    assert interquartile_mean(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25), rel=1e-9, abs=1e-6)


@any_statistic
@examples
@given(values=some_runs_or_none, seed=st.integers(0, 2**32))
def test_a_statistic_of_counted_runs_is_that_of_the_runs_written_out(statistic, values, seed):
    drawn = np.random.default_rng(seed).integers(len(values), size=(8, len(values)))
    counts = np.stack([np.bincount(row, minlength=len(values)) for row in drawn], axis=1).astype(float)
    np.testing.assert_allclose(statistic(values, counts), statistic(values[drawn]), rtol=1e-9, atol=1e-6)


@any_statistic
@examples
@given(values=some_runs_or_none, shift=finite, scale=st.floats(-100, 100), order=st.randoms())
def test_a_statistic_moves_and_stretches_with_its_runs_and_ignores_their_order(statistic, values, shift, scale, order):
    shuffled = values.tolist()
    order.shuffle(shuffled)
    assert statistic(shuffled) == pytest.approx(statistic(values), rel=1e-9, abs=1e-6, nan_ok=True)
    expected = statistic(values) * scale + shift
    assert statistic(values * scale + shift) == pytest.approx(expected, rel=1e-9, abs=1e-3, nan_ok=True)


@any_statistic
def test_a_statistic_keeps_the_axes_in_front_and_takes_no_runs_at_all(statistic):
    values = normal(2, 3, 10)
    assert statistic(values).shape == (2, 3)
    assert statistic(values)[1, 2] == statistic(values[1, 2])
    counts = np.ones((10, 7))
    assert statistic(values, counts).shape == (2, 3, 7)
    np.testing.assert_allclose(statistic(values, counts)[..., 0], statistic(values), rtol=1e-13)
    assert np.isnan(statistic(np.empty((2, 0)))).all()


@any_statistic
def test_an_infinite_run_is_refused(statistic):
    with pytest.raises(ValueError, match="infinite"):
        statistic([1, math.inf])


# Intervals


def test_two_runs_have_the_interval_that_four_equally_likely_resamples_give():
    """Means of 0 and 1: 0 with 1/4, 1/2 with 1/2, 1 with 1/4."""
    for level, expected in [(0.95, (0, 1)), (0.6, (0, 1)), (0.4, (0.5, 0.5))]:
        assert bootstrap_interval([[0, 1]], mean, level=level) == expected


def test_a_share_of_eight_runs_has_the_binomial_quantiles_as_its_interval():
    """2 of 8 runs above: Binomial(8, 1/4) has P(0) = 0.100, P(at most 4) = 0.973, P(at most 5) = 0.996."""
    assert bootstrap_interval([[1, 1, 0, 0, 0, 0, 0, 0]], mean, level=0.9) == (0, 4 / 8)
    assert bootstrap_interval([[1, 1, 0, 0, 0, 0, 0, 0]], mean, level=0.98, resamples=5000) == (0, 5 / 8)


def test_strata_are_resampled_each_within_itself():
    """Pooled, 0 0 1 1 could be drawn as 0 0 0 0; by strata, the mean is 1/2 in every resample."""
    assert bootstrap_interval([[0, 0], [1, 1]], mean) == (0.5, 0.5)
    assert bootstrap_interval([[0, 0, 1, 1]], mean) == (0, 1)


def test_strata_do_not_share_their_draws():
    """If they did, runs and their mirror images would cancel in every resample."""
    low, high = bootstrap_interval([[0, 1], [0, -1]], mean)
    assert (low, high) == (-0.5, 0.5)


@any_statistic
def test_whole_runs_are_resampled_so_a_point_twice_as_far_has_twice_the_band(statistic):
    runs = normal(12)
    low, high = bootstrap_interval([np.stack([runs, 2 * runs, runs + 8, -runs])], statistic)
    np.testing.assert_allclose(low, [low[0], 2 * low[0], low[0] + 8, -high[0]], rtol=1e-12)
    np.testing.assert_allclose(high, [high[0], 2 * high[0], high[0] + 8, -low[0]], rtol=1e-12)


@any_statistic
@examples
@given(values=some_runs)
def test_an_interval_contains_its_statistic(statistic, values):
    low, high = bootstrap_interval([values], statistic, resamples=500)
    slack = 1e-12 * np.abs(values).max()
    assert values.min() <= low <= statistic(values) + slack
    assert statistic(values) - slack <= high <= values.max()


@any_statistic
def test_equal_runs_have_an_interval_without_width(statistic):
    assert bootstrap_interval([np.full(7, 0.1), np.full(5, 0.1)], statistic) == (0.1, 0.1)


@any_statistic
@pytest.mark.parametrize("sizes", [(30,), (9, 20, 6)])
def test_intervals_agree_with_scipys_percentile_bootstrap(statistic, sizes):
    """Both are off by their resampling: a 2.5 % quantile of 10,000 by about 1/36 of the standard error."""
    strata = [np.exp(normal(size, seed=size)) + place for place, size in enumerate(sizes)]

    def pooled(*groups, axis):
        assert axis == -1
        return statistic(np.concatenate(groups, axis=-1))

    theirs = scipy.stats.bootstrap(
        strata, pooled, method="percentile", n_resamples=10_000, batch=5000, rng=np.random.default_rng(1)
    )
    ours = bootstrap_interval(strata, statistic, resamples=10_000)
    np.testing.assert_allclose(ours, theirs.confidence_interval, rtol=0, atol=0.15 * theirs.standard_error)


@pytest.mark.parametrize("n", [5, 20, 64])
def test_intervals_of_normal_runs_cover_as_often_as_theory_says(n):
    """A percentile interval is the mean ± 1.96 s sqrt((n - 1) / n) / sqrt(n): Student's t gives what it covers."""
    trials = 1000
    low, high = bootstrap_interval([normal(trials, n, seed=n) + 3], mean, resamples=1000)
    expected = 2 * scipy.stats.t.cdf(scipy.stats.norm.ppf(0.975) * math.sqrt((n - 1) / n), n - 1) - 1
    margin = 3 * math.sqrt(expected * (1 - expected) / trials)
    assert np.mean((low <= 3) & (high >= 3)) == pytest.approx(expected, abs=margin + 0.005)  # 0.005: not quite normal


def test_ninety_five_percent_intervals_of_interquartile_means_cover_about_as_often():
    trials = 1000
    low, high = bootstrap_interval([normal(trials, 40)], interquartile_mean, resamples=500)
    margin = 3 * math.sqrt(0.95 * 0.05 / trials)
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.95, abs=margin + 0.01)  # 0.01: few runs


@any_statistic
def test_one_run_says_nothing_about_spread(statistic):
    points = [[1, 2, 3, 4], [1, NAN, NAN, 2], [1, NAN, NAN, NAN], [NAN, NAN, NAN, NAN]]
    low, high = bootstrap_interval([points], statistic)
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [False, False, True, True]
    assert (low[1], high[1]) == (1, 2)
    assert np.isnan(bootstrap_interval([[5.0]], statistic)).all()
    assert np.isnan(bootstrap_interval([[]], statistic)).all()
    assert np.isnan(bootstrap_interval([[1.0, 2.0], [3.0]], statistic)).all()  # one of the cells has one run
    assert bootstrap_interval([[1.0, 1.0], [NAN, NAN], []], statistic) == (1, 1)  # a cell without any is no obstacle


@any_statistic
def test_equal_arguments_give_equal_intervals_and_another_seed_another(statistic):
    strata = [normal(3, 10), normal(3, 6, seed=1)]
    first, again = bootstrap_interval(strata, statistic), bootstrap_interval(strata, statistic)
    np.testing.assert_array_equal(first, again)
    other = bootstrap_interval(strata, statistic, seed=1)
    assert not np.array_equal(first, other)
    np.testing.assert_allclose(first, other, atol=0.1)


@any_statistic
def test_intervals_do_not_depend_on_the_other_points_or_on_how_the_work_is_cut_up(statistic, monkeypatch):
    strata = [normal(5, 10), np.where(normal(5, 7, seed=1) > 1, NAN, normal(5, 7, seed=2))]
    whole = bootstrap_interval(strata, statistic, resamples=333)
    alone = bootstrap_interval([stratum[3] for stratum in strata], statistic, resamples=333)
    np.testing.assert_allclose([bound[3] for bound in whole], alone, rtol=1e-12)
    monkeypatch.setattr(bootstrap, "COUNTS_AT_ONCE", 17 * 50)
    monkeypatch.setattr(bootstrap, "RESULTS_AT_ONCE", 333 * 2)
    np.testing.assert_allclose(bootstrap_interval(strata, statistic, resamples=333), whole, rtol=1e-12)


@any_statistic
def test_a_thousand_seeds_take_little_memory(statistic):
    values = normal(10, 1024)
    tracemalloc.start()
    bootstrap_interval([values], statistic)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # all counts alone would be 16, all resamples 160


@pytest.mark.parametrize("knobs", [{"level": 1.0}, {"level": 0.0}, {"level": 95}, {"resamples": 0}])
def test_a_level_outside_0_and_1_and_no_resamples_are_refused(knobs):
    with pytest.raises(ValueError, match="level"):
        bootstrap_interval([[1, 2]], mean, **knobs)


# Pairs


def test_pairs_are_compared_by_seed():
    """Differences 1, 0, 2, -1 (and two pairs without a partner): mean 1/2, two better, one tie, so 5/8."""
    comparison = paired([1, 2, 3, 4, NAN, 6], [2, 2, 5, 3, 5, NAN])
    assert (comparison.n, comparison.better, comparison.ties, comparison.left_out) == (4, 2, 1, 2)
    assert comparison.difference == 1 / 2
    assert comparison.probability_of_improvement == 5 / 8
    assert comparison.low < 1 / 2 < comparison.high
    assert comparison.level == 0.95


def test_what_two_seeds_share_does_not_widen_the_difference():
    a = 100 * normal(20)
    comparison = paired(a, a + 1)
    assert (comparison.low, comparison.high) == pytest.approx((1, 1), rel=1e-12)
    assert comparison.probability_of_improvement == 1


@examples
@given(pairs=arrays(float, st.tuples(st.just(2), st.integers(0, 20)), elements=st.integers(-3, 3).map(float)))
def test_swapping_a_and_b_turns_the_difference_and_the_probability_around(pairs):
    a, b = pairs
    forth, back = paired(a, b, resamples=200), paired(b, a, resamples=200)
    assert back.difference == pytest.approx(-forth.difference, nan_ok=True)
    turned = 1 - forth.probability_of_improvement
    assert back.probability_of_improvement == pytest.approx(turned, nan_ok=True)
    low, high = forth.probability_interval
    assert back.probability_interval == pytest.approx((1 - high, 1 - low), nan_ok=True)
    assert back.better == forth.n - forth.better - forth.ties


def test_the_interval_of_a_difference_agrees_with_scipys_paired_bootstrap():
    a, b = normal(2, 25)
    theirs = scipy.stats.bootstrap(
        (a, b),
        lambda a, b, axis: (b - a).mean(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(1),
    )
    ours = paired(a, b, resamples=10_000)
    expected = pytest.approx(tuple(theirs.confidence_interval), abs=0.15 * theirs.standard_error)
    assert (ours.low, ours.high) == expected


def test_no_pair_says_nothing_one_pair_no_interval_two_pairs_span_it():
    none, one, two = paired([], []), paired([1, NAN], [3, 4]), paired([0, 0], [1, 2])
    assert (none.n, one.n, two.n) == (0, 1, 2)
    assert np.isnan([none.difference, none.low, none.high, none.probability_of_improvement]).all()
    assert np.isnan(none.probability_interval).all()
    assert one.difference == 2
    assert np.isnan([one.low, one.high]).all()
    assert one.probability_interval == pytest.approx((0.2065, 1), abs=1e-4)
    assert (two.difference, two.low, two.high) == (1.5, 1, 2)


def test_lists_that_are_no_pairs_are_refused():
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        paired([1, 2], [1, 2, 3])


@pytest.mark.parametrize(("successes", "n"), [(0, 5), (3, 3), (1, 2), (100, 128), (127, 128), (128, 128)])
def test_the_interval_of_a_share_is_wilsons(successes, n):
    theirs = scipy.stats.binomtest(successes, n).proportion_ci(confidence_level=0.9, method="wilson")
    assert share_interval(successes, n, level=0.9) == pytest.approx(tuple(theirs), abs=1e-9)


# Profiles


def test_a_profile_is_the_share_of_runs_strictly_above_each_threshold():
    share, low, high = performance_profile([[1, 2, 2, NAN, 3]], [0, 1, 2, 3])
    assert share.tolist() == [1, 3 / 4, 1 / 4, 0]
    assert (low <= share).all()
    assert (share <= high).all()
    assert (low[0], high[3]) == (1, 0)
    np.testing.assert_array_equal(above([1, NAN, 2], [1]), [[0, NAN, 1]])


@examples
@given(values=some_runs)
def test_a_profile_falls_and_so_do_its_bounds(values):
    for falling in performance_profile([values], np.linspace(-1e6, 1e6, 9), resamples=200):
        assert (np.diff(falling) <= 1e-12).all()
