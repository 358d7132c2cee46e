"""Configs: read strictly, layered, frozen. Whether a word names something is checked above, in `resolution`.

    yaml12             YAML 1.2 with lines            layers     defaults < base < file < command line
    schema             the keys, and Config           kinds      what a value may be, in words
    own_reward_words   file.py:function               shipped    the configs that come along
    other_words        keys as others spell them
    problems           what is wrong, and where         files          read where they are files

The names below are imported at their first use: the command line needs problems and shipped configs only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgrl_cli.config.other_words import OTHER_WORDS
    from pgrl_cli.config.problems import ConfigError, Problem
    from pgrl_cli.config.schema import KEYS, Config

__all__ = ["KEYS", "OTHER_WORDS", "Config", "ConfigError", "Problem"]
HOMES = {
    "KEYS": "schema",
    "OTHER_WORDS": "other_words",
    "Config": "schema",
    "ConfigError": "problems",
    "Problem": "problems",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"pgrl_cli.config.{HOMES[name]}"), name)
