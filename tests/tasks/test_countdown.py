"""Countdown: what is right, what is partly so, and problems that have a solution."""

from collections import Counter

import pytest
import torch

from pgrl_cli.registry import KnobError
from pgrl_cli.tasks.countdown import PAD, STOP, SYMBOLS, countdown, ids
from pgrl_cli.tasks.expressions import evaluated

TASK = countdown()
PROMPT = torch.tensor([[PAD, *ids("2 3 5:13=")]])


def points(reward, response):
    tokens = ids(response)
    filled = torch.tensor([[tokens + [STOP if STOP in tokens else 0] * (12 - len(tokens))]])
    return TASK.rewards[reward](PROMPT, filled).item()


@pytest.mark.parametrize(
    ("response", "exact", "partial", "well_formed"),
    [
        ("2*5+3.", 1, 1, 1),
        ("3+5*2.", 1, 1, 1),
        ("3+(2*5).", 1, 1, 1),
        ("2+3+5.", 0, 0.5, 1),
        ("5.", 0, 0.5, 1),
        ("2-5.", 0, 0.5, 1),
        ("5+5+3.", 0, 0.25, 1),
        ("13.", 0, 0.25, 1),
        ("9+4.", 0, 0.25, 1),
        ("5/2.", 0, 0, 0),
        ("2*5+.", 0, 0, 0),
        ("(2*5+3.", 0, 0, 0),
        ("2*5+3=13.", 0, 0, 0),
        ("2 *5+3.", 0, 0, 0),
        (".", 0, 0, 0),
        ("2*5+3", 0, 0, 0),
    ],
)
def test_rewards_by_hand(response, exact, partial, well_formed):
    assert points("exact", response) == exact
    assert points("partial", response) == partial
    assert points("format", response) == well_formed


@pytest.mark.parametrize(
    "knobs", [{}, {"numbers": 4, "largest": 25}, {"numbers": 8, "largest": 999, "prompt_count": 30}], ids=str
)
def test_solutions_take_every_given_number_once_and_reach_the_target(knobs):
    task = countdown(**knobs)
    operators, every = set(), torch.cat([task.prompts, task.held_out])
    for prompt, solution in zip(every, task.solutions(every), strict=True):
        given, _, target = task.text(prompt).removesuffix("=").partition(":")
        found = evaluated(task.text(solution).removesuffix("."))
        assert found.value == int(target)
        assert Counter(found.numbers) == Counter(map(int, given.split()))
        assert [*map(int, given.split())] == sorted(map(int, given.split()))
        assert 1 <= int(target) <= 10 * knobs.get("largest", 9)
        operators |= set(task.text(solution)) & set("+-*/(")
    assert operators == set("+-*/(")


def test_several_answers_are_right_and_the_solution_is_one_of_them():
    task = countdown(numbers=2, largest=3, prompt_count=8, held_out_count=0)
    right = {}
    every = [answer + "." for answer in (f"{a}{o}{b}" for a in "123" for b in "123" for o in "+-*/")]
    every += [f"{number}." for number in "123"]
    for prompt in task.prompts:
        responses = torch.tensor([[ids(each) + [STOP] * (4 - len(each)) for each in every]])
        found = task.is_right(prompt[None], responses)[0].tolist()
        right[task.text(prompt)] = {each for each, fits in zip(every, found, strict=True) if fits}
        assert task.text(task.solutions(prompt[None])[0]) in right[task.text(prompt)]
    told = {
        "2 3:6=": {"2*3.", "3*2."},
        "1 2:2=": {"1*2.", "2*1.", "2/1.", "2."},
        "2 3:1=": {"3-2."},
    }
    assert {*told} & {*right}
    assert all(right[prompt] == answers for prompt, answers in told.items() if prompt in right)


def test_a_prompt_that_was_not_drawn_is_judged_all_the_same_and_no_solution_is_told():
    prompt = torch.tensor([[PAD] * 2 + ids("7 9:63=")])
    assert TASK.text(TASK.solutions(prompt)[0]) == "."
    assert TASK.is_right(prompt, torch.tensor([[ids("7*9.") + [STOP] * 4]])).all()


def test_what_is_no_prompt_has_no_right_answer():
    for text in ("", "1 2", ":=", "1 2:3", "1  2:3=", "1 2:=", "1 2:3=="):
        prompt = torch.tensor([[PAD] * (9 - len(text)) + ids(text)])
        assert not TASK.is_right(prompt, torch.tensor([[ids("1+2.") + [STOP] * 4]])).any()


def test_the_longest_expression_fits_just():
    for numbers, text in ((2, "99+99."), (3, "99*(99+99)."), (4, "(99+99)*(99+99).")):
        assert countdown(numbers=numbers, largest=99, prompt_count=5).response_length == len(text)


def test_fewer_prompts_are_the_first_of_more():
    few, more = countdown(prompt_count=10), countdown(prompt_count=30)
    assert torch.equal(more.prompts[:10], few.prompts)


def test_all_prompts_that_are_found_are_trained_on_or_held_out():
    small = {"numbers": 2, "largest": 2}
    task = countdown(**small, prompt_count=3)
    every = {task.text(prompt) for prompt in torch.cat([task.prompts, task.held_out])}
    assert every == {"1 1:1=", "1 1:2=", "1 2:1=", "1 2:2=", "1 2:3=", "2 2:1=", "2 2:4="}
    with pytest.raises(
        KnobError, match="8 prompts and 0 held out are more than the 7 different prompts that were found"
    ):
        countdown(**small, prompt_count=8)


def test_every_symbol_is_one_letter():
    assert all(len(symbol) == 1 for symbol in SYMBOLS)
