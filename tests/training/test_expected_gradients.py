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
from training.lecture import config

from pgrl_cli.assembly import assemble
from pgrl_cli.policies.stack import frozen_copy
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.objectives import policy_gradient
from pgrl_cli.training.scoring import Sampler, described, scored, valued

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


def ascent(size=2, moved=None, table=None, outcome=True, **keys):
    """Where the first step drives the policy on average, over every group of so many responses: [parameter]."""
    one = config(num_responses=size, **keys)
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
    chances = torch.tensor([math.prod(chance_by_hand(state.policy, RESPONSES[i]).item() for i in g) for g in members])
    now = state.policy if moved is None else moved
    loss = policy_gradient(parts, one, now, rollout, 0.0).loss
    return -slope(now, lambda _: (chances.double() * loss).sum())


def close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def test_the_chances_of_all_responses_add_up_to_one():
    assert sum(chance_by_hand(policy_of(), each) for each in RESPONSES).item() == pytest.approx(1, abs=1e-15)
