import pytest
import torch

from pgrl_cli.training.measures import group_measures


def test_groups_are_described_before_the_delta_mode_sees_them():
    rewards = torch.tensor([[1.0, 1.0, 1.0], [0.0, 1.0, 2.0], [3.0, 3.0, 0.0], [0.1, 0.1, 0.1]])
    rollout = {"task_rewards": rewards, "rewards": rewards - 1, "responses": torch.zeros(4, 3, 7)}
    found = {name: value.item() for name, value in group_measures(rollout).items()}
    assert found == pytest.approx(
        {
            "mean_reward": 12.3 / 12,
            "shaped_reward": 12.3 / 12 - 1,
            "zero_variance_groups": 0.5,
            "reward_std": (1 + 3**0.5) / 4,
            "response_length": 7.0,
        },
        abs=1e-6,
    )


def test_a_group_of_one_has_no_standard_deviation():
    rollout = {"task_rewards": torch.ones(2, 1), "rewards": torch.ones(2, 1), "responses": torch.zeros(2, 1, 3)}
    assert group_measures(rollout)["reward_std"] is None
