"""Sorting lists of different lengths: the lecture's rewards read no further than the end, and no more than they ask."""

from itertools import pairwise

import pytest
import torch
from tasks.written_by_hand import some_responses

from pgrl_cli.registry import KnobError
from pgrl_cli.tasks.sorting import sorting

TASK = sorting(prompt_count=40, prompt_length=4, shortest_prompt=1, vocab_size=5, max_response_tokens=7)
END, PAD = 5, 6


def points(prompt, response):
    """What sorting's own rewards pay, in plain Python."""
    ended = END in response
    numbers = response[: response.index(END)] if ended else response
    read = numbers[: len(prompt)]
    return {
        "sort_inclusion_ordering_reward": sum(number in read for number in prompt)
        + sum(left <= right for left, right in pairwise(read)),
        "sort_distance_reward": sum(a == b for a, b in zip(read, sorted(prompt), strict=False)),
        "sort_exact_reward": int(ended and numbers == sorted(prompt)),
    }


def test_sortings_own_rewards_are_what_plain_python_says():
    responses = some_responses(TASK, 30)
    paid = {word: TASK.rewards[word](TASK.prompts, responses) for word in points([1], [1])}
    seen = set()
    for place, prompt in enumerate(TASK.prompts.tolist()):
        for number, response in enumerate(responses[place].tolist()):
            told = points([token for token in prompt if token != PAD], response)
            assert {word: each[place, number].item() for word, each in paid.items()} == told
            seen.add(tuple(told.values()))
    assert len(seen) > 15


def test_a_response_that_rambles_in_order_is_paid_for_as_many_numbers_as_it_was_asked_for():
    prompt = torch.tensor([[PAD, PAD, 3, 1]])
    for response, told in (
        ([1, 3, END, END, END, END, END], (3, 2, 1)),
        ([1, 3, 3, 3, 4, 4, END], (3, 2, 0)),
        ([1, 3, 3, 3, 3, 3, 3], (3, 2, 0)),
        ([1, END, 3, 3, 3, 3, 3], (1, 1, 0)),
        ([0, 0, 1, 3, END, END, END], (1, 0, 0)),
        ([END] * 7, (0, 0, 0)),
    ):
        tokens = torch.tensor([[response]])
        rewards = (TASK.rewards[word] for word in points([1], [1]))
        assert tuple(reward(prompt, tokens).item() for reward in rewards) == told


def test_solutions_are_the_numbers_in_order_with_an_end():
    for prompt, solution in zip(TASK.prompts.tolist(), TASK.solutions(TASK.prompts).tolist(), strict=True):
        numbers = sorted(token for token in prompt if token != PAD)
        assert solution == numbers + [END] * (7 - len(numbers))


def test_its_rewards_are_the_lectures_and_those_of_tasks_with_ends():
    usual = ["sort_inclusion_ordering_reward", "sort_distance_reward", "sort_exact_reward"]
    assert list(TASK.rewards)[:3] == list(sorting().rewards) == usual
    assert {"exact", "partial", "format", "end_reward", "overlong_penalty", "digits"} == {*TASK.rewards} - {*usual}
    assert all(TASK.rewards[word].__doc__ == sorting().rewards[word].__doc__ for word in usual)


def test_without_a_shortest_prompt_everything_is_as_it_was():
    plain = sorting(prompt_count=20, prompt_length=4, vocab_size=5)
    ending = sorting(prompt_count=20, prompt_length=4, shortest_prompt=4, vocab_size=5)
    assert torch.equal(plain.prompts, ending.prompts)
    assert (plain.end, plain.pad, plain.vocab_size, plain.response_length) == (None, None, 5, 4)
    assert (ending.end, ending.pad, ending.vocab_size, ending.response_length) == (5, None, 6, 5)
    assert plain.prompts[:4].tolist() == [[3, 2, 4, 3], [3, 0, 4, 4], [3, 3, 0, 4], [3, 2, 3, 2]]


def test_a_prompt_and_a_response_are_written_as_numbers_with_a_full_stop():
    assert TASK.text(torch.tensor([PAD, PAD, 3, 1])) == "3 1"
    assert TASK.text(torch.tensor([1, 3, END, END, END, END, END])) == "1 3 ."


@pytest.mark.parametrize(
    ("knobs", "told"),
    [
        ({"shortest_prompt": 2}, "prompts are not generated"),
        ({"prompt_count": 3, "max_response_tokens": 5}, "without shortest_prompt no response ends early"),
        ({"prompt_count": 3, "overlong_margin": 0}, "without shortest_prompt no response ends early"),
    ],
)
def test_knobs_of_ends_turn_nothing_where_there_are_none(knobs, told):
    with pytest.raises(KnobError, match=f"{list(knobs)[-1]}: turns nothing here: {told}"):
        sorting(**knobs)
