"""What holds for every policy: its answers agree with each other, alone and side by side."""

import copy
from itertools import product

import pytest
import torch
from policies.built import TASK, built

from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import lay_together, of_runs, side_by_side

PROMPTS, LENGTH, VOCAB = TASK.prompts, TASK.response_length, TASK.vocab_size
RESPONSES = torch.tensor(list(product(range(VOCAB), repeat=LENGTH))).expand(len(PROMPTS), -1, -1)
"""[prompt response token]: all there are, for each prompt."""
BELOW_ONE = 1 - 2**-24
"""The largest float32 below 1."""
any_policy = pytest.mark.parametrize("name", POLICIES)


def shared_out(logits, responses):
    """Logits with a response axis of its own, which may be 1 where responses share them."""
    return logits.expand(*responses.shape, logits.shape[-1])


@any_policy
def test_log_probs_are_the_log_softmax_of_the_logits_at_the_responses_tokens(name):
    policy = built(name)
    logits = shared_out(policy.logits(PROMPTS, RESPONSES), RESPONSES)
    log_probs = policy.log_probs(PROMPTS, RESPONSES)
    assert log_probs.shape == RESPONSES.shape
    for place in product(*map(range, RESPONSES.shape)):
        row = logits[place]
        expected = row[RESPONSES[place]] - row.exp().sum().log()
        torch.testing.assert_close(log_probs[place], expected, rtol=0, atol=1e-13)


@any_policy
def test_the_probabilities_of_all_responses_to_a_prompt_add_up_to_one(name):
    total = built(name).log_probs(PROMPTS, RESPONSES).sum(dim=-1).exp().sum(dim=-1)
    torch.testing.assert_close(total, torch.ones(len(PROMPTS), dtype=torch.float64), rtol=0, atol=1e-13)


@any_policy
def test_the_probability_of_every_response_is_that_of_its_tokens_together(name):
    policy = built(name)
    every = policy.every_probability(PROMPTS, TASK.every_response().expand(len(PROMPTS), -1, -1))
    torch.testing.assert_close(every, policy.log_probs(PROMPTS, RESPONSES).sum(dim=-1).exp(), rtol=1e-13, atol=0)


@any_policy
@torch.no_grad()
def test_some_runs_of_a_stack_answer_by_themselves_what_they_answer_in_it(name):
    policy = side_by_side([built(name, seed=seed) for seed in range(5)])
    parameters = lay_together(policy, stacked=True)
    some, responses = of_runs(policy, slice(1, 4)), RESPONSES.expand(5, *RESPONSES.shape)
    for answer in (Policy.log_probs, Policy.vocab_log_probs, type(policy).every_probability):
        assert torch.equal(answer(some, PROMPTS, responses[1:4]), answer(policy, PROMPTS, responses)[1:4])
    assert not any(parameter.requires_grad for parameter in some.parameters())
    assert all(parameter.requires_grad for parameter in policy.parameters())
    parameters += 0.1  # as an update does
    assert torch.equal(some.log_probs(PROMPTS, responses[1:4]), policy.log_probs(PROMPTS, responses)[1:4])


@any_policy
def test_the_log_probs_over_the_vocabulary_add_up_to_one_token(name):
    total = built(name).vocab_log_probs(PROMPTS, RESPONSES).exp().sum(dim=-1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-13)


@any_policy
@torch.no_grad()
def test_responses_are_drawn_as_often_as_their_probability_says(name):
    """Uniform numbers on a grid, every pair of them: what is off is the grid's own coarseness."""
    policy, ticks = built(name), (torch.arange(150, dtype=torch.float64) + 0.5) / 150
    grid = torch.cartesian_prod(*[ticks] * LENGTH).expand(len(PROMPTS), -1, -1)
    drawn = policy.respond(PROMPTS, grid)
    chances = policy.log_probs(PROMPTS, RESPONSES).sum(dim=-1).exp()
    places = VOCAB ** torch.arange(LENGTH - 1, -1, -1)
    for prompt in range(len(PROMPTS)):
        counts = (drawn[prompt] * places).sum(dim=-1).bincount(minlength=VOCAB**LENGTH)
        shares = counts / len(grid[prompt])
        torch.testing.assert_close(shares.double(), chances[prompt], rtol=0, atol=1e-2)


@any_policy
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("uniform", [0.0, BELOW_ONE])
@torch.no_grad()
def test_the_extreme_uniform_numbers_draw_the_extreme_tokens_that_are_possible(name, uniform, dtype):
    for seed in range(20):
        policy = built(name, seed=seed).to(dtype)
        uniforms = torch.full((len(PROMPTS), 4, LENGTH), uniform, dtype=dtype)
        drawn = policy.respond(PROMPTS, uniforms)
        assert drawn.shape == uniforms.shape
        assert drawn.dtype == torch.long
        assert ((drawn >= 0) & (drawn < VOCAB)).all()
        chances = policy.vocab_log_probs(PROMPTS, drawn).exp().expand(*drawn.shape, VOCAB)
        passed_by = torch.arange(VOCAB) < drawn[..., None] if uniform == 0 else torch.arange(VOCAB) > drawn[..., None]
        assert (chances * passed_by).sum(dim=-1).max() < 1e-6
        assert chances.gather(-1, drawn[..., None]).min() > 0


@any_policy
@torch.no_grad()
def test_without_uniform_numbers_every_token_is_the_likeliest_after_those_before_it(name):
    policy = built(name)
    greedy = policy.respond(PROMPTS, None)
    assert greedy.shape == (len(PROMPTS), 1, LENGTH)
    assert torch.equal(policy.logits(PROMPTS, greedy).argmax(dim=-1), greedy)


@any_policy
@torch.no_grad()
def test_the_same_uniform_numbers_draw_the_same_responses(name):
    uniforms = torch.rand(len(PROMPTS), 6, LENGTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    policy = built(name)
    assert torch.equal(policy.respond(PROMPTS, uniforms), policy.respond(PROMPTS, uniforms.clone()))
    one_by_one = [policy.respond(PROMPTS, uniforms[:, [response]]) for response in range(6)]
    assert torch.equal(policy.respond(PROMPTS, uniforms), torch.cat(one_by_one, dim=1))


@any_policy
@torch.no_grad()
def test_no_token_depends_on_itself_or_on_later_ones(name):
    policy = built(name)
    responses = RESPONSES[:, [0, 4, 8]]
    before = shared_out(policy.logits(PROMPTS, responses), responses)
    for token in range(LENGTH):
        changed = responses.clone()
        changed[..., token:] = (changed[..., token:] + 1) % VOCAB
        after = shared_out(policy.logits(PROMPTS, changed), changed)
        torch.testing.assert_close(after[..., : token + 1, :], before[..., : token + 1, :], rtol=0, atol=1e-14)


@any_policy
@torch.no_grad()
def test_an_answer_does_not_depend_on_what_else_is_asked_or_in_which_order(name):
    policy = built(name)
    whole = policy.log_probs(PROMPTS, RESPONSES)
    for chosen in ([2, 0, 1], [1], [1, 1, 0]):
        answers = policy.log_probs(PROMPTS[chosen], RESPONSES[chosen])
        torch.testing.assert_close(answers, whole[chosen], rtol=0, atol=1e-14)


@any_policy
@torch.no_grad()
def test_side_by_side_is_one_by_one(name):
    policies = [built(name, seed=seed) for seed in range(4)]
    stack = side_by_side(policies)
    responses = torch.stack([RESPONSES.roll(seed, dims=1) for seed in range(4)])
    uniforms = torch.rand(4, len(PROMPTS), 5, LENGTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    drawn, greedy = stack.respond(PROMPTS, uniforms), stack.respond(PROMPTS, None)
    logits, log_probs = stack.logits(PROMPTS, responses), stack.log_probs(PROMPTS, responses)
    for run, policy in enumerate(policies):
        assert torch.equal(drawn[run], policy.respond(PROMPTS, uniforms[run]))
        assert torch.equal(greedy[run], policy.respond(PROMPTS, None))
        torch.testing.assert_close(logits[run], policy.logits(PROMPTS, responses[run]), rtol=0, atol=1e-13)
        torch.testing.assert_close(log_probs[run], policy.log_probs(PROMPTS, responses[run]), rtol=0, atol=1e-13)


@any_policy
def test_each_run_of_a_stack_gets_its_own_gradient(name):
    policies = [built(name, seed=seed) for seed in range(3)]
    stack = side_by_side(policies)
    responses = RESPONSES.expand(3, *RESPONSES.shape)
    weights = torch.linspace(-1, 1, RESPONSES.numel(), dtype=torch.float64).reshape(RESPONSES.shape)
    together = torch.autograd.grad((stack.log_probs(PROMPTS, responses) * weights).sum(), list(stack.parameters()))
    for run, policy in enumerate(policies):
        alone = torch.autograd.grad((policy.log_probs(PROMPTS, RESPONSES) * weights).sum(), list(policy.parameters()))
        for stacked, own in zip(together, alone, strict=True):
            torch.testing.assert_close(stacked[run], own, rtol=0, atol=1e-12)


@any_policy
def test_a_stack_shares_no_memory_with_its_policies(name):
    policies = [built(name, seed=seed) for seed in range(2)]
    stack = side_by_side(policies)
    before = [parameter.clone() for parameter in policies[0].parameters()]
    with torch.no_grad():
        for parameter in stack.parameters():
            assert parameter.requires_grad
            parameter.zero_()
    for parameter, kept in zip(policies[0].parameters(), before, strict=True):
        assert torch.equal(parameter, kept)


@any_policy
def test_a_policy_is_a_function_of_its_seed(name):
    first, again = built(name, seed=3, scattered=False), built(name, seed=3, scattered=False)
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


@any_policy
@pytest.mark.parametrize("runs", [1, 3])
@torch.no_grad()
def test_parameters_lay_together_are_the_policys_own_and_answer_as_before(name, runs):
    policy = side_by_side([built(name, seed=seed) for seed in range(runs)])
    responses = RESPONSES.expand(runs, *RESPONSES.shape)
    before = policy.log_probs(PROMPTS, responses)
    together = lay_together(policy, stacked=True)
    size = sum(parameter.numel() for parameter in built(name).parameters())
    assert together.shape == (runs, size)
    assert torch.equal(policy.log_probs(PROMPTS, responses), before)
    frozen = copy.deepcopy(policy)
    together[..., :] = 0.0 if runs == 1 else torch.arange(runs, dtype=torch.float64)[:, None]
    for parameter in policy.parameters():
        for run in range(runs):
            assert (parameter if runs == 1 else parameter[run]).unique().tolist() == [run]
    assert torch.equal(frozen.log_probs(PROMPTS, responses), before)


@any_policy
@torch.no_grad()
def test_a_critics_features_are_one_state_before_each_token_and_one_behind_the_last(name):
    policy = built(name)
    features = policy.features(PROMPTS, RESPONSES)
    *_, responses, tokens, size = features.shape
    assert features.shape[:-3] == (len(PROMPTS),)
    assert responses in (1, RESPONSES.shape[1])
    assert (tokens, size) == (LENGTH + 1, policy.feature_size)
    assert features.dtype == torch.float64
    assert features[..., :-1, :].unique(dim=0).shape[0] == len(PROMPTS)


@any_policy
@torch.no_grad()
def test_a_state_depends_on_no_token_that_comes_after_it(name):
    policy = built(name)
    responses = RESPONSES[:, [0, 4, 8]]
    before = policy.features(PROMPTS, responses)
    for token in range(LENGTH):
        changed = responses.clone()
        changed[..., token:] = (changed[..., token:] + 1) % VOCAB
        after = policy.features(PROMPTS, changed)
        torch.testing.assert_close(after[..., : token + 1, :], before[..., : token + 1, :], rtol=0, atol=1e-14)


@any_policy
@torch.no_grad()
def test_features_side_by_side_are_those_one_by_one(name):
    policies = [built(name, seed=seed) for seed in range(3)]
    responses = torch.stack([RESPONSES.roll(seed, dims=1) for seed in range(3)])
    stack = side_by_side(policies)
    features = stack.features(PROMPTS, responses)
    assert len(features) == 3
    assert stack.feature_size == policies[0].feature_size
    for run, policy in enumerate(policies):
        torch.testing.assert_close(features[run], policy.features(PROMPTS, responses[run]), rtol=0, atol=1e-13)
