"""The lecture's policy: a matrix per prompt position in, a matrix per response position out, one embedding for both."""

import math

from torch import Tensor, nn

from pgrl_cli.policies.policy import Normals, Policy, PositionwisePolicy
from pgrl_cli.registry import Count
from pgrl_cli.tasks.task import Task


def positional(task: Task, normals: Normals, *, width: Count = 10) -> Policy:
    """The lecture's: shared embedding, an encoding matrix per prompt position, a decoding one per response position.

    Each token is decoded on its own: not autoregressive.
    """
    return PositionalPolicy(task, width, normals)


class PositionalPolicy(PositionwisePolicy):
    """Parameters: embedding [... vocab width], encoders [... token width hidden], decoders [... hidden token width]."""

    def __init__(self, task: Task, width: int, normals: Normals):
        super().__init__()
        scale = 1 / math.sqrt(width)
        self.embedding = nn.Parameter(normals(task.vocab_size, width))
        self.encoders = nn.Parameter(normals(task.prompts.shape[-1], width, width) * scale)
        self.decoders = nn.Parameter(normals(width, task.response_length, width) * scale)

    def decode(self, prompts: Tensor) -> Tensor:
        # Plain matrix products of flattened axes: on tensors this small, einsum's parsing costs more than the product.
        tokens, width = self.decoders.shape[-2:]
        embedded = self.embedding.index_select(-2, prompts.flatten()).unflatten(-2, prompts.shape).flatten(-2)
        summary = embedded @ self.encoders.flatten(-3, -2)  # [... prompt hidden]
        decoded = (summary @ self.decoders.flatten(-2)).unflatten(-1, (tokens, width)).flatten(-3, -2)
        logits = decoded @ self.embedding.transpose(-1, -2)
        return logits.unflatten(-2, (len(prompts), tokens))
