"""Advantages token by token: by hand, by law, by an independent loop, and exactly, over every response there is."""

import statistics

import pytest
import torch
from equations.exact import numbers, off_direction, two_tokens

from pgrl_cli.equations.advantages import ADVANTAGES, gae, normalized_rewards, reward_to_go
from pgrl_cli.equations.returns import n_step, process_rewards, td_errors
from pgrl_cli.registry import apply, needs, smallest_group

KNOBS = [{"discount": discount, "gae_lambda": weight} for discount in (1.0, 0.9, 0.0) for weight in (0.0, 0.3, 1.0)]
any_knobs = pytest.mark.parametrize("knobs", KNOBS, ids=str)
discounts = pytest.mark.parametrize("discount", [1.0, 0.7, 0.0])
WITH_VALUES = [gae, n_step]


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def sampled(tokens=6):
    """Rewards [prompt response token] and values, with a bootstrap."""
    return numbers(2, 3, tokens, seed=1), numbers(2, 3, tokens + 1, seed=2)


def test_the_modes_here_are_all_that_see_tokens():
    seeing = {mode for mode in ADVANTAGES.values() if "token_rewards" in needs(mode)}
    assert seeing == {reward_to_go, process_rewards, *WITH_VALUES}


# By hand


def test_reward_to_go_by_hand_with_and_without_the_outer_discount():
    rewards = double([1, 2, 3])
    assert reward_to_go(rewards).tolist() == [6, 5, 3]
    assert reward_to_go(rewards, discount=0.5).tolist() == [2.75, 3.5, 3]
    assert reward_to_go(rewards, discount=0.5, discount_outer=True).tolist() == [2.75, 1.75, 0.75]
    assert reward_to_go(rewards, discount=0.0).tolist() == [1, 2, 3]
    assert reward_to_go(rewards, discount=0.0, discount_outer=True).tolist() == [1, 0, 0]


def test_n_steps_by_hand():
    rewards, values = double([1, 2, 3]), double([10, 20, 40, 80])
    assert n_step(rewards, values, discount=0.5).tolist() == [1, 2, 3]  # 1+10-10, 2+20-20, 3+40-40
    assert n_step(rewards, values, discount=0.5, n_steps=2).tolist() == [
        2,
        3.5,
        3,
    ]  # 1+1+10-10, 2+1.5+20-20, at the end
    assert n_step(rewards, values, n_steps=2).tolist() == [33, 65, 43]


# By law


@any_knobs
def test_gae_is_the_weighted_mean_of_the_n_step_advantages(knobs):
    (rewards, values), weight = sampled(), knobs["gae_lambda"]
    tokens = rewards.shape[-1]
    steps = [n_step(rewards, values, discount=knobs["discount"], n_steps=n) for n in range(1, tokens + 1)]
    mean = sum((1 - weight) * weight ** (n - 1) * advantage for n, advantage in enumerate(steps[:-1], start=1))
    close(gae(rewards, values, **knobs), mean + weight ** (tokens - 1) * steps[-1])


@discounts
def test_gae_with_a_lambda_of_one_is_the_return_minus_the_value(discount):
    rewards, values = sampled()
    values[..., -1] = 0  # it ended
    advantage = gae(rewards, values, discount=discount, gae_lambda=1.0)
    close(advantage, reward_to_go(rewards, discount=discount) - values[..., :-1])
    close(advantage, n_step(rewards, values, discount=discount, n_steps=6))
    assert torch.equal(
        n_step(rewards, values, discount=discount, n_steps=2**31 - 1),
        n_step(rewards, values, discount=discount, n_steps=6),
    )


@discounts
def test_gae_with_a_lambda_of_zero_and_one_step_are_the_td_error(discount):
    rewards, values = sampled()
    error = td_errors(rewards, values, discount)
    assert torch.equal(gae(rewards, values, discount=discount, gae_lambda=0.0), error)
    assert torch.equal(n_step(rewards, values, discount=discount, n_steps=1), error)


def test_a_truncation_is_bootstrapped_and_a_termination_is_worth_nothing():
    rewards, ended = sampled(3)
    cut_off = ended.clone()
    ended[..., -1], cut_off[..., -1] = 0, 2
    reaches = double([0.5**3, 0.5**2, 0.5]) * 2
    for mode, knobs, weights in (
        (gae, {"gae_lambda": 1.0}, reaches),
        (gae, {"gae_lambda": 0.1}, reaches * double([0.01, 0.1, 1])),
        (n_step, {"n_steps": 2}, reaches * double([0, 1, 1])),
    ):
        more = mode(rewards, cut_off, discount=0.5, **knobs) - mode(rewards, ended, discount=0.5, **knobs)
        close(more, weights.expand_as(more))


@pytest.mark.parametrize("mode", WITH_VALUES)
def test_a_response_that_ended_early_is_as_if_it_had_never_had_more_room(mode):
    rewards, values = sampled(3)
    values[..., -1] = 0
    nothing = torch.zeros(2, 3, 2, dtype=torch.float64)
    longer = mode(torch.cat([rewards, nothing], dim=-1), torch.cat([values, nothing], dim=-1), discount=0.9)
    assert torch.equal(longer, torch.cat([mode(rewards, values, discount=0.9), nothing], dim=-1))


@pytest.mark.parametrize("mode", [*WITH_VALUES, reward_to_go])
def test_what_came_earlier_changes_nothing_later(mode):
    rewards, values = sampled()
    tensors = {"token_rewards": rewards, "values": values}
    changed = {name: torch.cat([tensor[..., :2] + 5, tensor[..., 2:]], dim=-1) for name, tensor in tensors.items()}
    knobs = {"discount": 0.9, "n_steps": 2}
    before, after = apply(mode, tensors, knobs), apply(mode, changed, knobs)
    assert torch.equal(after[..., 2:], before[..., 2:])
    assert not torch.equal(after[..., :2], before[..., :2])


def test_a_reward_at_the_end_alone_is_what_every_token_earns():
    rewards = double([[0, 0, 0, 7], [0, 0, 2, 0]])
    assert reward_to_go(rewards).tolist() == [[7, 7, 7, 7], [2, 2, 2, 0]]


# By an independent loop


@any_knobs
def test_gae_and_reward_to_go_are_their_definitions_written_out(knobs):
    rewards, values = (tensor[0, 0].tolist() for tensor in sampled())
    discount, places = knobs["discount"], range(6)
    errors = [rewards[t] + discount * values[t + 1] - values[t] for t in places]
    factor = discount * knobs["gae_lambda"]
    expected = [sum(factor ** (k - t) * errors[k] for k in places if k >= t) for t in places]
    close(gae(double(rewards), double(values), **knobs), double(expected))
    expected = [sum(discount ** (k - t) * rewards[k] for k in places if k >= t) for t in places]
    close(reward_to_go(double(rewards), discount=discount), double(expected))


@pytest.mark.parametrize("n_steps", [1, 2, 5, 6, 9])
def test_n_step_is_its_definition_written_out(n_steps):
    rewards, values = (tensor[1, 2].tolist() for tensor in sampled())
    expected = []
    for t in range(6):
        last = min(t + n_steps, 6)
        later = sum(0.8 ** (k - t) * rewards[k] for k in range(t, last))
        expected.append(later + 0.8 ** (last - t) * values[last] - values[t])
    close(n_step(double(rewards), double(values), discount=0.8, n_steps=n_steps), double(expected))


# Exactly: two tokens, each with a reward of its own that depends on all so far

WORLD = two_tokens()
TOKEN_REWARDS = torch.stack([double([2, -1, 0.5])[WORLD.responses[:, 0]], numbers(9, seed=5)], dim=-1)


def discounted(logits, discount):
    """The expected discounted reward from the start."""
    return WORLD.chances(logits) @ (TOKEN_REWARDS @ double([1.0, discount]))


def ascent(advantage):
    """Where the advantages [response token] drive the policy on average."""
    chances = WORLD.chances(WORLD.logits)
    return WORLD.gradient(lambda logits: chances @ (advantage * WORLD.log_probs(logits)).sum(dim=-1))


def gradient(discount):
    return WORLD.gradient(lambda logits: discounted(logits, discount))


def values_by_row(of_row):
    """Values [response token+1] of a critic that sees which row a token is drawn from; every response ends."""
    return torch.cat([of_row[WORLD.rows], torch.zeros(9, 1, dtype=torch.float64)], dim=-1)


def true_values(discount):
    """What each beginning of a response is worth: [row]."""
    chances = WORLD.chances(WORLD.logits)
    later = [chances[WORLD.responses[:, 0] == token] for token in range(3)]
    rewards = [TOKEN_REWARDS[WORLD.responses[:, 0] == token, 1] for token in range(3)]
    after = torch.stack([(c / c.sum()) @ r for c, r in zip(later, rewards, strict=True)])
    return torch.cat([discounted(WORLD.logits, discount)[None], after])


@pytest.mark.parametrize("discount_outer", [True, False])
def test_reward_to_go_is_unbiased(discount_outer):
    close(ascent(reward_to_go(TOKEN_REWARDS, discount_outer=discount_outer)), gradient(1.0))


def test_a_discount_is_unbiased_with_its_outer_part_and_points_elsewhere_without():
    close(ascent(reward_to_go(TOKEN_REWARDS, discount=0.5, discount_outer=True)), gradient(0.5))
    assert off_direction(ascent(reward_to_go(TOKEN_REWARDS, discount=0.5)), gradient(0.5)) > 0.05


def test_reward_to_go_has_less_variance_than_the_whole_reward():
    chances = WORLD.chances(WORLD.logits)
    scores = torch.stack(
        [
            torch.stack([WORLD.gradient(lambda logits, y=y, t=t: WORLD.log_probs(logits)[y, t]) for t in (0, 1)])
            for y in range(9)
        ]
    )  # [response token row vocab]

    def variance(advantage):
        estimates = (advantage[..., None, None] * scores).sum(dim=1)
        return chances @ estimates.square().sum(dim=(-2, -1)) - gradient(1.0).square().sum()

    whole = TOKEN_REWARDS.sum(dim=-1, keepdim=True).expand(9, 2)
    close(ascent(whole), gradient(1.0))
    critic = gae(TOKEN_REWARDS, values_by_row(true_values(1.0)), gae_lambda=1.0)
    assert variance(critic) < variance(reward_to_go(TOKEN_REWARDS)) < variance(whole)


@pytest.mark.parametrize("seed", [1, 2])
def test_any_critic_is_a_baseline_where_the_whole_return_is_kept(seed):
    wrong = values_by_row(numbers(4, seed=seed))
    close(ascent(gae(TOKEN_REWARDS, wrong, gae_lambda=1.0)), gradient(1.0))
    close(ascent(n_step(TOKEN_REWARDS, wrong, n_steps=2)), gradient(1.0))


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_a_critic_that_is_right_makes_every_lambda_and_every_n_unbiased_and_a_wrong_one_does_not(gae_lambda):
    right, wrong = values_by_row(true_values(1.0)), values_by_row(numbers(4, seed=1))
    close(ascent(gae(TOKEN_REWARDS, right, gae_lambda=gae_lambda)), gradient(1.0))
    close(ascent(n_step(TOKEN_REWARDS, right)), gradient(1.0))
    if gae_lambda < 1:
        assert off_direction(ascent(gae(TOKEN_REWARDS, wrong, gae_lambda=gae_lambda)), gradient(1.0)) > 0.05


# Process rewards

STEPS = torch.tensor([[[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]]).bool()


def test_process_rewards_by_hand():
    rewards = double([[[1, 0, 4, 0], [0, 1, 0, 0], [0, 0, 0, 0]]])  # of 1 4 1 the mean is 2, the variance 6/2
    expected = double([[[1, 2, 2, 0], [-1, -1, 0, 0], [0, 0, 0, 0]]]) / (3**0.5 + 1e-5)
    close(process_rewards(rewards, STEPS), expected, atol=1e-15)


def test_process_rewards_are_their_definition_written_out():
    rewards, ends = numbers(2, 3, 5, seed=3), numbers(2, 3, 5, seed=4) > 0
    found = process_rewards(rewards, ends)
    for prompt in range(2):
        steps = rewards[prompt][ends[prompt]].tolist()
        mean, deviation = statistics.mean(steps), statistics.stdev(steps)
        for response in range(3):
            for token in range(5):
                later = [k for k in range(token, 5) if ends[prompt, response, k]]
                scores = [(rewards[prompt, response, k].item() - mean) / (deviation + 1e-5) for k in later]
                assert found[prompt, response, token].item() == pytest.approx(sum(scores), abs=1e-12)


def test_with_one_step_at_each_end_process_rewards_are_normalized_rewards():
    outcomes = double([[3, 0, 1], [2, 2, 5]])
    rewards = torch.nn.functional.pad(outcomes.unsqueeze(-1), (3, 0))
    found = process_rewards(rewards, (torch.arange(4) == 3).expand(2, 3, 4))
    close(found, normalized_rewards(outcomes).unsqueeze(-1).expand(2, 3, 4))


@pytest.mark.parametrize("reward", [0.1, -123.456, 1e30])
def test_steps_that_all_earn_the_same_teach_exactly_nothing(reward):
    for ends in (STEPS, torch.ones(1, 3, 4, dtype=torch.bool), STEPS & False, STEPS & (torch.arange(4) == 2)):
        found = process_rewards(torch.full((1, 3, 4), reward), ends)
        assert torch.equal(found, torch.zeros(1, 3, 4))


def test_what_stands_where_no_step_ends_and_what_other_prompts_earn_counts_for_nothing():
    ends = torch.cat([STEPS, STEPS])
    rewards = numbers(2, 3, 4, seed=6)
    expected = process_rewards(rewards, ends)
    assert torch.equal(process_rewards(torch.where(ends, rewards, torch.nan), ends), expected)
    rewards[1] *= 50
    assert torch.equal(process_rewards(rewards, ends)[0], expected[0])
    close(process_rewards(10 * rewards + 3, ends)[0], expected[0], atol=1e-4)


def test_steps_that_earn_nothing_finite_stay_visible():
    rewards = numbers(1, 3, 4, seed=6)
    rewards[0, 0, 2] = torch.nan
    assert process_rewards(rewards, STEPS)[0, 0, 2].isnan()


def test_process_rewards_refuse_a_group_of_one():
    assert smallest_group(process_rewards) == 2
    with pytest.raises(ValueError, match="group of one"):
        process_rewards(torch.zeros(1, 1, 4), STEPS[:, :1])


def test_process_rewards_climb_but_point_elsewhere_than_the_true_gradient():
    members, chances = WORLD.groups(2)
    ends = torch.ones(len(members), 2, 2, dtype=torch.bool)
    found = process_rewards(TOKEN_REWARDS[members], ends)
    climbed = WORLD.gradient(
        lambda logits: chances @ (found * WORLD.log_probs(logits)[members]).sum(dim=-1).mean(dim=-1)
    )
    assert off_direction(climbed, gradient(1.0)) > 0.05
    assert discounted(WORLD.logits + 0.01 * climbed, 1.0) > discounted(WORLD.logits, 1.0)
