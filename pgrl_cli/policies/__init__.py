"""Policies: what is trained. Each answers three questions (see `policy`), in its own best way."""

from pgrl_cli import registry
from pgrl_cli.policies.positional import positional
from pgrl_cli.policies.table import table as table_of_logits
from pgrl_cli.policies.transformer import transformer

POLICIES = registry.table(positional, table_of_logits, transformer)
