"""Sorting: the prompt is a list of numbers, the response should be that list in ascending order.

Every reward: prompts [prompt token], responses [... prompt response token] -> points [... prompt response].
"""

import torch
from torch import Tensor

from pgrl_cli.registry import KnobError, Seed, table
from pgrl_cli.tasks.drawing import Million, UpToMillion, UpToThousand, drawn, strings
from pgrl_cli.tasks.sorting_with_ends import with_ends
from pgrl_cli.tasks.task import Task, score
from pgrl_cli.tasks.written import Margin, Tokens

LECTURE_PROMPTS = [[1, 0, 2], [3, 2, 4], [1, 2, 3]]


def sorting(
    *,
    prompts: list[list[int]] | None = None,
    prompt_count: Million | None = None,
    prompt_length: UpToThousand = 3,
    shortest_prompt: UpToThousand | None = None,
    vocab_size: Million | None = None,
    prompts_seed: Seed = 0,
    held_out_count: UpToMillion | None = None,
    max_response_tokens: Tokens | None = None,
    overlong_margin: Margin | None = None,
) -> Task:
    """Put the prompt's numbers in ascending order (the lecture's three prompts of three numbers).

    `prompts` lists them; else, with `prompt_count`, so many different ones are drawn from `prompts_seed`, and others
    are held out. Drawn ones may have from `shortest_prompt` numbers on; then an end token, which `vocab_size` does not
    count, closes responses. Raises KnobError for prompts that are empty, ragged, outside the vocabulary or too many,
    and for a limit that no right answer keeps.
    """
    if prompt_count is None or shortest_prompt is None:
        _refuse_ends(prompt_count, shortest_prompt, max_response_tokens, overlong_margin)
    rewards = table(sort_inclusion_ordering_reward, sort_distance_reward, sort_exact_reward)
    if prompt_count is None:
        listed = _listed(LECTURE_PROMPTS if prompts is None else prompts, vocab_size, prompts is None)
        vocab_size = int(listed.max()) + 1 if vocab_size is None else vocab_size
        return Task(listed, listed[:0], vocab_size, listed.shape[-1], in_order, rewards)
    vocab_size = 10 if vocab_size is None else vocab_size
    shortest = prompt_length if shortest_prompt is None else shortest_prompt
    lengths = f"{prompt_length}" if shortest == prompt_length else f"{shortest} to {prompt_length}"
    told = f"of {lengths} numbers below {vocab_size}"
    space = strings(vocab_size, shortest, prompt_length, vocab_size + 1, told)
    listed, held_out = drawn(space, prompt_count, held_out_count, prompts_seed)
    task = Task(listed, held_out, vocab_size, prompt_length, in_order, rewards)
    return task if shortest_prompt is None else with_ends(task, shortest, max_response_tokens, overlong_margin)


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


def _refuse_ends(count: int | None, shortest: int | None, limit: int | None, margin: int | None) -> None:
    """Raise KnobError for knobs of responses that end, where all have the length of the prompts."""
    missing = "prompts are not generated" if count is None else "without shortest_prompt no response ends early"
    knobs = {"shortest_prompt": shortest, "max_response_tokens": limit, "overlong_margin": margin}
    wrong = [(knob, f"turns nothing here: {missing}") for knob, value in knobs.items() if value is not None]
    if wrong:
        raise KnobError(*wrong)
