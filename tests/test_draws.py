import numpy as np

from pgrl_cli import draws


def test_numbers_depend_on_seed_purpose_and_epoch_and_on_nothing_else():
    first = draws.uniforms(5, "responses", 3, (4, 6))
    np.random.default_rng().random(10)
    assert np.array_equal(first, draws.uniforms(5, "responses", 3, (4, 6)))
    others = [(6, "responses", 3), (5, "policy", 3), (5, "responses", 4)]
    assert all(not np.isclose(first, draws.uniforms(*key, (4, 6))).any() for key in others)


def test_the_stream_never_changes_between_versions():
    """Printed once and kept: a change here would change every curve."""
    assert draws.uniforms(5, "responses", 0, (3,)).tolist() == [
        0.7548008561134338,
        0.22520262002944946,
        0.4248781204223633,
    ]


def test_both_precisions_see_the_same_numbers_all_below_one():
    numbers = draws.uniforms(1, "responses", 0, (100_000,))
    assert np.array_equal(numbers.astype(np.float32).astype(np.float64), numbers)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.005


def test_the_largest_seed_there_is_works():
    assert draws.uniforms(2**63 - 1, "responses", 2**31 - 2, (2,)).shape == (2,)
