"""A user's own reward: what it is asked, what it may answer, and how its faults are told."""

import re
import sys
from textwrap import dedent

import pytest
import torch

from pgrl_cli.tasks.own_rewards import RewardError, own_reward
from pgrl_cli.tasks.task import total

PROMPTS = torch.tensor([[1, 0], [2, 1]])
RESPONSES = torch.tensor([[[0, 1], [1, 1], [0, 1]], [[0, 1], [2, 2], [0, 0]]])


@pytest.fixture
def written(tmp_path):
    """Writes a file of the user's and gives its reward."""

    def write(source, name="points", file="mine.py"):
        path = tmp_path / file
        path.write_text(dedent(source))
        return own_reward(path, name)

    return write


def fault_when_asked(written, source):
    reward = written(source)
    with pytest.raises(RewardError) as raised:
        reward(PROMPTS, RESPONSES)
    return str(raised.value)


def fault_when_loaded(written, source):
    with pytest.raises(RewardError) as raised:
        written(source)
    return str(raised.value)


def test_it_is_a_plain_function_of_two_lists(written, tmp_path):
    reward = written(
        """
        def points(prompt, response):
            assert type(prompt) is list and type(response) is list
            assert all(type(number) is int for number in prompt + response)
            return 10 * prompt[0] + response[0] + response[1] / 100
        """
    )
    expected = [[10.01, 11.01, 10.01], [20.01, 22.02, 20.0]]
    torch.testing.assert_close(reward(PROMPTS, RESPONSES), torch.tensor(expected, dtype=torch.float64))
    assert reward.__name__ == "points"


def test_prompts_and_responses_may_differ_in_length(written):
    reward = written("def points(prompt, response): return 100 * len(prompt) + len(response)")
    assert reward(torch.tensor([[1, 2, 3]]), torch.tensor([[[4], [5]]])).tolist() == [[301, 301]]


def test_it_is_asked_once_for_each_distinct_pair(written):
    reward = written(
        """
        asked = []

        def points(prompt, response):
            asked.append((tuple(prompt), tuple(response)))
            return float(len(asked))
        """
    )
    first = reward(PROMPTS, RESPONSES)
    assert first.max().item() == 5  # six responses, two of them the same to the same prompt
    assert first[0, 0] == first[0, 2]
    assert first.flatten().unique().tolist() == [1, 2, 3, 4, 5]
    assert torch.equal(reward(PROMPTS, RESPONSES), first)
    again = reward(PROMPTS.flip(0), RESPONSES.flip(0))
    assert torch.equal(again, first.flip(0))
    more = reward(PROMPTS, torch.tensor([[[0, 1], [9, 9]], [[0, 1], [0, 1]]]))
    assert more[0].tolist() == [first[0, 0].item(), 6]


def test_many_runs_are_paid_side_by_side_what_each_is_paid_alone(written):
    reward = written("def points(prompt, response): return 100 * prompt[0] + 10 * response[0] + response[1]")
    responses = torch.stack([RESPONSES, RESPONSES.flip(1), RESPONSES + 3]).expand(2, 3, 2, 3, 2)
    together = reward(PROMPTS, responses)
    assert together.shape == (2, 3, 2, 3)
    for step in range(2):
        for run in range(3):
            assert torch.equal(together[step, run], reward(PROMPTS, responses[step, run]))
    assert together[1, 2].tolist() == [[134, 144, 134], [234, 255, 233]]


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("True", 1),
        ("False", 0),
        ("3", 3),
        ("-0.5", -0.5),
        ("numpy.float32(0.5)", 0.5),
        ("numpy.int64(7)", 7),
        ("numpy.float64(0.1)", 0.1),
        ("numpy.float16(0.25)", 0.25),
        ("numpy.bool_(True)", 1),
        ("fractions.Fraction(1, 4)", 0.25),
    ],
)
def test_any_real_number_counts(written, answer, number):
    reward = written(f"import fractions, numpy\ndef points(prompt, response): return {answer}")
    assert reward(PROMPTS, RESPONSES).tolist() == [[number] * 3] * 2


def test_it_may_import_what_lies_beside_it(written, tmp_path):
    (tmp_path / "beside_my_reward.py").write_text("def half(n): return n / 2")
    reward = written("import beside_my_reward\ndef points(prompt, response): return beside_my_reward.half(prompt[0])")
    assert reward(PROMPTS, RESPONSES)[:, 0].tolist() == [0.5, 1.0]
    assert str(tmp_path) not in sys.path


def test_it_may_import_what_lies_beside_it_only_when_it_is_asked(written, tmp_path):
    (tmp_path / "beside_but_later.py").write_text("def half(n): return n / 2")
    reward = written(
        """
        def points(prompt, response):
            import beside_but_later
            return beside_but_later.half(prompt[0])
        """
    )
    assert reward(PROMPTS, RESPONSES)[:, 0].tolist() == [0.5, 1.0]


def test_it_may_use_dataclasses_with_postponed_annotations(written):
    reward = written(
        """
        from __future__ import annotations
        from dataclasses import dataclass

        @dataclass
        class Score:
            number: float

        def points(prompt, response):
            return Score(2.0).number
        """
    )
    assert reward(PROMPTS, RESPONSES).tolist() == [[2.0] * 3] * 2


def test_it_may_spoil_its_lists(written):
    reward = written(
        """
        def points(prompt, response):
            score = 10 * prompt[0] + response[-1]
            prompt.clear()
            response.sort()
            response.append(7)
            return score
        """
    )
    for _ in range(2):
        assert reward(PROMPTS, RESPONSES).tolist() == [[11, 11, 11], [21, 22, 20]]
    assert PROMPTS.tolist() == [[1, 0], [2, 1]]


def test_a_reward_that_spoils_its_lists_and_fails_is_told_with_the_lists_it_was_given(written):
    message = fault_when_asked(
        written,
        """
        def points(prompt, response):
            prompt.clear()
            return 1 / response.pop()
        """,
    )
    assert "for prompt [2, 1] and response [0, 0]" in message


RAISING = {
    "raises": ("raise KeyError('lost')", "KeyError: 'lost'"),
    "exits": ("sys.exit(3)", "SystemExit: 3"),
    "exits quietly": ("sys.exit()", "SystemExit"),
    "divides by zero": ("return 1 / (response[0] - 1)", "ZeroDivisionError: division by zero"),
    "fails deeper": ("return deeper(response)", "IndexError: list index out of range"),
}


@pytest.mark.parametrize(("line", "told"), RAISING.values(), ids=RAISING.keys())
def test_a_reward_that_fails_is_told_with_file_line_prompt_and_response(written, tmp_path, line, told):
    source = f"""
        import sys

        def deeper(response):
            return response[
                5]

        def points(prompt, response):
            if response == [1, 1]:
                {line}
            return 0.0
        """
    message = fault_when_asked(written, source)
    line_number = 5 if "deeper" in line else 10
    assert message.startswith(f"{tmp_path / 'mine.py'}:{line_number}: the reward failed")
    assert "for prompt [1, 0] and response [1, 1]" in message
    assert message.endswith(told)


ANSWERS = {
    "nothing": ("None", "None, a NoneType"),
    "a string": ("'1.0'", "'1.0', a str"),
    "a list that is too short": ("[1.0]", "[1.0], 1 numbers"),
    "a list that is too long": ("[1.0, 0, 2]", "3 numbers"),
    "a list with something else in it": ("[None, '1']", "place 1 holds no number"),
    "a list of lists": ("[[1.0], [2.0]]", "place 0 holds no number"),
    "a list with a NaN": ("[1.0, math.nan]", "it must be finite"),
    "a string that is none": ("'five'", "'five', a str"),
    "a tuple that is too short": ("(1.0,)", "here 2; a number alone pays the whole response"),
    "a complex number": ("1j", "1j, a complex"),
    "not a number": ("float('nan')", "nan"),
    "infinity": ("-math.inf", "-inf"),
    "an int beyond every float": ("10**400", "finite"),
}


@pytest.mark.parametrize(("answer", "told"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_that_is_no_finite_number_is_told_with_file_line_prompt_and_response(written, tmp_path, answer, told):
    message = fault_when_asked(
        written,
        f"""
        import math

        def points(prompt, response):
            return {answer} if response == [1, 1] else 0.0
        """,
    )
    assert message.startswith(f"{tmp_path / 'mine.py'}:4: the reward returned")
    assert told in message
    assert "for prompt [1, 0] and response [1, 1]" in message


WRAPPED = {
    "a string": ("'1.0'", "'1.0', a str"),
    "a Decimal": ("decimal.Decimal('1.5')", "Decimal('1.5'), a Decimal"),
    "an array": ("numpy.ones(2)", "array([1., 1.]), a ndarray"),
    "an array without axes": ("numpy.array(1.5)", "array(1.5), a ndarray"),
    "a tensor": ("torch.tensor([1.5])", "tensor([1.5000]), a Tensor"),
    "a tensor without axes": ("torch.tensor(1.5)", "tensor(1.5000), a Tensor"),
}


@pytest.mark.parametrize(("answer", "told"), WRAPPED.values(), ids=WRAPPED.keys())
def test_an_answer_that_float_might_make_a_number_is_refused_with_that_hint(written, answer, told):
    module = answer.partition(".")[0] if answer[0].isalpha() else "math"
    message = fault_when_asked(written, f"import {module}\ndef points(prompt, response): return {answer}\n")
    assert f"returned {told}, for prompt" in message
    assert message.endswith("no number (wrap it in float()).")


ODD = {
    "whose class exits": ("__class__ = property(lambda self: sys.exit(5))", "SystemExit: 5"),
    "whose text exits": ("__repr__ = lambda self: sys.exit(6)", "SystemExit: 6"),
}


@pytest.mark.parametrize(("line", "told"), ODD.values(), ids=ODD.keys())
def test_an_answer_that_cannot_even_be_looked_at_is_a_fault_of_the_reward(written, line, told):
    source = f"import sys\nclass Odd:\n    {line}\ndef points(prompt, response): return Odd()\n"
    message = fault_when_asked(written, source)
    assert "the reward failed for prompt [1, 0] and response [0, 1]" in message
    assert message.endswith(told)


LOADING = {
    "a name it lacks": ("\ndef point(prompt, response): return 1.0\n", None, "'points'"),
    "a syntax error": ("\nlimit = 3\ndef points(prompt, response) return 1.0\n", 3, "SyntaxError"),
    "a file that raises": ("\nlimit = 3\nlimit / 0\n", 3, "ZeroDivisionError"),
    "a file that exits": ("import sys\nsys.exit(2)\n", 2, "SystemExit: 2"),
    "a module it lacks": ("\nimport no_such_module_at_all\n", 2, "ModuleNotFoundError"),
    "no function": ("points = 3.0\n", None, "'points' is float, not a function"),
}


@pytest.mark.parametrize(("source", "line", "told"), LOADING.values(), ids=LOADING.keys())
def test_a_file_that_does_not_load_is_told_with_its_line(written, tmp_path, source, line, told):
    message = fault_when_loaded(written, source)
    assert message.startswith(f"{tmp_path / 'mine.py'}:{line or ''}")
    assert told in message
    assert str(tmp_path) not in sys.path


def test_a_file_that_is_missing_is_told(tmp_path):
    with pytest.raises(RewardError, match=re.escape(str(tmp_path / "nowhere.py"))):
        own_reward(tmp_path / "nowhere.py", "points")


def test_a_file_of_another_kind_is_told(tmp_path):
    (tmp_path / "points.txt").write_text("def points(prompt, response): return 1.0")
    with pytest.raises(RewardError, match=re.escape("points.txt is not a Python file")):
        own_reward(tmp_path / "points.txt", "points")


def test_a_syntax_error_elsewhere_is_told_at_the_line_that_led_there(written, tmp_path):
    """The line of another file would send the user to the wrong place in their own."""
    (tmp_path / "broken_beside.py").write_text("\n" * 8 + "def (): pass\n")
    message = fault_when_loaded(written, "limit = 3\nimport broken_beside\ndef points(prompt, response): return 1.0\n")
    assert message.startswith(f"{tmp_path / 'mine.py'}:2: ")
    assert "broken_beside.py" in message


def test_a_syntax_error_in_evaluated_text_is_told_at_the_line_that_led_there(written, tmp_path):
    message = fault_when_asked(written, "limit = 3\n\ndef points(prompt, response):\n    return eval('1 +')\n")
    assert message.startswith(f"{tmp_path / 'mine.py'}:4: ")


def test_a_reward_that_raises_a_keyboard_interrupt_is_not_taken_for_the_users_ctrl_c(written):
    message = fault_when_asked(written, "def points(prompt, response): raise KeyboardInterrupt")
    assert message.endswith("the reward failed for prompt [1, 0] and response [0, 1]: KeyboardInterrupt")


def test_helpers_in_folders_without_init_are_each_rewards_own(tmp_path):
    rewards = []
    for name, value in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "lib" / "helper.py").write_text(f"V = {value}\n")
        source = "from lib import helper\n\ndef points(prompt, response):\n    return helper.V\n"
        (tmp_path / name / f"own_{name}.py").write_text(source)
        rewards.append(own_reward(tmp_path / name / f"own_{name}.py", "points"))
    prompts, responses = torch.tensor([[1]]), torch.tensor([[[1]]])
    assert [reward(prompts, responses).item() for reward in rewards] == [1.0, 2.0]


END, PAD = 7, 8


def test_of_a_task_with_ends_it_sees_no_padding_and_nothing_behind_the_end(tmp_path):
    (tmp_path / "mine.py").write_text("def points(prompt, response): return 1000 * sum(prompt) + sum(response)")
    reward = own_reward(tmp_path / "mine.py", "points", end=END, pad=PAD)
    prompts = torch.tensor([[PAD, 1, 2], [1, 2, 3]])
    responses = torch.tensor([[[3, END, END], [3, END, 5], [1, 2, 3]], [[END, END, END], [1, 1, END], [1, 7, 1]]])
    assert reward(prompts, responses).tolist() == [[3010, 3010, 3006], [6007, 6009, 6008]]


def test_a_list_pays_token_by_token_and_nothing_behind_the_end(tmp_path):
    (tmp_path / "mine.py").write_text("def points(prompt, response): return [token + 0.5 for token in response]")
    reward = own_reward(tmp_path / "mine.py", "points", end=END, pad=PAD)
    responses = torch.tensor([[[3, END, END], [1, 2, 3]], [[END, 3, 3], [1, 7, 1]]])
    expected = [[[3.5, 7.5, 0], [1.5, 2.5, 3.5]], [[7.5, 0, 0], [1.5, 7.5, 0]]]
    assert reward(PROMPTS, responses).tolist() == expected
    together = reward(PROMPTS, responses.expand(2, 5, 2, 2, 3))
    assert together.shape == (2, 5, 2, 2, 3)
    assert together[1, 4].tolist() == expected


def test_none_in_a_list_says_that_no_step_ends_there(written):
    reward = written("def points(prompt, response): return [None, 2] if response[1] else [None, None]")
    paid = reward(PROMPTS, torch.tensor([[[1, 1], [1, 0]]] * 2))
    assert paid[0].isnan().tolist() == [[True, False], [True, True]]
    assert paid[1, 0, 1] == 2
    assert total(paid, RESPONSES[:, :2]).tolist() == [[2, 0]] * 2


@pytest.mark.parametrize("answer", ["(1, True)", "[numpy.float32(1), fractions.Fraction(1)]"])
def test_a_list_may_hold_whatever_counts_as_a_number(written, answer):
    reward = written(f"import fractions, numpy\ndef points(prompt, response): return {answer}")
    assert reward(PROMPTS, RESPONSES).tolist() == [[[1, 1]] * 3] * 2


@pytest.mark.parametrize(
    ("usual", "once", "told"),
    [
        ("[0.0, 1.0]", "1.0", "returned a number for prompt [1, 0] and response [1, 1], and a list for prompt [1, 0]"),
        ("1.0", "[0.0, 1.0]", "returned a list for prompt [1, 0] and response [1, 1], and a number for prompt [1, 0]"),
    ],
)
def test_numbers_here_and_lists_there_are_refused(written, tmp_path, usual, once, told):
    source = f"def points(prompt, response): return {once} if prompt + response == [1, 0, 1, 1] else {usual}"
    message = fault_when_asked(written, source)
    assert message.startswith(f"{tmp_path / 'mine.py'}: points {told} and response [0, 1]: ")
    assert "every response with a number, or the tokens of every response with a list" in message


def test_numbers_first_and_lists_later_are_refused_too(written):
    reward = written("def points(prompt, response): return 1.0 if response[0] < 5 else [1.0, 1.0]")
    reward(PROMPTS, RESPONSES)
    with pytest.raises(RewardError, match="returned a list for prompt"):
        reward(PROMPTS, torch.full_like(RESPONSES, 6))
