"""Laws of the policy losses."""

import pytest
import torch
from equations.exact import WORLDS
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrl_cli.equations.losses import LOSSES, clipped, held_by_the_clip, importance_ratios, naive, unclipped
from pgrl_cli.registry import apply

any_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
patient = settings(deadline=None, derandomize=True)


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def at_ratio(ratio, advantage, loss=clipped, **knobs):
    """The loss of one token and its gradient by log pi, where the policy has moved by a ratio."""
    old = double([[[-0.4]]])
    new = (old + double(ratio).log()).requires_grad_()
    value = loss(new, old, double([[[advantage]]]), **knobs).sum()
    return value.item(), torch.autograd.grad(value, new)[0].item()


def test_each_loss_is_what_its_first_line_says():
    old, new, advantages = double([[[0.5], [0.5]]]).log(), double([[[0.6], [0.25]]]).log(), double([[[2.0], [-1.0]]])
    torch.testing.assert_close(naive(new, advantages), double([[[1.0216512475319814], [-1.3862943611198906]]]))
    torch.testing.assert_close(unclipped(new, old, advantages), double([[[-2.4], [0.5]]]))
    torch.testing.assert_close(clipped(new, old, advantages, clip_epsilon=0.1), double([[[-2.2], [0.9]]]))


def test_one_advantage_serves_all_tokens_of_its_response():
    old, new = double([[[-1.0, -2.0, -0.5]]]), double([[[-1.1, -1.9, -0.4]]])
    for loss in LOSSES.values():
        tensors = {"log_probs": new, "old_log_probs": old}
        shared = apply(loss, tensors | {"advantages": double([[[-3.0]]])}, {})
        spelled_out = apply(loss, tensors | {"advantages": double([[[-3.0] * 3]])}, {})
        assert torch.equal(shared, spelled_out)


def test_the_gradient_of_the_naive_loss_is_minus_the_advantage():
    log_probs = double([[[-1.0, -2.0]]]).requires_grad_()
    (gradient,) = torch.autograd.grad(naive(log_probs, double([[[3.0, -2.0]]])).sum(), log_probs)
    assert gradient.tolist() == [[[-3.0, 2.0]]]


@worlds
@pytest.mark.parametrize("knobs", [{}, {"clip_low": 0.01, "clip_high": 0.3}, {"dual_clip": 1.5}])
def test_on_the_first_step_all_losses_push_alike(world, knobs):
    old = world.log_probs(world.logits).unsqueeze(0)
    advantages = (world.points - world.points.mean())[None, :, None]
    gradients = [
        world.gradient(
            lambda logits, loss=loss: apply(
                loss,
                {"log_probs": world.log_probs(logits).unsqueeze(0), "old_log_probs": old, "advantages": advantages},
                knobs,
            ).sum()
        )
        for loss in LOSSES.values()
    ]
    assert gradients[0].abs().max() > 0.1
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0], rtol=1e-13, atol=1e-13)


@given(log_prob=st.floats(-1e6, 0))
def test_equal_log_probs_have_a_ratio_of_exactly_one(log_prob):
    for dtype in (torch.float32, torch.float64):
        log_probs = torch.tensor([log_prob], dtype=dtype)
        assert importance_ratios(log_probs, log_probs.clone()).item() == 1.0


def test_a_ratio_is_the_quotient_of_the_probabilities():
    torch.testing.assert_close(
        importance_ratios(double([0.3, 0.9]).log(), double([0.6, 0.3]).log()), double([0.5, 3.0])
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "pushes"),
    [
        (1.29, 2.0, -2.58, True),
        (1.31, 2.0, -2.6, False),
        (0.5, 2.0, -1.0, True),
        (0.91, -2.0, 1.82, True),
        (0.89, -2.0, 1.8, False),
        (1.5, -2.0, 3.0, True),
    ],
)
def test_past_the_clip_there_is_no_push_further_and_always_a_way_back(ratio, advantage, loss, pushes):
    value, gradient = at_ratio(ratio, advantage, clip_low=0.1, clip_high=0.3)
    assert value == pytest.approx(loss, abs=1e-12)
    assert gradient == pytest.approx(-advantage * ratio if pushes else 0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("knobs", "low", "high"),
    [
        ({}, 0.8, 1.2),
        ({"clip_epsilon": 0.05}, 0.95, 1.05),
        ({"clip_low": 0.1}, 0.9, 1.2),
        ({"clip_high": 0.28}, 0.8, 1.28),
        ({"clip_epsilon": 0.05, "clip_low": 0.1}, 0.9, 1.05),
        ({"clip_epsilon": None, "clip_low": 0.1, "clip_high": 0.3}, 0.9, 1.3),
    ],
)
def test_a_side_of_its_own_replaces_the_epsilon_on_its_side(knobs, low, high):
    assert at_ratio(3.0, 1.0, **knobs) == (pytest.approx(-high, abs=1e-12), 0.0)
    assert at_ratio(0.1, -1.0, **knobs) == (pytest.approx(low, abs=1e-12), 0.0)
    for inside in (low + 0.001, high - 0.001):
        for advantage in (1.0, -1.0):
            expected = pytest.approx(-advantage * inside, abs=1e-12)
            assert at_ratio(inside, advantage, **knobs) == (expected, expected)


@pytest.mark.parametrize("knobs", [{}, {"clip_low": 0.1}, {"clip_high": 0.1}])
def test_a_clip_without_a_bound_on_a_side_is_refused(knobs):
    with pytest.raises(ValueError, match="clip_epsilon"):
        at_ratio(1.0, 1.0, clip_epsilon=None, **knobs)


@given(ratio=st.floats(0.01, 50), advantage=st.floats(-5, 5))
@patient
def test_the_clip_never_makes_the_loss_look_better(ratio, advantage):
    assert at_ratio(ratio, advantage)[0] >= at_ratio(ratio, advantage, unclipped)[0] - 1e-12


@pytest.mark.parametrize(
    ("ratio", "advantage", "plain", "dual"),
    [(5.0, -2.0, 10.0, 6.0), (2.0, -2.0, 4.0, 4.0), (5.0, 2.0, -2.4, -2.4), (0.1, -2.0, 1.6, 1.6)],
)
def test_the_dual_clip_bounds_the_loss_of_a_negative_advantage_alone(ratio, advantage, plain, dual):
    assert at_ratio(ratio, advantage)[0] == pytest.approx(plain, abs=1e-12)
    assert at_ratio(ratio, advantage, dual_clip=3.0)[0] == pytest.approx(dual, abs=1e-12)


@given(ratio=st.floats(0.01, 50), advantage=st.floats(-5, 5), dual_clip=st.floats(1.01, 10))
@patient
def test_the_dual_clip_differs_from_the_plain_one_only_past_its_bound(ratio, advantage, dual_clip):
    (plain, plain_push), (dual, dual_push) = at_ratio(ratio, advantage), at_ratio(ratio, advantage, dual_clip=dual_clip)
    bound = -dual_clip * advantage
    if advantage < 0 and plain > bound + 1e-9:
        assert (dual, dual_push) == (pytest.approx(bound, abs=1e-12), 0.0)
    elif advantage >= 0 or plain < bound - 1e-9:
        assert (dual, dual_push) == (plain, plain_push)


@worlds
@any_loss
@pytest.mark.parametrize("advantage", [1.5, -1.5])
@pytest.mark.parametrize("moved", [0.0, 0.05])
def test_a_step_raises_what_did_better_and_lowers_what_did_worse(world, loss, advantage, moved):
    """Every response in turn, from where the policy sampled and from a little beside it."""
    start = world.logits + moved * world.reference
    old = world.log_probs(world.logits)
    for response in range(len(world.responses)):

        def objective(logits, response=response):
            tensors = {
                "log_probs": world.log_probs(logits)[None, None, response],
                "old_log_probs": old[None, None, response],
                "advantages": double([[[advantage]]]),
            }
            return apply(loss, tensors, {}).sum()

        logits = start.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(objective(logits), logits)
        before, after = world.chances(start)[response], world.chances(start - 0.01 * gradient)[response]
        assert (after - before) * advantage > 0


@any_loss
@given(log_ratio=st.floats(-1000, 1000), advantage=st.floats(-5, 5))
@patient
def test_no_loss_ever_pushes_against_its_advantage(loss, log_ratio, advantage):
    new = double([[[log_ratio - 1.0]]]).requires_grad_()
    tensors = {"log_probs": new, "old_log_probs": double([[[-1.0]]]), "advantages": double([[[advantage]]])}
    (gradient,) = torch.autograd.grad(apply(loss, tensors, {}).sum(), new)
    assert gradient.item() * advantage <= 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("knobs", [{}, {"dual_clip": 3.0}])
@any_loss
def test_log_ratios_of_a_thousand_leave_losses_and_gradients_finite(loss, knobs, advantage, dtype):
    old = torch.zeros(1, 1, 2, dtype=dtype)
    new = torch.tensor([[[1000.0, -1000.0]]], dtype=dtype, requires_grad=True)
    advantages = torch.full((1, 1, 1), advantage, dtype=dtype)
    values = apply(loss, {"log_probs": new, "old_log_probs": old, "advantages": advantages}, knobs)
    (gradient,) = torch.autograd.grad(values.sum(), new)
    assert values.isfinite().all()
    assert gradient.isfinite().all()


def columns(*values):
    return double(values).reshape(-1, 1, 1, 1)


@pytest.mark.parametrize(
    ("together", "alone"),
    [
        ({"clip_epsilon": columns(0.1, 0.3)}, [{"clip_epsilon": 0.1}, {"clip_epsilon": 0.3}]),
        (
            {"clip_low": columns(0.1, 0.3), "clip_high": columns(0.05, 0.28), "dual_clip": columns(1.5, 3.0)},
            [
                {"clip_low": 0.1, "clip_high": 0.05, "dual_clip": 1.5},
                {"clip_low": 0.3, "clip_high": 0.28, "dual_clip": 3.0},
            ],
        ),
        (
            {"clip_low": columns(0.1, 0.3), "clip_high": 0.28},
            [{"clip_low": 0.1, "clip_high": 0.28}, {"clip_low": 0.3, "clip_high": 0.28}],
        ),
        (
            {"clip_low": 0.1, "clip_high": columns(0.05, 0.28)},
            [{"clip_low": 0.1, "clip_high": 0.05}, {"clip_low": 0.1, "clip_high": 0.28}],
        ),
        (
            {"clip_epsilon": 0.1, "clip_high": columns(0.05, 0.28), "dual_clip": 2.0},
            [
                {"clip_low": 0.1, "clip_high": 0.05, "dual_clip": 2.0},
                {"clip_low": 0.1, "clip_high": 0.28, "dual_clip": 2.0},
            ],
        ),
    ],
)
def test_a_clip_may_differ_from_run_to_run_and_be_a_number_beside_it(together, alone):
    grid = torch.linspace(-2, 2, 40, dtype=torch.float64).reshape(1, 2, 4, 5)
    log_probs, advantages = grid.expand(2, 2, 4, 5), grid.flip(-1).mean(dim=-1, keepdim=True).expand(2, 2, 4, 1)
    old = torch.zeros_like(log_probs)
    stacked = clipped(log_probs, old, advantages, **together)
    for run in range(2):
        torch.testing.assert_close(
            stacked[run], clipped(log_probs[run], old[run], advantages[run], **alone[run]), rtol=0, atol=1e-14
        )
    assert not torch.equal(stacked[0], stacked[1])


@pytest.mark.parametrize("knobs", [{}, {"clip_low": 0.1, "clip_high": 0.4}, {"dual_clip": 1.5}], ids=str)
def test_the_tokens_that_a_clip_is_said_to_hold_are_those_without_a_gradient(knobs):
    """Between the ties: a sweep of ratios on both sides of every bound, for advantages of both signs and zero."""
    new = torch.linspace(-1.5, 1.5, 301, dtype=torch.float64).add(0.003).view(1, -1, 1).repeat(3, 1, 1).requires_grad_()
    old, advantages = torch.zeros_like(new).detach(), torch.tensor([2.0, -1.0, 0.0], dtype=torch.float64).view(3, 1, 1)
    (gradient,) = torch.autograd.grad(clipped(new, old, advantages, **knobs).sum(), new)
    held = held_by_the_clip(new, old, advantages, **knobs)
    assert torch.equal(held[:2], gradient[:2] == 0)
    assert held[:2].any(dim=1).all()
    assert not held[2].any()
