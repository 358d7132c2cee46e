"""Dropped groups: which are kept, what replaces them, and that the rest learns as if they had never been."""

import math

import pytest
import torch
from findings.looking import kinds, trained
from training.lecture import config, records

from pgrl_cli.assembly import assemble
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.logs import samples
from pgrl_cli.training.dropping import informative_ones, prompts_of
from pgrl_cli.training.gradients import gradients_of
from pgrl_cli.training.measures import OF_KEPT
from pgrl_cli.training.rollouts import collect
from pgrl_cli.training.trainer import train

DROPPING = {"drop_zero_variance_groups": True, "num_responses": 2, "policy": "table"}


def sampled(first, *rewards):
    """A rollout of groups of two that earned this; prompts are numbered from the first. One list per run of a stack."""
    paid = torch.tensor(rewards[0] if len(rewards) == 1 else rewards, dtype=torch.float64)
    prompts = torch.arange(first, first + paid.shape[-2]).unsqueeze(-1)
    responses = torch.zeros(*paid.shape, 3, dtype=torch.long)
    whole = {"prompts": prompts, "responses": responses, "old_log_probs": responses.double()}
    return whole | {"task_rewards": paid, "rewards": paid, "advantages": paid.unsqueeze(-1)}


FIRST = [[1, 1], [0, 1], [2, 2]]
AGAIN = [[0, 4], [1, 1], [3, 0]]
LAST = [[5, 0], [5, 1], [5, 2]]


@pytest.mark.parametrize(
    ("keys", "kept", "responses", "mean"),
    [
        ({}, [1], 6, 7 / 6),
        ({"when_unfilled": "fill"}, [0, 1, 2], 6, 7 / 6),
        ({"resampling_rounds": 1}, [1, 3, 5], 12, 16 / 12),
        ({"resampling_rounds": 9}, [1, 3, 5], 12, 16 / 12),
    ],
)
def test_the_first_groups_that_differ_are_kept_and_all_that_were_sampled_are_measured(keys, kept, responses, mean):
    rounds = iter([sampled(3, AGAIN), sampled(6, LAST)])
    found = informative_ones(config(**DROPPING | keys), sampled(0, FIRST), lambda number: next(rounds))
    assert found["prompts"].flatten().tolist() == kept
    assert "mask" not in found
    assert found["group/kept_groups"].item() == len(kept)
    assert found["group/sampled_responses"].item() == responses
    assert found["group/mean_reward"].item() == pytest.approx(mean)
    assert found["group/zero_variance_groups"].item() == pytest.approx(2 / 3 if responses == 6 else 1 / 2)


def test_what_is_still_missing_after_the_last_round_is_filled_with_the_first_groups_that_were_sampled():
    keys = DROPPING | {"resampling_rounds": 1, "when_unfilled": "fill"}
    poor = sampled(3, [[1, 1], [2, 2], [0, 1]])
    found = informative_ones(config(**keys), sampled(0, FIRST), lambda number: poor)
    assert found["prompts"].flatten().tolist() == [0, 1, 5]
    assert found["group/sampled_responses"].item() == 12


def test_each_run_of_a_stack_keeps_its_own_groups_and_samples_no_more_than_it_needs():
    full = [[0, 1], [0, 2], [0, 3]]
    one = config(**DROPPING, resampling_rounds=2, seeds=2)
    found = informative_ones(one, sampled(0, full, FIRST), lambda number: sampled(3 * number, AGAIN, AGAIN))
    assert found["prompts"].flatten().tolist() == [0, 1, 2, 3, 5]
    inside = found["mask"].flatten(-2).all(dim=-1)
    assert inside.tolist() == [[True, True, True, False, False], [False, True, False, True, True]]
    assert torch.equal(inside, found["mask"].flatten(-2).any(dim=-1))
    assert found["group/sampled_responses"].tolist() == [6, 12]
    assert found["group/mean_reward"].tolist() == pytest.approx([1.0, 16 / 12])


@pytest.mark.parametrize("keys", [{}, {"task": "addition", "prompt_count": 3}], ids=str)
@pytest.mark.parametrize("average", AVERAGES)
def test_the_gradient_is_that_of_the_groups_that_are_kept_alone(average, keys):
    pull = {"kl_coefficient": 0.3, "kl_average": average, "reference_period": 0, "entropy_coefficient": 0.1}
    words = keys | pull | {"average": average, "num_responses": 2, "epochs": 1, "policy": "transformer", "width": 4}
    stack = config(**words, seeds=[1, 2])
    parts, state = assemble([stack])
    list(train(parts, stack, state))
    rollout = collect(parts, stack, state)[0]
    differ = torch.tensor([[[0.0, 1], [2, 1], [1, 1]], [[0.0, 0], [2, 1], [1, 0]]], dtype=torch.float64)
    rollout |= {"rewards": differ, "task_rewards": differ, "advantages": differ.unsqueeze(-1)}
    reduced = informative_ones(stack.model_copy(update={"drop_zero_variance_groups": True}), rollout, lambda number: {})
    together = gradients_of(parts, stack, state, reduced, 0.1, None)[1].policy
    for run, kept in enumerate([[0, 1], [1, 2]]):
        one = config(**words, seed=run + 1)
        parts_alone, alone = assemble([one])
        list(train(parts_alone, one, alone))
        own = {name: tensor if name == "prompts" else tensor[run] for name, tensor in rollout.items()}
        batch = prompts_of(own, torch.tensor(kept))
        gradient = gradients_of(parts_alone, one, alone, batch, 0.1, None)[1].policy
        assert gradient.abs().max() > 1e-3
        torch.testing.assert_close(together[run], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seeds", [None, 2])
def test_where_no_group_differs_nothing_is_learned_and_nothing_is_wrong(seeds):
    one = config(**DROPPING, prompts=[[0, 0]], vocab_size=1, seeds=seeds, resampling_rounds=2, learning_rate=0.1)
    run, state = records(one)
    first = assemble([one])[1]
    assert torch.equal(state.parameters, first.parameters)
    for row in (row for record in run for row in record.rows(one)):
        for name, expected in (("kept_groups", 0), ("loss", 0), ("gradient_norm", 0), ("sampled_responses", 6)):
            assert torch.as_tensor(row[name]).eq(expected).all(), name
        assert "nonfinite" not in row


@pytest.mark.parametrize("keys", [{"loss_mode": "clipped"}, {"delta_mode": "gae", "old_kl_coefficient": 1.0}], ids=str)
def test_of_an_epoch_that_learned_from_nothing_there_is_nothing_to_measure_and_its_neighbour_measures_all(keys):
    words = DROPPING | keys | {"prompts": [[0, 1]], "num_responses": 3, "epochs": 1, "reward_fn": "sort_exact_reward"}
    stack = config(**words, kl_coefficient=0.1, seeds=[1, 5])
    (record,), _ = records(stack)
    assert record.numbers["kept_groups"].tolist() == [0, 1]
    for row in record.rows(stack):
        measured = [name for name in OF_KEPT if row.get(name) is not None]
        assert {"kl", "entropy", "ratio_max", "effective_sample_size"} <= set(measured)
        for name in measured:
            assert [math.isnan(value) for value in row[name]] == [True, False], name
        assert "nonfinite" not in row


@pytest.mark.parametrize("reuse", [1, 2])
def test_a_coefficient_follows_no_rollout_from_which_nothing_was_learned(reuse):
    words = DROPPING | {"prompts": [[0, 1]], "num_responses": 3, "epochs": 2, "reward_fn": "sort_exact_reward"}
    one = config(**words, old_kl_coefficient=1.0, old_kl_target=1e9, rollout_reuse=reuse, seeds=[1, 5])
    run, state = records(one)
    kept = [record.numbers["kept_groups"].tolist() for record in run]
    assert kept[0] == [0, 1]
    halvings = [sum(epoch[place] for epoch in kept[reuse - 1 :]) for place in (0, 1)]
    assert state.coefficients["old_kl_coefficient"].tolist() == [0.5**times for times in halvings]


def test_a_run_that_drops_all_its_groups_is_in_a_deadlock_and_has_neither_settled_nor_gone_far():
    words = DROPPING | {"prompts": [[0, 1, 2, 3]], "num_responses": 2, "reward_fn": "sort_exact_reward"}
    found, _, epochs = trained(None, **words, loss_mode="clipped", epochs=20, name="dropped", seed=2)
    assert all(rows[0]["kept_groups"] == 0 for rows in epochs)
    assert kinds(found) == ["deadlock"]


def test_samples_that_are_written_down_are_those_of_a_runs_own_groups():
    keys = DROPPING | {"epochs": 1, "prompt_count": 4, "prompt_length": 1, "vocab_size": 4, "held_out_count": 0}
    cells = [config(**keys, reward_fn="sort_exact_reward", seed=seed) for seed in (1, 2)]
    (together,), _ = records(*cells)
    shown = [[sample["prompt"].tolist() for sample in samples(together, run, None)] for run in (0, 1)]
    assert shown[0] != shown[1]
    for run, one in enumerate(cells):
        (alone,), _ = records(one)
        assert shown[run] == [sample["prompt"].tolist() for sample in samples(alone, None, None)]


def test_prompts_that_an_epoch_draws_again_are_others_and_those_of_a_run_alone_too():
    keys = DROPPING | {"prompt_count": 20, "prompts_per_epoch": 3, "reward_fn": "sort_exact_reward", "epochs": 2}
    one = config(**keys, resampling_rounds=3, prompt_length=1, vocab_size=40)
    sizes = [record.numbers["sampled_responses"] for record in records(one)[0]]
    assert all(size % 6 == 0 and size > 6 for size in sizes)
    parts, _ = assemble([one])
    draws = [parts.drawn_prompts(3, 0, name).tolist() for name in ("prompts per epoch", "prompts per epoch, again 1")]
    assert draws[0] != draws[1]
    assert math.isfinite(sum(sizes))
