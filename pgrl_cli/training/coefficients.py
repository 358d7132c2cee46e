"""KL coefficients that follow a target: from the KL that was reached to the next epoch's coefficient, run by run.

coefficient, kl (in nats) [...] -> [...]; knobs are numbers or one value per run. A KL that is NaN leaves its run's
coefficient as it is, and so does a coefficient of 0. No epoch more than doubles or halves one, and none leads out of
LEAST to MOST; a coefficient that was given beyond them may only come nearer.
"""

import torch
from torch import Tensor

from pgrl_cli.registry import Moderate
from pgrl_cli.training.parts import column

LEAST, MOST = 2.0**-30, 2.0**30
"""Thirty halvings and thirty doublings from 1: far from 0 and from overflow in either dtype."""
TOLERANCE = 1.5
"""How many times the target a KL may be, or its part, before PPO's penalty follows."""
STRONGEST = 0.2
"""The largest share by which a KL counts as off its target, where a coefficient is steered."""


def adapted(coefficient: Tensor, kl: Tensor, *, old_kl_target: Moderate | Tensor) -> Tensor:
    """PPO's penalty: twice the coefficient above 1.5 times the target, half of it below the target over 1.5.

    Schulman et al., 2017, "Proximal policy optimization", section 4; kl is KL(old || new) after all steps on a rollout.
    """
    target = column(old_kl_target, axes=0)
    factor = torch.ones_like(coefficient).masked_fill(kl > target * TOLERANCE, 2.0)
    return _bounded(coefficient * factor.masked_fill(kl < target / TOLERANCE, 0.5), coefficient)


def steered(
    coefficient: Tensor,
    kl: Tensor,
    *,
    kl_target: Moderate | Tensor,
    kl_horizon: Moderate | Tensor,
    responses: int | Tensor,
) -> Tensor:
    """RLHF's controller: times 1 + clip(KL / target - 1, -0.2, 0.2) * responses / horizon.

    Ziegler et al., 2019, "Fine-tuning language models from human preferences", section 2.2; kl is KL(policy ||
    reference) of whole responses, and responses, a number or [...], is how many an epoch samples in each run. Where
    those are more than 2.5 horizons, the factor is held between 1/2 and 2: from 5 on it could reach 0.
    """
    off = (kl / column(kl_target, axes=0) - 1).clamp(-STRONGEST, STRONGEST)
    factor = (1 + off * (responses / column(kl_horizon, axes=0))).clamp(0.5, 2.0)
    return _bounded(coefficient * torch.where(kl.isnan(), 1.0, factor), coefficient)


def _bounded(after: Tensor, before: Tensor) -> Tensor:
    return after.clamp(min=before.clamp(max=LEAST), max=before.clamp(min=MOST))
