"""Sorting lists of different lengths: an end token closes responses, and sorting's own rewards read no further."""

from dataclasses import replace
from functools import wraps

import torch
from torch import Tensor

from pgrl_cli.equations.categorical import until_end
from pgrl_cli.registry import Function
from pgrl_cli.tasks.task import Task
from pgrl_cli.tasks.written import Judge, answers, lengths


def with_ends(task: Task, shortest: int, max_response_tokens: int | None, overlong_margin: int | None) -> Task:
    """The task of sorting with an end token behind the numbers, and the rewards of tasks that have one.

    Its prompts [prompt token] are filled up from the left with the id behind the end token's. Raises KnobError.
    """
    end, longest = task.vocab_size, task.response_length
    limit, margin = lengths(longest + 1, max_response_tokens, overlong_margin)
    in_order = task.solutions

    def solutions(prompts: Tensor) -> Tensor:
        return answers(in_order(prompts), (prompts < end).sum(dim=-1), end, limit)  # padding is the largest: comes last

    judge = Judge(end, end, solutions, margin)
    own = {name: up_to_the_end(reward, end) for name, reward in task.rewards.items()}
    own["sort_exact_reward"] = named(judge.exact, task.rewards["sort_exact_reward"])
    return replace(
        task,
        vocab_size=end + 1,
        response_length=limit,
        solutions=solutions,
        rewards={**own, **judge.rewards(judge.digits)},
        end=end,
        pad=end + 1 if shortest < longest else None,
        overlong_margin=margin,
    )


def up_to_the_end(reward: Function, end: int) -> Function:
    """A reward that sees of responses only the numbers before their end, and no more of them than the prompt has."""

    @wraps(reward)
    def of_numbers(prompts: Tensor, responses: Tensor) -> Tensor:
        return reward(prompts, numbers(prompts, responses, end))

    return of_numbers


def named(reward: Function, word: Function) -> Function:
    """A reward under another one's name."""

    @wraps(word)
    def renamed(prompts: Tensor, responses: Tensor) -> Tensor:
        return reward(prompts, responses)

    return renamed


def numbers(prompts: Tensor, responses: Tensor, end: int) -> Tensor:
    """Responses [... prompt response token] cut to the width of the prompts [prompt token].

    What is no number of the response's becomes one that no prompt has, and each is smaller than the one before it: so
    it is neither right, nor included, nor in order.
    """
    places = torch.arange(prompts.shape[-1], device=responses.device)
    responses = responses[..., : len(places)]
    read = (responses != end) & places.lt((prompts < end).sum(dim=-1)[:, None, None])
    mask = until_end(responses, end)
    return responses.where(read if mask is None else read & mask, -1 - places)
