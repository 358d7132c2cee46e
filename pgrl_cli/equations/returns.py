"""Advantages token by token: what comes after a token, against what was to be expected before it.

token_rewards [... token], 0 behind a response's end; values [... token+1], where values[t] is what the state before
token t is worth and the last is the bootstrap: what a response that was cut off would still have earned. Both are
numbers of a rollout. A value behind a response's end is 0, and so is the bootstrap where it ended: a termination is
worth nothing, a truncation is worth its bootstrap. Results are [... token], in units of reward unless said otherwise.
A knob may differ from run to run; then it is [run 1 1 1], beside [run prompt response token].
"""

import torch
from torch import Tensor

from pgrl_cli.equations.groups import refuse_a_group_of_one, z_scores
from pgrl_cli.registry import Count, Unit, compares_responses

Number = float | Tensor


def reward_to_go(token_rewards: Tensor, *, discount: Unit | Tensor = 1.0, discount_outer: bool = False) -> Tensor:
    """The discounted sum of a token's own reward and all later ones, up to the end of what was sampled.

    G_t = sum over k of discount^k r_(t+k). Where the discount is below 1, the discounted reward of the whole response
    has a gradient with discount^t in front of G_t (Sutton & Barto, 2018, "Reinforcement learning", section 13.3):
    `discount_outer` keeps that factor, and with it the estimate is unbiased. Without it, as nearly everybody trains,
    it is the gradient of no objective (Thomas, 2014, "Bias in natural actor-critic algorithms"), but late tokens learn
    as fast as early ones. With a discount of 1 both are the same, and unbiased. Nothing is bootstrapped.
    """
    returns = discounted_sums(token_rewards, discount)
    if not discount_outer:
        return returns
    places = torch.arange(token_rewards.shape[-1], dtype=token_rewards.dtype, device=token_rewards.device)
    return discount**places * returns


def n_step(token_rewards: Tensor, values: Tensor, *, discount: Unit | Tensor = 1.0, n_steps: Count = 1) -> Tensor:
    """The rewards of the next n tokens plus the value of the state behind them, minus the value before them.

    r_t + ... + discount^(n-1) r_(t+n-1) + discount^n V_(t+n) - V_t; steps that would go beyond what was sampled stop
    there, at the bootstrap. One step is the TD error, many are the return minus the value: less bias from wrong values,
    more variance. Mnih et al., 2016, "Asynchronous methods for deep reinforcement learning", section 4; Sutton & Barto,
    2018, eq. 7.1.
    """
    returns, last = values, values[..., -1:]
    for _ in range(min(n_steps, token_rewards.shape[-1])):
        returns = torch.cat([token_rewards + discount * returns[..., 1:], last], dim=-1)
    return returns[..., :-1] - values[..., :-1]


def gae(
    token_rewards: Tensor, values: Tensor, *, discount: Unit | Tensor = 1.0, gae_lambda: Unit | Tensor = 0.95
) -> Tensor:
    """Generalised advantage estimation: the sum of later TD errors, each weighed by (discount lambda)^distance.

    Lambda 0 is the TD error alone, lambda 1 the return minus the value. Schulman et al., 2016, "High-dimensional
    continuous control using generalized advantage estimation", eq. 16.
    """
    return discounted_sums(td_errors(token_rewards, values, discount), discount * gae_lambda)


@compares_responses
def process_rewards(token_rewards: Tensor, step_ends: Tensor) -> Tensor:
    """The sum of the rewards of all steps that end at or after a token, as z-scores within the group (GRPO).

    token_rewards, step_ends [... prompt response token], the latter true at the last token of a step of reasoning:
    there stands the step's reward; a reward elsewhere counts for nothing. The steps of all responses to a prompt are
    normalised together, with n-1 in the denominator and 1e-5 added; where all are equal the advantages are exactly 0.
    No unit. Raises ValueError for a group of one response. Shao et al., 2024, "DeepSeekMath", section 4.1.3.
    """
    refuse_a_group_of_one(token_rewards.shape[-2])
    scores = z_scores(token_rewards.flatten(-2), step_ends.bool().flatten(-2)).view_as(token_rewards)
    return scores.flip(-1).cumsum(dim=-1).flip(-1)


def td_errors(token_rewards: Tensor, values: Tensor, discount: Number) -> Tensor:
    """How much more a token and the state behind it are worth than the state before it: r_t + discount V_(t+1) - V_t.

    Sutton & Barto, 2018, eq. 6.5.
    """
    return token_rewards + discount * values[..., 1:] - values[..., :-1]


def discounted_sums(terms: Tensor, factor: Number, rest: Tensor | None = None) -> Tensor:
    """Each place's term plus `factor` times the sum at the next place: terms [... token] -> [... token].

    `rest` [...] is what stands behind the last place; 0 where there is none.
    """
    factor = factor.squeeze(-1) if isinstance(factor, Tensor) else factor
    total = torch.zeros_like(terms[..., 0]) if rest is None else rest
    sums = []
    for term in reversed(terms.unbind(dim=-1)):
        total = term + factor * total
        sums.append(total)
    return torch.stack(sums[::-1], dim=-1)
