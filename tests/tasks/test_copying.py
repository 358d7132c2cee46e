"""Copying, reversing and parity: which prompts there are, and what the answers look like."""

from itertools import product

import pytest
import torch

from pgrl_cli.registry import KnobError
from pgrl_cli.tasks.copying import copy, reverse
from pgrl_cli.tasks.parity import parity


def texts(task, tokens):
    return [task.text(each) for each in tokens]


def strings(alphabet, lengths):
    return {"".join(letters) for length in lengths for letters in product(alphabet, repeat=length)}


@pytest.mark.parametrize("build", [copy, reverse])
def test_all_strings_there_are_can_be_drawn(build):
    task = build(prompt_count=39, vocab_size=3, held_out_count=0)
    assert set(texts(task, task.prompts)) == strings("abc", (1, 2, 3))


def test_answers_are_the_prompt_and_its_mirror_image():
    for build, step in ((copy, 1), (reverse, -1)):
        task = build(prompt_count=200, prompt_length=8, vocab_size=62)
        for prompt, answer in zip(task.prompts, task.solutions(task.prompts), strict=True):
            assert task.text(answer) == task.text(prompt)[::step] + "."
        assert len(set(task.symbols)) == 63


def test_of_many_prompts_each_length_is_as_likely_as_another():
    task = copy(prompt_count=4000, prompt_length=20, shortest_prompt=11, vocab_size=26)
    lengths = (task.prompts != task.pad).sum(dim=-1)
    shares = lengths.bincount(minlength=21)[11:] / 4000
    assert (shares - 0.1).abs().max() < 0.02


def test_prompts_of_one_length_need_no_padding():
    task = copy(prompt_count=5, shortest_prompt=3)
    assert task.pad is None
    assert task.input_size == task.vocab_size == 5


@pytest.mark.parametrize("build", [copy, reverse, parity])
def test_a_shortest_prompt_above_the_longest_is_refused(build):
    with pytest.raises(KnobError, match="shortest_prompt: came 5; it must not be above prompt_length, which is 3"):
        build(shortest_prompt=5, prompt_length=3)


def test_the_scratchpad_holds_the_parity_after_each_bit():
    task = parity(prompt_count=30, held_out_count=0)
    assert set(texts(task, task.prompts)) == strings("01", (1, 2, 3, 4))
    for prompt, answer in zip(task.prompts, task.solutions(task.prompts), strict=True):
        odd, told = False, ""
        for bit in task.text(prompt):
            odd ^= bit == "1"
            told += "1" if odd else "0"
        assert task.text(answer) == told + "."


def test_without_a_scratchpad_the_answer_is_the_last_of_them():
    whole, last = parity(), parity(scratchpad=False)
    assert torch.equal(whole.prompts, last.prompts)
    assert last.response_length == 2
    for pad, answer in zip(whole.solutions(whole.prompts), last.solutions(last.prompts), strict=True):
        assert last.text(answer) == whole.text(pad)[-2:]


def test_a_scratchpad_pays_each_right_step():
    task = parity(prompt_count=30, held_out_count=0)
    place = texts(task, task.prompts).index("110")
    responses = torch.tensor([[1, 0, 0, 2, 2], [1, 1, 0, 2, 2], [0, 1, 1, 1, 1], [1, 2, 2, 2, 2]])
    points = task.rewards["steps"](task.prompts[place : place + 1], responses[None])
    expected = [[0.25, 0.25, 0.25, 0.25, 0], [0.25, 0, 0.25, 0.25, 0], [0, 0, 0, 0, 0], [0.25, 0, 0, 0, 0]]
    assert points[0].tolist() == expected
