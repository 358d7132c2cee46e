import math
from contextlib import closing
from itertools import product

import pytest
import torch
from training.lecture import assert_same_rows, config, records
from training.lecture import rows as lines

from pgrl_cli.assembly import assemble
from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.transformer import TransformerPolicy
from pgrl_cli.results import AT_ITS_END
from pgrl_cli.training import evaluation, expectations
from pgrl_cli.training.evaluation import EVALUATED
from pgrl_cli.training.measures import METRICS, group_measures
from pgrl_cli.training.trainer import train


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


SHARE = "expected_zero_variance_groups"
SMALL = {"prompts": [[0, 1], [1, 1], [1, 2]], "epochs": 2, "steps_per_epoch": 3, "learning_rate": 0.02}
"""Nine responses to each of three prompts."""
WEIGHTS = {"sort_exact_reward": 0.5, "sort_distance_reward": 0.25}


def last_row(one):
    run, state = records(one)
    return list(run[-1].rows(one))[-1], state


def share_by_loops(one, state):
    """The share of groups without variance, over every group of responses there is, one at a time."""
    parts, _ = assemble([one])
    prompts, length = parts.task.prompts, parts.task.response_length
    every = list(product(range(parts.task.vocab_size), repeat=length))
    rewards = sum(
        weight * reward(prompts, torch.tensor(every).expand(len(prompts), -1, -1))
        for reward, weight in parts.shares[0].rewards.values()
    )
    responses = torch.tensor(every).expand(len(prompts), -1, -1)
    logits = state.policy.logits(prompts, responses).detach().expand(*responses.shape, -1)
    tokens = logits.softmax(dim=-1).gather(-1, responses.unsqueeze(-1)).squeeze(-1).tolist()
    share = 0.0
    for paid, rows in zip(rewards.tolist(), tokens, strict=True):
        chances = [math.prod(row) for row in rows]
        for group in product(range(len(every)), repeat=one.num_responses):
            if len({paid[member] for member in group}) == 1:
                share += math.prod(chances[member] for member in group) / len(prompts)
    return share


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "keys",
    [
        {"num_responses": 1, "delta_mode": "rewards"},
        {"num_responses": 3},
        {"num_responses": 2, "reward_fn": WEIGHTS},
        {"num_responses": 3, "reward_fn": "sort_exact_reward", "reward_scale": 3.0, "reward_shift": -1.0},
        {"num_responses": 2, "kl_coefficient": 0.5, "kl_placement": "reward"},
    ],
    ids=lambda keys: "-".join(map(str, keys)),
)
def test_the_expected_share_of_groups_without_variance_is_a_sum_over_every_group_there_is(policy, keys):
    one = config(**SMALL | keys, policy=policy)
    row, state = last_row(one)
    assert row[SHARE] == pytest.approx(share_by_loops(one, state), abs=1e-12)
    assert row[SHARE] > 0.01


def test_the_share_is_of_all_prompts_though_an_epoch_draws_some():
    one = config(**SMALL, num_responses=2, prompts_per_epoch=1)
    row, state = last_row(one)
    assert row[SHARE] == pytest.approx(share_by_loops(one, state), abs=1e-12)


def test_groups_of_a_certain_policy_have_no_variance_and_a_sparse_reward_seldom_has_any():
    uniform = config(epochs=1, steps_per_epoch=1, policy="table", learning_rate=1e-9, reward_fn="sort_exact_reward")
    assert last_row(uniform)[0][SHARE] == pytest.approx((124 / 125) ** 10 + (1 / 125) ** 10)
    parts, state = assemble([uniform])
    with torch.no_grad():
        state.policy.table[..., 1] = 1000.0
    assert expectations.expected_zero_variance_groups(parts, 10, state.policy).item() == 1


@pytest.mark.parametrize("at_once", [1, 50, 10**9])
def test_each_run_of_a_stack_has_its_own_share_by_its_own_reward_in_pieces_of_any_size(monkeypatch, at_once):
    keys = SMALL | {"num_responses": 2}
    cells = [
        config(**keys, reward_fn="sort_distance_reward", seeds=3),
        config(**keys, reward_fn=WEIGHTS, delta_mode="rewards", seed=1),
        config(**keys, reward_fn="sort_distance_reward", delta_mode="max_rewards", seeds=[0, 7]),
    ]
    monkeypatch.setattr(expectations, "AT_ONCE", at_once)
    found = records(*cells)[0][-1].last_numbers[SHARE]
    runs = [cell.model_copy(update={"seeds": None, "seed": seed}) for cell in cells for seed in cell.run_seeds]
    assert found.tolist() == pytest.approx([last_row(one)[0][SHARE] for one in runs], abs=1e-12)


def test_it_is_null_beside_a_reward_of_ones_own_and_where_there_are_too_many_responses(tmp_path):
    (tmp_path / "own.py").write_text("def points(prompt, response): return float(sum(response))\n")
    own = config(folder=tmp_path, **SMALL, reward_fn="own.py:points", seeds=2)
    other = config(**SMALL, delta_mode="max_rewards")
    many = config(prompt_count=3, prompt_length=4, vocab_size=9, epochs=1)  # 19,683 responses
    more = config(prompt_count=4, prompt_length=4, vocab_size=9, epochs=1)
    parts, state = assemble([own, other])
    with closing(parts):
        *_, record = train(parts, own, state)
    ours, theirs = list(record.rows(own, slice(0, 2)))[-1], list(record.rows(other, 2))[-1]
    assert (ours[SHARE], "nonfinite" in ours) == (None, False)
    assert theirs[SHARE] == pytest.approx(last_row(other)[0][SHARE], abs=1e-12)
    assert "nonfinite" not in theirs
    parts, state = assemble([own])
    assert expectations.expected_zero_variance_groups(parts, 10, state.policy) is None
    assert [last_row(one)[0][SHARE] is None for one in (many, more)] == [False, True]


def test_a_reader_knows_which_measures_are_null_in_most_lines():
    assert AT_ITS_END == EVALUATED


@pytest.mark.parametrize("seeds", [None, 3])
def test_many_prompts_are_measured_in_pieces_and_come_out_the_same(monkeypatch, seeds):
    keys = {"task": "copy", "prompt_count": 7, "vocab_size": 2, "policy": "transformer", "width": 4, "epochs": 1}
    one = config(**keys, held_out_count=5, seeds=seeds, learning_rate=0.05)
    whole = lines(one)
    sizes = []
    respond = TransformerPolicy.respond
    told = lambda self, prompts, uniforms: sizes.append(len(prompts)) or respond(self, prompts, uniforms)  # noqa: E731
    monkeypatch.setattr(TransformerPolicy, "respond", told)
    monkeypatch.setattr(evaluation, "AT_ONCE", 14_500 * (seeds or 1))
    assert_same_rows(lines(one), whole)
    assert sizes == [7, 3, 3, 1, 3, 2]
