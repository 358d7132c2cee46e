"""The expected gradient over every possible group, against the true gradient of the expected reward.

First inner step: the old policy is the current one, frozen. Averaged by `response_sum`, so that a response's loss is
that of its whole log-probability. Nothing is sampled.
"""

import pytest
import torch
from equations.exact import WORLDS, off_direction

from pgrl_cli.equations.advantages import ADVANTAGES, optimal_baseline
from pgrl_cli.equations.averages import AVERAGES, response_sum
from pgrl_cli.equations.categorical import score_squares
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.registry import apply, smallest_group

worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
sizes = pytest.mark.parametrize("size", [2, 3])


UNBIASED = (
    *("rewards", "leave_one_out_rewards", "optimal_baseline", "true_value_baseline"),
    *("moving_average_baseline", "old_policy_baseline", "greedy_baseline"),
    *("reward_to_go", "n_step", "gae"),  # the latter two with a critic that is right
)
BIASED = ("max_rewards", "normalized_rewards", "batch_normalized_rewards", "process_rewards")


def known(world, members):
    """What a delta mode may ask for, of groups [group response] of one prompt.

    What other policies and earlier epochs say is a number that does not depend on the group; a reward comes with the
    last token; and the critic is right.
    """
    rewards = world.points[members].unsqueeze(-2)  # [group prompt response]
    last = torch.arange(world.responses.shape[-1]) == world.responses.shape[-1] - 1
    values = torch.cat([world.state_values(), torch.zeros(len(world.points), 1, dtype=torch.float64)], dim=-1)
    return {
        "rewards": rewards,
        "score_squares": world.score_squares()[members].unsqueeze(-2),
        "true_values": world.value(world.logits).expand(len(members), 1),
        "past_mean": torch.tensor(2.5, dtype=torch.float64),
        "greedy_rewards": world.points[world.chances(world.logits).argmax()].expand(len(members), 1),
        "old_policy_rewards": world.points[:3].expand(len(members), 1, 3),
        "token_rewards": torch.where(last, rewards.unsqueeze(-1), 0.0),
        "values": values[members].unsqueeze(-3),
        "step_ends": last.expand(*rewards.shape, -1),
    }


def expected_ascents(world, mode, size, average=response_sum, **knobs):
    """Where each loss drives the policy on average: minus its gradient, summed over every group by its chance."""
    members, chances = world.groups(size)
    advantages = apply(ADVANTAGES[mode], known(world, members), {})
    if advantages.ndim == 3:
        advantages = advantages.unsqueeze(-1)
    old_log_probs = world.log_probs(world.logits)[members].unsqueeze(-3)  # [group prompt response token]

    def objective(logits, loss):
        log_probs = world.log_probs(logits)[members].unsqueeze(-3)
        tensors = {"log_probs": log_probs, "old_log_probs": old_log_probs, "advantages": advantages}
        values = apply(loss, tensors, {})
        per_group = average(values, torch.ones_like(values, dtype=torch.bool), **knobs)
        assert per_group.shape == chances.shape
        return chances @ per_group

    for loss in LOSSES.values():
        yield -world.gradient(lambda logits, loss=loss: objective(logits, loss))


def follow(ascents, gradient):
    """Whether every loss drives the policy there."""
    for ascent in ascents:
        torch.testing.assert_close(ascent, gradient, rtol=0, atol=1e-12)


@worlds
@sizes
@pytest.mark.parametrize("mode", UNBIASED)
def test_unbiased_modes_follow_the_true_gradient_under_every_loss(world, mode, size):
    follow(expected_ascents(world, mode, size), world.gradient(world.value))


@worlds
@sizes
def test_centering_by_a_mean_that_holds_the_response_itself_shrinks_the_gradient(world, size):
    follow(expected_ascents(world, "centered_rewards", size), world.gradient(world.value) * (size - 1) / size)


@worlds
@sizes
@pytest.mark.parametrize("mode", BIASED)
def test_biased_modes_point_elsewhere_than_the_true_gradient(world, mode, size):
    for ascent in expected_ascents(world, mode, size):
        assert off_direction(ascent, world.gradient(world.value)) > 0.05


def test_the_modes_named_here_are_all_there_are():
    assert {*UNBIASED, *BIASED, "centered_rewards"} == set(ADVANTAGES)


@worlds
@pytest.mark.parametrize("mode", [mode for mode in UNBIASED if smallest_group(ADVANTAGES[mode]) == 1])
def test_modes_that_compare_no_responses_follow_the_true_gradient_with_one_of_them(world, mode):
    follow(expected_ascents(world, mode, 1), world.gradient(world.value))


@worlds
def test_the_squared_lengths_of_scores_are_those_of_the_gradients_of_all_log_probs(world):
    vocab_log_probs = world.logits.log_softmax(dim=-1)[world.rows]  # [response token vocab]
    squares = score_squares(world.responses[None], vocab_log_probs[None]).sum(dim=-1)
    torch.testing.assert_close(squares[0], world.score_squares(), rtol=0, atol=1e-14)


@worlds
def test_no_constant_baseline_has_less_variance_than_the_weighted_mean_of_the_rewards(world):
    weights = world.chances(world.logits) * world.score_squares()
    best = ((weights @ world.points) / weights.sum()).item()
    least, mean = world.variance(best), world.value(world.logits).item()
    assert abs(best - mean) > 0.05  # it is another one than the expected reward
    for baseline in (0.0, mean, best - 0.1, best + 0.1, world.points.max().item()):
        more = weights.sum().item() * (baseline - best) ** 2
        assert world.variance(baseline) == pytest.approx(least + more, abs=1e-12)


@worlds
def test_in_a_large_group_the_optimal_baseline_is_the_one_with_the_least_variance(world):
    """A group that holds each response as often as its probability says, but for a hundred-thousandth."""
    counts = (world.chances(world.logits) * 100_000).round().long()
    members = torch.arange(len(counts)).repeat_interleave(counts)
    rewards, squares = world.points[members], world.score_squares()[members]
    weights = world.chances(world.logits) * world.score_squares()
    best = (weights @ world.points) / weights.sum()
    baselines = rewards - optimal_baseline(rewards, squares)
    torch.testing.assert_close(baselines, best.expand(len(members)), rtol=0, atol=1e-3)


@worlds
def test_a_budget_shrinks_the_true_gradient_by_the_budget(world):
    ascents = expected_ascents(world, "rewards", 2, AVERAGES["budget_mean"], token_budget=5.0)
    follow(ascents, world.gradient(world.value) / 5)


@worlds
def test_the_true_gradient_is_what_a_small_difference_says_it_is(world):
    gradient, small = world.gradient(world.value), 1e-6
    for row, token in [(0, 0), (0, 2), (len(world.logits) - 1, 1)]:
        step = torch.zeros_like(world.logits)
        step[row, token] = small
        slope = (world.value(world.logits + step) - world.value(world.logits - step)) / (2 * small)
        assert slope.item() == pytest.approx(gradient[row, token].item(), abs=1e-8)


@worlds
@pytest.mark.parametrize("mode", [*UNBIASED, *BIASED, "centered_rewards"])
def test_a_small_step_along_the_expected_gradient_raises_the_expected_reward(world, mode):
    for ascent in expected_ascents(world, mode, 2):
        assert world.value(world.logits + 0.01 * ascent) > world.value(world.logits)
