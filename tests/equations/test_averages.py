"""Who counts how much: the weight of every token under every average, and what a mask keeps out."""

import pytest
import torch
from equations.exact import numbers

from pgrl_cli.equations.averages import AVERAGES, budget_mean, masked, response_sum, token_mean
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.registry import apply

LENGTHS = [1, 2, 4, 0]
"""Of four responses, seven tokens in all; the last is masked as a whole, and so it is none of them."""
MASK = torch.tensor([[token < length for token in range(4)] for length in LENGTHS])
BUDGET = 8.0
WEIGHTS = {
    "token_mean": [1 / 7, 1 / 7, 1 / 7, 0],
    "response_mean": [1 / 3, 1 / 6, 1 / 12, 0],
    "response_sum": [1 / 3, 1 / 3, 1 / 3, 0],
    "budget_mean": [1 / 24, 1 / 24, 1 / 24, 0],
}
"""The weight of each token of a response, by mode."""
any_average = pytest.mark.parametrize("name", AVERAGES)


def average_of(name, values, mask):
    return apply(AVERAGES[name], {"values": values, "mask": mask}, {"token_budget": BUDGET})


def expected_weights(name):
    return torch.tensor(WEIGHTS[name], dtype=torch.float64)[:, None] * MASK


@any_average
@pytest.mark.parametrize(("prompts", "responses"), [(1, 4), (2, 2), (4, 1)])
@pytest.mark.parametrize("kind", [torch.bool, torch.long, torch.float64])
def test_the_weight_of_every_token_is_as_the_table_says(name, prompts, responses, kind):
    shape = (prompts, responses, 4)
    values = numbers(*shape, seed=0).requires_grad_()
    (weights,) = torch.autograd.grad(average_of(name, values, MASK.reshape(shape).to(kind)), values)
    torch.testing.assert_close(weights, expected_weights(name).reshape(shape), rtol=0, atol=1e-15)


@any_average
def test_an_average_is_the_sum_of_its_weighted_values(name):
    values = numbers(1, 4, 4, seed=1)
    expected = (values * expected_weights(name)).sum()
    torch.testing.assert_close(average_of(name, values, MASK[None]), expected, rtol=0, atol=1e-14)


@any_average
@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_a_poisoned_token_outside_the_mask_reaches_neither_value_nor_gradient(name, poison):
    clean = numbers(1, 4, 4, seed=2)
    values = torch.where(MASK, clean, poison).requires_grad_()
    value = average_of(name, values, MASK[None])
    (weights,) = torch.autograd.grad(value, values)
    torch.testing.assert_close(value, average_of(name, clean, MASK[None]))
    torch.testing.assert_close(weights, expected_weights(name)[None], rtol=0, atol=1e-15)


@any_average
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_a_poisoned_log_prob_outside_the_mask_reaches_no_gradient_through_a_loss(name, loss):
    log_probs = torch.where(MASK, numbers(1, 4, 4, seed=3), torch.nan).requires_grad_()
    tensors = {
        "log_probs": masked(log_probs, MASK[None]),
        "old_log_probs": masked(log_probs.detach() - 0.1, MASK[None]),
        "advantages": numbers(1, 4, 1, seed=4),
    }
    value = average_of(name, apply(loss, tensors, {}), MASK[None])
    (gradient,) = torch.autograd.grad(value, log_probs)
    assert value.isfinite()
    assert gradient.isfinite().all()
    assert torch.equal(gradient != 0, MASK[None])


@any_average
def test_where_everything_is_masked_the_average_is_zero(name):
    values = torch.full((1, 2, 3), torch.nan, dtype=torch.float64, requires_grad=True)
    value = average_of(name, values, torch.zeros(1, 2, 3, dtype=torch.bool))
    (weights,) = torch.autograd.grad(value, values)
    assert value.item() == 0
    assert torch.equal(weights, torch.zeros_like(weights))


@any_average
def test_no_mask_is_a_mask_of_everything(name):
    values = numbers(2, 3, 4, 5, seed=5)
    everything = torch.ones_like(values, dtype=torch.bool)
    torch.testing.assert_close(average_of(name, values, None), average_of(name, values, everything), rtol=0, atol=1e-14)


def test_the_budget_mean_is_the_response_sum_over_the_budget():
    values, mask = numbers(2, 4, 4, seed=6), MASK.expand(2, 4, 4)
    for budget in (1.0, 3.0, 100.0):
        torch.testing.assert_close(budget_mean(values, mask, token_budget=budget), response_sum(values, mask) / budget)


def test_the_token_mean_is_no_mean_of_means():
    values = torch.tensor([[[6.0, 0.0, 0.0], [1.0, 2.0, 3.0]]], dtype=torch.float64)
    mask = torch.tensor([[[1, 0, 0], [1, 1, 1]]])
    assert token_mean(values, mask).item() == 3.0  # 12 / 4; the mean of the means 6 and 2 is 4


@any_average
def test_equal_values_of_full_responses_average_to_that_value_times_its_tokens_share(name):
    share = {"token_mean": 1, "response_mean": 1, "response_sum": 4, "budget_mean": 4 / BUDGET}[name]
    values = torch.full((2, 3, 4), 2.5, dtype=torch.float64)
    assert average_of(name, values, torch.ones(2, 3, 4)).item() == pytest.approx(2.5 * share)


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.parametrize("masked", [True, False])
def test_values_that_all_responses_share_count_once_for_each(name, masked):
    generator = torch.Generator().manual_seed(3)
    shared = torch.randn(2, 1, 4, generator=generator, dtype=torch.float64)
    mask = (torch.rand(2, 5, 4, generator=generator) > 0.3) if masked else None
    one = apply(AVERAGES[name], {"values": shared, "mask": mask}, {"token_budget": 3.0})
    each = apply(AVERAGES[name], {"values": shared.expand(2, 5, 4), "mask": mask}, {"token_budget": 3.0})
    torch.testing.assert_close(one, each, rtol=1e-12, atol=1e-12)
