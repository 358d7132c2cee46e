"""Coefficients of KLs that follow a target: what is logged is what the formulas say, worked out by hand."""

from itertools import pairwise

import pytest
import torch
from training.lecture import config, records

from pgrl_cli.assembly import assemble
from pgrl_cli.training.trainer import train

FAR = {"learning_rate": 0.05, "epochs": 6, "steps_per_epoch": 2, "reference_period": 0, "num_responses": 4}
STEERED = FAR | {"kl_target": 0.3, "kl_horizon": 40.0}


def k3(gap):
    return torch.expm1(-gap) + gap


def steered(first, kls, target, share):
    """The coefficient of each epoch, of the KL at each one's sampling; share is responses by horizon."""
    found = [first]
    for kl in kls[:-1]:
        found.append(found[-1] * (1 + min(max(kl / target - 1, -0.2), 0.2) * share))
    return found


def logged(run, name):
    """A measure of each epoch of a run's records, [run ...] lists in a stack."""
    return [record.numbers[name].tolist() for record in run]


def gaps(run):
    """log pi/ref of each epoch's responses at sampling, summed or not: [... prompt response token]."""
    return [record.rollout["old_log_probs"] - record.rollout["reference_log_probs"] for record in run]


@pytest.mark.parametrize("average", ["response_sum", "token_mean"])
def test_in_the_loss_the_kl_of_whole_responses_at_sampling_steers_whatever_the_average(average):
    cells = [
        config(**STEERED, kl_coefficient=0.5, kl_average=average),
        config(**STEERED | {"kl_target": 0.02, "kl_horizon": 30.0}, kl_coefficient=0.1, kl_average=average, seed=1),
    ]
    run, _ = records(*cells)
    found = logged(run, "kl_coefficient")
    for index, one in enumerate(cells):
        kls = [k3(gap[index]).sum(dim=-1).mean().item() for gap in gaps(run)]
        expected = steered(one.kl_coefficient, kls, one.kl_target, 12 / one.kl_horizon)
        assert [each[index] for each in found] == pytest.approx(expected, rel=1e-12)
        assert len({round(after / before, 3) for before, after in pairwise(expected)}) > 1


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_in_the_reward_the_kl_that_is_taken_steers_and_the_coefficient_of_the_epoch_is_what_takes_it(level):
    keys = STEERED | {"kl_placement": "reward", "kl_estimator": "k3", "kl_level": level}
    one = config(**keys, kl_coefficient=0.5)
    run, _ = records(one)
    found = logged(run, "kl_coefficient")
    by_response = [k3(gap.sum(dim=-1)) if level == "sequence" else k3(gap).sum(dim=-1) for gap in gaps(run)]
    expected = steered(0.5, [kl.mean().item() for kl in by_response], 0.3, 12 / 40)
    assert found == pytest.approx(expected, rel=1e-12)
    for record, coefficient, kl in zip(run, expected, by_response, strict=True):
        taken = record.rollout["task_rewards"] - record.rollout["rewards"]
        torch.testing.assert_close(taken, coefficient * kl, rtol=1e-9, atol=1e-12)


def test_the_penalty_on_the_old_policy_is_doubled_and_halved_by_how_far_the_epoch_before_has_led():
    keys = FAR | {"loss_mode": "unclipped", "eval_period": 0}
    cells = [
        config(**keys, old_kl_coefficient=1.0, old_kl_target=0.004),
        config(**keys, old_kl_coefficient=0.3, old_kl_target=0.02, seed=1),
    ]
    run, _ = records(*cells)
    found = logged(run, "old_kl_coefficient")
    moved = [record.last_numbers["epoch_kl"].tolist() for record in run]
    factors = set()
    for index, one in enumerate(cells):
        expected = [one.old_kl_coefficient]
        for kl in [each[index] for each in moved][:-1]:
            above, below = kl > 1.5 * one.old_kl_target, kl < one.old_kl_target / 1.5
            factors.add(2.0 if above else 0.5 if below else 1.0)
            expected.append(expected[-1] * (2.0 if above else 0.5 if below else 1.0))
        assert [each[index] for each in found] == pytest.approx(expected, rel=1e-12)
    assert {2.0, 0.5} <= factors


def test_epochs_that_sample_nothing_do_not_steer():
    one = config(**STEERED | {"kl_target": 0.01}, kl_coefficient=0.5, rollout_reuse=3)
    found = logged(records(one)[0], "kl_coefficient")
    assert found[1] == found[2] == found[3]
    assert found[0] > found[1] < found[4] == found[5]


def test_of_a_rollout_that_is_used_several_times_the_whole_way_from_its_sampler_counts_and_only_at_its_end():
    keys = FAR | {"loss_mode": "unclipped", "learning_rate": 0.001, "epochs": 7, "rollout_reuse": 3, "eval_period": 0}
    cells = [
        config(**keys, old_kl_coefficient=1.0, old_kl_target=0.03),
        config(**keys, old_kl_coefficient=0.3, old_kl_target=9.0, seed=1),
    ]
    parts, state = assemble(cells)
    found, ways = [], []
    for record in train(parts, cells[0], state):
        found.append(record.numbers["old_kl_coefficient"].tolist())
        old = record.rollout["old_vocab_log_probs"]
        now = state.policy.vocab_log_probs(record.rollout["prompts"], record.rollout["responses"]).detach()
        ways.append((old.exp() * (old - now)).sum(dim=-1).mean(dim=(-3, -2, -1))[0].item())
        assert record.last_numbers["epoch_kl"][0] < 0.03 / 1.5  # no epoch by itself goes far
    assert ways[2] > 0.03 * 1.5 > ways[5] > 0.03 / 1.5
    assert found == [[1.0, 0.3]] * 3 + [[2.0, 0.15]] * 3 + [[2.0, 0.075]]
