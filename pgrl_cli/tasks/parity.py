"""Parity: whether a string of bits holds an odd number of ones; hard in one step, easy with a scratchpad."""

from torch import Tensor

from pgrl_cli.registry import Seed
from pgrl_cli.tasks.drawing import Million, UpToMillion, UpToThousand, drawn, strings
from pgrl_cli.tasks.task import END, Task
from pgrl_cli.tasks.written import Judge, Margin, Tokens, answers, from_the_left, lengths

STOP, PAD = 2, 3
"""The ids behind the two bits."""


def parity(
    *,
    scratchpad: bool = True,
    prompt_count: Million = 16,
    prompt_length: UpToThousand = 4,
    shortest_prompt: UpToThousand = 1,
    prompts_seed: Seed = 0,
    held_out_count: UpToMillion | None = None,
    max_response_tokens: Tokens | None = None,
    overlong_margin: Margin | None = None,
) -> Task:
    """Say whether the bits hold an odd number of ones: the parity after each bit, the last being the answer; then end.

    Each token of that scratchpad needs one bit and the token before it, where the answer alone (`scratchpad: false`)
    needs all bits at once. Raises KnobError for more prompts than there are, and a limit that no right answer keeps.
    """
    longest = (prompt_length if scratchpad else 1) + 1
    limit, margin = lengths(longest, max_response_tokens, overlong_margin)
    space = strings(2, shortest_prompt, prompt_length, PAD, f"of {shortest_prompt} to {prompt_length} bits")
    prompts, held_out = drawn(space, prompt_count, held_out_count, prompts_seed)

    def solutions(prompts: Tensor) -> Tensor:
        bits, count = from_the_left(prompts, PAD)
        parities = bits.cumsum(dim=-1) % 2
        if scratchpad:
            return answers(parities, count, STOP, limit)
        return answers(parities.gather(-1, count[:, None] - 1), count.clamp(max=1), STOP, limit)

    judge = Judge(STOP, STOP, solutions, margin)
    return Task(
        prompts=prompts,
        held_out=held_out,
        vocab_size=STOP + 1,
        response_length=limit,
        solutions=solutions,
        rewards=judge.rewards(judge.steps),
        end=STOP,
        pad=PAD if shortest_prompt < prompt_length else None,
        symbols=("0", "1", END),
        form=f"[01]{{{shortest_prompt},{prompt_length}}}",
        overlong_margin=margin,
    )
