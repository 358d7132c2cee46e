"""Commands run in this process, and what they said."""

import re
from typing import NamedTuple

from typer.testing import CliRunner

from pgrl_cli.cli import app

PLAIN = {"COLUMNS": "400", "NO_COLOR": "1", "FORCE_COLOR": None, "GITHUB_ACTIONS": None, "PY_COLORS": None}


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def pgrl(*words: str, answer: str = "", charset: str = "utf-8") -> Said:
    """A command, without colours; an error that nobody foresaw is raised."""
    said = pgrl_as_it_is(*words, answer=answer, charset=charset)
    return Said(said.code, *(re.sub(r"\x1b\[[0-9;]*m", "", text) for text in (said.out, said.err)))


def pgrl_as_it_is(*words: str, answer: str = "", charset: str = "utf-8") -> Said:
    """A command, with every byte that it printed."""
    result = CliRunner(charset=charset).invoke(app, words, env=PLAIN, input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr)
