"""What makes two runs the same experiment to the byte, in one number: a resumed run must not have become another."""

from hashlib import sha256

import orjson

from pgrl_cli.cells import digest_of
from pgrl_cli.config import Config

FREE = ("epochs", "checkpoint_period", "checkpoint_keep", "reward_timeout")
"""Keys that a run may have otherwise when it goes on."""


def fingerprint(config: Config) -> str:
    """A hash of a config without what may change on the way, and of its own rewards' sources."""
    told = config.model_dump(mode="json", exclude={*FREE, "sources"})
    sources = {word: digest_of(path) for word, path in config.sources.items()}
    return sha256(orjson.dumps([told, sources], option=orjson.OPT_SORT_KEYS)).hexdigest()
