"""Sorting: its rewards by hand, and its prompts listed or drawn."""

from itertools import product

import pytest
import torch

from pgrl_cli.registry import KnobError
from pgrl_cli.tasks.sorting import (
    in_order,
    sort_distance_reward,
    sort_exact_reward,
    sort_inclusion_ordering_reward,
    sorting,
)


def rows(prompts):
    return [tuple(prompt) for prompt in prompts.tolist()]


@pytest.mark.parametrize(
    ("prompt", "response", "inclusion_ordering", "distance", "exact"),
    [
        ([1, 0, 2], [0, 1, 2], 3 + 2, 3, 1),
        ([1, 0, 2], [1, 0, 2], 3 + 1, 1, 0),
        ([1, 0, 2], [2, 1, 0], 3 + 0, 1, 0),
        ([1, 0, 2], [0, 0, 0], 1 + 2, 1, 0),
        ([1, 0, 2], [3, 4, 4], 0 + 2, 0, 0),
        ([1, 0, 2], [4, 3, 2], 1 + 0, 1, 0),
        ([2, 2, 0], [0, 2, 2], 3 + 2, 3, 1),
        ([2, 2, 0], [0, 1, 2], 3 + 2, 2, 0),  # each 2 of the prompt is found in the one 2 of the response
        ([2, 2, 0], [2, 2, 2], 2 + 2, 2, 0),
        ([3, 3, 3], [3, 3, 3], 3 + 2, 3, 1),
        ([5], [5], 1 + 0, 1, 1),
        ([5], [4], 0 + 0, 0, 0),
    ],
)
def test_rewards_by_hand(prompt, response, inclusion_ordering, distance, exact):
    prompts, responses = torch.tensor([prompt]), torch.tensor([[response]])
    assert sort_inclusion_ordering_reward(prompts, responses).item() == inclusion_ordering
    assert sort_distance_reward(prompts, responses).item() == distance
    assert sort_exact_reward(prompts, responses).item() == exact


def test_each_response_is_judged_by_its_own_prompt():
    prompts = torch.tensor([[1, 0], [3, 2]])
    responses = torch.tensor([[[0, 1], [2, 3], [1, 0]], [[0, 1], [2, 3], [3, 2]]])
    assert sort_distance_reward(prompts, responses).tolist() == [[2, 0, 0], [0, 2, 0]]
    assert sort_exact_reward(prompts, responses).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert sort_inclusion_ordering_reward(prompts, responses).tolist() == [[3, 1, 2], [1, 3, 2]]


def test_only_the_right_order_earns_the_maximum_where_numbers_differ():
    task = sorting(prompts=[[3, 0, 2], [1, 2, 0]])
    responses = torch.tensor(list(product(range(4), repeat=3))).expand(2, -1, -1)
    for reward, maximum in (
        (sort_inclusion_ordering_reward, 5),
        (sort_distance_reward, 3),
        (sort_exact_reward, 1),
    ):
        points = reward(task.prompts, responses)
        assert points.max() == maximum
        assert torch.equal(points == maximum, task.is_right(task.prompts, responses))


def test_the_right_response_is_the_prompt_in_order():
    assert in_order(torch.tensor([[3, 1, 2], [2, 2, 0]])).tolist() == [[1, 2, 3], [0, 2, 2]]


def test_without_knobs_it_is_the_lectures_task():
    task = sorting()
    assert rows(task.prompts) == [(1, 0, 2), (3, 2, 4), (1, 2, 3)]
    assert (task.vocab_size, task.response_length, len(task.held_out)) == (5, 3, 0)
    assert next(iter(task.rewards)) == "sort_inclusion_ordering_reward"


@pytest.mark.parametrize(
    ("count", "held_out", "length", "vocab"),
    [(5, 4, 2, 3), (5, 2, 2, 3), (1, 0, 1, 1), (20, 4, 2, 10), (50, 20, 4, 10), (3, 1, 6, 10)],
    ids=["all there are", "nearly all", "the only one", "drawn with many a repetition", "sparse", "a few of very many"],
)
def test_drawn_prompts_are_all_different_and_held_out_ones_apart(count, held_out, length, vocab):
    task = sorting(prompt_count=count, held_out_count=held_out, prompt_length=length, vocab_size=vocab)
    assert task.prompts.shape == (count, length)
    assert task.held_out.shape == (held_out, length)
    assert len({*rows(task.prompts), *rows(task.held_out)}) == count + held_out
    assert (task.vocab_size, task.response_length) == (vocab, length)
    for prompts in (task.prompts, task.held_out):
        assert ((prompts >= 0) & (prompts < vocab)).all()


@pytest.mark.parametrize(
    "knobs",
    [
        {"prompt_count": 6, "held_out_count": 2, "prompt_length": 2, "vocab_size": 4},
        {"prompt_count": 20, "held_out_count": 10, "prompt_length": 5, "vocab_size": 10},
    ],
    ids=["nearly all", "sparse"],
)
def test_drawn_prompts_are_a_function_of_their_seed(knobs):
    first, again, other = (sorting(**knobs, prompts_seed=seed) for seed in (7, 7, 8))
    assert torch.equal(first.prompts, again.prompts)
    assert torch.equal(first.held_out, again.held_out)
    assert not torch.equal(first.prompts, other.prompts)
    assert set(rows(first.prompts)) != set(rows(other.prompts))


def test_all_prompts_there_are_can_be_drawn():
    task = sorting(prompt_count=27, vocab_size=3)
    assert set(rows(task.prompts)) == set(product(range(3), repeat=3))
    assert len(task.held_out) == 0


@pytest.mark.parametrize(("vocab", "expected"), [(3, 22), (10, 100)])
def test_at_most_a_hundred_prompts_are_held_out_unless_told_otherwise(vocab, expected):
    assert len(sorting(prompt_count=5, vocab_size=vocab).held_out) == expected


def test_none_are_held_out_if_told_so():
    assert sorting(prompt_count=5, held_out_count=0).held_out.shape == (0, 3)


@pytest.mark.parametrize("vocab", [4, 5], ids=["nearly all", "sparse"])
def test_drawn_prompts_hold_every_number_at_every_place_about_equally_often(vocab):
    prompts = sorting(prompt_count=3000, held_out_count=0, prompt_length=6, vocab_size=vocab).prompts
    for place in range(6):
        shares = prompts[:, place].bincount(minlength=vocab) / 3000
        assert (shares - 1 / vocab).abs().max() < 0.03


@pytest.mark.parametrize(
    ("count", "held_out", "told"),
    [(10, None, "10 prompts and 0 held out"), (6, 4, "6 prompts and 4 held out"), (9, 1, "9 different prompts")],
)
def test_more_prompts_than_there_are_is_an_error(count, held_out, told):
    with pytest.raises(KnobError, match=told) as raised:
        sorting(prompt_count=count, held_out_count=held_out, prompt_length=2, vocab_size=3)
    assert [knob for knob, _ in raised.value.problems] == ["prompt_count"]


@pytest.mark.parametrize(
    ("prompts", "vocab", "told"),
    [
        ([], None, ["at least one prompt"]),
        ([[]], None, ["none may be empty"]),
        ([[1, 2], []], None, ["none may be empty", "0, 2 numbers"]),
        ([[1, 2], [3]], None, ["1, 2 numbers"]),
        ([[1, 2], [0, -1]], None, ["-1 lies outside", "0 to 999999"]),
        ([[1, 2], [0, 5]], 3, ["5 lies outside", "0 to 2"]),
        ([[0, 9], [3], []], 3, ["none may be empty", "0, 1, 2 numbers", "3, 9 lies outside", "0 to 2"]),
    ],
)
def test_prompts_that_cannot_be_sorted_are_refused_with_all_that_is_wrong(prompts, vocab, told):
    with pytest.raises(KnobError) as raised:
        sorting(prompts=prompts, vocab_size=vocab)
    assert {knob for knob, _ in raised.value.problems} == {"prompts"}
    message = str(raised.value)
    assert [words for words in told if words not in message] == []


def test_a_vocabulary_larger_than_the_prompts_need_is_kept():
    assert sorting(prompts=[[1, 0]], vocab_size=8).vocab_size == 8
    assert sorting(prompts=[[1, 0]]).vocab_size == 2
