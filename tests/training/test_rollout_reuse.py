"""Several epochs on one rollout: who sampled stays who sampled, while the reference may be another by then."""

import pytest
import torch
from training.lecture import config, records

REUSE = {"rollout_reuse": 3, "epochs": 5, "learning_rate": 0.03, "prompts_per_epoch": 2, "loss_mode": "unclipped"}
PULL = {"kl_coefficient": 0.2, "reference_period": 1}
OF_THE_SAMPLER = ("prompts", "responses", "old_log_probs", "advantages", "task_rewards", "rewards", "places")


@pytest.fixture(scope="module")
def run():
    return records(config(**REUSE, **PULL, drop_zero_variance_groups=True))[0]


@pytest.mark.parametrize("name", OF_THE_SAMPLER)
def test_prompts_responses_and_how_likely_their_sampler_found_them_stay_for_so_many_epochs(run, name):
    first, second, third, other, again = (record.rollout[name] for record in run)
    assert torch.equal(first, second)
    assert torch.equal(first, third)
    assert torch.equal(other, again)
    assert name == "places" or not torch.equal(first, other)


def test_ratios_are_to_the_sampler_and_1_only_where_it_has_just_sampled(run):
    firsts = [record.numbers["ratio_max"][0] for record in run]
    assert [ratio == 1 for ratio in firsts] == [True, False, False, True, False]
    assert all(ratio >= 1 for ratio in firsts)


def test_the_reference_is_the_one_of_the_epoch_and_the_kl_begins_at_0_in_each(run):
    seen = [record.rollout["reference_log_probs"] for record in run]
    assert not torch.equal(seen[0], seen[1])
    assert [record.numbers["kl"][0] for record in run] == [0] * 5


def test_rewards_are_told_again_but_nothing_is_said_to_have_been_sampled(run):
    rewards = [float(record.numbers["mean_reward"]) for record in run]
    assert rewards[0] == rewards[1] == rewards[2] != rewards[3]
    assert [int(record.numbers["sampled_responses"]) for record in run] == [20, 0, 0, 20, 0]


def test_a_memory_sees_each_sample_once():
    one = config(**REUSE | {"epochs": 4}, delta_mode="moving_average_baseline", baseline_decay=0.5)
    run, state = records(one)
    first, second = (float(run[epoch].numbers["mean_reward"]) for epoch in (0, 3))
    assert state.past_mean.item() == pytest.approx((first + second) / 2)
