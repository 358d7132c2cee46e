"""What a value may be: annotations checked strictly, and told in words."""

import re
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import ConfigDict, TypeAdapter, ValidationError

PLAIN = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null"}
BOUNDS = {Gt: ("above", "gt"), Ge: ("from", "ge"), Lt: ("below", "lt"), Le: ("up to", "le")}
TWO_WORDS = {"yes": "true", "no": "false", "on": "true", "off": "false"}


def misfit(annotation: Any, value: Any) -> str | None:
    """Why a value is none of what an annotation allows, or None where it is."""
    try:
        _adapter(annotation).validate_python(value)
    except ValidationError:
        return f"came {told(value)}; possible is {described(annotation)}{_likely_fix(annotation, value)}"
    return None


def fitted(annotation: Any, value: Any) -> Any:
    """The value as the annotation holds it: a whole number where any number may stand becomes a float."""
    return _adapter(annotation).validate_python(value)


def described(annotation: Any) -> str:
    """What an annotation allows, in words."""
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        bounds = [words for bound in members[1:] if (words := _bound(bound))]
        return " ".join([described(members[0]), ", ".join(bounds)]).strip()
    if origin in (Union, UnionType):
        return " or ".join(described(member) for member in members)
    if origin is Literal:
        return " or ".join(str(member) for member in members)
    if origin is list:
        return f"a list of {_several(members[0])}"
    if origin is dict:
        return "a map of names to numbers"
    return PLAIN.get(annotation, str(annotation))


def told(value: Any) -> str:
    """A value with what it is, so that '1' and 1 look different."""
    if isinstance(value, bool):
        return f"{str(value).lower()} (a boolean)"
    if isinstance(value, str):
        return f"{value[:60]!r} (text)"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return f"{value!r:.60}"
    return f"{value!r:.60} (a {'map' if isinstance(value, dict) else 'list'})"


def _several(annotation: Any) -> str:
    if get_origin(annotation) is list:
        return f"lists of {_several(get_args(annotation)[0])}"
    return f"{described(annotation).removeprefix('a ')}s"


def _bound(bound: Any) -> str:
    for kind, (word, attribute) in BOUNDS.items():
        if isinstance(bound, kind):
            return f"{word} {getattr(bound, attribute)}"
    if isinstance(bound, MinLen):
        return "that is not empty" if bound.min_length == 1 else f"of at least {bound.min_length} characters"
    return f"of at most {bound.max_length} characters" if isinstance(bound, MaxLen) else ""


def _likely_fix(annotation: Any, value: Any) -> str:
    if isinstance(value, str):
        if value in ("None", "none", "nil"):
            return "; write null for none"
        if value.lower() in TWO_WORDS and bool in (*get_args(annotation), annotation):
            return f"; write {TWO_WORDS[value.lower()]}"
        bare = re.sub(r"^([-+]?)0+(?=[0-9])", r"\1", value.replace("_", ""))
        try:
            number = float(bare)
        except ValueError:
            return ""
        return f"; write {bare} without quotes, underscores or leading zeros" if number == number else ""
    if (isinstance(value, float) and value in (float("inf"), float("-inf"))) or value != value:
        return "; it must be finite"
    if isinstance(value, float) and value == int(value) and misfit(annotation, int(value)) is None:
        return f"; write {int(value)}"
    return ""


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(strict=True, allow_inf_nan=False))
