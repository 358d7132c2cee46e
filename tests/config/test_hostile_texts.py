"""Texts that are made to hurt are refused, or read correctly, in bounded time and with one helpful message."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pgrl_cli.resolution import Resolved

Resolve = Callable[..., Resolved]
Problems = Callable[..., list[str]]


@contextmanager
def within_a_second() -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < 1


def bomb() -> str:
    """Nine aliases of nine aliases of …: a billion values in a few lines."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    return "\n".join(lines) + "\n"


def chain(links: int) -> str:
    """Lists that hold the list before them: deep by aliases, though no line is."""
    lines = ["prompts:", f"  - &a0 {'[' * 17}{']' * 17}"]
    lines += [f"  - &a{link} {'[' * 17}*a{link - 1}{']' * 17}" for link in range(1, links)]
    return "\n".join(lines) + "\n"


HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "a bomb of aliases": (bomb(), "values, aliases expanded: too many for a config"),
    "a bomb of aliases in a map": (bomb().replace("[", "{k: ").replace(",", ", ").replace("]", "}"), "mine.yaml:"),
    "a hundred thousand brackets": ("a: " + "[" * 100_000, "mine.yaml:1: "),
    "a hundred thousand closed brackets": ("a: " + "[" * 100_000 + "]" * 100_000, "mine.yaml:1: "),
    "a hundred thousand braces": ("{" * 100_000, "mine.yaml:1: "),
    "a hundred thousand dashes": ("- " * 100_000, "mine.yaml:1: more than 20 lists or maps inside each other"),
    "a hundred thousand questions": ("? " * 100_000, "mine.yaml:1: more than 20 lists or maps inside each other"),
    "a hundred thousand levels of indentation": (
        "".join(" " * (n % 1000) + "a:\n" for n in range(2000)),
        "mine.yaml:",
    ),
    "a list deep by aliases": (chain(130), "mine.yaml:"),
    "an alias of itself": ("prompts: &a [*a]\n", "mine.yaml:1: the alias *a stands for nothing that is complete"),
    "an alias of nothing": ("prompts: *a\n", "mine.yaml:1: the alias *a stands for nothing"),
    "a merge key": ("<<: {epochs: 3}\n", "mine.yaml:1: merge keys (<<) are not YAML 1.2; use 'base:'"),
    "a Python object": ("a: !!python/object/apply:os.system ['exit 1']\n", "mine.yaml:1: the tag "),
    "a tab": ("reward_fn:\n\tsort_exact_reward: 1\n", "mine.yaml:2: is not valid YAML: "),
    "UTF-16": ("epochs: 5\n".encode("utf-16"), "mine.yaml: is not text in UTF-8"),
    "UTF-16 the other way": (b"\xfe\xff" + "epochs: 5\n".encode("utf-16-be"), "mine.yaml: is not text in UTF-8"),
    "UTF-16 without a mark": (
        "epochs: 5\n".encode("utf-16-le"),
        "mine.yaml: is not valid YAML: unacceptable character",
    ),
    "Latin-1": ("name: é\n".encode("latin-1"), "mine.yaml: is not text in UTF-8"),
    "a NUL": (b"epochs: 5\x00\n", "mine.yaml: is not valid YAML: unacceptable character #x0000"),
    "many NULs": (b"\x00" * 100_000, "mine.yaml: is not valid YAML: unacceptable character #x0000"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100, "mine.yaml: is not text in UTF-8"),
    "five megabytes of text": (b"x" * 5_000_000, "mine.yaml: is longer than 1048576 characters: too long"),
    "five megabytes of prompts": (b"prompts: [" + b"[1], " * 1_000_000 + b"]", "mine.yaml: is longer than 1048576"),
    "two megabytes of comments": (b"#\n" * 1_000_000, "mine.yaml: is longer than 1048576 characters"),
    "a megabyte of comments": (b"#\n" * 500_000, "mine.yaml: is empty; a config is a map"),
    "a megabyte of colons": (b":\n" * 500_000, "mine.yaml:1: is not valid YAML: "),
    "a megabyte in an open quote": (b"a: '" + b"a\n" * 500_000, "mine.yaml:500001: is not valid YAML: "),
    "a megabyte of one key": (b"a: 1\n" * 200_000, "mine.yaml:100000: more than 200000 values"),
    "half a megabyte of prompts that are words": (
        b"prompts: [" + b"[a]," * 90_000 + b"]",
        "mine.yaml:1: prompts: came [['a'], ['a'], ",
    ),
    "a hundred thousand tokens outside the vocabulary": (
        f"prompts: [{list(range(100_000))}]\nvocab_size: 5\n",
        "mine.yaml:1: prompts: ",
    ),
    "a megabyte of prompts": (b"prompts: [" + b"[1]," * 240_000 + b"]", "mine.yaml:1: more than 200000 values"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_text_is_refused_within_a_second_and_with_one_message(problems: Problems, kind: str) -> None:
    text, told = HOSTILE[kind]
    with within_a_second():
        (problem,) = problems(text)
    assert told in problem
    assert problem.startswith("mine.yaml:")
    assert len(problem) < 1000


@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, "{" * 100_000, "- " * 100_000, "&a [*a]", "!!python/object:os.system {}", "x" * 2_000_000, "\0"],
    ids=["brackets", "braces", "dashes", "recursion", "tag", "length", "NUL"],
)
def test_a_hostile_override_is_refused_within_a_second_and_with_one_message(problems: Problems, value: str) -> None:
    with within_a_second():
        (problem,) = problems("seed: 1\n", f"prompts={value}")
    assert problem.startswith("command line: prompts=")
    assert len(problem) < 1000


def test_a_flood_of_misspelt_keys_is_refused_within_a_second(problems: Problems) -> None:
    with within_a_second():
        told = problems("".join(f"learnin_rat{number}: 1\n" for number in range(15_000)))
    assert "unknown key 'learnin_rat0'. Did you mean 'learning_rate'?" in told[0]


def test_the_mark_of_windows_editors_and_their_line_ends_are_read(resolved: Resolve, problems: Problems) -> None:
    text = b"\xef\xbb\xbf# made elsewhere\r\nepochs: 5\r\nname: caf\xc3\xa9\r\n"
    config = resolved(text).config
    assert (config.epochs, config.name) == (5, "café")
    assert problems(text + b"lr: 1\r\n") == ["mine.yaml:4: unknown key 'lr': here it is spelled 'learning_rate'"]


def test_a_tab_may_part_a_key_from_its_value(resolved: Resolve) -> None:
    assert resolved("epochs:\t5\t# five\n").config.epochs == 5


def test_a_page_of_prompts_is_read_within_a_second(resolved: Resolve) -> None:
    with within_a_second():
        config = resolved("prompts: [" + "[1, 2, 3], " * 20_000 + "]\n").config
    assert len(config.knobs["prompts"]) == 20_000
