"""Configs: read strictly, layered, frozen. Whether a word names something is checked in `words`.

yaml12      YAML 1.2 with lines          layers    defaults < base < file < command line
schema      the keys, and Config         shipped   the configs that come along
problems    what is wrong, and where
"""

from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.config.schema import KEYS, OTHER_WORDS, Config

__all__ = ["KEYS", "OTHER_WORDS", "Config", "ConfigError", "Problem"]
