"""What holds for every task: the rightness of its solutions and the shapes of its rewards."""

from itertools import product

import pytest
import torch
from tasks.written_by_hand import some_responses

from pgrl_cli.registry import REQUIRED, knobs
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.countdown import countdown
from pgrl_cli.tasks.parity import parity
from pgrl_cli.tasks.sorting import sorting
from pgrl_cli.tasks.task import is_process_reward, total

SMALL = {
    **{name: task() for name, task in TASKS.items()},
    "sorting with duplicates": sorting(prompts=[[1, 1, 0], [2, 2, 2], [0, 2, 2]]),
    "sorting one number": sorting(prompts=[[2], [0]]),
    "sorting drawn prompts": sorting(prompt_count=5, prompt_length=4, vocab_size=3),
    "sorting with ends": sorting(prompt_count=5, shortest_prompt=1, vocab_size=3, max_response_tokens=5),
    "sorting with ends, one length": sorting(prompt_count=5, shortest_prompt=3, vocab_size=3),
    "two numbers": countdown(numbers=2, largest=3, prompt_count=4),
    "parity in one step": parity(scratchpad=False),
}
MOST = 20_000
"""Responses that are listed; of more some are taken."""
any_task = pytest.mark.parametrize("task", SMALL.values(), ids=SMALL.keys())
LISTED = {name: task for name, task in SMALL.items() if task.response_count <= MOST}
listed_task = pytest.mark.parametrize("task", LISTED.values(), ids=LISTED.keys())
DRAWN = {name: build for name, build in TASKS.items() if "prompt_count" in knobs(build)}
any_drawn = pytest.mark.parametrize("build", DRAWN.values(), ids=DRAWN.keys())


def responses_of(task):
    """[prompt response token]: all there are, for each prompt; of very many some, right and nearly right ones too."""
    if task.response_count <= MOST:
        return task.every_response().expand(len(task.prompts), -1, -1)
    return some_responses(task, 200)


def test_most_tasks_are_small_enough_to_go_through_every_response():
    assert {*SMALL} - {*LISTED} == {"countdown", "two numbers"}


@listed_task
def test_every_response_is_listed_once_the_last_token_changing_fastest(task):
    every = task.every_response()
    assert every.dtype == torch.long
    expected = product(range(task.vocab_size), repeat=task.response_length)
    assert every.tolist() == [list(each) for each in expected if nothing_behind_the_end(each, task.end)]
    assert task.response_count == len(every)


def nothing_behind_the_end(response, end):
    return end not in response or set(response[response.index(end) :]) == {end}


@any_task
def test_a_prompt_is_known_again_as_it_is_written(task):
    for prompt in [*task.prompts, *task.held_out]:
        assert task.ids(task.text(prompt)) == prompt.tolist()
    for nothing in ("", "?", " ".join("0" * (task.prompts.shape[-1] + 1)), str(task.vocab_size), "."):
        assert task.ids(nothing) is None


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
    responses, solutions = responses_of(task), task.solutions(task.prompts)[:, None, :]
    for reward in task.rewards.values():
        best = total(reward(task.prompts, responses), responses).amax(dim=-1, keepdim=True)
        assert torch.equal(total(reward(task.prompts, solutions), solutions), best)


@any_task
def test_solutions_are_right_and_held_out_ones_earn_as_much_as_those_trained_on(task):
    """Where a task pays all its prompts alike: every reward that is no count of a prompt's numbers."""
    for prompts in (task.prompts, task.held_out):
        solutions = task.solutions(prompts)[:, None, :]
        assert task.is_right(prompts, solutions).all()
        for word in {*task.rewards} & {"exact", "partial", "format", "end_reward", "digits", "steps"}:
            points = total(task.rewards[word](prompts, solutions), solutions)
            torch.testing.assert_close(points.double(), torch.ones(len(prompts), 1).double(), rtol=1e-15, atol=0)


@listed_task
def test_exactly_one_response_is_right(task):
    assert task.right is None
    right = task.is_right(task.prompts, responses_of(task))
    assert right.sum(dim=-1).tolist() == [1] * len(task.prompts)


@any_task
def test_prompts_and_solutions_lie_within_the_vocabulary(task):
    for prompts in (task.prompts, task.held_out):
        solutions = task.solutions(prompts)
        assert prompts.dtype == solutions.dtype == torch.long
        assert ((prompts >= 0) & (prompts < task.input_size)).all()
        assert ((solutions >= 0) & (solutions < task.vocab_size)).all()
        assert solutions.shape == (len(prompts), task.response_length)
        assert task.end is None or not (prompts == task.end).any()
    assert task.held_out.shape[1:] == task.prompts.shape[1:]
    assert len(task.symbols) in (0, task.vocab_size)
    assert len(set(task.symbols)) == len(task.symbols)


@any_task
def test_padding_stands_on_the_left_alone_and_only_where_lengths_differ(task):
    every = torch.cat([task.prompts, task.held_out])
    padded = every == task.pad if task.pad is not None else torch.zeros_like(every, dtype=torch.bool)
    assert torch.equal(padded, padded.cummin(dim=-1).values)
    assert not padded.all(dim=-1).any()
    assert padded.any() == (task.pad is not None)


@any_task
def test_no_prompt_is_both_trained_on_and_held_out(task):
    trained, held_out = (set(map(tuple, prompts.tolist())) for prompts in (task.prompts, task.held_out))
    assert not trained & held_out
    assert len(trained) == len(task.prompts)
    assert len(held_out) == len(task.held_out)
    assert held_out or task.end is None


@any_task
def test_many_runs_are_paid_side_by_side_what_each_is_paid_alone(task):
    shape = (2, 5, len(task.prompts), 4, task.response_length)
    responses = torch.randint(task.vocab_size, shape, generator=torch.Generator().manual_seed(0))
    responses[0] = some_responses(task, 20).view(len(task.prompts), 5, 4, -1).transpose(0, 1)
    for reward in (*task.rewards.values(), task.is_right):
        together = reward(task.prompts, responses)
        assert together.shape == (shape if is_process_reward(together, responses) else shape[:-1])
        for step, run in product(range(2), range(5)):
            assert torch.equal(together[step, run], reward(task.prompts, responses[step, run]))


@any_task
def test_counts_are_numbers_of_the_default_dtype_and_shares_of_the_finest(task):
    shares = (
        ("digits", "steps", "overlong_penalty") if task.right else ("digits", "steps", "overlong_penalty", "partial")
    )
    for word, reward in task.rewards.items():
        wanted = torch.float64 if word in shares else torch.get_default_dtype()
        assert reward(task.prompts, some_responses(task, 3)).dtype == wanted


@pytest.mark.parametrize("build", TASKS.values(), ids=TASKS.keys())
def test_a_task_needs_no_knob_and_every_knob_has_a_default(build):
    assert all(knob.default is not REQUIRED for knob in knobs(build).values())
    assert len(build().prompts) > 0


@any_drawn
def test_drawn_prompts_are_a_function_of_their_seed(build):
    first, again, other = (build(prompt_count=12, prompts_seed=seed) for seed in (7, 7, 8))
    assert torch.equal(first.prompts, again.prompts)
    assert torch.equal(first.held_out, again.held_out)
    assert not torch.equal(first.prompts, other.prompts)


@any_drawn
def test_so_many_are_held_out_as_were_asked_for(build):
    assert [len(build(prompt_count=3, held_out_count=count).held_out) for count in (0, 2)] == [0, 2]
    assert len(build(prompt_count=3).prompts) == 3


@any_drawn
def test_more_prompts_than_there_are_is_an_error_that_says_how_many_there_are(build):
    few = {"numbers": 2, "largest": 3} if build is countdown else {}
    with pytest.raises(
        ValueError, match=r"9000\d prompts and 0 held out are more than the \d+ different prompts"
    ) as raised:
        build(prompt_count=90_001, held_out_count=0, **few)
    assert [knob for knob, _ in raised.value.problems] == ["prompt_count"]
