"""A user's own reward: a plain Python function of two lists, in a file named by the config.

    def points(prompt: list[int], response: list[int]) -> float: ...

It is called once for each distinct (prompt, response) and remembered, so it must not depend on anything else.
Its answer may be an int, a float, a bool (True counts 1) or another real number such as numpy's.
"""

import math
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from numbers import Real
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from pgrl_cli.registry import Function

Points = Callable[[list[int], list[int]], Any]
"""(prompt, response) -> a number."""
LARGEST = torch.finfo(torch.float32).max


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


class _Beside:
    """While it is entered, the user's code may import what lies in its folder; each reward has its own modules."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.modules: dict[str, ModuleType] = {}

    def __enter__(self) -> None:
        sys.path.insert(0, str(self.folder))
        self.before = set(sys.modules)
        sys.modules.update(self.modules)

    def __exit__(self, *_: object) -> None:
        sys.path.remove(str(self.folder))
        for name in set(sys.modules) - self.before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).is_relative_to(self.folder):
                self.modules[name] = sys.modules.pop(name)


def _load(path: Path, name: str) -> Points:
    spec = spec_from_file_location(f"pgrl_own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RewardError(f"{path} is not a Python file.")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
        found = getattr(module, name)
    except (Exception, SystemExit) as error:
        raise RewardError(f"{path}:{_line_in(path, error)}: loading {name!r} failed: {_told(error)}") from error
    if not callable(found):
        raise RewardError(f"{path}: {name!r} is {type(found).__name__}, not a function of (prompt, response).")
    return found


def _ask(points: Points, path: Path, prompt: list[int], response: list[int]) -> float:
    case = f"for prompt {prompt} and response {response}"
    try:
        answer = points(list(prompt), list(response))
    except (Exception, SystemExit) as error:
        line = _line_in(path, error)
        raise RewardError(f"{path}:{line}: the reward failed {case}: {_told(error)}") from error
    line = getattr(getattr(points, "__code__", None), "co_firstlineno", 1)
    if not isinstance(answer, Real | np.bool_):
        kind = type(answer).__name__
        hint = "" if answer is None else " (wrap it in float())"
        raise RewardError(f"{path}:{line}: the reward returned {answer!r:.80}, a {kind}, {case}: no number{hint}.")
    try:
        number = float(answer)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST:
        raise RewardError(f"{path}:{line}: the reward returned {answer!r:.80} {case}: it must be finite.")
    return number


def _line_in(path: Path, error: BaseException) -> int:
    """The deepest line of the user's file that led to an error."""
    if isinstance(error, SyntaxError) and error.filename == str(path) and error.lineno is not None:
        return error.lineno
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return next((line for line in reversed(lines) if line is not None), 1)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
