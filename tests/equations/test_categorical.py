"""Tokens and the log-probabilities they are drawn with."""

import math
from itertools import product

import pytest
import torch
from equations.exact import numbers
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrl_cli.equations.categorical import (
    bounded,
    entropy,
    inverse_cdf,
    joint_probabilities,
    log_probs_of,
    score_squares,
)

BELOW_ONE = 1 - 2**-24
"""The largest float32 below 1."""
patient = settings(deadline=None, derandomize=True)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@pytest.mark.parametrize("shared", [True, False])
def test_the_log_probs_of_tokens_are_picked_one_by_one(shared):
    vocab_log_probs = numbers(2, 3, 1 if shared else 4, 5, 6, seed=0).log_softmax(dim=-1)
    tokens = torch.randint(6, (2, 3, 4, 5), generator=torch.Generator().manual_seed(0))
    picked = log_probs_of(tokens, vocab_log_probs)
    assert picked.shape == tokens.shape
    for run, prompt, response, token in torch.cartesian_prod(*map(torch.arange, tokens.shape)).tolist():
        row = vocab_log_probs[run, prompt, 0 if shared else response, token]
        assert picked[run, prompt, response, token] == row[tokens[run, prompt, response, token]]


def test_the_entropy_of_a_uniform_distribution_is_the_log_of_its_size():
    assert entropy(torch.zeros(7, dtype=torch.float64).log_softmax(dim=-1)).item() == pytest.approx(math.log(7))


def test_the_entropy_by_hand():
    halves = torch.tensor([1 / 2, 1 / 4, 1 / 4], dtype=torch.float64)
    assert entropy(halves.log()).item() == pytest.approx(1.5 * math.log(2))


def test_a_certain_token_has_no_entropy():
    assert entropy(torch.tensor([500.0, 0.0, 0.0]).log_softmax(dim=-1)).item() == 0


def test_the_squared_length_of_a_score_by_hand():
    # Of the first token (1/2)^2 + (1/4)^2 + (1/4)^2, of the second (1/2)^2 + (3/4)^2 + (1/4)^2.
    halves = torch.tensor([1 / 2, 1 / 4, 1 / 4], dtype=torch.float64).log().expand(1, 1, 2, 3)
    squares = score_squares(torch.tensor([[[0, 1]]]), halves)
    torch.testing.assert_close(squares, torch.tensor([[[3 / 8, 7 / 8]]], dtype=torch.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize("shared", [True, False])
def test_a_score_is_the_gradient_of_the_log_prob_with_respect_to_the_logits(shared):
    logits = numbers(3, 1 if shared else 4, 2, 6, seed=5)
    tokens = torch.randint(6, (3, 4, 2), generator=torch.Generator().manual_seed(5))
    squares = score_squares(tokens, logits.log_softmax(dim=-1))
    assert squares.shape == tokens.shape
    for prompt, response, token in product(range(3), range(4), range(2)):
        row = logits[prompt, 0 if shared else response, token].clone().requires_grad_()
        (score,) = torch.autograd.grad(row.log_softmax(dim=-1)[tokens[prompt, response, token]], row)
        assert squares[prompt, response, token].item() == pytest.approx(score.square().sum().item(), abs=1e-14)


def test_on_average_the_squared_length_of_a_score_is_one_less_the_probability_of_drawing_a_token_twice():
    log_probs = numbers(1, 1, 1, 5, seed=6).log_softmax(dim=-1)
    squares = score_squares(torch.arange(5)[None, :, None], log_probs).flatten()
    probabilities = log_probs.exp().flatten()
    assert (probabilities @ squares).item() == pytest.approx(1 - probabilities.square().sum().item(), abs=1e-15)


def test_a_score_of_a_token_that_is_nearly_certain_keeps_its_digits():
    """1 - 2 pi + sum of pi^2 would be rounding alone."""
    log_probs = torch.tensor([0.0, -17.0, -17.0]).log_softmax(dim=-1)
    small = math.exp(-17) / (1 + 2 * math.exp(-17))
    squares = score_squares(torch.zeros(1, 1, 1, dtype=torch.long), log_probs.view(1, 1, 1, 3))
    assert squares.item() == pytest.approx(6 * small**2, rel=1e-5)


def test_joint_probabilities_by_hand():
    tokens = torch.tensor([[1 / 4, 3 / 4], [1 / 2, 1 / 2]], dtype=torch.float64).log()
    assert joint_probabilities(tokens).tolist() == pytest.approx([1 / 8, 1 / 8, 3 / 8, 3 / 8])


def test_joint_probabilities_are_products_in_the_order_in_which_the_last_token_changes_fastest():
    log_probs = numbers(2, 3, 4, seed=7).log_softmax(dim=-1)
    joint = joint_probabilities(log_probs)
    expected = [
        [math.prod(row[t, token].exp().item() for t, token in enumerate(r)) for r in product(range(4), repeat=3)]
        for row in log_probs
    ]
    torch.testing.assert_close(joint, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0)
    torch.testing.assert_close(joint.sum(dim=-1), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("uniform", "token"),
    [(0.0, 0), (0.2, 0), (0.25, 1), (0.4, 1), (0.75, 2), (0.9, 2), (BELOW_ONE, 2)],
)
def test_a_uniform_number_falls_on_the_token_whose_share_it_lies_in(uniform, token):
    quarters = torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64)
    assert inverse_cdf(quarters.log(), torch.tensor(uniform, dtype=torch.float64)).item() == token


@dtypes
@given(data=st.data(), vocab=st.integers(2, 8))
@patient
def test_a_token_of_probability_zero_is_never_drawn(dtype, data, vocab):
    """Neither one ruled out by a logit of minus infinity, nor one whose probability underflows."""
    choices = st.floats(-5, 5) | st.sampled_from([-math.inf, -1e4])
    logits = torch.tensor(data.draw(st.lists(choices, min_size=vocab, max_size=vocab)), dtype=dtype)
    logits[data.draw(st.integers(0, vocab - 1))] = 1.0
    log_probs = logits.log_softmax(dim=-1)
    uniforms = torch.cat([torch.linspace(0, BELOW_ONE, 50, dtype=dtype), torch.tensor([0.0, BELOW_ONE], dtype=dtype)])
    drawn = inverse_cdf(log_probs.expand(len(uniforms), vocab), uniforms)
    assert log_probs.exp()[drawn].min() > 0


@dtypes
def test_the_extreme_uniform_numbers_draw_the_first_and_the_last_token(dtype):
    """Whatever the rounding of the cumulative sum leaves beside 1."""
    log_probs = numbers(2000, 11, seed=1).to(dtype).log_softmax(dim=-1)
    for uniform, token in ((0.0, 0), (BELOW_ONE, 10)):
        drawn = inverse_cdf(log_probs, torch.full((2000,), uniform, dtype=dtype))
        assert torch.equal(drawn, torch.full((2000,), token))


def test_a_larger_uniform_number_never_draws_an_earlier_token():
    log_probs = numbers(9, seed=2).log_softmax(dim=-1)
    drawn = inverse_cdf(log_probs.expand(1000, 9), torch.linspace(0, BELOW_ONE, 1000, dtype=torch.float64))
    assert drawn.diff().min() >= 0
    assert drawn.unique().tolist() == list(range(9))


def test_shared_log_probs_serve_every_response():
    log_probs = numbers(3, 1, 4, 5, seed=3).log_softmax(dim=-1)
    uniforms = torch.rand(3, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    assert torch.equal(inverse_cdf(log_probs, uniforms), inverse_cdf(log_probs.expand(3, 7, 4, 5), uniforms))


def test_bounded_log_ratios_are_themselves_within_twenty_and_twenty_beyond():
    log_ratios = torch.tensor([-1000.0, -20.0, -3.5, 0.0, 19.9, 21.0])
    assert bounded(log_ratios).tolist() == pytest.approx([-20.0, -20.0, -3.5, 0.0, 19.9, 20.0])
