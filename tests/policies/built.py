"""Policies as an experiment builds them, in float64 and from a seed."""

import torch

from pgrl_cli import draws
from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.policy import Policy
from pgrl_cli.registry import apply
from pgrl_cli.tasks.sorting import sorting

TASK = sorting(prompts=[[2, 0], [1, 1], [0, 1]], vocab_size=3)
"""Three prompts of two numbers below three: nine responses to each."""


def built(name, task=TASK, seed=0, scattered=True, **knobs):
    """The policy of a name; scattered, so that a policy that starts uniform has something to say too."""
    generator = draws.generator(seed, "policy")

    def normals(*shape):
        return torch.from_numpy(generator.standard_normal(shape))

    policy = apply(POLICIES[name], {"task": task, "normals": normals}, knobs).double()
    if scattered:
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter += 0.5 * normals(*parameter.shape)
    return policy


class Uncriticized(Policy):
    """A policy of which no critic may ask anything."""

    @property
    def feature_size(self):
        raise AssertionError("no critic was asked for")

    def features(self, prompts, responses):
        raise AssertionError("no critic was asked for")
