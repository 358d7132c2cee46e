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

    @property
    def feature_size(self) -> int:
        return self.embedding.shape[-1]

    def features(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """What each token is decoded from, and zeros behind the last: [... prompt 1 token+1 width]."""
        decoded = self._decoded(prompts)
        states = decoded.unflatten(-2, (len(prompts), 1, decoded.shape[-2] // len(prompts)))
        return nn.functional.pad(states, (0, 0, 0, 1))

    def decode(self, prompts: Tensor) -> Tensor:
        embedding = self.embedding
        written = embedding if embedding.shape[-2] == self.vocab_size else embedding[..., : self.vocab_size, :]
        logits = self._decoded(prompts) @ written.mT
        return logits.view(*logits.shape[:-2], len(prompts), 1, -1, self.vocab_size)

    def _decoded(self, prompts: Tensor) -> Tensor:
        """[... (prompt token) width]."""
        # Plain products of flattened axes: on tensors this small, parsing an einsum costs more than the product.
        embedding, encoders, decoders = self.embedding, self.encoders, self.decoders
        *runs, _, width = embedding.shape
        asked, tokens = len(prompts), decoders.shape[-1] // width
        embedded = embedding.index_select(-2, prompts.flatten()).view(*runs, asked, encoders.shape[-2])
        return (embedded @ encoders @ decoders).view(*runs, asked * tokens, width)
