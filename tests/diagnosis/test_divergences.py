"""Estimates of the KL against gradients of plain sums over all responses."""

import math

import pytest
import torch
from diagnosis.small import (
    Chain,
    agrees,
    chains,
    counting,
    every_subject,
    expectation,
    flat,
    gradient_of,
    known,
    rows,
    subject_of,
    task_of,
)

from pgrl_cli.diagnosis import population as population_module
from pgrl_cli.diagnosis.divergences import kl_terms, kl_terms_of_sequences
from pgrl_cli.diagnosis.population import enumerated, sampled


def token_values(subject, prompt, tokens):
    """Of each estimator, the sum over the tokens that count, by its definition; it carries the policy's gradient."""
    policy = rows(subject.policy, subject, prompt, tokens)
    reference = rows(subject.reference, subject, prompt, tokens)
    sums = dict.fromkeys(("k1", "k2", "k3", "exact"), 0.0)
    for t in counting(subject, tokens):
        for name, value in of_ratio(policy[t, tokens[t]], reference[t, tokens[t]]).items():
            sums[name] = sums[name] + value
        sums["exact"] = sums["exact"] + sum(p.exp() * (p - q) for p, q in zip(policy[t], reference[t], strict=True))
    return sums


def sequence_values(subject, prompt, tokens):
    """The same of the whole response's probability."""
    policy = rows(subject.policy, subject, prompt, tokens)
    reference = rows(subject.reference, subject, prompt, tokens)
    kept = counting(subject, tokens)
    return of_ratio(sum(policy[t, tokens[t]] for t in kept), sum(reference[t, tokens[t]] for t in kept))


def of_ratio(log_prob, reference_log_prob):
    apart = log_prob - reference_log_prob
    return {"k1": apart, "k2": apart**2 / 2, "k3": (-apart).exp() - 1 + apart}


FORMS = {"tokens": (kl_terms, token_values), "sequences": (kl_terms_of_sequences, sequence_values)}
every_form = pytest.mark.parametrize("form", FORMS)


def forward_gradient(subject):
    """Of KL(policy || reference), as a differentiable sum: what lies behind an end adds nothing to it."""
    return gradient_of(
        expectation(subject, lambda p, tokens: sequence_values(subject, p, tokens)["k1"]), subject.policy
    )


def reverse_gradient(subject, answers):
    """Of KL(reference || policy): minus the mean score of what the reference draws."""
    return -sum(
        each.chance * math.exp(each.reference_log_prob - each.log_prob) * each.score
        for here in answers
        for each in here
    ) / len(answers)


@every_form
@every_subject
def test_every_estimate_has_the_bias_the_variance_and_the_gradients_of_plain_sums(name, form):
    subject, population, answers, _ = known(name)
    terms, values_of = FORMS[form]
    forward, reverse = forward_gradient(subject), reverse_gradient(subject, answers)
    values = [[values_of(subject, prompt, each.tokens) for each in here] for prompt, here in enumerate(answers)]
    for estimator, placements in terms(population).items():
        bias, variance, loss, reward = 0.0, 0.0, 0.0, 0.0
        for here, found in zip(answers, values, strict=True):
            chances, numbers = [each.chance for each in here], [value[estimator].item() for value in found]
            mean = sum(c * n for c, n in zip(chances, numbers, strict=True))
            known_kl = sum(each.chance * (each.log_prob - each.reference_log_prob) for each in here)
            bias += (mean - known_kl) / len(answers)
            variance += sum(c * (n - mean) ** 2 for c, n in zip(chances, numbers, strict=True)) / len(answers)
            leaves = list(subject.policy.parameters())
            total = sum(c * value[estimator] for c, value in zip(chances, found, strict=True))
            loss += flat(torch.autograd.grad(total, leaves, retain_graph=True)) / len(answers)
            reward += sum(c * n * each.score for c, n, each in zip(chances, numbers, here, strict=True)) / len(answers)
        for placement, gradient in (("loss", loss), ("reward", reward)):
            told = placements[placement]
            agrees([told["bias"], told["variance"]], [bias, variance])
            agrees(told["scale"], gradient @ forward / (forward @ forward))
            if gradient.norm() < 1e-9:
                assert (told["cosine_forward"], told["cosine_reverse"]) == (None, None)
            else:
                agrees(told["cosine_forward"], cosine(gradient, forward))
                agrees(told["cosine_reverse"], cosine(gradient, reverse))


def cosine(one, other):
    return one @ other / one.norm() / other.norm()


@every_subject
def test_k1_descends_nothing_as_a_loss_and_the_kl_in_the_reward(name):
    _, population, _, _ = known(name)
    for terms in (kl_terms(population), kl_terms_of_sequences(population)):
        assert terms["k1"]["loss"]["cosine_forward"] is None
        agrees([terms["k1"]["reward"]["cosine_forward"], terms["k1"]["reward"]["scale"]], [1.0, 1.0])


@every_subject
def test_whole_sequences_descend_the_kl_that_is_theirs(name):
    _, population, _, _ = known(name)
    terms = kl_terms_of_sequences(population)
    agrees([terms["k2"]["loss"]["cosine_forward"], terms["k2"]["loss"]["scale"]], [1.0, 1.0])
    agrees(terms["k3"]["loss"]["cosine_reverse"], 1.0)


def dependent():
    """One prompt, two tokens, the second of which strays from the reference mostly behind one first token."""
    policy = Chain([[1.0, -1.0]], [[1.0, -2.0], [0.0, -1.0]])
    reference = Chain([[0.0, 0.0]], [[0.0, 0.0], [-3.0, 1.0]])
    return subject_of(task_of([[1.0, 0.0, 0.0, 2.0]], 2), policy, reference)


def test_sums_over_dependent_tokens_descend_something_else_than_the_sequences_kl():
    terms = kl_terms(enumerated(dependent()))
    for estimator, target, expected in (("k2", "forward", 0.69), ("exact", "forward", 0.69), ("k3", "reverse", 0.84)):
        assert terms[estimator]["loss"][f"cosine_{target}"] == pytest.approx(expected, abs=0.01)
    agrees(terms["exact"]["loss"]["bias"], 0.0)  # its value is right all the same
    agrees(terms["k3"]["loss"]["bias"], 0.0)


def test_sums_over_tokens_that_are_drawn_on_their_own_descend_the_sequences_kl():
    _, population, _, _ = known("sorters")
    terms = kl_terms(population)
    for estimator, target in (("k2", "forward"), ("exact", "forward"), ("k3", "reverse")):
        agrees(terms[estimator]["loss"][f"cosine_{target}"], 1.0)
    assert terms["exact"]["reward"]["cosine_forward"] is None  # one number for all responses


def test_a_policy_that_is_its_reference_has_no_direction_to_go():
    subject = chains()
    same = subject_of(subject.parts.task, subject.policy, reference=subject.policy)
    for placements in kl_terms(enumerated(same)).values():
        for told in placements.values():
            agrees([told["bias"], told["variance"]], [0.0, 0.0])
            assert [told["cosine_forward"], told["cosine_reverse"], told["scale"]] == [None] * 3


@every_form
def test_many_responses_at_once_or_few_make_no_difference(form, monkeypatch):
    _, population, _, _ = known("chains")
    terms, _ = FORMS[form]
    whole = terms(population)
    monkeypatch.setattr(population_module, "NUMBERS_AT_ONCE", 30)
    for estimator, placements in terms(population).items():
        for placement, told in placements.items():
            expected = whole[estimator][placement]
            assert [value is None for value in told.values()] == [value is None for value in expected.values()]
            agrees(*([value for value in each.values() if value is not None] for each in (told, expected)))


def test_of_a_sample_a_gradient_that_noise_explains_has_no_direction():
    subject = chains(samples=400)
    population = sampled(subject)
    terms, exact = kl_terms(population), kl_terms(enumerated(subject))
    assert terms["k1"]["loss"]["cosine_forward"] is None
    assert kl_terms(population, doubt=False)["k1"]["loss"]["cosine_forward"] is not None
    for estimator, target in (("k2", "forward"), ("k3", "reverse")):
        ours, theirs = (each[estimator]["loss"][f"cosine_{target}"] for each in (terms, exact))
        assert abs(ours - theirs) < 0.03
