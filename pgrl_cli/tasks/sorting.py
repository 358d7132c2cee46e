"""Sorting: the prompt is a list of numbers, the response should be that list in ascending order.

Every reward: prompts [prompt token], responses [... prompt response token] -> points [... prompt response].
"""

from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge, Le
from torch import Tensor

from pgrl_cli import draws
from pgrl_cli.registry import KnobError, Seed, table
from pgrl_cli.tasks.task import Task, score

LECTURE_PROMPTS = [[1, 0, 2], [3, 2, 4], [1, 2, 3]]
Million = Annotated[int, Ge(1), Le(1_000_000)]
UpToMillion = Annotated[int, Ge(0), Le(1_000_000)]
UpToThousand = Annotated[int, Ge(1), Le(1_000)]
MOST_HELD_OUT = 100
"""How many prompts are held out unless `held_out_count` says otherwise."""


def sorting(
    *,
    prompts: list[list[int]] | None = None,
    prompt_count: Million | None = None,
    prompt_length: UpToThousand = 3,
    vocab_size: Million | None = None,
    prompts_seed: Seed = 0,
    held_out_count: UpToMillion | None = None,
) -> Task:
    """Put the prompt's numbers in ascending order (the lecture's three prompts of three numbers).

    `prompts` lists them; else, with `prompt_count`, so many different ones are drawn from `prompts_seed`, and others
    are held out. Raises KnobError for prompts that are empty, ragged, outside the vocabulary or too many.
    """
    if prompt_count is None:
        listed = _listed(LECTURE_PROMPTS if prompts is None else prompts, vocab_size, prompts is None)
        held_out = listed[:0]
    else:
        vocab_size = 10 if vocab_size is None else vocab_size
        listed, held_out = _drawn(prompt_count, held_out_count, prompt_length, vocab_size, prompts_seed)
    return Task(
        prompts=listed,
        held_out=held_out,
        vocab_size=int(listed.max()) + 1 if vocab_size is None else vocab_size,
        response_length=listed.shape[-1],
        solutions=in_order,
        rewards=table(sort_inclusion_ordering_reward, sort_distance_reward, sort_exact_reward),
    )


def sort_inclusion_ordering_reward(prompts: Tensor, responses: Tensor) -> Tensor:
    """One point for each prompt number that appears, one for each neighbouring pair in order."""
    included = (prompts[:, None, :, None] == responses[..., None, :]).any(dim=-1).sum(dim=-1)
    ordered = (responses[..., :-1] <= responses[..., 1:]).sum(dim=-1)
    return score(included + ordered)


def sort_distance_reward(prompts: Tensor, responses: Tensor) -> Tensor:
    """One point for each position that holds the right number."""
    return score((responses == in_order(prompts)[:, None, :]).sum(dim=-1))


def sort_exact_reward(prompts: Tensor, responses: Tensor) -> Tensor:
    """One point if the whole response is right, else none: sparse."""
    return score((responses == in_order(prompts)[:, None, :]).all(dim=-1))


def in_order(prompts: Tensor) -> Tensor:
    """The right responses: [prompt token] -> [prompt token]."""
    return prompts.sort(dim=-1).values


def _listed(prompts: list[list[int]], vocab_size: int | None, lectures: bool) -> Tensor:
    lengths = {len(prompt) for prompt in prompts}
    problems = []
    if not prompts or 0 in lengths:
        problems.append("there must be at least one prompt, and none may be empty")
    if len(lengths) > 1:
        problems.append(f"all prompts must have one length; these have {_few(sorted(lengths))} numbers")
    most = 1_000_000 if vocab_size is None else vocab_size
    outside = sorted({number for prompt in prompts for number in prompt if not 0 <= number < most})
    if outside:
        problems.append(f"{_few(outside)} lies outside the vocabulary, which is 0 to {most - 1}")
    if problems:
        knob, whose = ("vocab_size", "the lecture's prompts: ") if lectures else ("prompts", "")
        raise KnobError(*((knob, whose + problem) for problem in problems))
    return torch.tensor(prompts)


def _few(numbers: list[int]) -> str:
    """Numbers as a person would list them; of very many, the first."""
    told = [f"{number}"[:20] for number in numbers[:5]]
    return ", ".join(told) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")


def _drawn(count: int, held_out_count: int | None, length: int, vocab_size: int, seed: int) -> tuple[Tensor, Tensor]:
    possible = vocab_size**length
    apart = min(MOST_HELD_OUT, max(possible - count, 0)) if held_out_count is None else held_out_count
    if count + apart > possible:
        raise KnobError(
            (
                "prompt_count",
                f"{count} prompts and {apart} held out are more than the {possible} different prompts "
                f"of {length} numbers below {vocab_size}",
            )
        )
    generator = draws.generator(seed, "prompts")
    seen: dict[tuple[int, ...], None] = {}
    if possible <= 4 * (count + apart):  # nearly all of them: shuffle the whole list instead of drawing the rest late
        chosen = generator.permutation(possible)[: count + apart]
        powers = vocab_size ** np.arange(length - 1, -1, -1)
        rows = (chosen[:, None] // powers) % vocab_size
    else:
        while len(seen) < count + apart:
            for row in generator.integers(vocab_size, size=(count + apart, length)).tolist():
                seen[tuple(row)] = None
        rows = np.array(list(seen)[: count + apart])
    everything = torch.from_numpy(np.ascontiguousarray(rows)).long()
    return everything[:count], everything[count:]
