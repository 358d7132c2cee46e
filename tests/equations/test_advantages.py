"""Laws of the delta modes. What their expected gradients are is summed up in test_exact_gradients."""

import pytest
import torch
from equations.exact import numbers
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrl_cli.equations.advantages import (
    ADVANTAGES,
    batch_normalized_rewards,
    centered_rewards,
    gae,
    greedy_baseline,
    leave_one_out_rewards,
    max_rewards,
    moving_average_baseline,
    n_step,
    normalized_rewards,
    old_policy_baseline,
    optimal_baseline,
    process_rewards,
    reward_to_go,
    rewards,
    true_value_baseline,
)
from pgrl_cli.registry import apply, smallest_group

CENTERING = [centered_rewards, normalized_rewards, leave_one_out_rewards, optimal_baseline, process_rewards]
WITH_A_BASELINE = [
    *(true_value_baseline, moving_average_baseline, old_policy_baseline, greedy_baseline),
    *(gae, n_step),
]
"""Whose baseline, or critic, `of` lets say 2 of everything."""
NOT_CENTERING = [rewards, max_rewards, reward_to_go, *WITH_A_BASELINE]
any_mode = pytest.mark.parametrize("mode", ADVANTAGES.values(), ids=ADVANTAGES.keys())
centering = pytest.mark.parametrize("mode", CENTERING)
groups = st.lists(st.integers(-8, 8).map(float), min_size=2, max_size=7)
patient = settings(deadline=None, derandomize=True)


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def of(mode, rewards):
    """What a mode makes of rewards, where all scores are of one length and whatever predicts rewards says 2.

    Responses have two tokens, and what they earn comes with the second, whose advantage is looked at.
    """
    if rewards.ndim == 1:
        return of(mode, rewards[None])[0]  # a batch of one prompt
    token_rewards = torch.stack([torch.zeros_like(rewards), rewards], dim=-1)
    values = torch.full_like(token_rewards, 2.0)
    tensors = {
        "rewards": rewards,
        "score_squares": torch.ones_like(rewards),
        "true_values": torch.full_like(rewards[..., 0], 2.0),
        "past_mean": torch.full_like(rewards[..., 0, 0], 2.0),
        "greedy_rewards": torch.full_like(rewards[..., 0], 2.0),
        "old_policy_rewards": torch.full_like(rewards, 2.0),
        "token_rewards": token_rewards,
        "values": torch.cat([values, torch.zeros_like(values[..., :1])], dim=-1),
        "step_ends": torch.tensor([False, True]).expand_as(token_rewards),
    }
    found = apply(mode, tensors, {})
    return found[..., -1] if found.ndim > rewards.ndim else found


@any_mode
def test_advantages_have_the_shape_of_the_rewards(mode):
    assert of(mode, numbers(2, 3, 4, 5, seed=0)).shape == (2, 3, 4, 5)


@centering
@given(group=groups, constant=st.floats(-100, 100))
@patient
def test_a_constant_added_to_every_reward_changes_nothing(mode, group, constant):
    # A group that is equal stays equal, so only rounding may differ: and 1e-5 in the denominator bounds its growth.
    before, after = of(mode, double(group)), of(mode, double(group) + constant)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-11)


@centering
def test_rewards_of_minus_one_and_zero_teach_what_rewards_of_zero_and_one_teach(mode):
    right = double([[0, 1, 1, 0, 0], [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]])
    torch.testing.assert_close(of(mode, right - 1), of(mode, right), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", NOT_CENTERING)
def test_modes_that_do_not_center_notice_a_constant(mode):
    right = double([[0, 1, 1, 0, 0]])
    assert not torch.equal(of(mode, right - 1), of(mode, right))


@centering
@given(group=groups)
@patient
def test_centered_advantages_of_a_group_add_up_to_nothing(mode, group):
    assert abs(of(mode, double(group)).sum().item()) < 1e-11


@given(group=groups, scale=st.floats(0.5, 1000))
@patient
def test_normalized_rewards_do_not_notice_a_scale(group, scale):
    # Whole rewards differ by at least 1, so their deviation is far above the 1e-5 that is added to it.
    before, after = normalized_rewards(double(group)), normalized_rewards(double(group) * scale)
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("mode", [rewards, centered_rewards, max_rewards, leave_one_out_rewards, optimal_baseline])
def test_modes_in_units_of_reward_grow_with_the_scale(mode):
    group = double([3, 0, 1, 4])
    torch.testing.assert_close(of(mode, group * 10), of(mode, group) * 10)


def test_normalized_rewards_have_a_standard_deviation_of_one_with_n_minus_one():
    group = double([3, 0, 1, 4])  # centered 1 -2 -1 2: squares sum to 10, over 3
    deviation = (10 / 3) ** 0.5
    torch.testing.assert_close(
        normalized_rewards(group), double([1, -2, -1, 2]) / (deviation + 1e-5), rtol=0, atol=1e-14
    )


def test_normalized_rewards_that_hardly_differ_are_damped_by_the_epsilon():
    torch.testing.assert_close(normalized_rewards(double([0.0, 2e-9])), double([-1e-9, 1e-9]) / 1e-5, rtol=1e-3, atol=0)


@centering
@given(reward=st.floats(width=32, allow_nan=False, allow_infinity=False), size=st.integers(2, 12))
@patient
def test_equal_rewards_teach_exactly_nothing(mode, reward, size):
    for dtype in (torch.float32, torch.float64):
        group = torch.full((1, size), reward, dtype=dtype)
        assert torch.equal(of(mode, group), torch.zeros_like(group))


@centering
@pytest.mark.parametrize("reward", [0.1, 0.7, 1 / 3, 1e-30, -123.456])
def test_ten_equal_float32_rewards_teach_exactly_nothing_beside_a_group_that_differs(mode, reward):
    both = torch.tensor([[reward] * 10, [reward] * 9 + [5.0]], dtype=torch.float32)
    advantages = of(mode, both)
    assert torch.equal(advantages[0], torch.zeros(10))
    assert advantages[1, -1] > 0


def test_ten_float32_rewards_of_a_tenth_are_a_trap():
    """The mean of ten equal numbers is not that number: why a centering mode must look for equality."""
    group = torch.full((10,), 0.1, dtype=torch.float32)
    assert (group - group.mean()).abs().max() > 0


@centering
def test_a_group_of_one_is_refused(mode):
    assert smallest_group(mode) == 2
    with pytest.raises(ValueError, match="group of one"):
        of(mode, double([[1.0], [2.0]]))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        *((mode, [[1.0], [2.0]]) for mode in (rewards, max_rewards, reward_to_go)),
        *((mode, [[-1.0], [0.0]]) for mode in WITH_A_BASELINE),
    ],
)
def test_modes_that_compare_nothing_take_a_group_of_one(mode, expected):
    assert smallest_group(mode) == 1
    assert of(mode, double([[1.0], [2.0]])).tolist() == expected


def test_the_lists_of_modes_here_are_all_there_are():
    assert set(ADVANTAGES.values()) == {*CENTERING, *NOT_CENTERING, batch_normalized_rewards}


def test_max_rewards_keeps_ties_and_nothing_else():
    group = double([[4, 1, 4, 0], [-2, -5, -2, -3], [0, -1, 0, -1], [7, 7, 7, 7]])
    expected = [[4, 0, 4, 0], [-2, 0, -2, 0], [0, 0, 0, 0], [7, 7, 7, 7]]
    assert max_rewards(group).tolist() == expected


@given(group=groups)
@patient
def test_leave_one_out_is_the_reward_minus_the_mean_of_the_others(group):
    expected = [group[i] - sum(group[:i] + group[i + 1 :]) / (len(group) - 1) for i in range(len(group))]
    torch.testing.assert_close(leave_one_out_rewards(double(group)), double(expected), rtol=0, atol=1e-12)


@any_mode
@given(data=st.data(), group=groups)
@patient
def test_advantages_follow_their_rewards_when_a_group_is_reordered(mode, data, group):
    order = data.draw(st.permutations(range(len(group))))
    torch.testing.assert_close(of(mode, double(group)[order]), of(mode, double(group))[order], rtol=0, atol=1e-11)


@any_mode
def test_a_group_knows_nothing_of_other_prompts_unless_the_whole_batch_is_normalized(mode):
    prompts = numbers(3, 4, seed=3)
    changed = prompts.clone()
    changed[1:] *= 50
    unmoved = torch.equal(of(mode, changed)[0], of(mode, prompts)[0])
    assert unmoved is (mode is not batch_normalized_rewards)


@any_mode
def test_a_better_response_never_gets_less_than_a_worse_one(mode):
    group = double([0.5, 1, 2, 3, 8])
    assert of(mode, group).diff().min() >= 0
    assert of(mode, group)[-1] > of(mode, group)[0]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e20, 1e37])
def test_a_z_score_does_not_depend_on_the_scale_of_the_rewards_even_near_the_end_of_float32(scale):
    group = torch.tensor([[3.0, 0.0, 1.0, 4.0]]) * scale
    expected = torch.tensor([[0.5477, -1.0954, -0.5477, 1.0954]])
    if scale < 1e-5:  # there the 1e-5 in the denominator rules
        expected = (group - group.mean()) / 1e-5
    torch.testing.assert_close(normalized_rewards(group), expected, rtol=1e-4, atol=1e-9)


# Modes that ask for more than rewards


def test_the_optimal_baseline_by_hand():
    # The others' weighted means: (2*0 + 3*1)/5 = 0.6, (1*3 + 3*1)/4 = 1.5, (1*3 + 2*0)/3 = 1.
    advantages = optimal_baseline(double([3, 0, 1]), double([1, 2, 3]))
    torch.testing.assert_close(advantages, double([2.4, -1.5, 0.0]), rtol=0, atol=1e-15)


def test_the_true_value_by_hand():
    advantages = true_value_baseline(double([[3, 0, 1], [2, 2, 5]]), double([1.5, 2]))
    assert advantages.tolist() == [[1.5, -1.5, -0.5], [0, 0, 3]]


brief = settings(patient, max_examples=30)
weights = st.lists(st.floats(1e-6, 2), min_size=7, max_size=7)


@given(group=groups, weights=weights)
@brief
def test_the_optimal_baseline_is_the_weighted_mean_of_the_others(group, weights):
    others = [[j for j in range(len(group)) if j != i] for i in range(len(group))]
    expected = [
        group[i] - sum(weights[j] * group[j] for j in rest) / sum(weights[j] for j in rest)
        for i, rest in enumerate(others)
    ]
    found = optimal_baseline(double(group), double(weights[: len(group)]))
    torch.testing.assert_close(found, double(expected), rtol=0, atol=1e-12)


@given(group=groups)
@brief
def test_with_scores_of_one_length_the_optimal_baseline_is_the_mean_of_the_others(group):
    found, plain = of(optimal_baseline, double(group)), leave_one_out_rewards(double(group))
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-12)


@given(group=groups, weights=weights, gain=st.floats(-50, 50))
@brief
def test_the_optimal_baseline_does_not_look_at_the_response_itself(group, weights, gain):
    before, squares = double(group), double(weights[: len(group)])
    after, changed = before.clone(), squares.clone()
    after[0] += gain
    changed[0] *= 3
    gained = optimal_baseline(after, changed)[0] - optimal_baseline(before, squares)[0]
    assert gained.item() == pytest.approx(gain, abs=1e-11)


@given(reward=st.floats(width=32, allow_nan=False, allow_infinity=False), weights=weights)
@brief
def test_equal_rewards_have_an_optimal_baseline_of_exactly_themselves(reward, weights):
    squares = torch.tensor(weights)
    assert torch.equal(optimal_baseline(torch.full((7,), reward), squares), torch.zeros(7))


@pytest.mark.parametrize("scale", [1e-20, 1e-12, 1.0])
def test_how_small_the_weights_are_all_together_does_not_matter(scale):
    squares = torch.tensor([1.0, 2.0, 3.0]) * scale
    advantages = optimal_baseline(torch.tensor([3.0, 0.0, 1.0]), squares)
    torch.testing.assert_close(advantages, torch.tensor([2.4, -1.5, 0.0]), rtol=1e-5, atol=1e-5)


def test_weights_far_below_the_responses_own_keep_their_digits():
    """The others' sum as a difference, 1 + 4e-12 - 1, would be zero."""
    advantages = optimal_baseline(torch.tensor([3.0, 0.0, 1.0]), torch.tensor([1.0, 1e-12, 3e-12]))
    torch.testing.assert_close(advantages, torch.tensor([2.25, -3.0, -2.0]), rtol=1e-5, atol=0)


@pytest.mark.parametrize("vanishing", [0.0, 1e-44, 1e-36])
def test_where_the_others_weights_vanish_the_baseline_is_their_plain_mean(vanishing):
    group = torch.tensor([[3.0, 0.0, 1.0], [3.0, 0.0, 1.0]])
    squares = torch.tensor([[vanishing] * 3, [1.0, vanishing, vanishing]])
    advantages = optimal_baseline(group, squares)
    torch.testing.assert_close(advantages[0], leave_one_out_rewards(group[0]), rtol=1e-6, atol=0)
    torch.testing.assert_close(advantages[1], torch.tensor([2.5, -3.0, -2.0]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("scale", [1e-37, 1e-12, 1e20, 2e37])
def test_huge_and_tiny_rewards_overflow_nothing(scale):
    squares = torch.tensor([4.0, 8.0, 12.0])
    advantages = optimal_baseline(torch.tensor([3.0, 0.0, 1.0]) * scale, squares) / scale
    torch.testing.assert_close(advantages, torch.tensor([2.4, -1.5, 0.0]), rtol=1e-5, atol=1e-5)


@given(data=st.data(), group=groups, weights=weights)
@brief
def test_optimal_baselines_follow_their_responses_when_a_group_is_reordered(data, group, weights):
    order = data.draw(st.permutations(range(len(group))))
    before, squares = double(group), double(weights[: len(group)])
    after = optimal_baseline(before[order], squares[order])
    torch.testing.assert_close(after, optimal_baseline(before, squares)[order], rtol=0, atol=1e-11)
