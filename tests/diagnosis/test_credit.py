"""Credit token by token: values and moments against plain loops over responses, and what must be unbiased."""

import pytest
import torch
from diagnosis.small import agrees, counting, every_subject, known, rows
from training.lecture import config

from pgrl_cli.diagnose import after
from pgrl_cli.diagnosis import credit
from pgrl_cli.diagnosis.population import enumerated, sampled
from pgrl_cli.diagnosis.truth import true_gradient
from pgrl_cli.equations.averages import masked
from pgrl_cli.equations.returns import gae, reward_to_go


def due(population):
    """Token rewards that add up to what a response earns; what falls due at a token depends on no later one."""
    read = (population.responses + 1).cumsum(dim=-1) + torch.arange(len(population.responses))[:, None, None]
    early = masked(torch.sin(read.double()), population.mask)
    return credit.at_the_end(population, credit.token_rewards(population) - early) + early


def token_scores_by_loops(subject, prompt, tokens):
    """The gradient of each token's log-probability by itself, 0 where it does not count."""
    leaves, counts = list(subject.policy.parameters()), counting(subject, tokens)
    scores = []
    for place, token in enumerate(tokens):
        chance = rows(subject.policy, subject, prompt, tokens)[place, token]
        gradients = torch.autograd.grad(chance, leaves)
        scores.append(torch.cat([each.flatten() for each in gradients]) * (place in counts))
    return torch.stack(scores)


@every_subject
def test_a_tokens_score_is_the_gradient_of_its_own_log_probability_and_none_behind_an_end(name):
    subject, population, answers, _ = known(name)
    for prompt, here in enumerate(answers):
        for some, scores in population.token_scores(prompt):
            agrees(scores, torch.stack([token_scores_by_loops(subject, prompt, each.tokens) for each in here[some]]))
            agrees(scores.sum(dim=1), torch.stack([each.score for each in here[some]]))


@every_subject
def test_a_state_is_worth_the_mean_of_what_comes_after_it_over_the_responses_that_begin_so(name):
    _, population, answers, _ = known(name)
    rewards = due(population)
    values = credit.true_values(population, rewards)
    for prompt, here in enumerate(answers):
        for place in range(rewards.shape[-1] + 1):
            for index, each in enumerate(here):
                alike = [r for r, other in enumerate(here) if other.tokens[:place] == each.tokens[:place]]
                chance = sum(here[r].chance for r in alike)
                to_come = sum(here[r].chance * rewards[prompt, r, place:].sum() for r in alike)
                agrees(values[prompt, index, place], to_come / chance)


@every_subject
def test_mean_and_variance_are_those_of_loops_over_responses(name):
    subject, population, answers, _ = known(name)
    rewards = due(population)
    advantages = {"own": rewards, "whole": rewards.sum(dim=-1, keepdim=True)}
    found = credit.estimates(population, advantages)
    for kind, each in advantages.items():
        paid, mean, variance = each.expand(rewards.shape), 0.0, 0.0
        for prompt, here in enumerate(answers):
            gradients = [
                paid[prompt, r] @ token_scores_by_loops(subject, prompt, answer.tokens) for r, answer in enumerate(here)
            ]
            expected = sum(answer.chance * gradient for answer, gradient in zip(here, gradients, strict=True))
            mean = mean + expected / len(answers)
            for answer, gradient in zip(here, gradients, strict=True):
                variance += answer.chance * float((gradient - expected).square().sum()) / len(answers) ** 2
        agrees(found[kind].mean, mean)
        assert found[kind].total_variance == pytest.approx(variance)
        assert found[kind].signal_to_noise == pytest.approx(float(mean.norm()) / variance**0.5)


@every_subject
def test_credit_by_true_values_or_by_nothing_but_later_rewards_is_unbiased(name):
    _, population, _, _ = known(name)
    rewards = due(population)
    values = credit.true_values(population, rewards)
    inside = torch.ones_like(rewards) if population.mask is None else population.mask.double()
    wrong = torch.cat([inside, torch.zeros_like(rewards[..., :1])], dim=-1)  # every state is worth 1
    found = credit.estimates(
        population,
        {"to go": reward_to_go(rewards), "whole": rewards.sum(dim=-1, keepdim=True)}
        | {f"true, {part}": gae(rewards, values, gae_lambda=part) for part in (0.0, 0.5, 1.0)}
        | {f"wrong, {part}": gae(rewards, wrong, gae_lambda=part) for part in (0.0, 1.0)},
    )
    truth = true_gradient(population)
    biased = {kind for kind, each in found.items() if (each.mean - truth).norm() > 1e-9 * truth.norm()}
    assert biased == ({"wrong, 0.0"} if rewards.shape[-1] > 1 else set())


@every_subject
def test_with_true_values_it_does_not_matter_when_a_reward_is_paid(name):
    _, population, _, _ = known(name)
    rewards = due(population)
    late = credit.at_the_end(population, rewards)
    agrees(late.sum(dim=-1), population.rewards)
    for part in (0.0, 1.0):
        early, at_last = (gae(each, credit.true_values(population, each), gae_lambda=part) for each in (rewards, late))
        agrees(masked(early, population.mask), masked(at_last, population.mask))


CRITIC = {"task": "copy", "prompt_count": 2, "prompt_length": 1, "vocab_size": 2, "max_response_tokens": 3}
CRITIC |= {"policy": "transformer", "width": 4, "layers": 1, "delta_mode": "gae", "truncation": "end"}


def test_a_critic_that_learned_is_asked_of_states_where_something_may_come_and_is_of_use():
    one = config(**CRITIC, epochs=30, critic_learning_rate=3e-2, num_responses=20, learning_rate=1e-9)
    with after(one, epochs=30) as subject:
        population = enumerated(subject)
        values = credit.critics_values(population)
        raw = subject.critic.values(subject.policy, subject.prompts, population.responses)
    going_on = torch.cat([population.mask, torch.zeros_like(population.mask[..., :1])], dim=-1)
    assert torch.equal(values, torch.where(going_on, raw, 0.0))
    true = credit.true_values(population, credit.token_rewards(population))
    weights = population.weights[..., None] * going_on
    off = [(weights * (true - each).square()).sum() for each in (values, torch.zeros_like(values))]
    assert off[0] < 0.5 * off[1]
    found = credit.estimates(population, {"whole": gae(credit.token_rewards(population), values, gae_lambda=1.0)})
    agrees(found["whole"].mean, true_gradient(population))


def test_values_are_not_made_of_a_sample_and_not_without_a_critic():
    subject, population, _, _ = known("chains")
    with pytest.raises(ValueError, match="these are a sample"):
        credit.true_values(sampled(subject), torch.zeros(sampled(subject).responses.shape))
    with pytest.raises(ValueError, match="such as gae"):
        credit.critics_values(population)
