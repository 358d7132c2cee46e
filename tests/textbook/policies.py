"""Policies and critics as functions of named parameters, one response at a time: nothing is padded, masked or cached.

A prompt is a tuple of tokens without padding, tokens a list up to the end token, that included.
"""

import math

import torch


class Table:
    """A row of logits for each prompt and place."""

    def __init__(self, prompts, places):
        self.rows = {prompt: row for row, prompt in enumerate(dict.fromkeys(prompts))}
        self.places = places

    def logits(self, parameters, prompt, tokens):
        """Before each token: [token vocab]."""
        table = parameters["table"]
        if prompt not in self.rows:
            return torch.zeros(len(tokens), table.shape[-1], dtype=table.dtype)
        return table[self.rows[prompt], : len(tokens)]

    def features(self, parameters, prompt, tokens):
        """Before each token and behind the last: [token+1 feature]."""
        states = torch.zeros(len(tokens) + 1, len(self.rows) * self.places, dtype=torch.float64)
        for place in range(min(len(tokens) + 1, self.places)):
            if prompt in self.rows:
                states[place, self.rows[prompt] * self.places + place] = 1
        return states


class Transformer:
    """Decoder-only, as its docstring says it: norms in front, no biases, tied embeddings."""

    def __init__(self, heads, layers, temperature):
        self.heads, self.layers, self.temperature = heads, layers, temperature

    def logits(self, parameters, prompt, tokens):
        rows = self.read(parameters, prompt, tokens[:-1])
        return rows @ parameters["embedding"].T / self.temperature

    def features(self, parameters, prompt, tokens):
        return self.read(parameters, prompt, tokens)

    def read(self, parameters, prompt, tokens):
        """What a prompt's last token and each later one become, behind a norm: [token+1 width]."""
        written = torch.tensor([*prompt, *tokens])
        rows = parameters["embedding"][written] + parameters["positions"][: len(written)]
        for layer in range(self.layers):
            asked, attended, wide, narrow = (
                parameters[f"blocks.{layer}.{name}"] for name in ("asked", "attended", "wide", "narrow")
            )
            rows = rows + self.attention(normed(rows) @ asked) @ attended
            rows = rows + (normed(rows) @ wide).clamp(min=0) @ narrow
        return normed(rows)[len(prompt) - 1 :]

    def attention(self, asked):
        """softmax(Q K^T / sqrt(depth)) V, head by head, each token seeing itself and what is before it."""
        queries, keys, values = asked.chunk(3, dim=-1)
        future = torch.ones(len(asked), len(asked)).triu(1).bool()
        found = []
        for q, k, v in zip(*(each.chunk(self.heads, dim=-1) for each in (queries, keys, values)), strict=True):
            weights = (q @ k.T / math.sqrt(q.shape[-1])).masked_fill(future, -math.inf).exp()
            found.append(weights / weights.sum(dim=-1, keepdim=True) @ v)
        return torch.cat(found, dim=-1)


def normed(rows):
    centered = rows - rows.mean(dim=-1, keepdim=True)
    return centered / (centered.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()


def policy_of(settings, task):
    """The policy that a config's words name."""
    if settings["policy"] == "table":
        return Table(without_padding(task, task.prompts), task.response_length)
    return Transformer(settings["heads"], settings["layers"], settings["temperature"])


def without_padding(task, prompts):
    return [tuple(token for token in prompt if token != task.pad) for prompt in prompts.tolist()]


def vocab_log_probs(policy, parameters, prompt, tokens):
    """log pi over the vocabulary before each token: [token vocab]."""
    logits = policy.logits(parameters, prompt, tokens)
    return logits - logits.exp().sum(dim=-1, keepdim=True).log()


def log_probs(policy, parameters, prompt, tokens):
    """log pi of each token: [token]."""
    return vocab_log_probs(policy, parameters, prompt, tokens)[range(len(tokens)), tokens]


def written(policy, parameters, prompt, task, uniforms):
    """A response, token by token: where a uniform number falls; without any, the likeliest tokens."""
    tokens = []
    while len(tokens) < task.response_length and (not tokens or tokens[-1] != task.end):
        chances = vocab_log_probs(policy, parameters, prompt, [*tokens, 0])[-1].exp().tolist()
        if uniforms is None:
            tokens.append(chances.index(max(chances)))
            continue
        below, token = chances[0], 0
        while below <= uniforms[len(tokens)] and token < len(chances) - 1:
            token += 1
            below += chances[token]
        tokens.append(token)
    return tokens


def every_response(task):
    """Every response there is, up to its end."""
    finished, open_ones = [], [[]]
    for _ in range(task.response_length):
        longer = [[*begun, token] for begun in open_ones for token in range(task.vocab_size)]
        finished += [tokens for tokens in longer if tokens[-1] == task.end]
        open_ones = [tokens for tokens in longer if tokens[-1] != task.end]
    return finished + open_ones
