"""Short experiments for tests."""

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from
from pgrl_cli.resolution import resolve
from pgrl_cli.training.trainer import train


def config(**keys):
    """A resolved config: the lecture's, short and in float64, but for these keys."""
    short = {"dtype": "float64", "epochs": 3, "steps_per_epoch": 4, "eval_period": 1, "name": "short"}
    return resolve(layers_from(short | keys)).config


def records(*configs):
    """The records of one run, or of several side by side, and the state they leave."""
    parts, state = assemble(configs)
    return list(train(parts, configs[0], state)), state


def rows(*configs):
    """The lines of metrics.jsonl of one run, or of several side by side."""
    return [row for record in records(*configs)[0] for row in record.rows(configs[0])]
