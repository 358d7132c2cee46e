"""What is diagnosed: a policy in the middle of its training, with everything that trains it."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pgrl_cli.config import Config
from pgrl_cli.diagnosis.modes import looked_at
from pgrl_cli.policies.heads import Critic
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import side_by_side
from pgrl_cli.registry import Function
from pgrl_cli.training.likelihoods import shaped
from pgrl_cli.training.outcomes import task_rewards
from pgrl_cli.training.parts import Parts, Share


@dataclass(frozen=True)
class Subject:
    """One run's policy as it is, in float64."""

    config: Config
    parts: Parts
    policy: Policy
    reference: Policy
    """What the KL is measured from."""
    reference_told: str
    """Which policy that is, in words."""
    moments: dict[str, Tensor]
    """What the update remembers of the training so far: [parameter] each."""
    epochs: int
    """Epochs done."""
    steps: int
    """Optimizer steps done."""
    critic: Critic | None = None
    """What has learned how much each state is worth; none where nothing asks for values."""
    samples: int = 0
    """How many rollouts are drawn where no sum is exact; responses to each prompt where they cannot be enumerated."""

    @property
    def share(self) -> Share:
        (share,) = self.parts.shares
        return share

    @property
    def prompts(self) -> Tensor:
        """[prompt token]."""
        return self.parts.task.prompts

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.policy.parameters())

    @property
    def group_size(self) -> int:
        return self.config.num_responses

    @property
    def advantage(self) -> Function:
        """The config's delta mode, or what is looked at in its place."""
        return looked_at(self.share.advantage)

    @cached_property
    def greedy_rewards(self) -> Tensor:
        """What the policy's likeliest response to each prompt earns, as the delta mode sees it: [prompt]."""
        with torch.no_grad():
            return self.shaped(self.task_rewards(self.policy.respond(self.prompts, None))).squeeze(-1)

    def task_rewards(self, responses: Tensor) -> Tensor:
        """What the task pays, weighted: responses [... prompt response token] -> [... prompt response]."""
        return task_rewards(self.share.rewards, self.prompts, responses, self.parts.dtype)

    def shaped(self, task_rewards: Tensor) -> Tensor:
        """What the delta mode sees of the task's rewards, but for a KL that is taken from them."""
        return shaped(self.share, task_rewards, None)

    def copies(self, count: int) -> Policy:
        """The policy so many times, side by side: every copy has its own gradient."""
        copies = side_by_side([self.policy])
        for parameter in copies.parameters():
            parameter.data = parameter.data.expand(count, *parameter.shape[1:]).contiguous()
        return copies

    def uniforms(self, purpose: str, *shape: int) -> Tensor:
        """Numbers in [0, 1) for a purpose of the diagnosis."""
        return self.parts.uniforms(f"diagnosis: {purpose}", 0, *shape)
