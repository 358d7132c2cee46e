"""The golden values: float64, worked out elsewhere by plain loops; names repeat, so cases go by position."""

import json
from pathlib import Path

import pytest
import torch

from pgrl_cli.equations.advantages import ADVANTAGES, centered_rewards, gae, reward_to_go
from pgrl_cli.equations.attempts import expected_reward
from pgrl_cli.equations.averages import AVERAGES, response_sum, token_mean
from pgrl_cli.equations.categorical import joint_probabilities, score_squares
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES, importance_ratios
from pgrl_cli.registry import apply
from pgrl_cli.tasks.sorting import sorting
from pgrl_cli.tasks.two_state import two_state

CASES = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text())["cases"]
FOR_LATER = {"bradley_terry", "dpo/0.1"}
"""What this version has no equation for."""
OF_THE_DIAGNOSIS = {"binary_group_weights"}
"""What groups without end weigh right and wrong: of no equation, but of what a diagnosis makes of one."""


def cases(*families):
    return [
        pytest.param(case, id=f"{index}-{case['name']}")
        for index, case in enumerate(CASES)
        if case["name"].partition("/")[0] in families
    ]


COVERED = [
    case.values[0]["name"]
    for case in cases(
        "reward", "advantage", "gae", "reward_to_go", "loss", "kl", "two_state", "frozen_old_policy", "bandit"
    )
]
BY_HAND = {
    *("optimal_baseline", "true_value_baseline"),
    *("moving_average_baseline", "old_policy_baseline", "greedy_baseline", "batch_normalized_rewards"),
    *("n_step", "process_rewards"),
    *("sequence_clipped", "cispo", "importance_sampled"),
}
"""Modes whose values are worked out beside their laws, in tests named `by hand`."""


def test_the_golden_file_holds_nothing_that_is_neither_tested_nor_known_to_be_for_later():
    assert {case["name"] for case in CASES} - set(COVERED) == FOR_LATER | OF_THE_DIAGNOSIS
    assert len(COVERED) == 76


def test_every_equation_of_this_version_has_a_golden_value():
    words = {word for name in COVERED for word in name.split("/")}
    there = {*ADVANTAGES, *LOSSES, *AVERAGES, *DIVERGENCES, *sorting().rewards}
    assert there - words == BY_HAND


@pytest.mark.parametrize("case", cases("reward"))
def test_a_reward_has_its_golden_value(case):
    reward = sorting().rewards[case["name"].removeprefix("reward/")]
    prompts = torch.tensor([case["inputs"]["prompt"]])
    responses = torch.tensor([[case["inputs"]["response"]]])
    assert reward(prompts, responses).tolist() == [[case["expected"]]]


@pytest.mark.parametrize("case", cases("advantage"))
def test_an_advantage_has_its_golden_values(case):
    advantage = ADVANTAGES[case["name"].removeprefix("advantage/")]
    is_golden(advantage(double(case["inputs"]["rewards"])), case["expected"])


@pytest.mark.parametrize("case", cases("gae"))
def test_a_generalised_advantage_has_its_golden_values(case):
    inputs = case["inputs"]
    found = gae(double(inputs["rewards"]), double(inputs["values"]), discount=inputs["gamma"], gae_lambda=inputs["lam"])
    is_golden(found, case["expected"])


def test_the_worked_example_is_the_first_of_the_generalised_advantages():
    first = cases("gae")[0].values[0]
    assert (first["inputs"]["gamma"], first["inputs"]["lam"]) == (0.9, 0.8)
    assert first["expected"] == pytest.approx([0.28616, 0.328, 0.4], abs=1e-15)


@pytest.mark.parametrize("case", cases("reward_to_go"))
def test_a_reward_to_go_has_its_golden_values(case):
    is_golden(reward_to_go(double(case["inputs"]["rewards"]), discount=case["inputs"]["gamma"]), case["expected"])


@pytest.mark.parametrize("case", cases("loss"))
def test_an_averaged_loss_has_its_golden_value(case):
    inputs = case["inputs"]
    tensors = {name: double(inputs[name]) for name in ("log_probs", "old_log_probs", "advantages")}
    tensors["advantages"] = tensors["advantages"].unsqueeze(-1)
    knobs = {name: inputs[name] for name in ("clip_low", "clip_high", "dual_clip")}
    loss, average = LOSSES[case["name"].split("/")[1]], token_mean
    if inputs["mask"] is not None:
        average = AVERAGES[case["name"].rpartition("/")[2]]
        knobs["token_budget"] = inputs["token_budget"]
    losses = apply(loss, tensors, knobs)
    is_golden(apply(average, {"values": losses, "mask": mask_of(inputs, losses)}, knobs), case["expected"])


@pytest.mark.parametrize("case", [case for case in cases("kl") if "p" not in case.values[0]["inputs"]])
def test_a_divergence_summed_over_tokens_has_its_golden_value(case):
    inputs = case["inputs"]
    divergence = DIVERGENCES[case["name"].split("/")[1]]
    values = divergence(double(inputs["log_probs"]), double(inputs["reference_log_probs"]))
    is_golden(response_sum(values, mask_of(inputs, values)), case["expected"])


@pytest.mark.parametrize("case", [case for case in cases("kl") if "p" in case.values[0]["inputs"]])
def test_the_exact_divergence_of_two_distributions_has_its_golden_value(case):
    inputs = case["inputs"]
    is_golden(DIVERGENCES["exact"](double(inputs["p"]).log(), double(inputs["q"]).log()), case["expected"])


@pytest.mark.parametrize("case", cases("bandit"))
def test_a_bandits_value_and_the_baseline_with_the_least_variance_have_their_golden_values(case):
    rewards, vocab_log_probs = double(case["inputs"]["rewards"]), double(case["inputs"]["logits"]).log_softmax(dim=-1)
    probabilities = joint_probabilities(vocab_log_probs[None])
    arms = torch.arange(len(rewards))[None, :, None]
    weights = probabilities * score_squares(arms, vocab_log_probs.view(1, 1, 1, -1)).flatten()
    value, best = expected_reward(rewards, probabilities), (weights @ rewards) / weights.sum()
    gradient = probabilities * (rewards - value)
    is_golden(probabilities, case["expected"]["probabilities"])
    is_golden(value, case["expected"]["value"])
    is_golden(gradient, case["expected"]["gradient"])
    is_golden(best, case["expected"]["optimal_baseline"])
    for name, baseline in (("none", 0.0), ("mean", value), ("optimal", best)):
        variance = weights @ (rewards - baseline).square() - gradient.square().sum()
        is_golden(variance, case["expected"]["total_variance"][name])


@pytest.mark.parametrize("case", cases("two_state"))
def test_a_baseline_cuts_the_standard_deviation_of_the_two_state_rewards(case):
    task = two_state()
    both_actions = torch.tensor([[[0], [1]], [[0], [1]]])
    rewards = task.rewards["two_state_reward"](task.prompts, both_actions).double()
    baselined = centered_rewards(rewards)
    assert rewards.flatten().tolist() == case["inputs"]["rewards"]
    assert baselined.flatten().tolist() == case["inputs"]["baselined"]
    is_golden(rewards.std(), case["expected"]["naive"])
    is_golden(baselined.std(), case["expected"]["baselined"])


@pytest.mark.parametrize("case", cases("frozen_old_policy"))
def test_a_ratio_has_a_gradient_only_if_the_old_policy_is_frozen(case):
    w = torch.tensor(case["inputs"]["w"], dtype=torch.float64, requires_grad=True)
    log_prob = torch.nn.functional.logsigmoid(w)
    for old, expected in ((log_prob, "differentiated"), (log_prob.detach(), "frozen")):
        (gradient,) = torch.autograd.grad(importance_ratios(log_prob, old), w, retain_graph=True)
        is_golden(gradient, case["expected"][expected])


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def mask_of(inputs, values):
    return torch.ones_like(values, dtype=torch.bool) if inputs["mask"] is None else torch.tensor(inputs["mask"]).bool()


def is_golden(actual, expected):
    torch.testing.assert_close(actual, double(expected), rtol=0, atol=1e-12)
