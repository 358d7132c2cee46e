import copy
import itertools
import math

import numpy as np
import pytest
import torch
from training.lecture import assert_same_runs, config, records, rows, same

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.policies import POLICIES
from pgrl_cli.resolution import resolve
from pgrl_cli.tasks import TASKS
from pgrl_cli.training.evaluation import EVALUATED
from pgrl_cli.training.trainer import train
from pgrl_cli.training.updates import OPTIMIZERS

CLIPPED = {"loss_mode": "clipped", "clip_epsilon": 0.2}


def of(value, index):
    """What a stack's metric says of one run."""
    return value if np.ndim(value) == 0 else value[index]


def unequal(seed, **keys):
    """A run that differs from its neighbours in every number that broadcasts."""
    return config(
        **CLIPPED,
        seed=seed,
        reference_period=4,
        learning_rate=0.002 * (seed % 5 + 1),
        kl_coefficient=0.05 * (seed % 3),
        entropy_coefficient=0.01 * (seed % 2),
        clip_low=0.1 + 0.02 * (seed % 7),
        dual_clip=3.0,
        **keys,
    )


@pytest.fixture(scope="module")
def alone():
    return {seed: records(unequal(seed, epochs=100, steps_per_epoch=10))[0] for seed in (0, 1, 4, 40, 63)}


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_a_run_is_the_same_over_a_hundred_epochs_alone_and_in_a_stack_of_any_size(size, alone):
    stack = [unequal(seed, epochs=100, steps_per_epoch=10) for seed in range(size)]
    together, state = records(*stack) if size > 1 else records(stack[0].model_copy(update={"seeds": [0]}))
    for seed in alone.keys() & set(range(size)):
        assert_same_runs(together, alone[seed], seed, stack[seed])
    assert state.parameters.shape[0] == size


@pytest.mark.parametrize(
    ("loss_mode", "policy"),
    sorted({*((loss, "table") for loss in LOSSES), *(("clipped", policy) for policy in POLICIES)}),
)
def test_runs_of_one_stack_may_be_scored_and_compared_each_in_its_own_way(policy, loss_mode):
    words = [
        {"reward_fn": "sort_inclusion_ordering_reward", "delta_mode": "centered_rewards", "seeds": [3, 5]},
        {"reward_fn": {"sort_exact_reward": 1.0, "sort_distance_reward": 0.5}, "delta_mode": "rewards"},
        {"reward_fn": "sort_distance_reward", "delta_mode": "max_rewards", "reward_scale": 2.0},
        {"reward_fn": "sort_distance_reward", "delta_mode": "max_rewards", "seeds": 2, "reward_shift": -1.0},
        {"reward_fn": "sort_distance_reward", "delta_mode": "optimal_baseline", "seeds": [2, 7]},
        {"reward_fn": "sort_distance_reward", "delta_mode": "true_value_baseline", "reward_scale": 0.5},
    ]
    cells = [
        config(policy=policy, loss_mode=loss_mode, epochs=6, kl_coefficient=0.2 * (i % 2), **w)
        for i, w in enumerate(words)
    ]
    together, _ = records(*cells)
    begin = 0
    for cell in cells:
        for seed in cell.run_seeds:
            one = cell.model_copy(update={"seeds": None, "seed": seed})
            assert_same_runs(together, records(one)[0], begin, one)
            begin += 1
    assert [key for key in next(together[0].rows(cells[1], 2)) if key.startswith("reward/")] == [
        "reward/sort_exact_reward",
        "reward/sort_distance_reward",
    ]


@pytest.mark.parametrize(
    ("differing", "told"),
    [
        ([{"clip_low": None}, {"clip_low": 0.1}], "must agree in whether clip_low is set"),
        ([{"epochs": 2}, {"epochs": 3}], "must agree in epochs"),
        ([{"average": "token_mean"}, {"average": "response_mean"}], "must agree in average"),
        ([{"adam_beta1": 0.5}, {"adam_beta1": 0.9}], "must agree in adam_beta1"),
    ],
)
def test_runs_that_differ_in_what_does_not_broadcast_are_not_stacked(differing, told):
    with pytest.raises(ValueError, match=told):
        assemble([config(**CLIPPED | keys) for keys in differing])


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    assert rows(config(seed=1)) == rows(config(seed=1))
    assert rows(config(seed=1)) != rows(config(seed=2))


def test_going_on_from_a_state_is_never_having_stopped():
    whole = config(**CLIPPED, epochs=8, kl_coefficient=0.1, reference_period=3)
    straight = rows(whole)
    parts, state = assemble([whole])
    before = [
        row for _, record in zip(range(4), train(parts, whole, state), strict=False) for row in record.rows(whole)
    ]
    parts_again, _ = assemble([whole])
    after = [row for record in train(parts_again, whole, copy.deepcopy(state)) for row in record.rows(whole)]
    assert before + after == straight


def test_a_copied_state_keeps_its_parameters_and_its_policy_together():
    _, state = assemble([config()])
    twin = copy.deepcopy(state)
    twin.parameters.add_(1)
    assert torch.equal(next(twin.policy.parameters()), next(state.policy.parameters()) + 1)


@pytest.mark.parametrize("loss_mode", LOSSES)
def test_every_ratio_is_exactly_one_on_an_epochs_first_step(loss_mode):
    for dtype in ("float32", "float64"):
        firsts = rows(config(loss_mode=loss_mode, dtype=dtype, learning_rate=0.05))[::4]
        assert [row["ratio_max"] for row in firsts] == [1, 1, 1]
        assert [row["effective_sample_size"] for row in firsts] == pytest.approx([1, 1, 1], abs=1e-6)


def test_clip_fraction_is_zero_at_first_grows_and_is_missing_where_nothing_clips():
    fractions = [row["clip_fraction"] for row in rows(config(**CLIPPED | {"clip_epsilon": 0.01}, learning_rate=0.01))]
    assert fractions[0] == 0
    assert fractions[3] > 0.3
    assert all(row["clip_fraction"] is None for row in rows(config(loss_mode="naive")))


def test_the_kl_is_exactly_zero_wherever_the_reference_was_just_refreshed():
    metrics = rows(config(epochs=7, kl_coefficient=0.1, reference_period=3, learning_rate=0.01))
    zero = [row["step"] for row in metrics if row["kl"] == 0]
    assert zero == [0, 12, 24]


def test_a_reference_period_of_zero_keeps_the_initial_policy():
    metrics = rows(config(epochs=7, kl_coefficient=0.1, reference_period=0, learning_rate=0.01))
    assert [row["step"] for row in metrics if row["kl"] == 0] == [0]


def test_without_a_coefficient_there_is_no_reference_and_no_kl():
    run, state = records(config())
    assert state.reference is None
    assert all(row["kl"] is None for record in run for row in record.rows(config()))


def moved(one):
    """How far training takes a policy from where it began: the exact KL, summed over prompts and tokens."""
    _, state = records(one)
    parts, first = assemble([one])
    now, then = (s.policy.vocab_log_probs(parts.task.prompts, None) for s in (state, first))
    return (now.exp() * (now - then)).sum().item()


FAR = {"epochs": 15, "learning_rate": 0.01, "reference_period": 0, "delta_mode": "leave_one_out_rewards"}


@pytest.mark.parametrize(
    ("estimator", "placement"), [("k2", "loss"), ("k3", "loss"), ("exact", "loss"), ("k1", "reward")]
)
def test_a_strong_pull_keeps_the_policy_near_its_reference(estimator, placement):
    pulled = config(**FAR, kl_coefficient=2.0, kl_estimator=estimator, kl_placement=placement)
    assert moved(pulled) < 0.5 * moved(config(**FAR))


@pytest.mark.parametrize(
    ("estimator", "placement"), [("k1", "loss"), ("k2", "reward"), ("k3", "reward"), ("exact", "reward")]
)
def test_what_does_not_pull_along_the_kl_runs_but_is_noted(estimator, placement):
    keys = FAR | {"kl_coefficient": 0.1, "kl_estimator": estimator, "kl_placement": placement}
    resolved = resolve(layers_from(keys))
    assert any(note.startswith(f"kl_estimator {estimator} in the {placement}") for note in resolved.notes)
    assert math.isfinite(moved(config(**keys)))


def test_a_kl_in_the_reward_is_taken_from_it_before_the_delta_mode():
    one = config(kl_coefficient=0.5, kl_placement="reward", reference_period=0, learning_rate=0.02)
    run, _ = records(one)
    for record in run:
        rollout = record.rollout
        gap = (rollout["old_log_probs"] - rollout["reference_log_probs"]).sum(dim=-1)
        torch.testing.assert_close(rollout["rewards"], rollout["task_rewards"] - 0.5 * gap)
        torch.testing.assert_close(
            rollout["advantages"].squeeze(-1), rollout["rewards"] - rollout["rewards"].mean(-1, keepdim=True)
        )
    last = list(run[-1].rows(one))[-1]
    assert last["kl"] > 0
    assert last["shaped_reward"] == pytest.approx(last["mean_reward"] - 0.5 * last["kl"])


def test_shifting_a_reward_changes_nothing_where_the_delta_mode_centers():
    plain = rows(config(reward_fn="sort_exact_reward", learning_rate=0.01, epochs=10))
    shifted = rows(config(reward_fn="sort_exact_reward", learning_rate=0.01, epochs=10, reward_shift=-1.0))
    for ours, theirs in zip(shifted, plain, strict=True):
        assert ours.pop("shaped_reward") == pytest.approx(theirs.pop("shaped_reward") - 1)
        assert not [key for key in theirs if not same(ours[key], theirs[key])]


def test_several_rewards_add_up_by_their_weights_and_each_has_its_own_curve():
    weights = {"sort_exact_reward": 1.0, "sort_distance_reward": 0.25}
    row = rows(config(reward_fn=weights))[-1]
    assert row["mean_reward"] == pytest.approx(
        row["reward/sort_exact_reward"] + 0.25 * row["reward/sort_distance_reward"]
    )


def test_an_entropy_bonus_keeps_entropy_up_until_it_has_decayed():
    keys = {"epochs": 30, "learning_rate": 0.02}
    free = rows(config(**keys))[-1]["entropy"]
    held = rows(config(**keys, entropy_coefficient=2.0))[-1]["entropy"]
    decayed = rows(config(**keys, entropy_coefficient=2.0, entropy_decay="linear"))[-1]["entropy"]
    assert free < decayed < held


def test_a_linear_learning_rate_ends_at_zero():
    whole = config(learning_rate_decay="linear", epochs=5)
    parts, state = assemble([whole])
    seen = []
    for _ in train(parts, whole, state):
        seen.append(state.parameters.clone())
    moved = [(later - earlier).norm().item() for earlier, later in itertools.pairwise(seen)]
    assert moved[0] > moved[1] > moved[2] > 0
    assert moved[3] == 0


def test_a_subset_of_prompts_is_drawn_each_epoch_the_same_for_every_seed():
    keys = {"prompt_count": 20, "prompts_per_epoch": 6, "epochs": 4}
    one, other = (records(config(**keys, seed=seed))[0] for seed in (1, 2))
    drawn = [record.rollout["prompts"].tolist() for record in one]
    assert drawn == [record.rollout["prompts"].tolist() for record in other]
    assert all(len({tuple(prompt) for prompt in prompts}) == 6 for prompts in drawn)
    assert drawn[0] != drawn[1]


def test_exact_match_is_measured_when_due_and_at_the_end_on_both_sets():
    metrics = rows(config(prompt_count=8, held_out_count=5, epochs=5, eval_period=2, steps_per_epoch=2))
    due = [row["step"] for row in metrics if row["exact_match"] is not None]
    assert due == [3, 7, 9]
    assert all(row["held_out_exact_match"] is not None for row in metrics if row["step"] in due)


def test_a_run_that_is_spoilt_takes_nothing_from_its_neighbours():
    keys = {"optimizer": "sgd", "epochs": 1, "steps_per_epoch": 1, "eval_period": 1}
    healthy, spoilt = config(**keys, learning_rate=1e-3), config(**keys, learning_rate=1e300)
    (together,), (alone,) = rows(healthy, spoilt), rows(healthy)
    assert together["exact_match"][0] == alone["exact_match"]
    assert math.isnan(together["exact_match"][1])
    measured = set(EVALUATED) - {"held_out_exact_match"}  # there are no prompts held out
    assert set(together["nonfinite"]) == measured
    assert "nonfinite" not in alone


SELDOM_MET = {"multiplication": {"reward_fn": "partial"}, "countdown": {"reward_fn": "end_reward"}}
"""Tasks whose usual reward is too sparse for a policy that knows nothing."""
EVERY_WORD = [
    *({"delta_mode": word} for word in ADVANTAGES),
    *({"loss_mode": word} for word in LOSSES),
    *({"average": word} for word in AVERAGES),
    *({"kl_average": word, "kl_coefficient": 0.1} for word in AVERAGES),
    *({"kl_estimator": word, "kl_coefficient": 0.1, "learning_rate": 0.1} for word in DIVERGENCES),
    *({"policy": word} for word in POLICIES),
    *({"task": word} | SELDOM_MET.get(word, {}) for word in TASKS),
    *({"optimizer": word} for word in OPTIMIZERS),
    *({"reward_fn": word} for word in TASKS["sorting"]().rewards),
    {"loss_mode": "clipped", "clip_low": 0.1, "clip_high": 0.3, "dual_clip": 3.0},
]


@pytest.mark.parametrize("words", EVERY_WORD, ids=str)
def test_everything_that_is_listed_trains(words):
    metrics = rows(config(**words, num_responses=200))  # enough for the sparsest reward to be met
    assert [row["step"] for row in metrics] == list(range(12))
    assert all(math.isfinite(row["loss"]) for row in metrics)
    assert metrics[0]["gradient_norm"] > 0


def test_it_learns_to_sort_and_centering_helps():
    """The lecture's first finding, over 32 seeds side by side: the group's mean taken off, the reward ends higher."""
    ends = {}
    for delta_mode in ("rewards", "centered_rewards"):
        stack = [
            config(seed=seed, delta_mode=delta_mode, epochs=100, steps_per_epoch=10, dtype="float32", eval_period=0)
            for seed in range(32)
        ]
        run, _ = records(*stack)
        rewards = torch.stack([record.measures["mean_reward"] for record in run])
        assert rewards[-10:].mean() > rewards[:10].mean() + 0.4
        ends[delta_mode] = rewards[-10:].mean(dim=0)
    gain = ends["centered_rewards"] - ends["rewards"]
    assert gain.mean() > 4 * gain.std() / math.sqrt(len(gain))
