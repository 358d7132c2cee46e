"""What a value may be: annotations checked strictly, and told in words."""

import math
import re
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pgrl_cli.config.problems import brief
from pgrl_cli.config.yaml12 import scalar

PLAIN = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null"}
BOUNDS = {Gt: ("above", "gt"), Ge: ("from", "ge"), Lt: ("below", "lt"), Le: ("up to", "le")}
HUGE = 2**31 - 1
"""A bound that nobody meets on purpose."""
TWO_WORDS = {"yes": "true", "no": "false", "on": "true", "off": "false"}


def misfit(annotation: Any, value: Any) -> str | None:
    """Why a value is none of what an annotation allows, or None where it is."""
    if _fits(annotation, value):
        return None
    return f"came {told(value)}; expected {described(annotation)}{_likely_fix(annotation, value)}"


def fitted(annotation: Any, value: Any) -> Any:
    """The value as the annotation holds it: a whole number where any number may stand becomes a float."""
    return _adapter(annotation).validate_python(value)


def described(annotation: Any) -> str:
    """What an annotation allows, in words."""
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        bounds = [words for bound in members[1:] if (words := _bound(bound, of_list=get_origin(members[0]) is list))]
        return " ".join([described(members[0]), ", ".join(bounds)]).strip()
    if origin in (Union, UnionType):
        return " or ".join(described(member) for member in members)
    if origin is Literal:
        return " or ".join(str(member) for member in members)
    if origin is list:
        return f"a list of {_several(members[0])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"a map of {', '.join(annotation.model_fields)}"
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
        return brief(value)
    return f"{brief(value)} (a {'map' if isinstance(value, dict) else 'list'})"


def _several(annotation: Any) -> str:
    if get_origin(annotation) is list:
        return f"lists of {_several(get_args(annotation)[0])}"
    if get_origin(annotation) is Annotated:
        kind, *bounds = get_args(annotation)
        return " ".join([_several(kind), ", ".join(words for bound in bounds if (words := _bound(bound)))]).strip()
    return f"{described(annotation).removeprefix('a ')}s"


def _bound(bound: Any, of_list: bool = False) -> str:
    if isinstance(bound, Le) and bound.le >= HUGE:  # type: ignore[operator]
        return ""  # told where it is passed
    for kind, (word, attribute) in BOUNDS.items():
        if isinstance(bound, kind):
            return f"{word} {getattr(bound, attribute)}"
    if isinstance(bound, MinLen):
        return "that is not empty" if bound.min_length == 1 else f"of at least {bound.min_length} characters"
    unit = "" if of_list else " characters"
    return f"of at most {bound.max_length}{unit}" if isinstance(bound, MaxLen) else ""


def _likely_fix(annotation: Any, value: Any) -> str:
    """What to write instead, if there is something that would be taken."""
    if isinstance(value, str):
        return _likely_fix_of_text(annotation, value)
    if isinstance(value, float) and not math.isfinite(value):
        return "; it must be finite"
    if isinstance(value, float) and value.is_integer() and _fits(annotation, int(value)):
        return f"; write {int(value)}"
    if isinstance(value, int | float) and value >= HUGE and _fits(annotation, 2):
        return "; it is too large"
    return ""


def _likely_fix_of_text(annotation: Any, value: str) -> str:
    if value in ("None", "none", "nil"):
        return "; write null for none" if _fits(annotation, None) else ""
    if value.lower() in TWO_WORDS and bool in (*get_args(annotation), annotation):
        return f"; write {TWO_WORDS[value.lower()]}"
    bare = re.sub(r"^([-+]?)0+(?=[0-9])", r"\1", value.replace("_", ""))
    number = scalar(bare)
    if isinstance(number, int | float) and not isinstance(number, bool) and _fits(annotation, number):
        return f"; write {bare} without quotes, underscores or leading zeros"
    return ""


def _fits(annotation: Any, value: Any) -> bool:
    try:
        _adapter(annotation).validate_python(value)
    except ValidationError:
        return False
    return True


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(strict=True, allow_inf_nan=False))
