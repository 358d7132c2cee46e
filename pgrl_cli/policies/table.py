"""The policy without a network: every probability is free."""

import torch
from torch import Tensor, nn

from pgrl_cli.policies.policy import Policy, PositionwisePolicy
from pgrl_cli.tasks.task import Task


def table(task: Task) -> Policy:
    """A free logit for each prompt, position and token; uniform at first, and for ever at a prompt it does not hold."""
    return TablePolicy(task)


class TablePolicy(PositionwisePolicy):
    """Parameter: table [... prompt token vocab], a row for each different prompt."""

    prompts: Tensor

    def __init__(self, task: Task):
        super().__init__(task.end)
        different = list(dict.fromkeys(map(tuple, task.prompts.tolist())))
        known = task.prompts if len(different) == len(task.prompts) else task.prompts.new_tensor(different)
        self.register_buffer("prompts", known, persistent=False)
        self.table = nn.Parameter(torch.zeros(len(known), task.response_length, task.vocab_size))

    @property
    def feature_size(self) -> int:
        return len(self.prompts) * self.table.shape[-2]

    def features(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """A 1 at the prompt's row and the token's position: [... prompt 1 token+1 (row token)].

        Zeros behind the last token, and at a prompt it does not hold. As large as it is, it suits small tasks alone.
        """
        tokens = self.table.shape[-2]
        rows = self._same(prompts).to(self.table.dtype)
        places = torch.eye(tokens + 1, tokens, dtype=rows.dtype, device=rows.device)
        states = (rows[:, None, :, None] * places[:, None, :]).flatten(-2)  # [prompt token+1 (row token)]
        return states.unsqueeze(-3).expand(*self.table.shape[:-3], -1, -1, -1, -1)

    def decode(self, prompts: Tensor) -> Tensor:
        if prompts is self.prompts:  # the usual case, and then the search would cost more than all else
            return self.table.unsqueeze(-3)
        same = self._same(prompts)
        rows = self.table.index_select(-3, same.int().argmax(dim=-1))
        return torch.where(same.any(dim=-1)[:, None, None], rows, 0.0).unsqueeze(-3)

    def _same(self, prompts: Tensor) -> Tensor:
        """Which of the known prompts each one is: bool [asked known]."""
        return (prompts[:, None, :] == self.prompts).all(dim=-1)
