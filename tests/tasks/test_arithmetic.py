"""Addition and multiplication: how problems and answers are written, up to the largest there are."""

import pytest
import torch

from pgrl_cli.tasks.arithmetic import addition, multiplication

TASKS = {"+": addition, "*": multiplication}


def shown(task):
    every = torch.cat([task.prompts, task.held_out])
    return [task.text(prompt) + task.text(answer) for prompt, answer in zip(every, task.solutions(every), strict=True)]


@pytest.mark.parametrize("operator", TASKS)
def test_of_one_digit_there_are_a_hundred_problems_each_with_its_answer(operator):
    task = TASKS[operator](prompt_count=100)
    result = int.__add__ if operator == "+" else int.__mul__
    assert set(shown(task)) == {f"{a}{operator}{b}={result(a, b)}." for a in range(10) for b in range(10)}
    assert task.pad is None


@pytest.mark.parametrize("digits", [2, 5, 9])
@pytest.mark.parametrize("operator", TASKS)
def test_answers_are_those_of_python_however_many_digits_there_are(operator, digits):
    task = TASKS[operator](digits=digits, prompt_count=300)
    lengths = set()
    for text in shown(task):
        left, _, rest = text.partition(operator)
        right, _, answer = rest.partition("=")
        assert (left, right) == (str(int(left)), str(int(right)))
        value = int(left) + int(right) if operator == "+" else int(left) * int(right)
        assert answer == f"{value}."
        lengths |= {len(left), len(right)}
    assert max(lengths) == digits
    assert min(lengths) < digits


@pytest.mark.parametrize("operator", TASKS)
def test_the_largest_problem_fits_just(operator):
    for digits in (1, 3, 9):
        task = TASKS[operator](digits=digits, prompt_count=5)
        largest = "9" * digits
        ids = [task.symbols.index(symbol) for symbol in f"{largest}{operator}{largest}="]
        assert len(ids) == task.prompts.shape[-1]
        value = 2 * int(largest) if operator == "+" else int(largest) ** 2
        assert task.text(task.solutions(torch.tensor([ids]))[0]) == f"{value}."
        assert task.response_length == len(f"{value}.")


@pytest.mark.parametrize("operator", TASKS)
def test_with_a_fixed_width_all_numbers_are_filled_up_with_zeros(operator):
    task = TASKS[operator](digits=2, fixed_width=True, prompt_count=500)
    places = 3 if operator == "+" else 4
    for text in shown(task):
        left, right, answer = text[:2], text[3:5], text[6:-1]
        value = int(left) + int(right) if operator == "+" else int(left) * int(right)
        assert text == f"{left}{operator}{right}={value:0{places}d}."
        assert len(answer) == places
    assert task.pad is None
    assert any(text.startswith("0") for text in shown(task))


@pytest.mark.parametrize("operator", TASKS)
@pytest.mark.parametrize("fixed_width", [True, False])
def test_a_reversed_answer_is_the_answer_from_its_last_digit_on(operator, fixed_width):
    knobs = {"digits": 3, "fixed_width": fixed_width, "prompt_count": 50}
    plain, mirrored = (TASKS[operator](**knobs, reversed_answer=reversed_answer) for reversed_answer in (False, True))
    assert torch.equal(plain.prompts, mirrored.prompts)
    for usual, other in zip(plain.solutions(plain.prompts), mirrored.solutions(plain.prompts), strict=True):
        assert mirrored.text(other) == plain.text(usual)[-2::-1] + "."


def test_operands_are_drawn_equally_often():
    prompts = addition(digits=2, prompt_count=8000).prompts
    longest = (prompts[:, 0] != 13).float().mean()  # two numbers of two digits
    assert abs(longest - 0.81) < 0.02
