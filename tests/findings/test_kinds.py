"""Each kind of finding, provoked by a real run; and runs that are well, in which nothing stands out."""

import numpy as np
import pytest
from findings.looking import kinds, looked, trained

from pgrl_cli.findings import KINDS, Facts
from pgrl_cli.findings.kinds import share
from pgrl_cli.tasks.two_state import PAYMENTS

NAIVE, CLIPPED, UNCLIPPED = "lecture/centered_naive", "lecture/centered_clipped", "lecture/centered_unclipped"
PROVOKED = {
    "local_optimum": (NAIVE, {"learning_rate": 0.02, "epochs": 20, "steps_per_epoch": 3}),
    "deadlock": (
        NAIVE,
        {
            "policy": "table",
            "prompts": "[[1,0,2,3,4]]",
            "reward_fn": "sort_exact_reward",
            "epochs": 10,
            "steps_per_epoch": 1,
        },
    ),
    "silent_groups": (
        NAIVE,
        {"policy": "table", "reward_fn": "sort_exact_reward", "epochs": 10, "steps_per_epoch": 1, "seed": 1},
    ),
    "idle_clip": (CLIPPED, {"clip_epsilon": 0.2, "learning_rate": 1e-4, "epochs": 10, "steps_per_epoch": 2}),
    "tight_clip": (
        CLIPPED,
        {"clip_epsilon": 1e-5, "policy": "table", "learning_rate": 0.01, "epochs": 5, "steps_per_epoch": 5},
    ),
    "strong_kl": (
        NAIVE,
        {"kl_coefficient": 1, "reference_period": 0, "learning_rate": 0.003, "epochs": 10, "steps_per_epoch": 5},
    ),
    "stale_samples": (
        UNCLIPPED,
        {
            "learning_rate": 0.02,
            "entropy_coefficient": 1,
            "vocab_size": 30,
            "epochs": 10,
            "steps_per_epoch": 20,
            "seed": 2,
        },
    ),
    "loss_alone": (
        NAIVE,
        {"entropy_coefficient": 5, "learning_rate": 0.001, "epochs": 30, "steps_per_epoch": 3, "seed": 0},
    ),
}
HEALTHY = {
    "solves the lecture's task, held by a clip": ("findings/really_sorts", {"seed": 3}),
    "solves it with another reward, a KL and a clip": (
        "lecture/centered_clipped_kl",
        {
            "policy": "table",
            "reward_fn": "sort_distance_reward",
            "kl_coefficient": 0.01,
            "clip_epsilon": 0.2,
            "learning_rate": 0.1,
            "epochs": 20,
            "steps_per_epoch": 5,
        },
    ),
    "learns slowly": ("lecture/two_state", {"epochs": 60, "steps_per_epoch": 1}),
    "solves another task": ("lecture/two_state", {"learning_rate": 0.05, "epochs": 40, "steps_per_epoch": 3}),
}


@pytest.mark.parametrize("kind", PROVOKED)
def test_a_run_that_has_it_is_told_that_and_nothing_else(kind):
    base, keys = PROVOKED[kind]
    findings, _, _ = trained(base, **keys)
    assert kinds(findings) == [kind]


@pytest.mark.parametrize("run", HEALTHY)
def test_in_a_run_that_is_well_nothing_stands_out(run):
    base, keys = HEALTHY[run]
    findings, _, epochs = trained(base, **keys)
    assert findings.all() == []
    assert epochs[-1][-1]["exact_match"] == 1
    assert set(findings.looks) == {kind.word for kind in KINDS}


def test_a_reward_that_pays_for_avoiding_the_right_answer_is_hacked():
    sorting = {"policy": "table", "learning_rate": 0.1, "epochs": 10, "steps_per_epoch": 5, "name": "sorts"}
    _, able, _ = trained(None, reward_fn="sort_distance_reward", **sorting)
    hacked = sorting | {"learning_rate": 0.03, "epochs": 20, "name": "hacks"}
    reward = {"sort_inclusion_ordering_reward": 1.0, "sort_exact_reward": -5.0}
    findings, _, _ = trained(None, able, reward_fn=reward, **hacked)
    assert kinds(findings) == ["reward_hacking"]
    numbers = findings.all()[0].numbers
    assert numbers["exact_match"] < numbers["exact_match_before"] == 1
    assert numbers["mean_reward"] > numbers["mean_reward_before"]


def test_a_run_that_has_settled_low_is_not_told_thrice_that_its_rewards_are_equal():
    findings, _, epochs = trained(NAIVE, learning_rate=0.02, epochs=40, steps_per_epoch=3)
    assert kinds(findings) == ["local_optimum"]
    assert all(rows[0]["zero_variance_groups"] == 1 for rows in epochs[-10:])


def test_a_task_that_was_solved_has_silent_groups_and_a_settled_policy_and_they_are_no_findings():
    facts = Facts(epochs=100, maximum_reward=5.0, uniform_entropy=1.6)
    solved = {"mean_reward": [2.0] * 5 + [4.9] * 35, "zero_variance_groups": 1.0, "reward_std": 0.0, "exact_match": 1.0}
    for entropy in (0.01, 0.3, 1.6):
        assert looked(facts, 40, entropy=entropy, **solved).all() == []
    below = looked(facts, 40, **solved | {"entropy": 0.01, "mean_reward": 4.0, "exact_match": 0.0})
    assert kinds(below) == ["local_optimum"]


def test_a_policy_that_is_still_rising_has_not_settled_for_good():
    facts = Facts(epochs=100, maximum_reward=5.0, uniform_entropy=1.6)
    rising = [2.0 + 0.05 * epoch for epoch in range(40)]
    assert looked(facts, 40, entropy=0.01, mean_reward=rising).all() == []


def test_silent_groups_are_told_beside_their_expected_share():
    facts = Facts(epochs=100, num_responses=4, maximum_reward=5.0, uniform_entropy=1.6)
    expected = [None] * 9 + [0.7]
    (finding,) = looked(facts, 10, zero_variance_groups=0.8, expected_zero_variance_groups=expected).all()
    assert finding.kind.word == "silent_groups"
    assert finding.seen.startswith("80 % of the groups had equal rewards; 70 % are expected of this policy")
    assert finding.numbers["expected"] == pytest.approx(0.7)
    (without,) = looked(facts, 10, zero_variance_groups=0.8).all()
    assert without.seen.startswith("80 % of the groups had equal rewards with 4 responses")


def test_groups_of_one_are_silent_by_themselves_and_only_a_reward_that_never_changes_is_a_deadlock():
    facts = Facts(epochs=100, num_responses=1, compares=False, maximum_reward=5.0, uniform_entropy=1.6)
    one = {"zero_variance_groups": 1.0, "reward_std": None}
    assert looked(facts, 20, mean_reward=[2.0, 3.0] * 10, **one).all() == []
    assert kinds(looked(facts, 20, mean_reward=2.0, **one)) == ["deadlock"]


def test_of_a_reward_whose_maximum_is_not_known_less_is_said():
    facts = Facts(epochs=100, uniform_entropy=1.6)
    silent = {"zero_variance_groups": 1.0, "reward_std": 0.0}
    assert kinds(looked(facts, 20, mean_reward=2.0, **silent)) == ["deadlock"]
    assert looked(facts, 20, mean_reward=2.0, entropy=0.01, **silent).all() == []  # it may have solved its task
    assert looked(facts, 20, mean_reward=[1.0] * 5 + [2.0] * 15, **silent).all() == []
    assert looked(facts, 20, mean_reward=2.0, exact_match=1.0, **silent).all() == []


@pytest.mark.parametrize("weight", [10.0, 20.0])
def test_where_reward_and_kl_are_in_balance_the_pull_is_the_push(weight):
    """At the optimum of E[R] - beta KL(pi || uniform) the policy is proportional to exp(R / beta)."""
    rewards = np.array(PAYMENTS)
    policy = np.exp(rewards / weight) / np.exp(rewards / weight).sum(axis=-1, keepdims=True)
    mean = (policy * rewards).sum(axis=-1)
    spread = np.sqrt((policy * (rewards - mean[:, None]) ** 2).sum(axis=-1)).mean()
    kl = (policy * np.log(2 * policy)).sum(axis=-1).mean()
    facts = Facts(epochs=10, maximum_reward=6.5, uniform_entropy=np.log(2), pull_weight=weight)
    for factor, said in ((0.9, []), (1.1, ["strong_kl"])):
        columns = {"reward_std": spread, "mean_reward": mean.mean(), "entropy": 0.69}
        findings = looked(facts, 10, kl=kl * factor**2, **columns)
        figures = findings.looks["strong_kl"].figures
        assert figures["pull"] == pytest.approx(figures["push"] * factor, rel=0.01)
        assert kinds(findings) == said


def test_one_evaluation_below_the_best_is_no_hacking():
    facts = Facts(epochs=100, uniform_entropy=1.6)
    rising = [1.0] * 10 + [2.0] * 30
    dip = [1.0] * 10 + [0.5] * 10 + [1.0] * 20
    assert looked(facts, 40, mean_reward=rising, exact_match=dip, solution_probability=dip).all() == []
    fall = [1.0] * 10 + [0.4] * 30
    assert kinds(looked(facts, 40, mean_reward=rising, exact_match=fall, solution_probability=fall)) == [
        "reward_hacking"
    ]
    sure = {"exact_match": fall, "solution_probability": 0.6}  # the likeliest answer changed, and hardly anything else
    assert looked(facts, 40, mean_reward=rising, **sure).all() == []


def test_shares_near_none_and_all_are_said_of_neither():
    assert [share(value) for value in (0.0, 2e-42, 0.004, 0.994, 0.99999, 1.0)] == [
        "0 %",
        "< 0.01 %",
        "0.4 %",
        "99.4 %",
        "> 99.9 %",
        "100 %",
    ]


@pytest.mark.parametrize("seeds", [None, 2])
def test_the_samples_of_epochs_that_learned_from_nothing_are_neither_stale_nor_fresh(seeds):
    facts = Facts(epochs=100, steps_per_epoch=2, seeds=seeds)
    sizes = [0.05, 0.02, *[float("nan")] * 2, *[0.9] * 6]
    assert kinds(looked(facts, 10, effective_sample_size=sizes)) == []
    (finding,) = looked(facts, 10, effective_sample_size=[0.05, *sizes[:-1]]).all()
    assert (
        "in 38 % of the epochs the effective sample size fell under 10 % of the tokens; the least was 2 %"
        in finding.seen
    )


def test_where_groups_without_variance_are_dropped_the_clip_holds_what_it_says():
    clipping = {"clip_fraction": 0.2, "zero_variance_groups": 0.8}
    thinned, dropped = (Facts(epochs=100, steps_per_epoch=2, drops=drops) for drops in (False, True))
    assert "tight_clip" in kinds(looked(thinned, 10, **clipping))
    assert "tight_clip" not in kinds(looked(dropped, 10, **clipping))
    assert "tight_clip" in kinds(looked(dropped, 10, **clipping | {"clip_fraction": 0.7}))
