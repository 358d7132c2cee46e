"""A transformer's block, and the arithmetic of rows: [row in] and matrices [in out] of a run, or [run ...] of many."""

import math

import torch
from torch import Tensor, nn

from pgrl_cli.policies.attention import Batch, attention, self_attention
from pgrl_cli.policies.policy import Normals

SPREAD = 0.02
"""The standard deviation that parameters start with: the first policy is nearly uniform."""
WIDER = 4
"""How many times wider the hidden layer of a block is."""


class Block(nn.Module):
    """Attention and a hidden layer, each with a norm in front, each added to what comes in.

    asked, a query, key and value side by side, [... width (3 width)], attended [... width width], wide
    [... width hidden], narrow [... hidden width].
    """

    def __init__(self, width: int, heads: int, layers: int, normals: Normals):
        super().__init__()
        self.heads = heads
        added = SPREAD / math.sqrt(2 * layers)  # so that what all layers add up to is as wide as what one reads
        self.asked = nn.Parameter(SPREAD * normals(width, 3 * width))
        self.attended = nn.Parameter(added * normals(width, width))
        self.wide = nn.Parameter(SPREAD * normals(width, WIDER * width))
        self.narrow = nn.Parameter(added * normals(WIDER * width, width))

    def forward(self, rows: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Rows [... row width] -> the same, and the prompts' keys and values [2 run prompt 1 head token depth]."""
        found, known = self_attention(product(normed(rows), self.asked), batch, self.heads)
        return self._after(rows, found), known

    def write(self, rows: Tensor, memory: Tensor, place: int, mask: Tensor) -> Tensor:
        """One more token to each response: rows [... (prompt response) width] -> the same.

        The memory [2 run prompt response head place depth], keys and values of what was before, learns the place's.
        """
        asked = product(normed(rows), self.asked).view(*memory.shape[1:4], 3, self.heads, -1).movedim(-3, 0)
        memory[..., place, :] = asked[1:]
        found = attention(asked[0].unsqueeze(-2), memory[..., : mask.shape[-1], :], mask)
        return self._after(rows, found.view(rows.shape))

    def _after(self, rows: Tensor, found: Tensor) -> Tensor:
        rows = plus_product(rows, found, self.attended)
        return plus_product(rows, product(normed(rows), self.wide).relu_(), self.narrow)


def normed(rows: Tensor) -> Tensor:
    """Rows [... width] with mean 0 and variance 1 (Ba et al., 2016, eq. 3, without gain and bias)."""
    return torch.layer_norm(rows, rows.shape[-1:])


def product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Rows [... row in] times [... in out], each run's with its own."""
    return torch.mm(rows, matrix) if matrix.ndim == 2 else torch.bmm(rows, matrix)


def plus_product(sums: Tensor, rows: Tensor, matrix: Tensor) -> Tensor:
    """The same, added to sums [... row out]."""
    return torch.addmm(sums, rows, matrix) if matrix.ndim == 2 else torch.baddbmm(sums, rows, matrix)
