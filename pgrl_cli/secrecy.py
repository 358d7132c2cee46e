"""What must not be written down: the values of secrets, and passwords inside URLs."""

import os
import re
from collections.abc import Sequence

SECRET = re.compile(
    r"(?i:api_?key|secret|passw(or)?d|passphrase|credential|private_?key|access_?key|authorization)"
    r"|(?i:(^|[_.])token$)|[a-z]Token$"
)
"""Names whose values are never written; token_budget and max_tokens are none of them."""
PASSWORD = re.compile(r"(?<=://)[^\s/?#'\"@]*+@(?:[^\s/?#'\"@]*+@)*+")
"""user:password@ in a URL."""
NAME = re.compile(r"(?<![\w.-])([\w-][\w.-]*+)['\"]?+\s*+[=:]\s*+")
"""What stands before a value inside a text: NAME=, or NAME:."""
VALUE = re.compile(r"'[^']*+'|\"[^\"]*+\"|((?:Basic|Bearer|Token)\s++)?[^\s,;&'\"{}\[\]()]++")
SHORTEST = 8
"""Characters of a variable's value that is looked for in texts; shorter ones stand in any text by chance."""
HIDDEN = "***"


def is_secret(name: str) -> bool:
    """Whether a key, an option or a variable of this name holds a secret."""
    if ":" in name or name.endswith((".py", "Error", "Exception")):  # a reward of the user's own, a kind of error
        return False
    return SECRET.search(name.lstrip("-").replace("-", "_")) is not None


def refusal(key: str) -> str:
    """Why a key that holds a secret is not taken."""
    return f"unknown key {key[:80]!r}: a secret has no place in a config; its value is not repeated here"


def scrubbed(text: str) -> str:
    """A text without the values of secrets: of variables of the environment, of NAME=VALUE in it, of URLs."""
    for name, value in os.environ.items():
        if len(value) >= SHORTEST and is_secret(name):
            text = text.replace(value, HIDDEN)
    text = PASSWORD.sub(f"{HIDDEN}@", text) if "://" in text else text
    kept, done = [], 0
    for found in NAME.finditer(text):
        if found.start() >= done and is_secret(found[1]) and (given := VALUE.match(text, found.end())):
            kept += [text[done : found.end()], HIDDEN]
            done = given.end()
    return "".join([*kept, text[done:]])


def holds_secret(text: str) -> bool:
    """Whether some of a text must not be written down."""
    return scrubbed(text) != text


def redacted(words: Sequence[str]) -> list[str]:
    """A command's words without the values of secrets."""
    kept: list[str] = []
    hide_next = False
    for word in words:
        name, equals, _ = word.partition("=")
        if hide_next:
            kept.append(HIDDEN)
            hide_next = False
        elif is_secret(name):
            kept.append(f"{name}={HIDDEN}" if equals else word)
            hide_next = not equals and word.startswith("--")
        else:
            kept.append(scrubbed(word))
    return kept
