"""What there is to choose from, read off signatures and docstrings: `pgrl list`, the README's tables, the schema."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, create_model

from pgrl_cli.config import KEYS, Config
from pgrl_cli.config.problems import ConfigError, Problem, listed, nearest, short
from pgrl_cli.config.schema import LISTS
from pgrl_cli.registry import REQUIRED, Function, Table, first_line, knobs, smallest_group
from pgrl_cli.tasks import TASKS
from pgrl_cli.words import TABLES, every_knob, owners

KINDS = LISTS
SCHEMA = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Word:
    """One word that a key may have."""

    name: str
    meaning: str
    knobs: str
    """Knobs with defaults."""


def words_of(kind: str) -> list[Word]:
    """The words of one kind. Rewards are those of every task; one of your own is `file.py:function`."""
    if kind == "rewards":
        return _rewards()
    return [_word(function) for function in TABLES[KINDS[kind]].values()]


def kinds_named(kind: str | None) -> dict[str, str]:
    """The kinds of word asked for, by their own name or by a config's key; all without one. Raises ConfigError."""
    if kind is None:
        return KINDS
    table = TABLES.get(kind)
    found = {name: key for name, key in KINDS.items() if kind in (name, key) or (table and TABLES.get(key) is table)}
    if not found:
        hint = _homes(kind) or nearest(kind, [*KINDS, *KINDS.values()])
        message = f"came {short(kind)!r}; possible: {listed(KINDS)}.{hint}"
        raise ConfigError([Problem(message, "pgrl list")])
    return found


def _homes(word: str) -> str:
    """Of a word that a config may use, and that is no kind of word: which kinds have it."""
    homes = [f"`pgrl list {kind}`" for kind in KINDS if word in (found.name for found in words_of(kind))]
    return f" {word} is told by {' and '.join(homes)}." if homes else ""


def markdown(kinds: Mapping[str, str] = KINDS) -> str:
    """The tables of the README."""
    return "\n".join(_markdown_table(kind, kinds[kind]) for kind in kinds)


def json_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of a config file, for editors."""
    fields: dict[str, Any] = {"base": (str, Field(None, description="A config to build on: its path, or its name."))}
    for key in KEYS:
        field = Config.model_fields[key]
        annotation: Any = field.rebuild_annotation()
        if key in TABLES:
            annotation = Literal[tuple(TABLES[key])]
            if field.default is None:
                annotation = annotation | None
        if key in ("seeds", "log_seeds"):
            annotation = annotation | Annotated[str, Field(pattern=r"^[0-9]+\.\.[0-9]+$")]
        fields[key] = (annotation, Field(None, description=field.description))
    for name, knob in every_knob().items():
        if name not in KEYS:
            told = "; ".join(f"{key}: {', '.join(words)}" for key, words in owners(name).items())
            fields[name] = (knob.annotation, Field(None, description=f"A knob of {told}."))
    model = create_model("Config", __config__=ConfigDict(extra="forbid"), **fields)
    schema = model.model_json_schema()
    for value in schema["properties"].values():
        value.pop("title", None)
        value.pop("default", None)  # absent is not null: a default may depend on other words
    return {"$schema": SCHEMA, **schema, "title": "A pgrl experiment"}


def _rewards() -> list[Word]:
    """Every task's, each once for all tasks that have it with one meaning."""
    having: dict[tuple[str, str], list[str]] = {}
    found: dict[tuple[str, str], Function] = {}
    for task, build in TASKS.items():
        rewards: Table = build().rewards
        for name, function in rewards.items():
            having.setdefault((name, first_line(function)), []).append(task)
            found[name, first_line(function)] = function
    return [_word(found[key], f" (task{'s' * (len(tasks) > 1)} {', '.join(tasks)})") for key, tasks in having.items()]


def _word(function: Function, where: str = "") -> Word:
    meaning = first_line(function).rstrip(".") + where
    least = smallest_group(function)
    if least > 1:
        meaning += f"; needs num_responses {least} or more"
    return Word(function.__name__, meaning, ", ".join(_knob(function, name) for name in knobs(function)))


def _knob(function: Function, name: str) -> str:
    knob = knobs(function)[name]
    if knob.default is REQUIRED:
        return f"{name} (the task's)"
    return f"{name}: {_default(knob.default)}"


def _default(value: Any) -> str:
    """A default as a YAML writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value if isinstance(value, str) else f"{value:g}"


def _markdown_table(kind: str, key: str) -> str:
    rows = [f"| `{key}` | meaning | knobs |", "|---|---|---|"]
    for word in words_of(kind):
        named = ", ".join(f"`{knob}`" for knob in word.knobs.split(", ") if knob)
        rows.append(f"| `{word.name}` | {word.meaning.replace('|', '∥')} | {named} |")
    return f"**{kind}**\n\n" + "\n".join(rows) + "\n"
