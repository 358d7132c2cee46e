"""What a delta mode is given: true values and squared scores, against sums over every response written as loops."""

from itertools import product
from math import log, prod
from statistics import stdev

import pytest
import torch
from training.lecture import assert_same_runs, config, records

from pgrl_cli.assembly import assemble
from pgrl_cli.equations.advantages import leave_one_out_rewards, optimal_baseline
from pgrl_cli.equations.returns import process_rewards
from pgrl_cli.planning import Piece, stacked
from pgrl_cli.policies import POLICIES
from pgrl_cli.training import outcomes
from pgrl_cli.training.on_demand import true_values
from pgrl_cli.training.rollouts import collect
from pgrl_cli.training.trainer import train
from pgrl_cli.workload import bytes_of

WEIGHTS = {"sort_exact_reward": 1.0, "sort_distance_reward": 0.25}
MOVED = {"reference_period": 0, "learning_rate": 0.01, "epochs": 4, "steps_per_epoch": 3}
any_policy = pytest.mark.parametrize("policy", POLICIES)


def points(right, response):
    """The rewards of WEIGHTS, in plain Python."""
    return (response == right) + 0.25 * sum(ours == theirs for ours, theirs in zip(response, right, strict=True))


def k1(ours, theirs):
    """The estimate of a whole response, of the probabilities of its tokens."""
    return sum(log(a / b) for a, b in zip(ours, theirs, strict=True))


def k3(ours, theirs):
    return sum(b / a - 1 for a, b in zip(ours, theirs, strict=True)) + k1(ours, theirs)


def rollout_after(one, epochs=2):
    """Parts and state after some epochs, and the rollout that comes next."""
    parts, state = assemble([one])
    for _ in zip(range(epochs), train(parts, one, state), strict=False):
        pass
    return parts, state, collect(parts, one, state)[0]


def chances_of(policy, prompts, responses):
    """The probability of each token of each response to each prompt, as lists."""
    logits = policy.logits(prompts, responses).detach().expand(*responses.shape, -1)
    return logits.softmax(dim=-1).gather(-1, responses.unsqueeze(-1)).squeeze(-1).tolist()


def expected(parts, prompts, policy, reference, shaped):
    """The expected shaped reward of each prompt: a sum over responses, one at a time."""
    every = list(product(range(parts.task.vocab_size), repeat=parts.task.response_length))
    responses = torch.tensor(every).expand(len(prompts), -1, -1)
    now, then = (chances_of(each or policy, prompts, responses) for each in (policy, reference))
    values = []
    for prompt, ours, theirs in zip(prompts.tolist(), now, then, strict=True):
        value = 0.0
        for response, chances, before in zip(every, ours, theirs, strict=True):
            value += prod(chances) * shaped(sorted(prompt), list(response), chances, before)
        values.append(value)
    return torch.tensor(values, dtype=torch.float64)


@any_policy
def test_the_true_value_of_a_prompt_is_its_expected_shaped_reward(policy):
    shaping = {"reward_fn": WEIGHTS, "reward_scale": 2.0, "reward_shift": -3.0}
    one = config(**MOVED, **shaping, policy=policy, delta_mode="true_value_baseline")
    parts, state, rollout = rollout_after(one)
    values = expected(parts, parts.task.prompts, state.policy, None, lambda r, y, *_: 2 * points(r, y) - 3)
    advantages = rollout["rewards"] - values[:, None]
    torch.testing.assert_close(rollout["advantages"].squeeze(-1), advantages, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("estimator", "kl"), [("k1", k1), ("k3", k3)])
def test_a_kl_in_the_reward_is_in_the_true_value_too_and_so_are_the_prompts_of_the_epoch_alone(estimator, kl):
    keys = {"kl_coefficient": 0.5, "kl_placement": "reward", "kl_estimator": estimator, "prompts_per_epoch": 2}
    one = config(**MOVED, **keys, reward_fn=WEIGHTS, delta_mode="true_value_baseline", num_responses=1)
    parts, state, rollout = rollout_after(one)
    prompts = rollout["prompts"]
    assert prompts.tolist() != parts.task.prompts[:2].tolist()
    values = expected(parts, prompts, state.policy, state.reference, lambda r, y, *of: points(r, y) - 0.5 * kl(*of))
    advantages = rollout["rewards"] - values[:, None]
    torch.testing.assert_close(rollout["advantages"].squeeze(-1), advantages, rtol=0, atol=1e-12)


@any_policy
def test_the_optimal_baseline_weighs_responses_by_their_squared_scores(policy):
    one = config(**MOVED, policy=policy, delta_mode="optimal_baseline")
    parts, state, rollout = rollout_after(one)
    chances = state.policy.logits(parts.task.prompts, rollout["responses"]).detach().softmax(dim=-1)
    drawn = torch.nn.functional.one_hot(rollout["responses"], parts.task.vocab_size)
    squares = (drawn - chances).square().sum(dim=(-2, -1))
    advantages = optimal_baseline(rollout["rewards"], squares)
    torch.testing.assert_close(rollout["advantages"].squeeze(-1), advantages, rtol=0, atol=1e-12)
    assert (advantages - leave_one_out_rewards(rollout["rewards"])).abs().max() > 0.01


@any_policy
@pytest.mark.parametrize("estimator", ["k3", "exact"])
def test_runs_whose_baselines_need_all_that_there_is_are_the_same_alone_and_in_company(policy, estimator):
    keys = {"kl_placement": "reward", "kl_estimator": estimator, "policy": policy, "epochs": 3, "reference_period": 2}
    own = [
        {"delta_mode": "rewards"},
        {"delta_mode": "true_value_baseline", "seeds": [3, 1], "reward_scale": 2.0},
        {"delta_mode": "true_value_baseline", "kl_coefficient": 0.2, "reward_fn": "sort_distance_reward"},
        {"delta_mode": "optimal_baseline", "seeds": 2, "kl_coefficient": 0.3},
    ]
    cells = [config(**{"kl_coefficient": 0.1} | keys | each) for each in own]
    together, _ = records(*cells)
    runs = [cell.model_copy(update={"seeds": None, "seed": seed}) for cell in cells for seed in cell.run_seeds]
    for index, one in enumerate(runs):
        assert_same_runs(together, records(one)[0], index, one)


def test_what_every_response_earns_is_asked_once_and_only_where_somebody_needs_it(monkeypatch):
    asked = []
    points = outcomes.points

    def counted(rewards, prompts, responses, dtype):
        asked.append(tuple(rewards))
        return points(rewards, prompts, responses, dtype)

    monkeypatch.setattr(outcomes, "points", counted)  # what an epoch's own responses earn is asked elsewhere
    keys = {"epochs": 3, "eval_period": 0}
    records(config(**keys, delta_mode="true_value_baseline"))
    assert asked == [("sort_inclusion_ordering_reward",)]
    asked.clear()
    modes = ("rewards", "optimal_baseline", "true_value_baseline")
    records(*(config(**keys, delta_mode=mode, reward_fn="sort_distance_reward") for mode in modes))
    assert asked == [("sort_distance_reward",)]


def test_rewards_scored_in_pieces_are_those_scored_at_once(monkeypatch):
    parts, _ = assemble([config(reward_fn=WEIGHTS)])
    at_once = parts.shares[0].outcomes.task_rewards
    monkeypatch.setattr(outcomes, "AT_ONCE", 100)
    parts, _ = assemble([config(reward_fn=WEIGHTS)])
    assert torch.equal(parts.shares[0].outcomes.task_rewards, at_once)
    assert at_once.shape == (3, 125)


def test_a_reward_of_ones_own_is_never_asked_for_every_response_there_is(tmp_path):
    (tmp_path / "own.py").write_text("def points(prompt, response): return 1.0\n")
    one = config(folder=tmp_path, reward_fn="own.py:points")
    parts, state = assemble([one])
    assert parts.shares[0].outcomes is None
    with pytest.raises(ValueError, match="not asked for every response"):
        true_values(parts, one, state, parts.shares[0], {})


def test_memory_is_counted_so_that_a_sweep_splits_what_goes_through_every_response():
    modes = ("leave_one_out_rewards", "true_value_baseline")
    large = {"prompt_count": 6, "prompt_length": 4, "vocab_size": 10, "seeds": 40, "dtype": "float32"}
    pulled = {"kl_coefficient": 0.1, "kl_placement": "reward"}
    plain, true = (config(**large, delta_mode=mode) for mode in modes)
    assert bytes_of(true) > 8 * bytes_of(plain)
    assert bytes_of(config(**large, **pulled, delta_mode=modes[1])) > 5 * bytes_of(true)
    pieces = [[Piece(str(n), {}, each) for n in range(20)] for each in (plain, true)]
    assert [len(list(stacked(each, 1))) for each in pieces] == [1, 2]


STEPS = """
def points(prompt, response):
    return [float(token) if token != 1 else None for token in response]

def whole(prompt, response):
    return float(response == sorted(response))
"""


def step_advantages(group, kl, whole, more):
    """DeepSeekMath's section 4.1.3 in plain Python: a step ends with each token but 1, and is paid that token.

    group, kl [response token]; whole [response] is paid with the last token, which ends a step where there is more.
    """
    steps = []
    for response, pull, due_at_last in zip(group, kl, whole, strict=True):
        due, paid = 0.0, {}
        for place, (token, penalty) in enumerate(zip(response, pull, strict=True)):
            last = place == len(response) - 1
            due += (token if token != 1 else 0.0) - penalty + (due_at_last if last else 0.0)
            if token != 1 or (last and more):
                paid[place], due = due, 0.0
        steps.append(paid)
    everything = [reward for paid in steps for reward in paid.values()]
    deviation = stdev(everything) if len(everything) > 1 else 0.0
    mean = sum(everything) / max(1, len(everything))
    score = [{place: (reward - mean) / (deviation + 1e-5) for place, reward in paid.items()} for paid in steps]
    return [[sum(z for end, z in each.items() if end >= place) for place in range(len(group[0]))] for each in score]


@pytest.mark.parametrize("names", [["points"], ["points", "whole"]])
@pytest.mark.parametrize(
    "keys", [{}, {"reward_shift": -0.5}, {"kl_coefficient": 0.5, "kl_placement": "reward", "kl_estimator": "k1"}]
)
def test_rewards_of_steps_are_normalised_over_the_steps_that_there_are(tmp_path, names, keys):
    (tmp_path / "mine.py").write_text(STEPS)
    rewards = dict.fromkeys((f"{tmp_path / 'mine.py'}:{name}" for name in names), 1.0)
    one = config(**MOVED, **keys, reward_fn=rewards, delta_mode="process_rewards", num_responses=3)
    parts, _, rollout = rollout_after(one)
    responses = rollout["responses"]
    pulls = 0.5 * rollout["token_kl"] if "kl_coefficient" in keys else torch.zeros(responses.shape)
    shift = keys.get("reward_shift", 0.0)
    expected = []
    for group, pull in zip(responses.tolist(), pulls.tolist(), strict=True):
        whole = [shift + ("whole" in names and response == sorted(response)) for response in group]
        expected.append(step_advantages(group, pull, whole, "whole" in names or bool(keys)))
    assert (responses == 1).any(dim=-1).any()
    torch.testing.assert_close(rollout["advantages"], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)
    for reward, _ in parts.shares[0].rewards.values():
        reward.close()


def test_what_weighs_nothing_ends_no_step(tmp_path):
    (tmp_path / "mine.py").write_text(STEPS)
    points, whole = (f"{tmp_path / 'mine.py'}:{name}" for name in ("points", "whole"))
    words = MOVED | {"delta_mode": "process_rewards", "num_responses": 3}
    found = []
    for rewards in ({points: 1.0}, {points: 1.0, whole: 0.0}, {points: 1.0, whole: 1e-9}):
        parts, _, rollout = rollout_after(config(**words, reward_fn=rewards))
        found.append(rollout["advantages"])
        parts.close()
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


def test_a_group_without_any_step_learns_nothing():
    advantages = process_rewards(torch.ones(2, 3, 4), torch.zeros(2, 3, 4, dtype=torch.bool))
    assert advantages.tolist() == torch.zeros(2, 3, 4).tolist()
