"""The table: a free logit for each prompt, position and token."""

import torch
from policies.built import TASK, built

from pgrl_cli.policies.stack import side_by_side
from pgrl_cli.tasks.sorting import sorting

UNHELD = torch.tensor([[2, 2], [0, 0]])
RESPONSES = torch.tensor([[[0, 1], [2, 2]], [[1, 0], [0, 0]]])


def test_it_starts_uniform():
    log_probs = built("table", scattered=False).log_probs(TASK.prompts, torch.zeros(3, 4, 2, dtype=torch.long))
    torch.testing.assert_close(log_probs.exp(), torch.full((3, 4, 2), 1 / 3, dtype=torch.float64))


def test_its_logits_are_its_entries():
    policy = built("table")
    (table,) = policy.parameters()
    logits = policy.logits(TASK.prompts, torch.zeros(3, 1, 2, dtype=torch.long))
    assert torch.equal(logits.squeeze(-3), table)
    asked = torch.tensor([[0, 1], [2, 0]])  # the third and the first it holds
    assert torch.equal(policy.logits(asked, RESPONSES).squeeze(-3), table[[2, 0]])


def test_at_a_prompt_it_does_not_hold_it_is_uniform_for_ever():
    for policy in (built("table"), side_by_side([built("table"), built("table", seed=1)])):
        probabilities = policy.vocab_log_probs(UNHELD, RESPONSES).exp()
        torch.testing.assert_close(probabilities, torch.full_like(probabilities, 1 / 3))


def test_what_it_learns_at_one_prompt_leaves_the_others_alone():
    policy = built("table")
    (table,) = policy.parameters()
    asked = torch.tensor([[1, 1], [2, 2]])  # the second it holds, and one it does not
    (gradient,) = torch.autograd.grad(policy.log_probs(asked, RESPONSES).sum(), table)
    assert gradient[1].abs().min() > 0
    assert torch.equal(gradient[[0, 2]], torch.zeros(2, 2, 3, dtype=torch.float64))


def test_a_prompt_listed_twice_gets_one_answer_however_it_is_asked():
    """A lone policy, a stack and a reference ask by the same prompts, though not by the same tensor."""
    task = sorting(prompts=[[1, 0], [1, 0]])
    policies = [built("table", task, seed=seed) for seed in range(2)]
    alone = policies[0].logits(task.prompts, RESPONSES)
    assert torch.equal(policies[0].logits(task.prompts.clone(), RESPONSES), alone)
    assert torch.equal(side_by_side(policies).logits(task.prompts, RESPONSES)[0], alone)


def test_its_features_are_a_one_at_the_prompts_row_and_the_tokens_position_and_zeros_behind_the_last():
    policy = built("table")
    features = policy.features(torch.tensor([[0, 1], [2, 0], [2, 2]]), RESPONSES)  # its third, its first, and neither
    assert policy.feature_size == 3 * 2
    assert features.flatten(1).nonzero().tolist() == [[0, 4], [0, 6 + 5], [1, 0], [1, 6 + 1]]
    assert features.unique().tolist() == [0, 1]
