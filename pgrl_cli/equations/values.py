"""What a critic learns: targets for its values, its loss, and how good it is.

Targets: token_rewards [... token] and values [... token+1] of a rollout, as in `returns`, -> [... token], in units of
reward. They are made once, from frozen values, and are constants to the critic, which steps towards them alone.
"""

import torch
from torch import Tensor

from pgrl_cli.equations.averages import TOKENS, Mask, masked
from pgrl_cli.equations.categorical import clamped
from pgrl_cli.equations.returns import discounted_sums, gae
from pgrl_cli.registry import Moderate, Unit, table


def monte_carlo(token_rewards: Tensor, values: Tensor, *, discount: Unit | Tensor = 1.0) -> Tensor:
    """The return: the discounted sum of all later rewards, and of the bootstrap behind the last of them.

    Unbiased where the response ended; of the values it uses the bootstrap alone. Sutton & Barto, 2018, "Reinforcement
    learning", eq. 3.8.
    """
    return discounted_sums(token_rewards, discount, rest=values[..., -1])


def td(token_rewards: Tensor, values: Tensor, *, discount: Unit | Tensor = 1.0) -> Tensor:
    """The token's own reward plus the discounted value of the state behind it (TD(0)).

    The least noise, and the bias of the value it leans on. Sutton & Barto, 2018, eq. 6.2.
    """
    return token_rewards + discount * values[..., 1:]


def lambda_return(
    token_rewards: Tensor, values: Tensor, *, discount: Unit | Tensor = 1.0, gae_lambda: Unit | Tensor = 0.95
) -> Tensor:
    """The value plus its generalised advantage: between TD(0) (lambda 0) and the return (lambda 1).

    Sutton & Barto, 2018, eq. 12.3; Schulman et al., 2016, "High-dimensional continuous control using generalized
    advantage estimation", whose lambda it shares.
    """
    return values[..., :-1] + gae(token_rewards, values, discount=discount, gae_lambda=gae_lambda)


def value_losses(
    values: Tensor, old_values: Tensor, targets: Tensor, *, value_clip: Moderate | Tensor | None = None
) -> Tensor:
    """Half the squared distance of a value from its target, token by token: [... token] each -> [... token].

    With `value_clip` c the larger of two: that of the value, and that of the value held within c of old_values, which
    are those of the rollout; so a value that has gone further than c towards its target is pushed no further. It is
    from the code of Schulman et al., 2017, not from their paper, and Andrychowicz et al., 2021, "What matters for
    on-policy deep actor-critic methods?", found no gain in it. In units of reward squared, as is c in those of reward.
    """
    losses = (values - targets).square() / 2
    if value_clip is None:
        return losses
    held = old_values + clamped(values - old_values, -value_clip, value_clip)
    return torch.maximum(losses, (held - targets).square() / 2)


def explained_variance(values: Tensor, targets: Tensor, mask: Mask) -> Tensor:
    """The share of the targets' variance that the values explain: 1 - Var(target - value) / Var(target).

    [... prompt response token] each -> [...], over the tokens that count. 1 is perfect, 0 no better than a constant,
    and below that it is worse. NaN where the targets do not vary: then there is nothing to explain.
    """
    counted = torch.ones_like(targets, dtype=torch.bool) if mask is None else mask.bool()
    largest = torch.where(counted, targets, -torch.inf).amax(dim=TOKENS)
    least = torch.where(counted, targets, torch.inf).amin(dim=TOKENS)
    share = 1 - _variance(targets - values, counted) / _variance(targets, counted)
    return torch.where(largest > least, share, torch.nan)


def _variance(values: Tensor, counted: Tensor) -> Tensor:
    count = counted.sum(dim=TOKENS, keepdim=True)
    mean = masked(values, counted).sum(dim=TOKENS, keepdim=True) / count
    return (masked(values - mean, counted).square().sum(dim=TOKENS, keepdim=True) / count)[..., 0, 0, 0]


VALUE_TARGETS = table(monte_carlo, td, lambda_return)
