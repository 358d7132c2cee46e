"""A decoder-only transformer, small enough to train by the hundred: it writes token by token."""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, cast

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from pgrl_cli.equations.categorical import inverse_cdf, log_softmax
from pgrl_cli.policies.attention import VECTOR, Batch, causal_mask, filled, places_for
from pgrl_cli.policies.block import SPREAD, Block, normed, product
from pgrl_cli.policies.policy import Normals, Policy
from pgrl_cli.registry import Count, KnobError, Moderate
from pgrl_cli.tasks.task import Task

Layers = Annotated[int, Ge(1), Le(1_000)]
"""As many as anybody stacks."""


def transformer(
    task: Task,
    normals: Normals,
    *,
    width: Count = 32,
    heads: Count = 2,
    layers: Layers = 2,
    temperature: Moderate = 1.0,
) -> Policy:
    """Decoder-only, pre-norm and causal, with learned positions; the embedding of the input is that of the output.

    Vaswani et al., 2017, "Attention is all you need"; norms in front as in Radford et al., 2019 (GPT-2), and without
    parameters, as all the linear maps are without biases, as in Groeneveld et al., 2024 (OLMo). `temperature` divides
    the logits, of samples and of every log-prob alike.
    """
    if told := wrong_with_heads(width, heads):
        raise KnobError(("heads", told))
    return TransformerPolicy(task, width, heads, layers, temperature, normals)


def wrong_with_heads(width: int, heads: int) -> str | None:
    """Why so many heads cannot share a width; None where they can."""
    return (
        f"came {heads}, which does not divide width: {width}; {math.gcd(heads, width)} does" if width % heads else None
    )


class TransformerPolicy(Policy):
    """embedding [... vocab width], positions [... place width], and blocks.

    A prompt is read once for all responses to it. What tokens become are rows [... row width], laid out as
    `attention` says. Padding is read as some token, and nobody sees it; a prompt's first real token has place 0.
    """

    def __init__(self, task: Task, width: int, heads: int, layers: int, temperature: float, normals: Normals):
        super().__init__(task.end)
        self.pad, self.temperature = task.pad, temperature
        self.response_length = task.response_length
        places = task.prompts.shape[-1] + task.response_length  # the last one only critics read
        self.embedding = nn.Parameter(SPREAD * normals(task.vocab_size, width))
        self.positions = nn.Parameter(SPREAD * normals(places, width))
        self.blocks = nn.ModuleList(Block(width, heads, layers, normals) for _ in range(layers))

    def logits(self, prompts: Tensor, responses: Tensor) -> Tensor:
        rows, batch, _ = self._read(prompts, responses[..., :-1])  # nothing is written after the last token
        return _by_response(self._decoded(rows), batch)

    @property
    def feature_size(self) -> int:
        return self.embedding.shape[-1]

    @property
    def numbers_per_token(self) -> int:
        """As measured: of each block some twenty vectors, and each head's weights some eight times."""
        weights = cast(Block, self.blocks[0]).heads * max(self.positions.shape[-2], VECTOR)
        return len(self.blocks) * (20 * self.feature_size + 8 * weights)

    @property
    def beyond_shapes(self) -> Mapping[str, int]:
        return {"heads": cast(Block, self.blocks[0]).heads}

    def features(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """What each token is decoded from, and what the last one became: [... prompt response token+1 width]."""
        rows, batch, _ = self._read(prompts, responses)
        return _by_response(normed(rows), batch)

    def respond(self, prompts: Tensor, uniforms: Tensor | None) -> Tensor:
        rows, batch, known = self._read(prompts, prompts.new_empty(*self.embedding.shape[:-2], len(prompts), 1, 0))
        logits = _by_response(self._decoded(rows), batch).squeeze(-2)
        tokens = [_drawn(logits, uniforms, 0)]
        writing = Writing(self, prompts, batch._replace(responses=tokens[0].shape[-1]), known)
        while len(tokens) < self.response_length:
            ended = None if self.end is None else tokens[-1] == self.end
            if ended is not None and ended.all():
                tokens.append(tokens[-1])
                continue
            logits = self._decoded(writing.after(tokens[-1])).view(*tokens[-1].shape, -1)
            token = _drawn(logits, uniforms, len(tokens))
            tokens.append(token if ended is None else token.where(~ended, tokens[-1]))
        return torch.stack(tokens, dim=-1)

    def embedded(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Rows [... row width] of tokens [... row] (of a stack, also [row]) at their places [row]."""
        return _looked_up(self.embedding, tokens) + _looked_up(self.positions, places)

    def padding(self, prompts: Tensor) -> Tensor | None:
        """Which of prompts' tokens only fill them up: bool [prompt token]; None where all have one length."""
        return None if self.pad is None else prompts == self.pad

    def places(self, prompts: Tensor, first: int, tokens: int) -> Tensor:
        """The places [prompt token] of so many tokens from the first-th on, counted from a prompt's first real one."""
        places = torch.arange(first, first + tokens, device=prompts.device).expand(len(prompts), -1)
        padding = self.padding(prompts)
        return places if padding is None else (places - padding.sum(dim=-1, keepdim=True)).clamp(min=0)

    def _read(self, prompts: Tensor, tokens: Tensor) -> tuple[Tensor, Batch, list[Tensor]]:
        """What prompts and responses' tokens [... prompt response token] became, and what blocks know of the prompts.

        Rows [... row width], how they lie, and each block's keys and values [2 run prompt 1 head token depth].
        """
        *runs, _, responses, new = tokens.shape
        first = prompts.shape[-1]
        mask = causal_mask(first + new, self.padding(prompts), self.embedding)
        batch = Batch(math.prod(runs), len(prompts), first, responses, new, mask)
        readable = prompts if self.pad is None else prompts.clamp(max=self.embedding.shape[-2] - 1)
        ids = torch.cat([readable.flatten().expand(*runs, -1), tokens.flatten(-3)], dim=-1)
        of_responses = self.places(prompts, first, new)[:, None].expand(-1, responses, -1)
        rows = self.embedded(ids, torch.cat([self.places(prompts, 0, first).flatten(), of_responses.flatten()]))
        known = []
        for block in self.blocks:
            rows, of_prompts = block(rows, batch)
            known.append(of_prompts)
        return rows, batch, known

    def _decoded(self, rows: Tensor) -> Tensor:
        """Logits [... row vocab]."""
        logits = product(normed(rows), self.embedding.mT)
        return logits if self.temperature == 1 else logits / self.temperature


class Writing:
    """Responses under way, token by token: what each block remembers, so that nothing is read twice."""

    def __init__(self, policy: TransformerPolicy, prompts: Tensor, batch: Batch, known: list[Tensor]):
        """Where prompts have been read: how they lay, and what each block knows of them."""
        self.policy, self.read, self.responses = policy, 0, batch.responses
        self.prompt_tokens = batch.prompt_tokens
        self.places = policy.places(prompts, self.prompt_tokens, policy.response_length - 1)  # the last is not read
        self.mask = causal_mask(self.prompt_tokens + self.places.shape[-1], policy.padding(prompts), policy.embedding)
        spread = [each.expand(-1, -1, -1, batch.responses, -1, -1, -1) for each in known]
        self.memories = [filled([each], self.mask.shape[-1]) for each in spread]

    def after(self, tokens: Tensor) -> Tensor:
        """What one more token [... prompt response] to each response becomes: rows [... (prompt response) width]."""
        place = self.prompt_tokens + self.read
        seen = self.mask[..., place : place + 1, : places_for(place + 1, self.mask.dtype)]
        of_responses = self.places[:, self.read].repeat_interleave(self.responses)
        rows = self.policy.embedded(tokens.flatten(-2), of_responses)
        for block, memory in zip(cast("Iterable[Block]", self.policy.blocks), self.memories, strict=True):
            rows = block.write(rows, memory, place, seen)
        self.read += 1
        return rows


def _looked_up(table: Tensor, entries: Tensor) -> Tensor:
    """Rows [... row width] of a table [... entry width]: entries [... row], or [row] where all runs have the same."""
    if table.ndim == 2:
        return nn.functional.embedding(entries, table)
    runs, size, _ = table.shape
    offsets = torch.arange(0, runs * size, size, device=entries.device)
    return nn.functional.embedding(entries + offsets[:, None], table.flatten(0, 1))


def _by_response(rows: Tensor, batch: Batch) -> Tensor:
    """Rows [... row x] of a prompt's last token and of each of a response's: [... prompt response token+1 x]."""
    of_prompts, of_responses = rows.split(batch.rows, dim=-2)
    last = of_prompts.unflatten(-2, (batch.prompts, 1, -1))[..., -1:, :]
    before = last.expand(*last.shape[:-3], batch.responses, -1, -1)
    if batch.tokens == 0:
        return before
    return torch.cat([before, of_responses.unflatten(-2, (batch.prompts, batch.responses, -1))], dim=-2)


def _drawn(logits: Tensor, uniforms: Tensor | None, place: int) -> Tensor:
    """A response's token at a place: logits [... prompt response vocab], uniforms [... prompt response token]."""
    if uniforms is None:
        return logits.argmax(dim=-1)
    return inverse_cdf(log_softmax(logits), uniforms[..., place])
