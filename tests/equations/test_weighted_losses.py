"""Losses of a response's ratio and of constant weights: by hand, by law, and exactly, over every response there is."""

import math

import pytest
import torch
from equations.exact import WORLDS, numbers, off_direction, one_token, two_tokens

from pgrl_cli.config.kinds import misfit
from pgrl_cli.equations.losses import LOSSES, clipped, naive, unclipped
from pgrl_cli.equations.weighted_losses import (
    cispo,
    held_by_the_sequence_clip,
    importance_sampled,
    sequence_clipped,
    sequence_ratios,
)
from pgrl_cli.registry import apply, cut_off, knobs

SETTINGS = [
    (sequence_clipped, {}),
    (sequence_clipped, {"clip_epsilon": None, "clip_low": 3e-4, "clip_high": 4e-4}),
    (cispo, {}),
    (cispo, {"clip_low": 0.1, "clip_high": None}),
    (importance_sampled, {}),
    (importance_sampled, {"importance_level": "sequence", "importance_cap": 1.5}),
]
any_loss = pytest.mark.parametrize(("loss", "settings"), SETTINGS, ids=lambda case: getattr(case, "__name__", None))
masking = pytest.mark.parametrize(
    ("loss", "settings"),
    [case for case in SETTINGS if case[0] is not cispo],
    ids=lambda case: getattr(case, "__name__", None),
)
worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def stepped(loss, ratios, advantages, mask=None, **settings):
    """Losses and gradients by log pi where each token's ratio is what is given: [prompt response token]."""
    old = torch.full_like(ratios, -0.4)
    new = (old + ratios.log()).requires_grad_()
    tensors = {"log_probs": new, "old_log_probs": old, "advantages": advantages, "mask": mask}
    losses = apply(loss, tensors, settings)
    return losses.detach(), torch.autograd.grad(losses.sum(), new)[0]


def test_the_losses_here_and_those_of_the_other_file_are_all_there_are():
    assert {loss for loss, _ in SETTINGS} | {naive, unclipped, clipped} == set(LOSSES.values())


# By hand


@pytest.mark.parametrize(
    ("ratios", "advantage", "value", "slope"),
    [
        ([2.0, 0.5], 3.0, -3.0, -3.0),  # the geometric mean is 1
        ([4.0, 1.0], 1.0, -1.2, 0.0),  # it is 2, beyond 1.2
        ([4.0, 1.0], -1.0, 2.0, 2.0),
        ([0.25, 1.0], -1.0, 0.8, 0.0),  # it is 1/2, beneath 0.8
        ([0.25, 1.0], 1.0, -0.5, -0.5),
        ([4.0, 0.3], 1.0, -(1.2**0.5), -(1.2**0.5)),  # a token beyond the clip, in a response that is not
    ],
)
def test_a_response_is_held_or_free_as_a_whole(ratios, advantage, value, slope):
    losses, gradients = stepped(sequence_clipped, double([[ratios]]), double([[[advantage]]]))
    close(losses, double([[[value] * 2]]))
    close(gradients, double([[[slope] * 2]]))


def test_tokens_with_advantages_of_their_own_answer_for_themselves():
    losses, gradients = stepped(sequence_clipped, double([[[4.0, 1.0, 1.0]]]), double([[[1.0, -1.0, -2.0]]]))
    s = 4 ** (1 / 3)
    close(losses, double([[[-1.2, s, 2 * s]]]))
    close(gradients, double([[[0.0, s, 2 * s]]]))


def test_cispo_bounds_the_weight_and_leaves_every_token_its_gradient():
    ratios, advantages = double([[[3.0, 0.1, 1.1]]]), double([[[2.0], [-2.0]]])
    for settings, weights in (
        ({}, [1.2, 0.1, 1.1]),
        ({"clip_low": 0.2}, [1.2, 0.8, 1.1]),
        ({"clip_high": None}, [3.0, 0.1, 1.1]),
        ({"clip_high": None, "clip_low": 0.2}, [3.0, 0.8, 1.1]),
        ({"clip_low": 1.5, "clip_high": 0.05}, [1.05, 0.1, 1.05]),
    ):
        losses, gradients = stepped(cispo, ratios.expand(1, 2, 3), advantages, **settings)
        close(gradients, -advantages * double(weights))
        close(losses, gradients * (ratios.log() - 0.4))


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({}, [3.0, 0.5, 1.0]),
        ({"importance_cap": 2.0}, [2.0, 0.5, 1.0]),
        ({"importance_level": "sequence"}, [1.5] * 3),
        ({"importance_level": "sequence", "importance_cap": 1.2}, [1.2] * 3),
        ({"importance_level": "sequence", "importance_cap": 2.0}, [1.5] * 3),
    ],
)
def test_importance_weights_are_of_a_token_or_of_its_whole_response_and_capped(settings, weights):
    ratios = double([[[3.0, 0.5, 1.0]]])
    losses, gradients = stepped(importance_sampled, ratios, double([[[-2.0]]]), **settings)
    close(gradients, 2 * double([[weights]]))
    close(losses, gradients * (ratios.log() - 0.4))


# By law


@worlds
@any_loss
@pytest.mark.parametrize("masked", [True, False])
def test_summed_over_a_response_each_has_the_policy_gradient_at_the_first_step(world, loss, settings, masked):
    old = world.log_probs(world.logits)
    weights = world.chances(world.logits)[:, None]
    tensors = {"old_log_probs": old[None], "advantages": world.points[None, :, None]}
    tensors["mask"] = torch.ones_like(old[None], dtype=torch.bool) if masked else None

    def objective(logits):
        return (weights * apply(loss, tensors | {"log_probs": world.log_probs(logits)[None]}, settings)).sum()

    close(-world.gradient(objective), world.gradient(world.value))


@any_loss
def test_at_the_first_step_tokens_with_advantages_of_their_own_are_pushed_as_by_reinforce(loss, settings):
    advantages = numbers(2, 3, 4, seed=1)
    _, found = stepped(loss, torch.ones(2, 3, 4, dtype=torch.float64), advantages, **settings)
    close(found, stepped(naive, torch.ones(2, 3, 4, dtype=torch.float64), advantages)[1])


@any_loss
def test_one_advantage_serves_all_tokens_of_its_response(loss, settings):
    ratios, advantages = numbers(2, 3, 4, seed=1).exp(), numbers(2, 3, 1, seed=2)
    shared, spelled_out = (stepped(loss, ratios, a, **settings) for a in (advantages, advantages.expand(2, 3, 4)))
    assert torch.equal(torch.stack(shared), torch.stack(spelled_out))


@pytest.mark.parametrize("settings", [{}, {"clip_low": 0.05, "clip_high": 0.4}])
def test_a_shared_advantage_has_the_gradient_of_the_papers_own_objective(settings):
    """-min(A s, A clip(s)) by autograd, with s = exp(mean of log-ratios) itself in the graph, once per token."""
    old, new = numbers(3, 8, 5, seed=1), numbers(3, 8, 5, seed=2).requires_grad_()
    advantages = numbers(3, 8, seed=3)
    mask = torch.arange(5) < torch.arange(24).view(3, 8, 1) % 5 + 1
    lengths = mask.sum(dim=-1)
    s = (torch.where(mask, new - old, 0.0).sum(dim=-1) / lengths).exp()
    low, high = 1 - settings.get("clip_low", 0.2), 1 + settings.get("clip_high", 0.2)
    expected = -torch.minimum(advantages * s, advantages * s.clamp(low, high))
    losses = sequence_clipped(new, old, advantages.unsqueeze(-1), mask, **settings)
    close(losses, expected.unsqueeze(-1) * mask)
    (gradient,) = torch.autograd.grad((losses.sum(dim=-1) / lengths).sum(), new)
    close(gradient, torch.autograd.grad(expected.sum(), new)[0])
    assert (gradient == 0)[mask].any()
    assert (gradient != 0)[mask].any()


def test_for_responses_of_one_token_the_sequence_clip_is_the_clip():
    ratios, advantages = numbers(2, 20, 1, seed=1).exp(), numbers(2, 20, 1, seed=2)
    found, expected = (stepped(loss, ratios, advantages, clip_low=0.1) for loss in (sequence_clipped, clipped))
    assert torch.equal(torch.stack(found), torch.stack(expected))


@pytest.mark.parametrize("masked", [True, False])
def test_the_tokens_that_a_sequence_clip_is_said_to_hold_are_those_without_a_gradient(masked):
    ratios, advantages = (0.3 * numbers(3, 40, 4, seed=1)).exp(), numbers(3, 40, 4, seed=2)
    mask = numbers(3, 40, 4, seed=3) > 0 if masked else None
    assert cut_off(sequence_clipped) is held_by_the_sequence_clip
    for some in (advantages, advantages[..., :1]):
        _, gradients = stepped(sequence_clipped, ratios, some, mask)
        held = held_by_the_sequence_clip(ratios.log() - 0.4, torch.full_like(ratios, -0.4), some, mask)
        counted = torch.ones_like(held) if mask is None else mask
        assert held.shape == ratios.shape
        assert torch.equal(held, (gradients == 0) & counted)
        assert held.any()
        assert not held[counted].all()


def test_the_losses_that_hold_no_token_do_not_say_so():
    assert cut_off(cispo) is None
    assert cut_off(importance_sampled) is None
    assert (stepped(cispo, numbers(3, 40, 4, seed=1).exp(), numbers(3, 40, 1, seed=2))[1] != 0).all()


@masking
def test_what_stands_behind_the_end_counts_for_nothing_even_if_it_is_not_a_number(loss, settings):
    ratios, advantages = numbers(1, 2, 3, seed=1).exp(), numbers(1, 2, 3, seed=2)
    losses, gradients = stepped(loss, ratios, advantages, **settings)
    nothing = torch.full((1, 2, 2), math.nan, dtype=torch.float64)
    mask = (torch.arange(5) < 3).expand(1, 2, 5)
    longer = [torch.cat([tensor, nothing], dim=-1) for tensor in (ratios, advantages)]
    zeros = torch.zeros(1, 2, 2, dtype=torch.float64)
    for found, expected in zip(stepped(loss, *longer, mask, **settings), (losses, gradients), strict=True):
        assert torch.equal(found, torch.cat([expected, zeros], dim=-1))


@masking
def test_a_response_without_any_token_has_no_loss(loss, settings):
    ratios, advantages = numbers(1, 2, 3, seed=1).exp(), numbers(1, 2, 1, seed=2)
    mask = double([[[1, 1, 1], [0, 0, 0]]]).bool()
    losses, gradients = stepped(loss, ratios, advantages, mask, **settings)
    assert losses[0, 1].tolist() == gradients[0, 1].tolist() == [0, 0, 0]
    assert losses[0, 0].abs().min() > 0
    assert sequence_ratios(ratios, ratios * 2, mask)[0, 1].item() == 1


@any_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_log_ratios_of_a_thousand_leave_losses_and_gradients_finite(loss, settings, advantage, dtype):
    log_probs = torch.tensor([[[1000.0, 900.0], [-1000.0, -900.0]]], dtype=dtype, requires_grad=True)
    tensors = {"log_probs": log_probs, "old_log_probs": torch.zeros(1, 2, 2, dtype=dtype), "mask": None}
    losses = apply(loss, tensors | {"advantages": torch.full((1, 2, 1), advantage, dtype=dtype)}, settings)
    assert losses.isfinite().all()
    assert torch.autograd.grad(losses.sum(), log_probs)[0].isfinite().all()


def test_a_sequence_clip_without_a_bound_on_one_side_is_refused():
    with pytest.raises(ValueError, match="clip_low and clip_high"):
        sequence_clipped(*[torch.zeros(1, 1, 2)] * 3, None, clip_epsilon=None, clip_low=0.1)


def test_the_level_is_one_of_two_words_to_a_config():
    level = knobs(importance_sampled)["importance_level"]
    assert (level.default, level.broadcasts) == ("token", False)
    assert misfit(level.annotation, "sequence") is None
    assert misfit(level.annotation, "response") == "came 'response' (text); expected token or sequence"
    cap = knobs(importance_sampled)["importance_cap"]
    assert cap.broadcasts
    assert misfit(cap.annotation, None) is None
    assert misfit(cap.annotation, 0) is not None


# Exactly, from an older policy's responses


def later_ascent(world, loss, **settings):
    """Where the loss drives, on average over an older policy's responses, a policy that has moved; and the truth."""
    old, moved = world.log_probs(world.logits)[None], world.logits + 0.5 * numbers(*world.logits.shape, seed=7)
    tensors = {"old_log_probs": old, "advantages": world.points[None, :, None], "mask": None}
    chances = world.chances(world.logits)[:, None]
    logits = moved.requires_grad_()
    losses = apply(loss, tensors | {"log_probs": world.log_probs(logits)[None]}, settings)
    (found,) = torch.autograd.grad((chances * losses).sum(), logits)
    return -found, torch.autograd.grad(world.value(logits), logits)[0]


@worlds
def test_weights_of_whole_responses_are_unbiased_from_an_older_policys_responses(world):
    close(*later_ascent(world, importance_sampled, importance_level="sequence"))
    close(*later_ascent(world, importance_sampled, importance_level="sequence", importance_cap=1e6))


def test_a_token_of_its_own_is_a_whole_response():
    close(*later_ascent(one_token(), importance_sampled))
    close(*later_ascent(one_token(), cispo, clip_high=None))


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        (naive, {}),
        (importance_sampled, {"importance_level": "token"}),
        (importance_sampled, {"importance_level": "sequence", "importance_cap": 1.1}),
        (cispo, {}),
        (sequence_clipped, {}),
    ],
)
def test_no_other_weights_are(loss, settings):
    assert off_direction(*later_ascent(two_tokens(), loss, **settings)) > 0.02


def test_cispo_without_bounds_weighs_each_token_as_importance_sampling_does():
    ratios, advantages = numbers(2, 3, 4, seed=1).exp(), numbers(2, 3, 1, seed=2)
    found = stepped(cispo, ratios, advantages, clip_high=None)
    close(torch.stack(found), torch.stack(stepped(importance_sampled, ratios, advantages)), atol=1e-14)
