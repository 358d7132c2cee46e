"""Every equation of every table gives many runs side by side what it gives each alone, and many steps too."""

from itertools import product

import pytest
import torch
from equations.exact import numbers

from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.attempts import expected_reward
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.equations.baselines import moving_average
from pgrl_cli.equations.categorical import (
    bounded,
    entropy,
    inverse_cdf,
    joint_probabilities,
    log_probs_of,
    score_squares,
)
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.equations.values import VALUE_TARGETS, explained_variance, value_losses
from pgrl_cli.registry import apply, knobs, needs

PROMPTS, RESPONSES, TOKENS, VOCAB = 2, 3, 4, 5
AXES = {
    "rewards": (PROMPTS, RESPONSES),
    "score_squares": (PROMPTS, RESPONSES),
    "true_values": (PROMPTS,),
    "past_mean": (),
    "greedy_rewards": (PROMPTS,),
    "old_policy_rewards": (PROMPTS, RESPONSES),
    "probabilities": (PROMPTS, RESPONSES),
    "advantages": (PROMPTS, RESPONSES, 1),
    "vocab_log_probs": (PROMPTS, RESPONSES, TOKENS, VOCAB),
    "reference_vocab_log_probs": (PROMPTS, RESPONSES, TOKENS, VOCAB),
}
TABLES = (ADVANTAGES, LOSSES, DIVERGENCES, AVERAGES, VALUE_TARGETS)
EQUATIONS = [
    *(equation for table in TABLES for equation in table.values()),
    *(moving_average, value_losses, explained_variance),
    *(bounded, entropy, inverse_cdf, log_probs_of, score_squares, joint_probabilities, expected_reward),
]
VALUES = {"token_budget": 3.0, "n_steps": 2, "discount_outer": True, "importance_level": "sequence"}
VALUES["baseline_decay"] = 0.7


def tensors_of(equation, front):
    """What an equation needs; a value more than there are tokens beside the rewards of tokens."""
    tensors = {name: tensor(name, front) for name in needs(equation)}
    if {"values", "token_rewards"} <= tensors.keys():
        tensors["values"] = numbers(*front, PROMPTS, RESPONSES, TOKENS + 1, seed=0)
    return tensors


def tensor(name, front):
    shape = (*front, *AXES.get(name, (PROMPTS, RESPONSES, TOKENS)))
    values = numbers(*shape, seed=len(name))
    if name in ("mask", "step_ends"):
        return values > -0.5
    if name == "tokens":
        return (values.abs() * 10).long() % VOCAB
    if name in ("score_squares", "probabilities"):
        return values.abs()
    if name == "uniforms":
        return values.abs() % 1
    return values.log_softmax(dim=-1) if "vocab" in name else values


@pytest.mark.parametrize("front", [(5,), (2, 5)], ids=["run", "step run"])
@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda equation: equation.__name__)
def test_side_by_side_is_one_by_one(equation, front):
    tensors = tensors_of(equation, front)
    runs = front[-1]
    numbers_alone = {name: VALUES[name] for name, knob in knobs(equation).items() if not knob.broadcasts}
    columns = {
        name: torch.linspace(0.1, 0.9, runs, dtype=torch.float64).reshape(runs, 1, 1, 1) + (name == "dual_clip")
        for name, knob in knobs(equation).items()
        if knob.broadcasts
    }
    together = apply(equation, tensors, columns | numbers_alone)
    for place in product(*map(range, front)):
        numbers_of_run = {name: column[place[-1]].item() for name, column in columns.items()}
        alone = apply(equation, {name: t[place] for name, t in tensors.items()}, numbers_of_run | numbers_alone)
        assert torch.equal(together[place], alone)


@pytest.mark.parametrize("equation", AVERAGES.values(), ids=AVERAGES.keys())
def test_averages_keep_the_axes_in_front_and_no_other(equation):
    values = tensor("values", (2, 5))
    assert equation(values, tensor("mask", (2, 5)), **dict.fromkeys(knobs(equation), 3.0)).shape == (2, 5)


@pytest.mark.parametrize("equation", LOSSES.values(), ids=LOSSES.keys())
def test_the_gradient_of_the_summed_losses_of_all_runs_gives_each_run_its_own(equation):
    tensors = {name: tensor(name, (5,)) for name in needs(equation)}
    log_probs = tensors["log_probs"].requires_grad_()
    (together,) = torch.autograd.grad(equation(**tensors).sum(), log_probs)
    for run in range(5):
        (alone,) = torch.autograd.grad(equation(**{n: t[run] for n, t in tensors.items()}).sum(), log_probs)
        assert torch.equal(together[run], alone[run])
