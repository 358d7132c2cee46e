"""The word `file.py:function`: a user's own reward, found and looked at without running it."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgrl_cli.config.files import content, is_file, is_folder
from pgrl_cli.config.problems import listed, nearest, short

LONGEST = 1 << 20
"""Bytes of a file that is looked at: parsed, it takes a hundred times as much."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)
BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


@dataclass(frozen=True)
class OwnReward:
    """A user's reward: its word as the run folder spells it, and where its source lies."""

    word: str
    path: Path


def has_own_reward(reward_fn: Any) -> bool:
    """Whether the value of `reward_fn`, as it was written, names a reward of the user's own."""
    words = reward_fn if isinstance(reward_fn, dict) else [reward_fn]
    return any(isinstance(word, str) and ":" in word for word in words)


def own_reward_word(word: str, folder: Path, rewards: Iterable[str]) -> OwnReward | str:
    """The reward that a word names, relative to a folder, or what is wrong with it. `rewards` are the task's own."""
    file, colon, name = word.rpartition(":")
    if not colon:
        known = list(rewards)
        own = " or a function of your own, as in my_rewards.py:points"
        fix = " Write null for the task's first." if word in ("None", "none") else nearest(word, known)
        return f"came {short(word)!r}; possible: {listed(known)},{own}.{fix}"
    path = folder / file
    if path.suffix != ".py" or not name.isidentifier():
        return f"came {short(word)!r}; a reward of your own is written my_rewards.py:points"
    if not is_file(path):
        beside = sorted(found.name for found in path.parent.glob("*.py"))[:5] if is_folder(path.parent) else []
        told = f" Python files there: {listed(beside)}." if beside else ""
        return f"there is no file {short(file)!r} in {folder}.{told}{nearest(path.name, beside)}"
    path = path.resolve()
    try:
        tree = ast.parse(content(path, LONGEST), filename=str(path))
        return _looked_at(tree, file, name) or OwnReward(f"{path.name}:{name}", path)
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{file}{line} is not valid Python: {getattr(error, 'msg', None) or error or type(error).__name__}"


def _looked_at(tree: ast.Module, file: str, name: str) -> str | None:
    """What is wrong with a function of a file, as far as one can see without running it."""
    functions = {node.name: node for node in _at_the_top(tree) if isinstance(node, FUNCTIONS)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    aliases = [alias for node in ast.walk(tree) if isinstance(node, IMPORTS) for alias in node.names]
    bound = {node.id for node in names} | {alias.asname or alias.name for alias in aliases}
    if name not in functions:
        if name in bound or "*" in bound:
            return None
        told = f"; it has {listed(functions)}" if functions else ""
        return f"{file} has no function {short(name)!r}{told}.{nearest(name, functions)}"
    function = functions[name]
    if isinstance(function, ast.AsyncFunctionDef):
        return f"{file}:{function.lineno}: {name} is async; a reward is a plain function"
    slots = function.args.posonlyargs + function.args.args
    required = len(slots) - len(function.args.defaults)
    keyword_only = [a for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d is None]
    if required > 2 or keyword_only or (len(slots) < 2 and function.args.vararg is None):
        return f"{file}:{function.lineno}: {name} must take two arguments, (prompt, response)"
    return None


def _at_the_top(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module, those under its conditions included, those of its functions and classes not."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, BLOCKS) and not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            yield from _at_the_top(child)
