"""Copying and reversing: the prompt is a string of letters, the response should be that string, or its mirror image."""

from collections.abc import Callable
from string import ascii_letters, digits
from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor

from pgrl_cli.registry import Seed
from pgrl_cli.tasks.drawing import Million, UpToMillion, UpToThousand, drawn, strings
from pgrl_cli.tasks.task import END, Task
from pgrl_cli.tasks.written import Judge, Margin, Tokens, answers, from_the_left, lengths

ALPHABET = ascii_letters + digits
Letters = Annotated[int, Ge(1), Le(len(ALPHABET))]


def copy(
    *,
    prompt_count: Million = 32,
    prompt_length: UpToThousand = 3,
    shortest_prompt: UpToThousand = 1,
    vocab_size: Letters = 4,
    prompts_seed: Seed = 0,
    held_out_count: UpToMillion | None = None,
    max_response_tokens: Tokens | None = None,
    overlong_margin: Margin | None = None,
) -> Task:
    """Write the prompt's letters once more, then the end token.

    Prompts of `shortest_prompt` to `prompt_length` letters out of `vocab_size`, to which the end token comes. Raises
    KnobError for more prompts than there are, and for a limit that no right answer keeps.
    """
    space = shortest_prompt, prompt_length, vocab_size
    drawing = prompt_count, held_out_count, prompts_seed
    return _letters(_as_it_is, space, drawing, max_response_tokens, overlong_margin)


def reverse(
    *,
    prompt_count: Million = 32,
    prompt_length: UpToThousand = 3,
    shortest_prompt: UpToThousand = 1,
    vocab_size: Letters = 4,
    prompts_seed: Seed = 0,
    held_out_count: UpToMillion | None = None,
    max_response_tokens: Tokens | None = None,
    overlong_margin: Margin | None = None,
) -> Task:
    """Write the prompt's letters from the last to the first, then the end token.

    Prompts of `shortest_prompt` to `prompt_length` letters out of `vocab_size`, to which the end token comes. Raises
    KnobError for more prompts than there are, and for a limit that no right answer keeps.
    """
    space = shortest_prompt, prompt_length, vocab_size
    drawing = prompt_count, held_out_count, prompts_seed
    return _letters(_mirrored, space, drawing, max_response_tokens, overlong_margin)


def _letters(
    answer: Callable[[Tensor, int], tuple[Tensor, Tensor]],
    space: tuple[int, int, int],
    drawing: tuple[int, int | None, int],
    max_response_tokens: int | None,
    overlong_margin: int | None,
) -> Task:
    """The task whose answers `answer` makes of prompts and `pad`: tokens [prompt token], how many count [prompt]."""
    shortest, longest, letters = space
    end, pad = letters, letters + 1
    limit, margin = lengths(longest + 1, max_response_tokens, overlong_margin)
    told = f"of {shortest} to {longest} out of {letters} letters"
    prompts, held_out = drawn(strings(letters, shortest, longest, pad, told), *drawing)

    def solutions(prompts: Tensor) -> Tensor:
        return answers(*answer(prompts, pad), end, limit)

    judge = Judge(end, letters, solutions, margin)
    return Task(
        prompts=prompts,
        held_out=held_out,
        vocab_size=letters + 1,
        response_length=limit,
        solutions=solutions,
        rewards=judge.rewards(judge.digits),
        end=end,
        pad=pad if shortest < longest else None,
        symbols=(*ALPHABET[:letters], END),
        form=f"[{ALPHABET[:letters]}]{{{shortest},{longest}}}",
        overlong_margin=margin,
    )


def _as_it_is(prompts: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    return from_the_left(prompts, pad)


def _mirrored(prompts: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    return prompts.flip(-1), (prompts != pad).sum(dim=-1)
