"""A decoder-only transformer, small enough to train by the hundred: it writes token by token."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pgrl_cli.equations.categorical import inverse_cdf, log_softmax
from pgrl_cli.policies.policy import Normals, Policy
from pgrl_cli.registry import Count, KnobError, Positive
from pgrl_cli.tasks.task import Task

SPREAD = 0.02
"""The standard deviation that parameters start with: the first policy is nearly uniform."""
WIDER = 4
"""How many times wider the hidden layer of a block is."""
EPSILON = 1e-5
"""Added to a variance before its root is divided by."""


def transformer(
    task: Task,
    normals: Normals,
    *,
    width: Count = 32,
    heads: Count = 2,
    layers: Count = 2,
    temperature: Positive = 1.0,
) -> Policy:
    """Decoder-only, pre-norm and causal, with learned positions; the embedding of the input is that of the output.

    Vaswani et al., 2017, "Attention is all you need"; norms in front as in Radford et al., 2019 (GPT-2). `temperature`
    divides the logits, of samples and of every log-prob alike.
    """
    if width % heads:
        raise KnobError(("heads", f"came {heads}, which does not divide width: {width}"))
    return TransformerPolicy(task, width, heads, layers, temperature, normals)


class Past(NamedTuple):
    """What a block remembers of tokens: keys and values [... prompt head response token depth]."""

    keys: Tensor
    values: Tensor


class TransformerPolicy(Policy):
    """embedding [... vocab width], positions [... place width], blocks, and the last norm's gain and bias [... width].

    A prompt is read once for all responses to it: their tokens attend to its keys and values where they lie. Hidden
    states are [... prompt response token width], the response axis 1 for prompts.
    """

    def __init__(self, task: Task, width: int, heads: int, layers: int, temperature: float, normals: Normals):
        super().__init__(task.end)
        self.temperature, self.prompt_length, self.response_length = (
            temperature,
            task.prompts.shape[-1],
            task.response_length,
        )
        places = self.prompt_length + self.response_length  # the last one only critics read
        self.embedding = nn.Parameter(SPREAD * normals(task.vocab_size, width))
        self.positions = nn.Parameter(SPREAD * normals(places, width))
        self.blocks = nn.ModuleList(Block(width, heads, layers, normals) for _ in range(layers))
        self.gain, self.bias = _plain_norm(width)

    def logits(self, prompts: Tensor, responses: Tensor) -> Tensor:
        return self._decoded(self._hidden(prompts, responses[..., :-1]))  # nothing is written after the last token

    @property
    def feature_size(self) -> int:
        return self.embedding.shape[-1]

    def features(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """What each token is decoded from, and what the last one became: [... prompt response token+1 width]."""
        return normed(self._hidden(prompts, responses), self.gain, self.bias)

    def _hidden(self, prompts: Tensor, tokens: Tensor) -> Tensor:
        """What the prompt and each of a response's tokens became: [... prompt response token+1 width]."""
        hidden, pasts = self._read(prompts)
        hidden = hidden.expand(*hidden.shape[:-3], tokens.shape[-2], *hidden.shape[-2:])
        if tokens.shape[-1] == 0:
            return hidden
        written, _ = self._write(tokens, 0, pasts, [None] * len(pasts))
        return torch.cat([hidden, written], dim=-2)

    def respond(self, prompts: Tensor, uniforms: Tensor | None) -> Tensor:
        hidden, pasts = self._read(prompts)
        own: Sequence[Past | None] = [None] * len(pasts)
        tokens: list[Tensor] = []
        for place in range(self.response_length):
            if tokens:
                hidden, own = self._write(tokens[-1].unsqueeze(-1), place - 1, pasts, own)
            logits = self._decoded(hidden).squeeze(-2)
            if uniforms is None:
                tokens.append(logits.argmax(dim=-1))
            else:
                tokens.append(inverse_cdf(log_softmax(logits), uniforms[..., place]))
        return torch.stack(tokens, dim=-1)

    def _read(self, prompts: Tensor) -> tuple[Tensor, list[Past]]:
        """What each prompt's last token became [... prompt 1 1 width], and what each block remembers of the prompt."""
        hidden = self._embedded(prompts[:, None, :], 0)
        pasts = []
        for block in self.blocks:
            hidden, past = block(hidden, None, None)
            pasts.append(past)
        return hidden[..., -1:, :], pasts

    def _write(
        self, tokens: Tensor, first: int, pasts: Sequence[Past], own: Sequence[Past | None]
    ) -> tuple[Tensor, list[Past]]:
        """What the responses' tokens from the first-th on became, and what each block remembers of them all."""
        hidden = self._embedded(tokens, self.prompt_length + first)
        remembered = []
        for block, past, earlier in zip(self.blocks, pasts, own, strict=True):
            hidden, now = block(hidden, past, earlier)
            remembered.append(now)
        return hidden, remembered

    def _embedded(self, tokens: Tensor, place: int) -> Tensor:
        """[... prompt response token width]; of a stack of runs, tokens that all share have no run axis."""
        positions = self.positions[..., place : place + tokens.shape[-1], :]
        if self.embedding.ndim == 2:
            return nn.functional.embedding(tokens, self.embedding) + positions
        runs, vocab, _ = self.embedding.shape
        if tokens.ndim == 3:
            tokens = tokens.expand(runs, *tokens.shape)
        offsets = vocab * torch.arange(runs, device=tokens.device).view(-1, 1, 1, 1)
        return nn.functional.embedding(tokens + offsets, self.embedding.flatten(0, 1)) + positions[:, None, None]

    def _decoded(self, hidden: Tensor) -> Tensor:
        """Logits [... prompt response token vocab]."""
        return product(normed(hidden, self.gain, self.bias), self.embedding.mT) / self.temperature


class Block(nn.Module):
    """Attention and a hidden layer, each with a norm in front, each added to what comes in.

    asked, keys and values together [... width (3 width)], attended [... width width], wide [... width hidden], narrow
    [... hidden width], and two norms' gains and biases [... width].
    """

    def __init__(self, width: int, heads: int, layers: int, normals: Normals):
        super().__init__()
        self.heads = heads
        added = SPREAD / math.sqrt(2 * layers)  # so that what all layers add up to is as wide as what one reads
        self.first_gain, self.first_bias = _plain_norm(width)
        self.asked = nn.Parameter(SPREAD * normals(width, 3 * width))
        self.attended = nn.Parameter(added * normals(width, width))
        self.second_gain, self.second_bias = _plain_norm(width)
        self.wide = nn.Parameter(SPREAD * normals(width, WIDER * width))
        self.narrow = nn.Parameter(added * normals(WIDER * width, width))

    def forward(self, hidden: Tensor, prompt: Past | None, own: Past | None) -> tuple[Tensor, Past]:
        """New tokens after what is remembered: hidden [... prompt response token width] -> the same, and the past."""
        asked = product(normed(hidden, self.first_gain, self.first_bias), self.asked)
        queries, keys, values = (self._by_head(part) for part in asked.chunk(3, dim=-1))
        if own is not None:
            keys, values = torch.cat([own.keys, keys], dim=-2), torch.cat([own.values, values], dim=-2)
        attended = _attended(queries, Past(keys, values), prompt).movedim(-4, -2).flatten(-2)
        hidden = hidden + product(attended, self.attended)
        wide = nn.functional.gelu(product(normed(hidden, self.second_gain, self.second_bias), self.wide))
        return hidden + product(wide, self.narrow), Past(keys, values)

    def _by_head(self, vectors: Tensor) -> Tensor:
        """[... prompt response token (head depth)] -> [... prompt head response token depth]."""
        return vectors.unflatten(-1, (self.heads, -1)).movedim(-2, -4)


def _attended(queries: Tensor, own: Past, prompt: Past | None) -> Tensor:
    """What queries [... prompt head response token depth] find in their own response so far, and in their prompt."""
    scores = queries @ own.keys.mT
    new, known = scores.shape[-2:]
    if new > 1:
        later = torch.ones(new, known, dtype=torch.bool, device=scores.device).triu(known - new + 1)
        scores = scores.masked_fill(later, -torch.inf)
    if prompt is None:
        return (scores / math.sqrt(queries.shape[-1])).softmax(dim=-1) @ own.values
    shape = queries.shape[-3:-1]
    of_prompt = (queries.flatten(-3, -2) @ prompt.keys.squeeze(-3).mT).unflatten(-2, shape)
    weights = (torch.cat([of_prompt, scores], dim=-1) / math.sqrt(queries.shape[-1])).softmax(dim=-1)
    of_prompt, of_own = weights.split([of_prompt.shape[-1], known], dim=-1)
    return (of_prompt.flatten(-3, -2) @ prompt.values.squeeze(-3)).unflatten(-2, shape) + of_own @ own.values


def product(vectors: Tensor, matrix: Tensor) -> Tensor:
    """Rows of vectors [... prompt response token in] times a matrix [... in out], each run's with its own."""
    return (vectors.flatten(matrix.ndim - 2, -2) @ matrix).view(*vectors.shape[:-1], matrix.shape[-1])


def normed(vectors: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Layer norm over the last axis (Ba et al., 2016, eq. 4): vectors [... prompt response token width]."""
    if gain.ndim > 1:
        gain, bias = gain[:, None, None, None], bias[:, None, None, None]
    plain = nn.functional.layer_norm(vectors, vectors.shape[-1:], eps=EPSILON)
    return torch.addcmul(bias, plain, gain)


def _plain_norm(width: int) -> tuple[nn.Parameter, nn.Parameter]:
    """A gain and a bias that change nothing yet."""
    return nn.Parameter(torch.ones(width, dtype=torch.float64)), nn.Parameter(torch.zeros(width, dtype=torch.float64))
