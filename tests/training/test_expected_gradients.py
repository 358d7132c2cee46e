"""What an epoch's first step does on average, where responses end: every group there is, against sums by hand.

A response is [END], or one of two letters and then any of the three tokens; so one may be cut off. Rollouts are made by
the package's own pieces, every group of responses at once in front of all axes; expectations are written out here.
"""

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from diagnosis.small import Chain
from equations.exact import off_direction
from training.lecture import config

from pgrl_cli.assembly import assemble
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.policies.stack import frozen_copy
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.likelihoods import Sampler, described
from pgrl_cli.training.objectives import policy_gradient
from pgrl_cli.training.scoring import scored, valued

END = 0
RESPONSES = [(END,), *product((1, 2), (END, 1, 2))]
PAID = {(END,): [2.0], (1, END): [0.5, 1.0], (1, 1): [0.5, -2.0], (1, 2): [0.5, 4.0]}
PAID |= {(2, END): [-1.0, 3.0], (2, 1): [-1.0, 0.0], (2, 2): [-1.0, 6.0]}
"""What each token of each response earns."""
FIRST, SECOND = [0.4, -0.9, 0.2], [[1.5, -1.0, 0.3], [-0.7, 0.9, 0.4], [0.2, -1.4, 1.2]]
OTHER = [1.0, 0.1, -0.3], [[0.0, 0.0, 0.0], [0.5, -0.2, 1.1], [-0.9, 0.3, 0.2]]
WRONG = {"": 1.5, 1: -2.0, 2: 0.7, "cut": 3.0}
"""A critic's values of the states: nothing written, a letter written, no room left."""


def log_probs_by_hand(first, second, response):
    """log pi of each token, by a softmax that is written out."""
    rows = [first, *(second[token] for token in response[:-1])]
    return [row[token] - sum(each.exp() for each in row).log() for row, token in zip(rows, response, strict=True)]


def chance_by_hand(policy, response):
    return sum(log_probs_by_hand(policy.first[0], policy.second, response)).exp()


def slope(policy, function):
    """The gradient of a function of the policy: [parameter]."""
    return torch.cat([each.flatten() for each in torch.autograd.grad(function(policy), list(policy.parameters()))])


def policy_of(first=FIRST, second=SECOND):
    return Chain([first], second, END)


def expected(of_response):
    """A function of the policy: the expectation of a number per response."""
    return lambda policy: sum(chance_by_hand(policy, each) * of_response(each) for each in RESPONSES)


def kl_by_hand(policy):
    """KL(policy || reference) of whole responses."""
    reference, total = policy_of(*OTHER), 0.0
    for each in RESPONSES:
        ours, theirs = chance_by_hand(policy, each), chance_by_hand(reference, each).detach()
        total = total + ours * (ours.log() - theirs.log())
    return total


def whole(response):
    return sum(PAID[response])


def values_by_hand(discount=1.0, pull=0.0):
    """The true values of the states, where KL(policy || reference) costs its part."""
    policy, reference = policy_of(), policy_of(*OTHER)
    earned, found = {}, {"cut": 0.0}
    for each in RESPONSES:
        logs = [log_probs_by_hand(one.first[0], one.second, each) for one in (policy, reference)]
        earned[each] = [r - pull * (a - b).item() for r, a, b in zip(PAID[each], *logs, strict=True)]
    for letter in (1, 2):
        chances = {each: chance_by_hand(policy, each).item() for each in RESPONSES if each[0] == letter}
        found[letter] = sum(c * earned[each][1] for each, c in chances.items()) / sum(chances.values())
    found[""] = 0.0
    for each in RESPONSES:
        after = earned[each][1] if len(each) > 1 else 0.0
        found[""] += chance_by_hand(policy, each).item() * (earned[each][0] + discount * after)
    return found


def points(prompts, responses):
    """A process reward: [... prompt response token]."""
    by_tokens = torch.zeros(3, 3, 2, dtype=torch.float64)
    for first, second in product(range(3), repeat=2):
        paid = PAID[(END,) if first == END else (first, second)]
        by_tokens[first, second, : len(paid)] = torch.tensor(paid, dtype=torch.float64)
    return by_tokens[responses[..., 0], responses[..., 1]]


def critic(table):
    """Values as a table says, the states of each response one after the other."""

    def values(policy, prompts, responses):
        letters = torch.tensor([math.nan, table[1], table[2]], dtype=torch.float64)[responses[..., 0]]
        start, cut = (torch.full_like(letters, table[state]) for state in ("", "cut"))
        return torch.stack([start, letters, cut], dim=-1)

    return SimpleNamespace(critic=SimpleNamespace(values=values))


def ascent(size=2, moved=None, **keys):
    """Where the first step drives the policy on average, over every group of so many responses: [parameter]."""
    now, chances, objective = objectives(size, moved, **keys)
    return -slope(now, lambda _: (chances * objective.loss).sum())


def objectives(size, moved=None, table=None, outcome=True, **keys):
    """The policy that steps, how likely each group of so many responses is, and its objective: [group]."""
    one = config(task="copy", prompt_count=1, policy="table", num_responses=size, **keys)
    parts, state = assemble([one])
    prompts = torch.tensor([[0]])
    task = Task(prompts, prompts[:0], 3, 2, lambda asked: asked.expand(-1, 2), {}, end=END)

    def reward(prompts, responses):
        return points(prompts, responses).sum(dim=-1) if outcome else points(prompts, responses)

    share = replace(parts.shares[0], rewards={"paid": (reward, 1.0)})
    share = replace(share, outcomes=share.outcomes and replace(share.outcomes, task=task, rewards=share.rewards))
    parts = replace(parts, task=task, shares=(share,))
    state.policy, state.learner = policy_of(), state.learner and critic(table)
    state.reference = frozen_copy(policy_of(*OTHER)) if one.kl_coefficient else None
    state.past_mean = torch.tensor(1.7, dtype=torch.float64)
    members = list(product(range(len(RESPONSES)), repeat=size))
    rows = torch.tensor([each if len(each) == 2 else (END, END) for each in RESPONSES])
    responses = rows[torch.tensor(members)].unsqueeze(1)  # [group prompt response token]
    with torch.no_grad():
        sampler = Sampler(state.policy, state.reference, parts.knobs)
        rollout = described(parts, one, sampler, prompts, responses)
        rollout |= valued(parts, one, state, rollout)
        rollout |= scored(parts, one, state, share, rollout)
    alone = [chance_by_hand(state.policy, each).detach() for each in RESPONSES]
    chances = torch.stack([math.prod(alone[index] for index in group) for group in members])
    now = state.policy if moved is None else moved
    return now, chances, policy_gradient(parts, one, now, rollout, 0.0)


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


SUMMED = {"average": "response_sum"}
WITH_CRITIC = {"gae": {"gae_lambda": 0.6}, "n_step": {"n_steps": 1}}
UNBIASED = (
    *("rewards", "leave_one_out_rewards", "optimal_baseline", "true_value_baseline", "reward_to_go"),
    *("moving_average_baseline", "old_policy_baseline", "greedy_baseline", *WITH_CRITIC),
)
BIASED = ("max_rewards", "normalized_rewards", "batch_normalized_rewards", "process_rewards")
PULL = {"kl_coefficient": 0.4, "kl_placement": "reward", "reference_period": 0}


def keys_of(mode, **more):
    """A config's keys; a critic that is right, where the mode asks for one."""
    known = {"table": values_by_hand(pull=more.get("kl_coefficient", 0.0))} if mode in WITH_CRITIC else {}
    token_wise = mode in (*WITH_CRITIC, "process_rewards", "reward_to_go")
    return SUMMED | {"delta_mode": mode, "outcome": not token_wise} | WITH_CRITIC.get(mode, {}) | known | more


def test_the_chances_of_all_responses_add_up_to_one():
    assert sum(chance_by_hand(policy_of(), each) for each in RESPONSES).item() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(("mode", "loss"), [*zip(UNBIASED, [*LOSSES, *LOSSES], strict=False)])
def test_unbiased_modes_follow_the_true_gradient_of_responses_that_end(mode, loss):
    close(ascent(**keys_of(mode, loss_mode=loss)), slope(policy_of(), expected(whole)))


@pytest.mark.parametrize("mode", UNBIASED)
def test_with_a_kl_in_the_reward_they_follow_that_of_the_reward_less_the_kl(mode):
    true = slope(policy_of(), lambda policy: expected(whole)(policy) - 0.4 * kl_by_hand(policy))
    close(ascent(**keys_of(mode, **PULL)), true)
    if mode not in WITH_CRITIC:  # whose values are those of the KL token by token
        close(ascent(**keys_of(mode, **PULL, kl_level="sequence")), true)


@pytest.mark.parametrize("size", [2, 3])
def test_centering_shrinks_the_true_gradient_of_responses_that_end(size):
    true = slope(policy_of(), expected(whole))
    close(ascent(size, **keys_of("centered_rewards")), true * (size - 1) / size)


@pytest.mark.parametrize("mode", BIASED)
def test_biased_modes_point_elsewhere_and_still_upwards(mode):
    true, found = slope(policy_of(), expected(whole)), ascent(**keys_of(mode))
    assert off_direction(found, true) > 0.05
    assert found @ true > 0


def test_the_modes_here_are_all_there_are():
    assert {*UNBIASED, *BIASED, "centered_rewards"} == set(ADVANTAGES)


# Discounts, critics, and responses that were cut off


def discounted(response, discount):
    return sum(discount**t * reward for t, reward in enumerate(PAID[response]))


def later_sums(of_token):
    """The sum over a response's tokens of a number each, times the slope of its log pi: the expectation of it."""

    def total(policy):
        now = 0.0
        for each in RESPONSES:
            logs = log_probs_by_hand(policy.first[0], policy.second, each)
            weighed = sum(of_token(each, t) * log for t, log in enumerate(logs))
            now = now + sum(logs).exp().detach() * weighed
        return now

    return slope(policy_of(), total)


def test_a_discount_is_unbiased_with_its_outer_part_alone():
    true = slope(policy_of(), expected(lambda each: discounted(each, 0.7)))
    outer, inner = (ascent(**keys_of("reward_to_go", discount=0.7, discount_outer=one)) for one in (True, False))
    close(outer, true)
    assert off_direction(inner, true) > 0.02
    close(inner, later_sums(lambda each, t: sum(0.7 ** (k - t) * PAID[each][k] for k in range(t, len(each)))))


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_gae_with_right_values_is_reward_to_go_without_the_noise_of_later_tokens(gae_lambda):
    right = {"table": values_by_hand(0.7), "discount": 0.7}
    close(ascent(**keys_of("gae", gae_lambda=gae_lambda) | right), ascent(**keys_of("reward_to_go", discount=0.7)))


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_wrong_values_are_off_by_one_minus_lambda_times_what_they_are_wrong_behind_the_first_letter(gae_lambda):
    true = values_by_hand()

    def off(each, t):
        return (1 - gae_lambda) * (WRONG[each[0]] - true[each[0]]) if t == 0 and each[0] != END else 0.0

    found = ascent(**keys_of("gae", gae_lambda=gae_lambda) | {"table": WRONG, "truncation": "end"})
    close(found, slope(policy_of(), expected(whole)) + later_sums(off))


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_a_bootstrap_pays_what_was_cut_off_what_the_critic_makes_of_it(gae_lambda):
    keys = keys_of("gae", gae_lambda=gae_lambda) | {"table": WRONG}
    more = ascent(**keys, truncation="bootstrap") - ascent(**keys, truncation="end")

    def paid(each, t):
        cut = len(each) == 2 and each[1] != END
        return cut * WRONG["cut"] * gae_lambda ** (1 - t)

    close(more, later_sums(paid))
    if gae_lambda == 1:
        close(more, slope(policy_of(), expected(lambda each: paid(each, 1))))


def test_unless_told_otherwise_the_limit_is_part_of_the_task_and_any_critic_a_baseline_for_whole_returns():
    keys = keys_of("gae", gae_lambda=1.0) | {"table": WRONG}
    close(ascent(**keys), slope(policy_of(), expected(whole)))


# Averages


def test_a_mean_over_a_response_weighs_its_score_by_one_over_its_length():
    """What GRPO's average does, and eq. 10 of Zheng et al., 2025, at its first step."""
    expected_slope = later_sums(lambda each, t: whole(each) / len(each))
    for loss in ("clipped", "sequence_clipped"):
        close(ascent(**keys_of("rewards", average="response_mean", loss_mode=loss)), expected_slope)
    true = slope(policy_of(), expected(whole))
    assert off_direction(expected_slope, true) > 0.05
    budget = ascent(**keys_of("rewards", average="budget_mean", token_budget=5.0))
    close(budget, true / 5)


def test_a_mean_over_tokens_weighs_a_response_by_how_long_its_group_is():
    def total(policy):
        now = 0.0
        for group in product(RESPONSES, repeat=2):
            logs = [log_probs_by_hand(policy.first[0], policy.second, each) for each in group]
            chance = sum(sum(each) for each in logs).exp().detach()
            weighed = sum(whole(each) * sum(own) for each, own in zip(group, logs, strict=True))
            now = now + chance * weighed / sum(len(each) for each in group)
        return now

    close(ascent(**keys_of("rewards", average="token_mean")), slope(policy_of(), total))


def test_on_a_later_step_a_response_pulls_by_the_geometric_mean_of_its_ratios():
    """Zheng et al., 2025, eq. 10, where nothing is clipped: s A / length times the score."""
    moved, old = policy_of(*OTHER), policy_of()

    def total(policy):
        now = 0.0
        for each in RESPONSES:
            ratio = (chance_by_hand(policy, each) / chance_by_hand(old, each)).detach()
            score = sum(log_probs_by_hand(policy.first[0], policy.second, each))
            pull = ratio ** (1 / len(each)) * whole(each) / len(each)
            now = now + chance_by_hand(old, each).detach() * pull * score
        return now

    keys = keys_of("rewards", average="response_mean", loss_mode="sequence_clipped", clip_low=0.99, clip_high=99.0)
    close(ascent(moved=moved, **keys), slope(moved, total))


# KLs as losses


def kl_ascent(estimator, **keys):
    """Where a KL in the loss drives the policy, by itself."""
    keys = keys_of("rewards", kl_estimator=estimator, reference_period=0, **keys)
    return ascent(kl_coefficient=2.0, **keys) - ascent(kl_coefficient=1.0, **keys)


def of_tokens(policy, forward):
    """The KL of each token's distribution, one way or the other, where the sampling policy stands still."""
    reference, still, total = policy_of(*OTHER), policy_of(), 0.0
    for each in RESPONSES:
        for t in range(len(each)):
            rows = [one.first[0] if t == 0 else one.second[each[0]] for one in (policy, reference)]
            ours, theirs = (row - sum(logit.exp() for logit in row).log() for row in rows)
            chances = ours.exp() if forward else theirs.exp()
            kl = (chances * (ours - theirs)).sum() * (1 if forward else -1)
            total = total + chance_by_hand(still, each).detach() * kl
    return total


def backward_kl(policy):
    """KL(reference || policy) of whole responses."""
    reference = policy_of(*OTHER)
    return -sum(chance_by_hand(reference, each).detach() * chance_by_hand(policy, each).log() for each in RESPONSES)


@pytest.mark.parametrize(
    ("estimator", "level", "function"),
    [
        ("k1", "token", None),
        ("k2", "token", lambda policy: of_tokens(policy, True)),
        ("exact", "token", lambda policy: of_tokens(policy, True)),
        ("k3", "token", lambda policy: of_tokens(policy, False)),
        ("k1", "sequence", None),
        ("k2", "sequence", kl_by_hand),
        ("k3", "sequence", backward_kl),
    ],
)
def test_what_a_kl_in_the_loss_descends_token_by_token_and_of_whole_responses(estimator, level, function):
    """Of tokens, the KLs with the beginnings as they were sampled; of whole responses, theirs."""
    true = torch.zeros(12, dtype=torch.float64) if function is None else slope(policy_of(), function)
    close(kl_ascent(estimator, kl_level=level), -true)


@pytest.mark.parametrize(
    ("estimator", "level"), [("exact", "token"), *product(("k1", "k2", "k3"), ("token", "sequence"))]
)
def test_a_kl_is_on_average_that_of_whole_responses_but_for_k2(estimator, level):
    keys = keys_of("rewards", kl_coefficient=1.0, kl_estimator=estimator, kl_level=level, reference_period=0)
    _, chances, objective = objectives(1, **keys)
    found, true = (chances * objective.kl).sum().item(), kl_by_hand(policy_of()).item()
    assert (found == pytest.approx(true, abs=1e-12)) is (estimator != "k2")
    if estimator == "k2":
        assert found == pytest.approx(half_squares(level), abs=1e-12)


def half_squares(level):
    """The expectation of half the squared log-ratio, of each token or of the whole response."""
    policy, reference, total = policy_of(), policy_of(*OTHER), 0.0
    for each in RESPONSES:
        logs = [log_probs_by_hand(one.first[0], one.second, each) for one in (policy, reference)]
        gaps = [(a - b).item() for a, b in zip(*logs, strict=True)]
        parts = gaps if level == "token" else [sum(gaps)]
        total += chance_by_hand(policy, each).item() * sum(gap**2 for gap in parts) / 2
    return total
