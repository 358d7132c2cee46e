"""A critic's targets, loss and measure: by hand, by law, by independent sums, and exactly."""

import statistics

import pytest
import torch
from equations.exact import numbers, two_tokens

from pgrl_cli.equations.returns import gae, n_step, reward_to_go
from pgrl_cli.equations.values import (
    VALUE_TARGETS,
    explained_variance,
    lambda_return,
    monte_carlo,
    td,
    value_losses,
)
from pgrl_cli.registry import apply

any_target = pytest.mark.parametrize("target", VALUE_TARGETS.values(), ids=VALUE_TARGETS.keys())
discounts = pytest.mark.parametrize("discount", [1.0, 0.7, 0.0])


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def sampled(tokens=6):
    """Rewards [prompt response token] and values, with a bootstrap."""
    return numbers(2, 3, tokens, seed=1), numbers(2, 3, tokens + 1, seed=2)


def of(target, rewards, values, **knobs):
    return apply(target, {"token_rewards": rewards, "values": values}, knobs)


# Targets


def test_each_target_by_hand():
    rewards, values = double([1, 2, 3]), double([10, 20, 40, 80])
    assert monte_carlo(rewards, values, discount=0.5).tolist() == [12.75, 23.5, 43]  # 3+40, 2+21.5, 1+11.75
    assert td(rewards, values, discount=0.5).tolist() == [11, 22, 43]
    # half of each: 43, then 2 + (20 + 21.5)/2, then 1 + (10 + 11.375)/2
    assert lambda_return(rewards, values, discount=0.5, gae_lambda=0.5).tolist() == [11.6875, 22.75, 43]


@discounts
def test_a_target_minus_the_value_is_an_advantage(discount):
    rewards, values = sampled()
    before = values[..., :-1]
    close(td(rewards, values, discount=discount) - before, n_step(rewards, values, discount=discount))
    close(
        monte_carlo(rewards, values, discount=discount) - before, n_step(rewards, values, discount=discount, n_steps=6)
    )
    close(
        lambda_return(rewards, values, discount=discount, gae_lambda=0.4) - before,
        gae(rewards, values, discount=discount, gae_lambda=0.4),
    )


@discounts
def test_a_lambda_of_one_waits_for_the_return_and_of_zero_for_one_reward(discount):
    rewards, values = sampled()
    for weight, target in ((1.0, monte_carlo), (0.0, td)):
        found = lambda_return(rewards, values, discount=discount, gae_lambda=weight)
        close(found, target(rewards, values, discount=discount))


@discounts
def test_a_return_is_the_reward_to_go_and_the_bootstrap_where_it_was_cut_off(discount):
    rewards, values = sampled(3)
    reaches = double([discount**3, discount**2, discount])
    found = monte_carlo(rewards, values, discount=discount)
    close(found, reward_to_go(rewards, discount=discount) + reaches * values[..., -1:])
    values[..., -1] = 0
    assert torch.equal(monte_carlo(rewards, values, discount=discount), reward_to_go(rewards, discount=discount))


@any_target
def test_behind_an_end_there_is_nothing_to_learn(target):
    rewards, values = sampled(3)
    values[..., -1] = 0
    nothing = torch.zeros(2, 3, 2, dtype=torch.float64)
    longer = of(target, torch.cat([rewards, nothing], dim=-1), torch.cat([values, nothing], dim=-1), discount=0.9)
    assert torch.equal(longer, torch.cat([of(target, rewards, values, discount=0.9), nothing], dim=-1))


def test_a_lambda_return_is_its_recursion_written_out():
    rewards, values = (tensor[1, 1].tolist() for tensor in sampled())
    expected, later = [], values[-1]
    for t in reversed(range(6)):
        later = rewards[t] + 0.9 * (0.7 * later + 0.3 * values[t + 1])
        expected.insert(0, later)
    close(lambda_return(double(rewards), double(values), discount=0.9, gae_lambda=0.7), double(expected))


@any_target
@pytest.mark.parametrize("right", [True, False])
def test_on_average_a_target_is_the_true_value_and_where_the_critic_is_wrong_only_the_return_is(target, right):
    """Two tokens, each with a reward that depends on all so far; expected from the start."""
    world = two_tokens()
    chances = world.chances(world.logits)
    rewards = torch.stack([double([2, -1, 0.5])[world.responses[:, 0]], numbers(9, seed=5)], dim=-1)
    value = chances @ rewards.sum(dim=-1)
    starts = world.responses[:, 0, None] == world.responses[:, 0]  # which responses begin alike
    after = (starts * chances) @ rewards[:, 1] / (starts * chances).sum(dim=-1)
    if not right:
        after = after + double([1.0, 2.0, 3.0])[world.responses[:, 0]]
    values = torch.stack([value.expand(9), after, torch.zeros(9, dtype=torch.float64)], dim=-1)
    found = chances @ of(target, rewards, values)[:, 0]
    if right or target is monte_carlo:
        close(found, value)
    else:
        assert abs(found - value) > 0.05


# Losses


def test_a_value_loss_is_half_the_squared_distance_and_its_gradient_the_distance():
    values, targets = double([[[3.0, -1.0]]]).requires_grad_(), double([[[1.0, 2.0]]])
    losses = value_losses(values, values.detach(), targets)
    assert losses.tolist() == [[[2.0, 4.5]]]
    (gradient,) = torch.autograd.grad(losses.sum(), values)
    assert gradient.tolist() == [[[2.0, -3.0]]]


@pytest.mark.parametrize(
    ("value", "target", "loss", "slope"),
    [
        (0.05, 1.0, 0.45125, -0.95),  # within the clip of 0.1 around 0
        (0.3, 1.0, 0.405, 0.0),  # held at 0.1, which is farther from the target
        (-0.3, 1.0, 0.845, -1.3),  # it has gone the wrong way
        (0.3, -1.0, 0.845, 1.3),
        (-0.3, -1.0, 0.405, 0.0),
        (0.3, 0.15, 0.01125, 0.15),  # it has gone past the target
    ],
)
def test_a_value_that_has_gone_far_enough_towards_its_target_is_pushed_no_further(value, target, loss, slope):
    values = double([[[value]]]).requires_grad_()
    losses = value_losses(values, double([[[0.0]]]), double([[[target]]]), value_clip=0.1)
    close(losses, double([[[loss]]]))
    close(torch.autograd.grad(losses.sum(), values)[0], double([[[slope]]]))


def test_at_the_first_step_a_value_clip_changes_nothing_and_later_no_loss_is_smaller_for_it():
    old, targets, new = (numbers(2, 3, 4, seed=seed) for seed in (1, 2, 3))
    for values in (old, new):
        values = values.clone().requires_grad_()
        plain, held = (value_losses(values, old, targets, value_clip=clip) for clip in (None, 0.2))
        gradients = [torch.autograd.grad(losses.sum(), values)[0] for losses in (plain, held)]
        assert torch.equal(gradients[0], gradients[1]) == torch.equal(values, old)
        assert (held >= plain).all()
        assert torch.equal(
            value_losses(values, old, targets, value_clip=1e6).round(decimals=9), plain.round(decimals=9)
        )


def test_the_value_with_the_least_expected_loss_is_the_expected_target():
    chances, targets = double([0.2, 0.5, 0.3]), double([4.0, 0.0, 1.0])
    values = (chances @ targets).requires_grad_()
    (gradient,) = torch.autograd.grad(
        chances @ value_losses(values.expand(3), values.detach().expand(3), targets), values
    )
    assert abs(gradient.item()) < 1e-12


# What the values explain


def test_explained_variance_by_hand_and_by_an_independent_sum():
    targets = double([[[1.0, 2.0], [3.0, 6.0]]])
    assert explained_variance(targets - 5, targets, None).item() == 1
    assert explained_variance(torch.full_like(targets, 4.0), targets, None).item() == 0
    assert explained_variance(-targets, targets, None).item() == pytest.approx(-3)
    values, mask = numbers(1, 2, 2, seed=1), torch.tensor([[[True, True], [False, True]]])
    counted = [(t, v) for t, v, m in zip(*(x.flatten().tolist() for x in (targets, values, mask)), strict=True) if m]
    left = statistics.pvariance([t - v for t, v in counted]) / statistics.pvariance([t for t, _ in counted])
    assert explained_variance(values, targets, mask).item() == pytest.approx(1 - left, abs=1e-12)


def test_explained_variance_is_each_runs_own_and_does_not_look_behind_an_end():
    values, targets = numbers(4, 2, 3, 5, seed=1), numbers(4, 2, 3, 5, seed=2)
    mask = numbers(4, 2, 3, 5, seed=3) > -0.5
    found = explained_variance(values, targets, mask)
    spoilt = [torch.where(mask, tensor, torch.nan) for tensor in (values, targets)]
    assert found.shape == (4,)
    assert torch.equal(explained_variance(*spoilt, mask), found)
    for run in range(4):
        assert torch.equal(explained_variance(values[run], targets[run], mask[run]), found[run])


@pytest.mark.parametrize("target", [0.1, 1 / 3, 0.0])
def test_targets_that_do_not_vary_leave_nothing_to_explain(target):
    targets = torch.full((2, 1, 2, 5), target)
    targets[1, 0, 0, 0] = 5
    found = explained_variance(torch.zeros_like(targets), targets, None)
    assert found[0].isnan()
    assert found[1].item() == pytest.approx(0, abs=1e-6)
    mask = torch.zeros_like(targets, dtype=torch.bool)
    assert explained_variance(torch.zeros_like(targets), targets, mask).isnan().all()
