"""A user's own reward: a plain Python function of two lists, in a file named by the config.

    def points(prompt: list[int], response: list[int]) -> float: ...

It is called once for each distinct (prompt, response) and remembered, so it must not depend on anything else.
Its answer may be an int, a float, a bool (True counts 1) or another real number such as numpy's.
"""

import io
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from importlib.util import module_from_spec, spec_from_file_location
from numbers import Real
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, TextIO

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from pgrl_cli.config.problems import brief
from pgrl_cli.registry import Function

Points = Callable[[list[int], list[int]], Any]
"""(prompt, response) -> a number."""
LARGEST = 1e30
"""Beyond it sums of rewards leave float32."""


class RewardError(Exception):
    """A user's reward did not give a number; the message names file, line, prompt and response."""


def own_reward(path: Path, name: str) -> Function:
    """The function `name` of a Python file as a reward of tensors.

    The result maps prompts [prompt token], responses [... prompt response token] to [... prompt response].
    Raises RewardError where the file or the function fails, or the answer is no finite number.
    """
    beside = _Beside(path.parent)
    with beside:
        points = _load(path, name)
    known: dict[tuple[int, ...], float] = {}

    def reward(prompts: Tensor, responses: Tensor) -> Tensor:
        length = prompts.shape[-1]
        asked = prompts[:, None, :].expand(*responses.shape[:-1], length)
        pairs = rearrange(torch.cat([asked, responses], dim=-1), "... token -> (...) token")
        rows, where = pairs.cpu().unique(dim=0, return_inverse=True)
        cases = list(map(tuple, rows.tolist()))
        if unknown := [case for case in cases if case not in known]:
            with beside:
                for case in unknown:
                    known[case] = _ask(points, path, list(case[:length]), list(case[length:]))
        answers = torch.tensor([known[case] for case in cases], dtype=torch.float64)
        return answers[where].view(responses.shape[:-1]).to(responses.device)

    reward.__name__ = name
    return reward


class _Voice(io.TextIOBase):
    """Where the user's code prints to: standard error, which it cannot close."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self.stream.write(text)
        return len(text)


class _Beside:
    """While it is entered, the user's code may import what lies in its folder; each reward has its own modules.

    What the code prints goes to standard error, and the working folder and the import path are put back.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.modules: dict[str, ModuleType] = {}

    def __enter__(self) -> None:
        self.before, self.path, self.working = set(sys.modules), list(sys.path), Path.cwd()
        self.printing = ExitStack()
        self.printing.enter_context(redirect_stdout(_Voice(sys.stderr)))
        self.printing.enter_context(redirect_stderr(_Voice(sys.stderr)))
        sys.path.insert(0, str(self.folder))
        sys.modules.update(self.modules)

    def __exit__(self, *_: object) -> None:
        self.printing.close()
        sys.path[:] = self.path
        os.chdir(self.working)
        for name in set(sys.modules) - self.before:
            if self._owns(sys.modules[name]):
                self.modules[name] = sys.modules.pop(name)

    def _owns(self, module: ModuleType) -> bool:
        """Whether a module lies beside the reward, and not in an environment that happens to lie there too."""
        file = getattr(module, "__file__", None)
        places = [file] if file is not None else list(getattr(module, "__path__", []))  # a folder without __init__.py
        paths = [Path(place) for place in places]
        return any(path.is_relative_to(self.folder) and not path.is_relative_to(sys.prefix) for path in paths)


def _load(path: Path, name: str) -> Points:
    spec = spec_from_file_location(f"pgrl_own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RewardError(f"{path} is not a Python file.")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
        found = getattr(module, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise RewardError(f"{path}:{_line_in(path, error)}: loading {name!r} failed: {_told(error)}") from error
    if not callable(found):
        raise RewardError(f"{path}: {name!r} is {type(found).__name__}, not a function of (prompt, response).")
    return found


def _ask(points: Points, path: Path, prompt: list[int], response: list[int]) -> float:
    case = f"for prompt {prompt} and response {response}"
    try:
        answer = points(list(prompt), list(response))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        line = _line_in(path, error)
        raise RewardError(f"{path}:{line}: the reward failed {case}: {_told(error)}") from error
    returned = f"{path}:{getattr(getattr(points, '__code__', None), 'co_firstlineno', 1)}: the reward returned"
    number = _number(answer)
    if number is None:
        kind = type(answer).__name__
        hint = " (wrap it in float())" if hasattr(answer, "__float__") or isinstance(answer, str) else ""
        raise RewardError(f"{returned} {brief(answer)}, a {kind}, {case}: no number{hint}.")
    if not abs(number) <= LARGEST:
        raise RewardError(f"{returned} {brief(answer)} {case}: it must be finite, and below 1e30.")
    return number


def _number(answer: Any) -> float | None:
    """An answer as a float; inf where it is too large for one, None where it is no real number."""
    if not isinstance(answer, Real | np.bool_):
        return None
    try:
        return float(answer)
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
