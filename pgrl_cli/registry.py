"""Tables of named functions, and what a signature says.

The word in a YAML is the name of a function. The function's positional parameters name the tensors it needs,
its keyword-only parameters name the knobs that a config may turn. A knob's annotation gives its type and its
bounds; ``| Tensor`` in it says that the knob broadcasts, so runs of one stack may differ in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, cleandoc, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

Function = Callable[..., Any]
Table = Mapping[str, Function]

Positive = Annotated[float, Gt(0)]
Moderate = Annotated[float, Ge(1e-30), Le(1e30)]
"""Positive, and such that float32 holds it, its inverse, and what few factors make of them."""
NonNegative = Annotated[float, Ge(0)]
Fraction = Annotated[float, Ge(0), Lt(1)]
Unit = Annotated[float, Ge(0), Le(1)]
AboveOne = Annotated[float, Gt(1), Le(1e30)]
Count = Annotated[int, Ge(1), Le(2**31 - 1)]
Whole = Annotated[int, Ge(0), Le(2**31 - 1)]
Seed = Annotated[int, Ge(0), Le(2**63 - 1)]

REQUIRED = Parameter.empty
"""The default of a knob that has none: whoever calls must supply it."""


class KnobError(ValueError):
    """Knob values that cannot work, found while a part was built: (knob, what is wrong with it) each."""

    def __init__(self, *problems: tuple[str, str]):
        super().__init__("; ".join(f"{knob}: {message}" for knob, message in problems))
        self.problems = problems


@dataclass(frozen=True)
class Knob:
    """A keyword-only parameter, as a config sees it."""

    annotation: Any
    default: Any
    broadcasts: bool


def table(*functions: Function) -> Table:
    """Index functions by their own names: the word in the YAML is the name in the code."""
    return {function.__name__: function for function in functions}


@cache
def needs(function: Function) -> tuple[str, ...]:
    """The tensors a function asks for, by name."""
    parameters = signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is not Parameter.KEYWORD_ONLY)


@cache
def knobs(function: Function) -> dict[str, Knob]:
    """A function's knobs, by name; and those of what it remembers, which live as long as it does."""
    update = remembered(function)
    return _own_knobs(function) | ({} if update is None else _own_knobs(update))


def _own_knobs(function: Function) -> dict[str, Knob]:
    hints = get_type_hints(function, include_extras=True)
    return {
        p.name: _knob(hints.get(p.name, Any), p.default)
        for p in signature(function).parameters.values()
        if p.kind is Parameter.KEYWORD_ONLY
    }


def apply(function: Function, tensors: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """Call a function with the tensors and the knobs it asks for; a tensor that has a default may be missing."""
    names, spared, turned = _asked_for(function)
    chosen = {name: settings[name] for name in turned if name in settings}
    if spared:
        chosen |= {name: tensors[name] for name in spared if name in tensors}
    return function(*[tensors[name] for name in names], **chosen)


@cache  # one look-up instead of three, several times a step
def _asked_for(function: Function) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The tensors that a function cannot do without, those that it can, and its own knobs."""
    parameters = signature(function).parameters
    spared = tuple(name for name in needs(function) if parameters[name].default is not Parameter.empty)
    names = tuple(name for name in needs(function) if name not in spared)
    return names, spared, tuple(_own_knobs(function))


def first_line(function: Function) -> str:
    """What a function is, in the words of its docstring's first line."""
    return cleandoc(function.__doc__ or "").partition("\n")[0]


def compares_responses(function: Function) -> Function:
    """Mark a delta mode that compares a group's responses: a group of one teaches it nothing."""
    setattr(function, "smallest_group", 2)  # noqa: B010 - a function has no declared attributes
    return function


def smallest_group(function: Function) -> int:
    """How many responses per prompt a delta mode needs at least."""
    return int(getattr(function, "smallest_group", 1))


def compares_prompts(function: Function) -> Function:
    """Mark a delta mode that compares responses to different prompts: no group says by itself what it earns."""
    setattr(function, "across_prompts", True)  # noqa: B010 - a function has no declared attributes
    return function


def looks_across_prompts(function: Function) -> bool:
    """Whether a delta mode compares responses to different prompts."""
    return bool(getattr(function, "across_prompts", False))


def cuts_off(which: Function) -> Callable[[Function], Function]:
    """Mark a loss that gives some tokens no gradient: `which` says, from the same tensors and knobs, which ones."""

    def mark(loss: Function) -> Function:
        setattr(loss, "cut_off", which)  # noqa: B010 - a function has no declared attributes
        return loss

    return mark


def cut_off(loss: Function) -> Function | None:
    """What says which tokens a loss gives no gradient; None for a loss that reaches all of them."""
    return getattr(loss, "cut_off", None)


def remembers(update: Function) -> Callable[[Function], Function]:
    """Mark a delta mode that asks for what earlier epochs left: `update` makes the new memory from the old one."""

    def mark(mode: Function) -> Function:
        setattr(mode, "remembered", update)  # noqa: B010 - a function has no declared attributes
        return mode

    return mark


def remembered(mode: Function) -> Function | None:
    """What brings a delta mode's memory up to date, once an epoch; None for a mode without one."""
    return getattr(mode, "remembered", None)


def _knob(annotation: Any, default: Any) -> Knob:
    members = get_args(annotation) if get_origin(annotation) is not Annotated else ()
    kept = [member for member in members if getattr(member, "__name__", "") != "Tensor"]
    if not members or len(kept) == len(members):
        return Knob(annotation, default, broadcasts=False)
    union = kept[0]
    for member in kept[1:]:
        union = union | member
    return Knob(union, default, broadcasts=True)
