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
    """embedding [... vocab width], encoders [... (token width) hidden], decoders [... hidden (token width)].

    Written out: embedding[prompt], "prompt token width, token width hidden -> prompt hidden" with the encoders,
    "prompt hidden, hidden token width -> prompt token width" with the decoders, and "prompt token width, vocab width ->
    prompt token vocab" with the embedding again; it has a row more for the padding of a task that pads, which no
    response is written with.
    """

    def __init__(self, task: Task, width: int, normals: Normals):
        super().__init__(task.end)
        scale = 1 / math.sqrt(width)
        self.vocab_size = task.vocab_size
        self.embedding = nn.Parameter(normals(task.input_size, width))
        self.encoders = nn.Parameter(normals(task.prompts.shape[-1] * width, width) * scale)
        self.decoders = nn.Parameter(normals(width, task.response_length * width) * scale)

    def decode(self, prompts: Tensor) -> Tensor:
        # Plain products of flattened axes: on tensors this small, parsing an einsum costs more than the product.
        embedding, encoders, decoders = self.embedding, self.encoders, self.decoders
        *runs, _, width = embedding.shape
        asked, tokens = len(prompts), decoders.shape[-1] // width
        embedded = embedding.index_select(-2, prompts.flatten()).view(*runs, asked, encoders.shape[-2])
        decoded = embedded @ encoders @ decoders
        written = embedding if embedding.shape[-2] == self.vocab_size else embedding[..., : self.vocab_size, :]
        logits = decoded.view(*runs, asked * tokens, width) @ written.mT
        return logits.view(*runs, asked, 1, tokens, self.vocab_size)
