"""A reward of one's own, file.py:function, is looked at before the run and never run by looking."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pgrl_cli.config.own_reward_words import OwnReward, own_reward_word
from pgrl_cli.resolution import Resolved

KNOWN = ["sort_exact_reward", "sort_distance_reward"]

SOURCE = '''"""Rewards of mine."""
raise SystemExit("looking at a file must not run it")

def points(prompt, response):
    return 1.0

def with_default(prompt, response, weight=1.0, *, scale=2.0): ...

def with_any(*arguments): ...

def with_one(prompt): ...

def with_three(prompt, response, truth): ...

def with_a_keyword(prompt, response, *, scale): ...

async def later(prompt, response): ...

by_name = lambda prompt, response: 1
from math import dist as imported
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(SOURCE)
    return tmp_path.resolve()


@pytest.mark.parametrize("name", ["points", "with_default", "with_any", "by_name", "imported"])
def test_what_may_be_called_with_prompt_and_response_is_taken(folder: Path, name: str) -> None:
    assert own_reward_word(f"mine.py:{name}", folder, KNOWN) == OwnReward(f"mine.py:{name}", folder / "mine.py")


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("mine.py:point", "mine.py has no function 'point'; it has points, with_default"),
        ("mine.py:point", "Did you mean 'points'?"),
        ("mine.py:with_one", "mine.py:11: with_one must take two arguments, (prompt, response)"),
        ("mine.py:with_three", "mine.py:13: with_three must take two arguments, (prompt, response)"),
        ("mine.py:with_a_keyword", "mine.py:15: with_a_keyword must take two arguments"),
        ("mine.py:later", "mine.py:17: later is async; a reward is a plain function"),
        (
            "min.py:points",
            "there is no file 'min.py' in {folder}. Python files there: mine.py. Did you mean 'mine.py'?",
        ),
        ("nowhere/mine.py:points", "there is no file 'nowhere/mine.py' in {folder}."),
        ("mine:points", "a reward of your own is written my_rewards.py:points"),
        ("mine.py:", "a reward of your own is written my_rewards.py:points"),
        (":points", "a reward of your own is written my_rewards.py:points"),
        ("mine.py:a.b", "a reward of your own is written my_rewards.py:points"),
        ("mine.py", "possible: sort_exact_reward, sort_distance_reward, or a function of your own"),
        ("sort_exact_rewad", "Did you mean 'sort_exact_reward'?"),
    ],
)
def test_what_cannot_be_a_reward_is_told_with_the_likely_fix(folder: Path, word: str, told: str) -> None:
    found = own_reward_word(word, folder, KNOWN)
    assert isinstance(found, str)
    assert told.format(folder=folder) in found


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (b"x = 1\ndef points(:\n", "mine.py:2 is not valid Python: "),
        (b"\xff\xfe\n", "mine.py:1 is not valid Python: "),
        (b"x = 1\x00\n", "is not valid Python: "),
        (b"x = " + b"(" * 1000 + b"\n", "mine.py:1 is not valid Python: too many nested parentheses"),
        (b"x = " + b"-" * 100_000 + b"1\n", "is not valid Python: "),
        (b"x = " + b"+".join([b"1"] * 30_000) + b"\n", "is not valid Python: "),
    ],
    ids=["syntax", "encoding", "NUL", "parentheses", "a deep sign", "a deep sum"],
)
def test_a_file_that_is_no_python_is_told_with_its_line(folder: Path, source: bytes, told: str) -> None:
    (folder / "mine.py").write_bytes(source)
    found = own_reward_word("mine.py:points", folder, KNOWN)
    assert isinstance(found, str)
    assert told in found


def test_a_function_under_a_condition_is_found_too(folder: Path) -> None:
    (folder / "mine.py").write_text("try:\n    import numpy\nfinally:\n    def points(prompt, response): ...\n")
    assert isinstance(own_reward_word("mine.py:points", folder, KNOWN), OwnReward)


def test_a_path_may_lead_elsewhere_and_the_word_keeps_the_files_name_alone(folder: Path) -> None:
    (folder / "sub").mkdir()
    found = own_reward_word("../mine.py:points", folder / "sub", KNOWN)
    assert found == OwnReward("mine.py:points", folder / "mine.py")
    assert own_reward_word(f"{folder}/mine.py:points", Path("/"), KNOWN) == found


def test_two_files_of_one_name_are_refused_as_the_run_folder_keeps_a_copy_of_each(
    folder: Path, problems: Callable[..., list[str]]
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "mine.py").write_text(SOURCE)
    (problem,) = problems("reward_fn:\n  mine.py:points: 1\n  sub/mine.py:points: 1\n")
    assert problem.startswith("mine.yaml:3: reward_fn: ")
    assert "have the same name" in problem


def test_one_reward_spelled_in_two_ways_does_not_lose_a_weight(
    folder: Path, resolved: Callable[..., Resolved], problems: Callable[..., list[str]]
) -> None:
    assert resolved("reward_fn: {mine.py:points: 1}\n").config.weights() == {"mine.py:points": 1.0}
    (problem,) = problems("reward_fn:\n  mine.py:points: 1\n  ./mine.py:points: 2\n")
    assert problem.startswith("mine.yaml:3: reward_fn: ")


def test_two_functions_of_one_file_may_both_reward(folder: Path, resolved: Callable[..., Resolved]) -> None:
    config = resolved("reward_fn: {mine.py:points: 1, mine.py:with_any: -0.5, sort_exact_reward: 2}\n").config
    assert config.weights() == {"mine.py:points": 1.0, "mine.py:with_any": -0.5, "sort_exact_reward": 2.0}
    assert set(config.sources.values()) == {folder / "mine.py"}


def test_the_time_of_an_answer_turns_nothing_where_no_reward_is_of_the_users_own(
    tmp_path: Path, resolved: Callable[..., Resolved], problems: Callable[..., list[str]]
) -> None:
    (tmp_path / "mine.yaml").write_text("")
    (tmp_path / "own.py").write_text("def points(prompt, response): return 1.0\n")
    assert problems("seed: 1\nreward_timeout: 5\n") == [
        "mine.yaml:2: reward_timeout turns nothing here: reward_fn names no function of your own"
    ]
    assert resolved("reward_fn: own.py:points\nreward_timeout: 5\n").config.reward_timeout == 5
    mixed = "reward_fn: {sort_exact_reward: 1, own.py:points: 2}\nreward_timeout: 0.5\n"
    assert resolved(mixed).config.reward_timeout == 0.5
    (note,) = resolved(mixed, "reward_fn=sort_exact_reward").notes
    assert note.startswith("reward_timeout (from mine.yaml) turns nothing here and was dropped")
    assert "expected a number above 0" in problems("reward_fn: own.py:points\nreward_timeout: 0\n")[0]


def test_a_delta_mode_that_needs_every_reward_there_is_refuses_one_of_ones_own(
    problems: Callable[..., list[str]], resolved: Callable[..., Resolved], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("def points(prompt, response): return 1.0\n")
    mixed = "reward_fn: {sort_exact_reward: 1, own.py:points: 2}\ndelta_mode: true_value_baseline\n"
    (problem,) = problems(mixed)
    assert problem == (
        "mine.yaml:2: delta_mode: came 'true_value_baseline', which needs the reward of every response there is; "
        "own.py:points is a function of your own, and is asked for sampled responses alone; optimal_baseline and "
        "leave_one_out_rewards do without"
    )
    assert resolved(mixed, "delta_mode=optimal_baseline").config.delta_mode == "optimal_baseline"
    assert resolved(mixed, "reward_fn=sort_exact_reward").config.delta_mode == "true_value_baseline"
