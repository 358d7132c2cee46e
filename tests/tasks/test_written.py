"""Tasks with an end token: answers and every reward against plain Python, and limits on lengths."""

import pytest
import torch
from tasks.written_by_hand import ANSWERS, STANDING, points, some_responses

from pgrl_cli.equations.categorical import closed
from pgrl_cli.registry import KnobError, knobs
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.sorting import sorting
from pgrl_cli.tasks.task import total
from pgrl_cli.tasks.written import answers, from_the_left, lengths, overlong_penalty

LONGER = {"max_response_tokens": 7}
WITH_ENDS = {name: build for name, build in TASKS.items() if "max_response_tokens" in knobs(build)}
WITH_ENDS["sorting"] = lambda **more: sorting(prompt_count=5, shortest_prompt=1, vocab_size=3, **more)
SEVERAL = {name: kind for name, build in WITH_ENDS.items() if "prompt_count" in (kind := knobs(TASKS[name]))}


@pytest.mark.parametrize("more", [{}, LONGER, LONGER | {"overlong_margin": 2}], ids=["just enough", "room", "margin"])
@pytest.mark.parametrize("name", ANSWERS)
def test_every_reward_is_what_plain_python_says(name, more):
    task = TASKS[name](**more)
    prompts = task.prompts[:15]
    responses = some_responses(task, 20)[:15]
    margin = more.get("overlong_margin", task.response_length - TASKS[name]().response_length)
    expected = {word: [] for word in task.rewards}
    for prompt, solution, group in zip(prompts, task.solutions(prompts), responses, strict=True):
        answer = ANSWERS[name](task.text(prompt)) + "."
        assert task.text(solution) == answer
        for response in group:
            standing, limit = STANDING[name], task.response_length
            told = points(answer, task.text(response), standing, limit=limit, margin=margin)
            told |= {word: filled_up(told[word], limit) for word in ("digits", "steps")}
            for word, paid in expected.items():
                paid.append(told[word])
    for word, reward in task.rewards.items():
        paid = reward(prompts, responses)
        wanted = torch.tensor(expected[word], dtype=torch.float64).view(paid.shape)
        torch.testing.assert_close(paid.double(), wanted, rtol=1e-15, atol=0)
        assert word == "overlong_penalty" or 0 < total(paid, responses).mean() < 1


def filled_up(paid, limit):
    return paid + [0.0] * (limit - len(paid))


def test_dapos_punishment_by_hand():
    responses = torch.tensor([[0, 9, 9, 9, 9, 9], [0, 0, 9, 9, 9, 9], [0, 0, 0, 9, 9, 9], [0, 0, 0, 0, 9, 9]])
    responses = torch.cat([responses, torch.tensor([[0, 0, 0, 0, 0, 9], [0, 0, 0, 0, 0, 0]])])
    assert overlong_penalty(responses, 9, 4).tolist() == [0, -0.25, -0.5, -0.75, -1, -1]
    assert overlong_penalty(responses, 9, 2).tolist() == [0, 0, 0, -0.5, -1, -1]
    assert overlong_penalty(responses, 9, 0).tolist() == [0, 0, 0, 0, 0, -1]


@pytest.mark.parametrize("name", WITH_ENDS)
def test_a_limit_below_the_longest_solution_is_refused_and_the_message_says_what_would_do(name):
    least = WITH_ENDS[name]().response_length
    with pytest.raises(KnobError, match=f"came {least - 1}; .* has {least} tokens; write {least} or more") as raised:
        WITH_ENDS[name](max_response_tokens=least - 1)
    assert [knob for knob, _ in raised.value.problems] == ["max_response_tokens"]
    longer = WITH_ENDS[name](max_response_tokens=least + 3)
    assert longer.response_length == least + 3
    assert longer.overlong_margin == 3
    assert WITH_ENDS[name]().overlong_margin == 0


@pytest.mark.parametrize("name", WITH_ENDS)
def test_a_margin_that_would_punish_a_solution_is_refused(name):
    least = WITH_ENDS[name]().response_length
    assert WITH_ENDS[name](max_response_tokens=least + 3, overlong_margin=2).overlong_margin == 2
    for limit, told in ((least + 3, "write at most 3"), (None, "write 0, or a larger max_response_tokens")):
        with pytest.raises(KnobError, match=f"came 4; .*{told}") as raised:
            WITH_ENDS[name](max_response_tokens=limit, overlong_margin=4)
        assert [knob for knob, _ in raised.value.problems] == ["overlong_margin"]


def test_lengths_are_those_asked_for_or_as_few_as_will_do():
    assert lengths(4, None, None) == (4, 0)
    assert lengths(4, 10, None) == (10, 6)
    assert lengths(4, 10, 0) == (10, 0)


@pytest.mark.parametrize("name", WITH_ENDS)
def test_what_stands_behind_an_end_counts_for_nothing(name):
    task = WITH_ENDS[name](max_response_tokens=9)
    responses = some_responses(task, 60)
    assert not torch.equal(responses, closed(responses, task.end))
    for reward in (*task.rewards.values(), task.is_right):
        assert torch.equal(reward(task.prompts, responses), reward(task.prompts, closed(responses, task.end)))


@pytest.mark.parametrize("name", WITH_ENDS)
def test_without_its_end_no_answer_is_right(name):
    task = WITH_ENDS[name](max_response_tokens=9)
    responses = task.solutions(task.prompts)[:, None, :].clone()
    responses[responses == task.end] = 0
    assert not task.ended(responses).any()
    assert not task.is_right(task.prompts, responses).any()
    for word in ("exact", "format", "end_reward"):
        assert not task.rewards[word](task.prompts, responses).any()
    assert (task.rewards["overlong_penalty"](task.prompts, responses) == -1).all()


@pytest.mark.parametrize("name", WITH_ENDS)
def test_exact_pays_what_is_right(name):
    task = WITH_ENDS[name]()
    responses = some_responses(task, 60)
    right = task.is_right(task.prompts, responses)
    assert 0 < right.float().mean() < 1
    assert torch.equal(task.rewards["exact"](task.prompts, responses), right.float())


@pytest.mark.parametrize("name", [name for name in WITH_ENDS if name != "countdown"])
def test_a_process_reward_pays_in_all_what_partial_credit_does(name):
    task = WITH_ENDS[name](max_response_tokens=8)
    responses = some_responses(task, 30)
    (process,) = [reward for word, reward in task.rewards.items() if word in ("digits", "steps")]
    points = process(task.prompts, responses)
    assert points.shape == responses.shape
    partial = task.rewards["partial"](task.prompts, responses)
    torch.testing.assert_close(total(points, responses), partial)
    assert not points[~task.mask(responses)].any()


def test_strings_are_moved_to_the_left_and_closed():
    moved, count = from_the_left(torch.tensor([[9, 9, 3], [1, 2, 3], [9, 4, 5]]), 9)
    assert count.tolist() == [1, 3, 2]
    assert [row[:n] for row, n in zip(moved.tolist(), count.tolist(), strict=True)] == [[3], [1, 2, 3], [4, 5]]
    assert answers(moved, count, 7, 5).tolist() == [[3, 7, 7, 7, 7], [1, 2, 3, 7, 7], [4, 5, 7, 7, 7]]
    assert answers(moved, count.clamp(max=1), 7, 2).tolist() == [[3, 7], [1, 7], [4, 7]]
