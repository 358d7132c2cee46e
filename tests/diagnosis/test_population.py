"""Responses and their weights: all of them against plain loops, samples of them against all."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from diagnosis.small import SUBJECTS, agrees, every_subject, known, reseeded, rows, scattered

from pgrl_cli.diagnosis import deltas
from pgrl_cli.diagnosis.baselines import baselines
from pgrl_cli.diagnosis.deltas import MEASURED
from pgrl_cli.diagnosis.deltas import one_rollout as estimate_of
from pgrl_cli.diagnosis.divergences import kl_terms
from pgrl_cli.diagnosis.errors import standard_errors
from pgrl_cli.diagnosis.population import enumerated, sampled
from pgrl_cli.diagnosis.truth import truth
from pgrl_cli.equations.advantages import ADVANTAGES


@every_subject
def test_what_is_known_of_every_response_is_what_loops_find(name):
    _, population, answers, _ = known(name)
    agrees(population.weights, [[each.chance for each in here] for here in answers])
    agrees(population.log_probs, [[each.log_prob for each in here] for here in answers])
    agrees(population.reference_log_probs, [[each.reference_log_prob for each in here] for here in answers])
    agrees(population.rewards, [[each.reward for each in here] for here in answers])
    agrees(population.score_squares, [[each.square for each in here] for here in answers])
    assert population.right.tolist() == [[each.right for each in here] for here in answers]
    for prompt, here in enumerate(answers):
        for some, scores in population.scores(prompt):
            agrees(scores, torch.stack([each.score for each in here[some]]))


@every_subject
def test_the_expected_score_is_zero(name):
    _, population, _, _ = known(name)
    for prompt, weights in enumerate(population.weights):
        ((_, scores),) = population.scores(prompt)
        agrees(weights @ scores, torch.zeros(scores.shape[-1]))


@every_subject
def test_the_reference_draws_a_response_as_often_as_its_own_probability_says(name):
    subject, population, answers, _ = known(name)
    weights = population.of_reference().weights
    if subject.parts.task.mask(population.responses) is None:
        chances = [[rows_chance(subject, prompt, each.tokens) for each in here] for prompt, here in enumerate(answers)]
        agrees(weights, chances)
    agrees(weights.sum(dim=-1), torch.ones(len(weights)))


def rows_chance(subject, prompt, tokens):
    table = rows(subject.reference, subject, prompt, tokens)
    return sum(table[t, token] for t, token in enumerate(tokens)).exp().item()


def of_responses(population):
    """What rests on responses and their scores, by name."""
    found = {"truth": truth(population), "baselines": baselines(population)}
    found["truth"].pop("maximum_reward")  # no mean
    return found


def of_tokens(population):
    """The numbers of the terms that pull at the reference, but for cosines where nothing pulls."""
    found = kl_terms(population, doubt=False)
    found["k1"].pop("loss")
    return found


def flat(tree, path=""):
    """The numbers of mappings and lists by their place."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {place: value for key, each in items for place, value in flat(each, f"{path}/{key}").items()}
    return {path: tree}


def samples(numbers, seeds):
    """Numbers of the chains' responses, by place: the exact ones, and of samples with their standard errors [seed]."""
    subject = replace(SUBJECTS["chains"](num_responses=3), samples=300)
    values, errors = [], []
    for seed in range(seeds):
        population = sampled(reseeded(subject, seed))
        values.append(flat(numbers(population)))
        errors.append(flat(standard_errors([numbers(part) for part in population.batches()])))
    exact = flat(numbers(enumerated(subject)))
    return exact, *({place: np.array([each[place] for each in many]) for place in exact} for many in (values, errors))


@pytest.mark.parametrize(("numbers", "seeds", "within"), [(of_responses, 12, 1.3), (of_tokens, 4, 1.6)])
def test_numbers_of_samples_are_right_and_scatter_as_their_standard_errors_say(numbers, seeds, within):
    exact, values, errors = samples(numbers, seeds)
    ratios = {}
    for place, right in exact.items():
        off, typical = values[place] - right, np.sqrt((errors[place] ** 2).mean())
        assert np.abs(off).max() < 5 * typical + 1e-9, place
        assert abs(off.mean()) < 4 * typical / np.sqrt(seeds) + 0.3 * typical + 1e-9, place
        scatter = values[place].std(ddof=1)
        if scatter > 1e-9 and "cosine" not in place:  # near one a part's cosine is off by more than its share
            ratios[place] = typical / scatter
    assert len(ratios) >= 15
    assert 1 / within < np.median(list(ratios.values())) < within
    assert all(0.4 < ratio < 2.5 for ratio in ratios.values()), ratios


def test_a_reference_that_draws_what_the_policy_has_left_is_sampled_itself():
    subject = SUBJECTS["bandits"](num_responses=3)
    reference = scattered(subject.policy, 0, by=0.0)
    with torch.no_grad():
        reference.own[:, 2] += 9.0
    subject = replace(subject, reference=reference, samples=200)
    exact, population = truth(enumerated(subject))["kl_reverse"], sampled(subject)
    found = truth(population)["kl_reverse"]
    error = standard_errors([truth(part) for part in population.batches()])["kl_reverse"]
    assert abs(found - exact) < 5 * error + 1e-3
    agrees(baselines(population)["old_policy_value"]["values"], population.others.mean(population.others.rewards))


def test_the_length_of_a_gradient_that_is_lost_in_noise_is_not_the_noises():
    subject = replace(SUBJECTS["chains"](num_responses=3), samples=20)
    squares = [truth(sampled(reseeded(subject, seed)))["gradient_norm"] ** 2 for seed in range(40)]
    assert np.mean(squares) == pytest.approx(truth(enumerated(subject))["gradient_norm"] ** 2, rel=0.3)


def test_what_is_taken_from_all_rewards_moves_no_gradient_of_a_sample():
    population = sampled(SUBJECTS["chains"](num_responses=3, samples=50))
    for mode in ("rewards", "true_value_baseline", "leave_one_out_rewards"):
        numbers = estimate_of(ADVANTAGES[mode], population).numbers()
        agrees([numbers["scale"], numbers["off_direction"]], [1.0, 0.0])


@pytest.mark.parametrize("mode", ["normalized_rewards", "leave_one_out_rewards", "optimal_baseline"])
def test_delta_modes_of_a_sample_of_responses_agree_with_those_of_all(mode):
    subject, population, _, _ = known("chains")
    exact = estimate_of(ADVANTAGES[mode], population).numbers()
    found = estimate_of(ADVANTAGES[mode], sampled(replace(subject, samples=1000)))
    values, errors = found.numbers(), found.errors()
    for name in MEASURED:
        assert abs(values[name] - exact[name]) < 5 * errors[name] + 1e-7, name
    assert 0 < errors["total_variance"] < 0.2


@pytest.mark.parametrize("own", [True, False])
def test_a_sample_is_drawn_where_nearly_every_response_is_a_class_of_its_own(own, monkeypatch):
    subject, population, _, _ = known("chains")
    population = replace(population, subject=replace(subject, samples=2000))
    if not own:
        population = population.reweighted(2 * population.log_probs)
    exact = estimate_of(ADVANTAGES["normalized_rewards"], population, torch.ones(subject.parameter_count).double())
    monkeypatch.setattr(deltas, "MOST_NUMBERS", 1)
    found = estimate_of(ADVANTAGES["normalized_rewards"], population, torch.ones(subject.parameter_count).double())
    assert found.parts is not None
    values, errors = found.numbers(), found.errors()
    for name in MEASURED:
        assert abs(values[name] - exact.numbers()[name]) < 5 * errors[name] + 1e-7, name
    assert errors["total_variance"] < 0.1
