"""YAML as version 1.2 reads it: numbers, text, lines, and nothing that surprises."""

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgrl_cli.config import ConfigError, yaml12
from pgrl_cli.secrecy import is_secret

SCALARS = {
    "1e-3": 1e-3,
    "1E5": 1e5,
    "1.": 1.0,
    ".5": 0.5,
    "-.5": -0.5,
    "+1": 1,
    "-0": 0,
    "0x10": 16,
    "0xfF": 255,
    "0o17": 15,
    "6.02e+23": 6.02e23,
    ".inf": math.inf,
    "-.INF": -math.inf,
    "null": None,
    "Null": None,
    "~": None,
    "": None,
    "true": True,
    "False": False,
    "no": "no",
    "yes": "yes",
    "On": "On",
    "off": "off",
    "y": "y",
    "n": "n",
    "tRUE": "tRUE",
    "None": "None",
    "nULL": "nULL",
    "12:30": "12:30",
    "1:2:3": "1:2:3",
    "017": "017",
    "-08": "-08",
    "00": "00",
    "0b1": "0b1",
    "-0x10": "-0x10",
    "1_000": "1_000",
    "1,000": "1,000",
    "1e": "1e",
    "e3": "e3",
    ".": ".",
    "inf": "inf",
    "nan": "nan",
    "2026-11-30": "2026-11-30",
    "2026-11-30T09:15:00Z": "2026-11-30T09:15:00Z",
    "0.1.2": "0.1.2",
    "=": "=",
}

AWKWARD = [
    *SCALARS,
    *("#", " #x", "a #b", ":", "a: b", "- a", "? a", "---", "...", "%a", "@", "`", "|", ">", "!a", "&a", "*a", "<<"),
    *(" x", "x ", "\n", "\n\n a", "a\n", "a\nb", "\t", "\ta", "\r\n", "\x00", "\x1b", "\x7f"),
    *("\u2028", "\ufeff", "é→🎉", "'", '"', "\\", "\\n", "[", "{", "]", "}", ",", "x" * 3000, "word " * 1500),
]
text = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(AWKWARD)
keys = text.filter(lambda key: key != "<<" and not is_secret(key))  # those are refused
scalars = text | st.floats(allow_nan=False) | st.integers(-(10**30), 10**30) | st.none() | st.booleans()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3), max_leaves=12
)


def same(one: Any, other: Any) -> bool:
    """Equal in value, kind and order; -0.0 is not 0.0, and True is not 1."""
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return isinstance(other, float) and one == other and math.copysign(1, one) == math.copysign(1, other)
    return type(one) is type(other) and one == other


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        yaml12.read(text, "f")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("word", SCALARS)
def test_a_plain_scalar_means_what_yaml_1_2_says(word: str) -> None:
    assert same(yaml12.scalar(word), SCALARS[word])
    assert same(yaml12.read(f"key: {word}\n", "f"), {"key": SCALARS[word]})


def test_not_a_number_is_a_number() -> None:
    assert math.isnan(yaml12.read("a: .nan", "f")["a"])


@pytest.mark.parametrize("style", ["'{}'", '"{}"', "|-\n  {}", ">-\n  {}"])
@pytest.mark.parametrize("word", ["1e-3", "null", "true", "017", "5"])
def test_what_stands_in_quotes_or_in_a_block_is_text(style: str, word: str) -> None:
    assert yaml12.read(f"key: {style.format(word)}\n", "f") == {"key": word}


def test_a_map_remembers_the_line_of_each_key_through_comments_blocks_and_windows_line_ends() -> None:
    read = yaml12.read("# a comment\r\na: 1\r\n\r\nb: [1,\r\n  2]\r\nc: |\r\n  x\r\n  y\r\nd:\r\n  e: 1\r\n", "f")
    assert read.lines == {"a": 2, "b": 4, "c": 6, "d": 9}
    assert read["d"].lines == {"e": 10}


def test_an_alias_stands_for_what_its_anchor_holds() -> None:
    assert yaml12.read("a: &x [1, 2]\nb: *x\n", "f") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "told"),
    {
        "epochs: 1\nseed: 2\nepochs: 3\n": "f:3: the key 'epochs' stands here and on line 1; keep one",
        "a:\n  b: 1\n  b: 1\n": "f:3: the key 'b' stands here and on line 2; keep one",
        "a: 1\n'a': 2\n": "f:2: the key 'a' stands here and on line 1; keep one",
        "a: 1\nb: !!int '5'\n": "f:2: the tag 'tag:yaml.org,2002:int' is not read here",
        "a: !!python/object/apply:os.system [ls]\n": "f:1: the tag 'tag:yaml.org,2002:python/object/apply:os.system'",
        "a: !!python/object:os.system {}\n": "f:1: the tag 'tag:yaml.org,2002:python/object:os.system' is not read",
        "!mine {a: 1}\n": "f:1: the tag '!mine' is not read here",
        "a: 1\n<<: {epochs: 3}\n": "f:2: merge keys (<<) are not YAML 1.2; use 'base:'",
        "a: *a\n": "f:1: the alias *a stands for nothing that is complete before it",
        "a: &a [*a]\n": "f:1: the alias *a stands for nothing that is complete before it",
        "a: &a\n  b: *a\n": "f:2: the alias *a stands for nothing that is complete before it",
        "a: 1\n---\nb: 1\n": "f:2: a second document begins; there may be one",
        "a:\n\tb: 1\n": "f:2: is not valid YAML: ",
        "a: 1\nb: [1\n": "f:3: is not valid YAML: while parsing a flow sequence",
        "a: 1\n b: 1\n": "f:2: is not valid YAML: ",
        "a: @b\n": "f:1: is not valid YAML: ",
        "a: '\n": "f:2: is not valid YAML: while scanning a quoted scalar",
        "a: \x00\n": "f: is not valid YAML: unacceptable character #x0000",
        "5: 1\n": "f:1: the key 5 is not a word; put it in quotes",
        "a: 1\ntrue: 1\n": "f:2: the key True is not a word",
        "? [a]\n: 1\n": "f:1: the key ['a'] is not a word",
        "%YAML 3.0\n---\na: 1\n": "f:1: is not valid YAML: ",
        "a: \ud800\n": "f: is not valid YAML: ",
    }.items(),
)
def test_what_could_surprise_is_refused_with_its_line(text: str, told: str) -> None:
    (problem,) = refused(text)
    assert problem.startswith(told)


@pytest.mark.parametrize(("text", "nothing"), [("", None), ("# only a comment\n", None), ("---\n", None), ("{}", {})])
def test_an_empty_text_is_nothing_and_an_empty_map_is_a_map(text: str, nothing: Any) -> None:
    assert same(yaml12.read(text, "f"), nothing)


def test_lists_and_maps_inside_each_other_end_at_a_depth() -> None:
    deepest = yaml12.DEEPEST
    assert yaml12.read("[" * deepest + "]" * deepest, "f") is not None
    (problem,) = refused("[" * (deepest + 2) + "]" * (deepest + 2))
    assert problem == f"f:1: more than {deepest} lists or maps inside each other"


def test_a_text_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert yaml12.read("#" * yaml12.LONGEST, "f") is None
    (problem,) = refused("#" * (yaml12.LONGEST + 1))
    assert problem == f"f: is longer than {yaml12.LONGEST} characters: too long for a config"


def test_aliases_count_for_all_they_stand_for() -> None:
    thousand = f"a: &a [{'x,' * 1000}]\n"
    assert len(yaml12.read(thousand + f"b: [{'*a,' * 190}]\n", "f")["b"]) == 190
    (problem,) = refused(thousand + f"b: [{'*a,' * 250}]\n")
    assert problem.startswith(f"f:2: more than {yaml12.MOST_NODES} values, aliases expanded")


@settings(max_examples=400, deadline=None, derandomize=True)
@example({"a": -0.0, "b": 1e300, "c": math.inf, "d": 5e-324, "e": [[1, -2], [[]]], "f": {}})
@example({word: word for word in AWKWARD if word != "<<"})
@example({"list": AWKWARD})
@given(st.dictionaries(keys, values, max_size=4))
def test_what_is_written_reads_back_equal(mapping: dict[str, Any]) -> None:
    assert same(yaml12.read(yaml12.write(mapping), "f"), mapping)


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\u2029", "\ufeff", "\x0b", "\x1c"])
def test_a_sign_that_some_take_for_the_end_of_a_line_reads_back_equal(sign: str) -> None:
    mapping = {"alone": sign, "within": f"a{sign}b", "listed": [sign, f" {sign}"], f"key{sign}": 1}
    assert same(yaml12.read(yaml12.write(mapping), "f"), mapping)


def test_a_list_is_written_on_one_line() -> None:
    assert yaml12.write({"prompts": [[1, 0, 2], [3, 2, 4]], "seed": 5}) == "prompts: [[1, 0, 2], [3, 2, 4]]\nseed: 5\n"


SIGNS = ["a", "b", ": ", "\n", "- ", "  ", "? ", "[", "]", "{", "}", ",", "&x ", "*x", "!!str ", "!t ", "|", "> ", "'"]
SIGNS += [
    '"',
    "#",
    "%YAML 1.2\n",
    "---\n",
    "...\n",
    "\t",
    "1",
    "\\",
    "\x00",
    "<<",
    "\r",
    "~",
    ".5",
    "e3",
    "\ufeff",
    "@",
]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.text() | st.lists(st.sampled_from(SIGNS), max_size=25).map("".join))
def test_any_text_is_read_or_refused_with_one_problem(text: str) -> None:
    read, problems = None, []
    try:
        read = yaml12.read(text, "f")
    except ConfigError as error:
        problems = [(problem.file, bool(problem.message)) for problem in error.problems]
    assert problems in ([], [("f", True)])
    assert read is None or isinstance(read, dict | list | str | bool | int | float)
