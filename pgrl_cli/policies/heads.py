"""Critics: what learns the value of every state that a policy passes through while it writes.

A critic reads what a policy is in before each token and behind the last (`features`), and is a linear function of that.
"""

import copy

import torch
from torch import Tensor, nn

from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import table


class Critic(nn.Module):
    """weights [... feature], offset [... 1], and a body of its own where it does not read the policy's features."""

    def __init__(self, size: int, body: Policy | None = None):
        super().__init__()
        self.body = body
        self.weights = nn.Parameter(torch.zeros(size, dtype=torch.float64))
        self.offset = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def values(self, policy: Policy, prompts: Tensor, responses: Tensor) -> Tensor:
        """The worth [... prompt response token+1] of the state before each token, and behind the last, as rewards are.

        The response axis is 1 where all responses to a prompt share their states. At first all values are 0.
        """
        features = (self.body or policy).features(prompts, responses)
        rows = features.flatten(self.weights.ndim - 1, -2)  # [... row feature]
        values = rows @ self.weights.unsqueeze(-1) + self.offset.unsqueeze(-1)
        return values.view(features.shape[:-1])

    def start_as(self, policy: Policy) -> None:
        """Begin with a policy's body, as it is by now."""
        if self.body is not None:
            self.body.load_state_dict(policy.state_dict())


def shared(policy: Policy) -> Critic:
    """Values from the policy's own body: what the critic learns moves the policy as well."""
    return Critic(policy.feature_size)


def separate(policy: Policy) -> Critic:
    """Values from a body of the critic's own, which starts as a copy of the policy's."""
    return Critic(policy.feature_size, copy.deepcopy(policy))


CRITICS = table(shared, separate)
