import pytest
import torch
from training.lecture import config, records

from pgrl_cli.assembly import assemble
from pgrl_cli.training.measures import EVALUATED, METRICS, group_measures


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


def test_the_solutions_probability_is_that_of_its_tokens_together_on_average_and_at_worst():
    one = config(policy="table", epochs=2, eval_period=1, learning_rate=0.05)
    run, state = records(one)
    parts, _ = assemble([one])
    prompts = parts.task.prompts
    logits = state.policy.logits(prompts, None).squeeze(1)  # [prompt token vocab]
    each = logits.softmax(-1).gather(-1, prompts.sort(-1).values.unsqueeze(-1)).squeeze(-1).prod(-1)
    last = list(run[-1].rows(one))[-1]
    assert last["solution_probability"] == pytest.approx(each.mean().item())
    assert last["lowest_solution_probability"] == pytest.approx(each.min().item())


def test_the_metrics_are_those_that_a_line_holds_in_their_order():
    one = config(epochs=1, steps_per_epoch=1)
    (row,) = (row for record in records(one)[0] for row in record.rows(one))
    assert tuple(row) == ("epoch", "step", *METRICS, *EVALUATED)
