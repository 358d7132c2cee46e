import numpy as np

from pgrl_cli import draws


def test_numbers_depend_on_seed_purpose_and_epoch_and_on_nothing_else():
    first = draws.uniforms([5], "responses", 3, (4, 6))[0]
    np.random.default_rng().random(10)
    assert np.array_equal(first, draws.uniforms([5], "responses", 3, (4, 6))[0])
    others = [(6, "responses", 3), (5, "policy", 3), (5, "responses", 4)]
    assert all(not np.isclose(first, draws.uniforms([key[0]], *key[1:], (4, 6))[0]).any() for key in others)


def test_the_stream_never_changes_between_versions():
    """Printed once and kept: a change here would change every curve."""
    assert draws.uniforms([5], "responses", 0, (3,))[0].tolist() == [
        0.7548008561134338,
        0.22520262002944946,
        0.4248781204223633,
    ]


def test_both_precisions_see_the_same_numbers_all_below_one():
    numbers = draws.uniforms([1], "responses", 0, (100_000,))[0]
    assert np.array_equal(numbers.astype(np.float32).astype(np.float64), numbers)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.005


def test_the_largest_seed_there_is_works():
    assert draws.uniforms([2**63 - 1], "responses", 2**31 - 2, (2,))[0].shape == (2,)


def test_many_seeds_draw_what_each_draws_alone_and_what_its_generator_does():
    seeds = [7, 0, 2**63 - 1, 7, 12]
    together = draws.uniforms(seeds, "responses", 4, (2, 5))
    for seed, drawn in zip(seeds, together, strict=True):
        assert np.array_equal(drawn, draws.uniforms([seed], "responses", 4, (2, 5))[0])
        assert np.array_equal(drawn, np.floor(draws.generator(seed, "responses", 4).random((2, 5)) * 2**24) / 2**24)
