"""Mistakes made on purpose, against loops over all responses and groups."""

from dataclasses import replace

import pytest
from diagnosis.small import MODES, SUBJECTS, agrees, answers, every_subject, known, one_rollout, true_gradient

from pgrl_cli.diagnosis import deltas
from pgrl_cli.diagnosis.population import enumerated, sampled
from pgrl_cli.diagnosis.rollouts import rollouts
from pgrl_cli.diagnosis.traps import COLD, traps


def told(subject, population=None):
    population = enumerated(subject) if population is None else population
    return traps(population, rollouts(population, 4), true_gradient(subject))


@every_subject
def test_old_log_probs_that_carry_a_gradient_take_all_of_it(name):
    subject, population, every, _ = known(name)
    found = told(subject)["unfrozen_old_log_probs"]
    assert found["gradient_norm"] == 0.0
    total = 0.0
    for here, group in zip(every, rollouts(population, 4).responses[0].tolist(), strict=True):
        members = [next(each for each in here if each.tokens == tuple(tokens)) for tokens in group]
        advantages = MODES["centered_rewards"]([each.reward for each in members], None, None)
        total += sum(a * each.score for a, each in zip(advantages, members, strict=True)) / len(group) / len(every)
    agrees(found["gradient_norm_frozen"], total.norm())
    assert total.norm() > 0.01


@every_subject
def test_the_first_ratio_is_one(name):
    subject, _, _, _ = known(name)
    found = told(subject)["first_ratio"]
    assert found == {"ratio": 1.0, "effective_sample_size": 1.0}


@every_subject
@pytest.mark.parametrize("mode", ["centered_rewards", "normalized_rewards", "leave_one_out_rewards"])
def test_cold_samples_bend_the_gradient_as_all_groups_of_them_do(name, mode):
    subject = SUBJECTS[name](num_responses=2, delta_mode=mode)
    truth, cold = true_gradient(subject), answers(subject, temperature=COLD)
    expected = one_rollout(cold, mode, 2)
    numbers, found = expected.against(truth), told(subject)["cold_samples"]
    agrees([found["scale"], found["off_direction"]], [numbers["scale"], numbers["off_direction"]])
    agrees(found["cosine"], expected.mean @ truth / expected.mean.norm() / truth.norm())
    agrees(found["expected_reward"], sum(each.chance * each.reward for here in cold for each in here) / len(cold))
    assert found["off_direction"] > 0.01
    assert found["temperature"] == COLD


def test_a_sample_of_cold_samples_is_cold_too(monkeypatch):
    subject = SUBJECTS["chains"](num_responses=2, samples=4000)
    exact = told(subject)["cold_samples"]
    drawn = told(subject, sampled(subject))["cold_samples"]
    monkeypatch.setattr(deltas, "MOST_NUMBERS", 1)  # as if nearly every response were a class of its own
    again = told(replace(subject))["cold_samples"]
    for found in (drawn, again):
        for name in ("scale", "cosine", "expected_reward"):
            assert found[name] == pytest.approx(exact[name], rel=0.1)
    agrees(again["expected_reward"], exact["expected_reward"])
