"""The lecture's policy, against its formula written out."""

import pytest
import torch
from policies.built import TASK, built

from pgrl_cli.policies.positional import positional
from pgrl_cli.policies.stack import side_by_side
from pgrl_cli.tasks.sorting import sorting

TASKS = {"two numbers": TASK, "the lecture's": sorting(), "one number": sorting(prompts=[[3], [0]])}
any_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def written_out(embedding, encoders, decoders, prompts):
    """Every prompt number is embedded and encoded by its position's matrix; the sum is decoded by position."""
    width = embedding.shape[-1]
    encoders = encoders.unflatten(0, (prompts.shape[-1], width))  # token width hidden
    decoders = decoders.unflatten(1, (-1, width))  # hidden token width
    summary = torch.einsum("ptw,twh->ph", embedding[prompts], encoders)
    decoded = torch.einsum("ph,htw->ptw", summary, decoders)
    return torch.einsum("ptw,vw->ptv", decoded, embedding)


@any_task
def test_it_is_its_formula(task):
    policy = built("positional", task)
    expected = written_out(policy.embedding, policy.encoders, policy.decoders, task.prompts)
    responses = torch.zeros(len(task.prompts), 1, task.response_length, dtype=torch.long)
    torch.testing.assert_close(policy.logits(task.prompts, responses).squeeze(-3), expected, rtol=1e-12, atol=1e-12)


def test_a_stack_is_its_formula_run_by_run():
    policies = [built("positional", seed=seed) for seed in range(3)]
    stack = side_by_side(policies)
    logits = stack.logits(TASK.prompts, torch.zeros(3, 3, 1, 2, dtype=torch.long))
    for run in range(3):
        expected = written_out(stack.embedding[run], stack.encoders[run], stack.decoders[run], TASK.prompts)
        torch.testing.assert_close(logits[run].squeeze(-3), expected, rtol=1e-12, atol=1e-12)


def test_the_order_of_the_prompts_numbers_matters():
    policy = built("positional")
    prompts = torch.tensor([[0, 1], [1, 0]])
    there, back = policy.logits(prompts, torch.zeros(2, 1, 2, dtype=torch.long))
    assert not torch.allclose(there, back)


@pytest.mark.parametrize("width", [1, 4, 10])
def test_its_matrices_are_standard_normal_numbers_over_the_root_of_the_width(width):
    task = sorting()

    def ones(*shape):
        return torch.ones(shape, dtype=torch.float64)

    policy = positional(task, ones, width=width)
    sizes = {name: parameter.numel() for name, parameter in policy.named_parameters()}
    assert sizes == {"embedding": 5 * width, "encoders": 3 * width * width, "decoders": 3 * width * width}
    assert policy.embedding.unique().tolist() == [1.0]
    for parameter in (policy.encoders, policy.decoders):
        assert parameter.unique().tolist() == pytest.approx([width**-0.5])


def test_a_prompt_never_trained_on_is_answered_too():
    policy = built("positional")
    prompts = torch.tensor([[2, 2]])
    probabilities = policy.vocab_log_probs(prompts, torch.zeros(1, 1, 2, dtype=torch.long)).exp()
    assert probabilities.isfinite().all()
    assert (probabilities - 1 / 3).abs().max() > 1e-3


def test_its_features_times_the_embedding_are_its_logits_and_zeros_behind_the_last_token():
    policy = built("positional")
    features = policy.features(TASK.prompts, torch.zeros(3, 4, 2, dtype=torch.long))
    logits = policy.logits(TASK.prompts, torch.zeros(3, 4, 2, dtype=torch.long))
    torch.testing.assert_close(features[..., :-1, :] @ policy.embedding.mT, logits, rtol=1e-13, atol=1e-13)
    assert features[..., -1, :].unique().tolist() == [0]
