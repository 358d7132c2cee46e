"""Which delta modes a diagnosis can look at: those that make something of one group of responses by itself."""

from pgrl_cli.equations.advantages import true_value_baseline
from pgrl_cli.registry import Function, looks_across_prompts, needs

OF_A_PROMPT = ("true_values", "greedy_rewards")
"""What is known of each prompt, whatever is answered."""
OF_A_RESPONSE = ("rewards", "score_squares")
"""What is known of each whole response."""
STAND_IN = true_value_baseline
"""What is looked at in place of a mode that cannot be: unbiased, for groups of any size, and what a critic is after."""


def visible(mode: Function) -> tuple[str, ...] | None:
    """What a delta mode sees of each response; None for one that cannot be looked at.

    That is one which asks for what neither a whole response nor its prompt has (tokens' rewards, a critic's values,
    earlier epochs, another policy's draws), or which compares responses to different prompts.
    """
    asked = tuple(name for name in needs(mode) if name not in OF_A_PROMPT)
    return asked if set(asked) <= set(OF_A_RESPONSE) and not looks_across_prompts(mode) else None


def looked_at(mode: Function) -> Function:
    """The delta mode itself, or what stands in for one that cannot be looked at."""
    return STAND_IN if visible(mode) is None else mode
