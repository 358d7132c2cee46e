"""A user's function of (prompt, response): loaded, called, its answer judged, its faults told.

Runs in the process of `reward_worker` alone. Every way of failing becomes a RewardError, so that nothing the user's
code raises (SystemExit and KeyboardInterrupt too) is taken for something else. Imports no torch.

What an answer may be: an int, a float, a bool (True counts 1), a number of numpy's, a Fraction, or any other
`numbers.Real`; it must be finite and below 1e30. A list of such numbers, one for each token of the response, pays token
by token; in it None says that no step of the response ends with a token. Refused, with the hint to wrap it in float()
where that would do: a Decimal, a tensor or an array (also one without axes), a string. Refused: None alone, a complex
number, a list of another length.
"""

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from numbers import Real
from pathlib import Path
from traceback import extract_tb, format_exception
from typing import Any

from pgrl_cli.config.problems import brief

Points = Callable[[list[int], list[int]], Any]
"""(prompt, response) -> a number, or a list of numbers."""
Answer = float | list[float | None]
"""What a response has earned, or what each of its tokens has: None where no step ends."""
LARGEST = 1e30
"""Beyond it sums of rewards leave float32."""


class RewardError(Exception):
    """A user's reward did not give what it should; the message names file, line, prompt and response."""


def load(path: Path, name: str) -> Points:
    """The function of a Python file. Raises RewardError where the file or the name fails."""
    spec = spec_from_file_location(f"pgrl_own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RewardError(f"{path} is not a Python file.")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
        found = getattr(module, name)
    except BaseException as error:
        raise RewardError(f"{path}:{_line_in(path, error)}: loading {name!r} failed: {_told(error)}") from error
    if not callable(found):
        raise RewardError(f"{path}: {name!r} is {type(found).__name__}, not a function of (prompt, response).")
    return found


def answer(points: Points, path: Path, prompt: list[int], response: list[int]) -> Answer:
    """What the function says of a case. Raises RewardError where it fails, or says no finite number or list of them."""
    case = told_case(prompt, response)
    try:  # what the user's code returns may fail by itself: a list, or a number, of its own
        answered = points(list(prompt), list(response))
        listed = list(answered) if isinstance(answered, list | tuple) else None
        numbers, told = [_number(each) for each in ([answered] if listed is None else listed)], brief(answered)
        wrap = hasattr(answered, "__float__") or isinstance(answered, str)
    except BaseException as error:
        line = _line_in(path, error)
        raise RewardError(f"{path}:{line}: the reward failed {case}: {_told(error)}") from error
    kind = type(answered).__name__ if listed is None else None
    judged = numbers  # in a list None is no fault
    if listed is not None:
        judged = [0.0 if each is None else number for each, number in zip(listed, numbers, strict=True)]
    if wrong := _wrong_with(judged, kind, " (wrap it in float())" if wrap else "", len(response), case):
        line = getattr(getattr(points, "__code__", None), "co_firstlineno", 1)
        raise RewardError(f"{path}:{line}: the reward returned {told}{wrong}")
    alone = numbers[0] if listed is None else None
    return numbers if alone is None else alone


def _wrong_with(numbers: list[float | None], kind: str | None, hint: str, tokens: int, case: str) -> str | None:
    """What is wrong with an answer, as a message goes on; `kind` is that of a single one, None of a list."""
    if kind is None and len(numbers) != tokens:
        one_each = f"a list holds one number for each token of the response, here {tokens}"
        return f", {len(numbers)} numbers, {case}: {one_each}; a number alone pays the whole response."
    if None in numbers:
        what = f"place {numbers.index(None)} holds no number" if kind is None else "no number"
        return f", {'' if kind is None else f'a {kind}, '}{case}: {what}{hint}."
    if any(number is not None and not abs(number) <= LARGEST for number in numbers):
        return f" {case}: it must be finite, and below 1e30."
    return None


def told_case(prompt: list[int], response: list[int]) -> str:
    """Which case it was, as messages say it."""
    return f"for prompt {prompt} and response {response}"


def traceback_of(error: RewardError) -> str:
    """The traceback of what the user's code raised; empty where it raised nothing."""
    try:
        return "".join(format_exception(error.__cause__)) if error.__cause__ else ""
    except BaseException:  # an exception of the user's may fail to be told
        return ""


def _number(answered: Any) -> float | None:
    """An answer as a float; inf where it is too large for one, None where it is no real number."""
    numpy_bool = getattr(sys.modules.get("numpy"), "bool_", bool)  # not imported: that takes longer than to start
    if not isinstance(answered, Real | numpy_bool):
        return None
    try:
        return float(answered)
    except OverflowError:
        return float("inf")
    except Exception:  # a number of the user's own may fail to be one
        return None


def _line_in(path: Path, error: BaseException) -> int:
    """The deepest line of the user's file that led to an error."""
    if isinstance(error, SyntaxError) and error.filename == str(path) and error.lineno is not None:
        return error.lineno
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return next((line for line in reversed(lines) if line is not None), 1)


def _told(error: BaseException) -> str:
    try:
        message = str(error)
    except BaseException:  # an exception of the user's may fail to say what it is
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
