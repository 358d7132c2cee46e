"""What holds for every task: the rightness of its solutions and the shapes of its rewards."""

from itertools import product

import pytest
import torch

from pgrl_cli.registry import REQUIRED, knobs
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.sorting import sorting

SMALL = {
    **{name: task() for name, task in TASKS.items()},
    "sorting with duplicates": sorting(prompts=[[1, 1, 0], [2, 2, 2], [0, 2, 2]]),
    "sorting one number": sorting(prompts=[[2], [0]]),
    "sorting drawn prompts": sorting(prompt_count=5, prompt_length=4, vocab_size=3),
}
any_task = pytest.mark.parametrize("task", SMALL.values(), ids=SMALL.keys())


def every_response(task):
    """[prompt response token]: all there are, for each prompt."""
    return task.every_response().expand(len(task.prompts), -1, -1)


@any_task
def test_every_response_is_listed_once_the_last_token_changing_fastest(task):
    every = task.every_response()
    assert every.dtype == torch.long
    assert every.tolist() == [list(each) for each in product(range(task.vocab_size), repeat=task.response_length)]
    assert task.response_count == len(every)


def test_more_responses_than_a_machine_should_list_are_refused_with_their_number():
    widest = sorting(prompts=[[0] * 20], vocab_size=2)
    assert widest.response_count == 2**20
    assert widest.every_response()[-1].tolist() == [1] * 20
    for vocab_size, length, told in ((2, 21, r"2\^21 = 2,097,152"), (10**6, 1000, r"1000000\^1000")):
        with pytest.raises(ValueError, match=rf"{told} responses to a prompt; at most 1,048,576"):
            sorting(prompts=[[0] * length], vocab_size=vocab_size).every_response()


def test_of_one_token_there_is_one_response_however_long():
    assert sorting(prompts=[[0] * 1000]).every_response().tolist() == [[0] * 1000]


@any_task
def test_no_response_beats_the_solution(task):
    responses, solutions = every_response(task), task.solutions(task.prompts)[:, None, :]
    for reward in task.rewards.values():
        best = reward(task.prompts, responses).amax(dim=-1, keepdim=True)
        assert torch.equal(reward(task.prompts, solutions), best)


@any_task
def test_exactly_one_response_is_right(task):
    right = task.is_right(task.prompts, every_response(task))
    assert right.sum(dim=-1).tolist() == [1] * len(task.prompts)
    assert task.is_right(task.prompts, task.solutions(task.prompts)[:, None, :]).all()


@any_task
def test_prompts_and_solutions_lie_within_the_vocabulary(task):
    for tokens in (task.prompts, task.held_out, task.solutions(task.prompts)):
        assert tokens.dtype == torch.long
        assert ((tokens >= 0) & (tokens < task.vocab_size)).all()
    assert task.solutions(task.prompts).shape == (len(task.prompts), task.response_length)
    assert task.held_out.shape[1:] == task.prompts.shape[1:]


@any_task
def test_many_runs_are_paid_side_by_side_what_each_is_paid_alone(task):
    shape = (2, 5, len(task.prompts), 4, task.response_length)
    responses = torch.randint(task.vocab_size, shape, generator=torch.Generator().manual_seed(0))
    for reward in (*task.rewards.values(), task.is_right):
        together = reward(task.prompts, responses)
        assert together.shape == shape[:-1]
        for step, run in product(range(2), range(5)):
            assert torch.equal(together[step, run], reward(task.prompts, responses[step, run]))


@any_task
def test_rewards_are_numbers_of_the_default_dtype(task):
    for reward in task.rewards.values():
        assert reward(task.prompts, every_response(task)).dtype == torch.get_default_dtype()


@pytest.mark.parametrize("build", TASKS.values(), ids=TASKS.keys())
def test_a_task_needs_no_knob_and_every_knob_has_a_default(build):
    assert all(knob.default is not REQUIRED for knob in knobs(build).values())
    assert len(build().prompts) > 0
