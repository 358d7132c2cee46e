"""Measures of a policy that are no estimates: expectations over every response there is."""

import torch
from torch import Tensor

from pgrl_cli.equations.attempts import all_equal
from pgrl_cli.pieces import slices
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import of_runs
from pgrl_cli.training.outcomes import MOST_RESPONSES, Outcomes
from pgrl_cli.training.parts import Parts

AT_ONCE = 2**21
"""Probabilities of responses, over the runs of a stack: what fits into memory anywhere."""


def expected_zero_variance_groups(parts: Parts, group_size: int, policy: Policy) -> Tensor | None:
    """The expected share of groups whose rewards are all equal, of the policy as it is: [...].

    The rewards are the task's, as in `zero_variance_groups`. NaN for runs whose reward is the user's own; None where
    all are, and where there are too many responses to go through.
    """
    task = parts.task
    known = [(share.runs, share.outcomes) for share in parts.shares if share.outcomes is not None]
    if not known or len(task.prompts) * task.response_count > MOST_RESPONSES:
        return None
    every = task.every_response().expand(len(task.prompts), -1, -1)
    if not parts.stacked:
        return _share(policy.every_probability(task.prompts, every), known[0][1], group_size)
    found = torch.full((len(parts.seeds),), torch.nan, device=parts.device, dtype=parts.dtype)
    for runs in slices(len(parts.seeds), AT_ONCE // every.shape[:-1].numel()):
        responses = every.expand(runs.stop - runs.start, *every.shape)
        probabilities = of_runs(policy, runs).every_probability(task.prompts, responses)
        for of_share, outcomes in known:
            first, end = max(runs.start, of_share.start), min(runs.stop, of_share.stop)
            if first < end:
                found[first:end] = _share(probabilities[first - runs.start : end - runs.start], outcomes, group_size)
    return found


def _share(probabilities: Tensor, outcomes: Outcomes, group_size: int) -> Tensor:
    """Of the prompts' groups, how many are expected to be of one kind: probabilities [... prompt response] -> [...]."""
    return all_equal(probabilities, outcomes.kinds, group_size).mean(dim=-1).clamp(max=1)
