"""Short experiments for tests, and whether two of them are the same."""

import math

import numpy as np
import torch

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from
from pgrl_cli.resolution import resolve
from pgrl_cli.training.trainer import train

SAME_WITHIN = 1e-9


def config(folder=None, **keys):
    """A config: the lecture's, short and in float64, but for these keys. Files are looked for in the folder."""
    short = {"dtype": "float64", "epochs": 3, "steps_per_epoch": 4, "eval_period": 1, "name": "short"}
    return resolve(layers_from(short | keys, folder=folder)).config


def records(*configs):
    """The records of one run, or of several side by side, and the state they leave."""
    parts, state = assemble(configs)
    return list(train(parts, configs[0], state)), state


def rows(*configs):
    """The lines of metrics.jsonl of one run, or of several side by side."""
    return [row for record in records(*configs)[0] for row in record.rows(configs[0])]


def same(ours, theirs):
    """Whether two values of a metric are the same number, or both missing."""
    if ours is None or theirs is None:
        return ours is theirs
    if math.isnan(theirs):
        return math.isnan(ours)
    return math.isclose(ours, theirs, rel_tol=SAME_WITHIN, abs_tol=SAME_WITHIN)


def assert_same_rows(ours, theirs):
    """That two runs, or two stacks, measured the same."""
    for row, other in zip(ours, theirs, strict=True):
        assert row.keys() == other.keys()
        for name in other.keys() - {"nonfinite"}:
            pair = np.array([row[name], other[name]], dtype=float)  # None becomes NaN
            np.testing.assert_allclose(*pair, rtol=SAME_WITHIN, atol=SAME_WITHIN, err_msg=name)


def assert_same_runs(together, alone, index, one):
    """That a run of a stack sampled the same tokens and measured the same as the run alone."""
    for ours, theirs in zip(together, alone, strict=True):
        assert torch.equal(ours.rollout["responses"][index], theirs.rollout["responses"])
        for row, single in zip(ours.rows(one, index), theirs.rows(one), strict=True):
            assert row.keys() == single.keys()
            assert not [key for key in single if not same(row[key], single[key])]
