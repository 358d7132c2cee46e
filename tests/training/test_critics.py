"""Critics: what they are given, what they learn and move, and that they learn what is true."""

import math
from itertools import product

import pytest
import torch
from training.lecture import config, records

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from
from pgrl_cli.experiment import RunFailed, run
from pgrl_cli.resolution import resolve
from pgrl_cli.training.objectives import critic_loss
from pgrl_cli.training.rollouts import collect
from pgrl_cli.training.trainer import train

GAE = {"delta_mode": "gae", "num_responses": 4, "epochs": 2, "steps_per_epoch": 3, "learning_rate": 0.01}
ENDS = GAE | {"task": "addition", "prompt_count": 4, "reward_fn": "partial"}


def opinionated(one):
    """Parts, a state whose critic finds all things worth something, and a rollout of it."""
    parts, state = assemble([one])
    with torch.no_grad():
        state.learner.parameters.add_(0.5)
    return parts, state, collect(parts, one, state)[0]


def length_of(response, end):
    return response.index(end) + 1 if end in response else None


@pytest.mark.parametrize("truncation", ["bootstrap", "end"])
def test_nothing_is_worth_anything_behind_an_end_and_a_cut_is_worth_what_its_key_says(truncation):
    parts, _, rollout = opinionated(config(**ENDS | {"num_responses": 60, "policy": "table"}, truncation=truncation))
    limit, kinds = parts.task.response_length, set()
    pairs = zip(rollout["responses"].flatten(0, 1).tolist(), rollout["values"].flatten(0, 1).tolist(), strict=True)
    for response, values in pairs:
        length = length_of(response, parts.task.end)
        kinds.add(length)
        known = limit + (truncation == "bootstrap") if length is None else length
        assert all(value != 0 for value in values[:known])
        assert values[known:] == [0] * (limit + 1 - known)
    assert kinds == {1, 2, 3, None}


def returns(rewards, values, discount, decay):
    """Lambda-returns backwards: r + discount ((1 - lambda) V + lambda G) of what comes next."""
    found, after = [], values[-1]
    for reward, value in zip(reversed(rewards), reversed(values[1:]), strict=True):
        after = reward + discount * ((1 - decay) * value + decay * after)
        found.append(after)
    return found[::-1]


@pytest.mark.parametrize(("target", "decay"), [("td", 0.0), ("monte_carlo", 1.0), ("lambda_return", 0.6)])
def test_targets_are_those_of_the_values_at_sampling_and_of_what_each_token_earned(target, decay):
    knobs = {"discount": 0.9, "gae_lambda": 0.6, "reward_scale": 2.0, "reward_shift": -1.0}
    pull = {"kl_coefficient": 0.5, "kl_placement": "reward", "reference_period": 0}
    one = config(**ENDS | {"epochs": 1}, **knobs, **pull, value_target=target)
    parts, state = assemble([one])
    list(train(parts, one, state))  # away from the reference
    rollout = collect(parts, one, state)[0]
    assert not rollout["targets"].requires_grad
    lists = [rollout[name].flatten(0, 1).tolist() for name in ("responses", "task_rewards", "values", "targets")]
    log_ratios = (rollout["old_log_probs"] - rollout["reference_log_probs"]).flatten(0, 1).tolist()
    for response, reward, values, targets, ratios in zip(*lists, log_ratios, strict=True):
        length = length_of(response, parts.task.end) or len(response)
        paid = [-0.5 * ratio for ratio in ratios[:length]]
        paid[-1] += 2 * reward - 1
        expected = returns(paid, values[: length + 1], 0.9, decay)
        assert targets[:length] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("clip", [None, 0.05])
def test_the_value_loss_is_half_the_mean_square_of_the_tokens_that_count_by_hand(clip):
    one = config(**ENDS, critic="separate", value_clip=clip, critic_learning_rate=0.05)
    parts, state, rollout = opinionated(one)
    with torch.no_grad():
        state.learner.parameters.add_(torch.linspace(-0.3, 0.3, state.learner.parameters.numel()))
    critic = state.learner.critic
    values = critic.values(state.policy, rollout["prompts"], rollout["responses"]).expand(rollout["values"].shape)
    losses = []
    for at, inside in enumerate(rollout["mask"].flatten().tolist()):
        value, old = (each[..., :-1].flatten()[at].item() for each in (values, rollout["values"]))
        target = rollout["targets"].flatten()[at].item()
        held = value if clip is None else old + min(max(value - old, -clip), clip)
        if inside:
            losses.append(max((value - target) ** 2, (held - target) ** 2) / 2)
    found = critic_loss(parts, one, critic, state.policy, rollout)
    assert found.item() == pytest.approx(sum(losses) / len(losses), rel=1e-12)


def test_the_explained_variance_is_that_of_the_values_at_sampling():
    one = config(**ENDS | {"num_responses": 40}, critic="shared", critic_learning_rate=0.05)
    last = records(one)[0][-1]
    mask = last.rollout["mask"]
    targets, values = last.rollout["targets"][mask], last.rollout["values"][..., :-1][mask]
    expected = 1 - (targets - values).var(correction=0) / targets.var(correction=0)
    row = next(last.rows(one))
    assert row["explained_variance"] == pytest.approx(expected.item(), rel=1e-9)
    assert row["value_loss"] == pytest.approx(((targets - values).square().mean() / 2).item(), rel=1e-9)


def test_where_no_reward_varies_nothing_is_explained_and_nothing_is_wrong():
    one = config(**GAE | {"epochs": 1}, prompts=[[0, 0]], vocab_size=1, value_target="monte_carlo")
    row = next(records(one)[0][0].rows(one))
    assert math.isnan(row["explained_variance"])
    assert "nonfinite" not in row


def after_an_epoch(**keys):
    _, state = records(config(**GAE | {"epochs": 1} | keys))
    return state.parameters, state.learner.parameters


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_a_critic_of_its_own_and_the_policy_do_not_move_each_other_and_on_one_body_they_do(critic):
    policy, value = after_an_epoch(critic=critic)
    other_policy, _ = after_an_epoch(critic=critic, critic_learning_rate=0.05)
    _, other_value = after_an_epoch(critic=critic, learning_rate=0.05)
    assert torch.equal(policy, other_policy) == (critic == "separate")
    assert torch.equal(value, other_value) == (critic == "separate")
    assert not torch.equal(value, torch.zeros_like(value))


@pytest.mark.parametrize("target", ["monte_carlo", "td"])
def test_it_learns_the_true_values_of_a_policy_that_stands_still(target):
    still = {"optimizer": "sgd", "learning_rate": 1e-12, "critic_optimizer": "adam", "critic_learning_rate": 0.05}
    small = {"prompts": [[0, 1], [1, 1]], "vocab_size": 2, "policy": "table", "reward_fn": "sort_distance_reward"}
    few = {"epochs": 80, "steps_per_epoch": 2, "eval_period": 0, "num_responses": 150}
    one = config(**GAE | small | still | few, value_target=target)
    parts, state = assemble([one])
    with torch.no_grad():
        state.parameters.copy_(torch.tensor([1.0, 0.0, -0.5, 0.5, 0.3, 0.0, 0.0, 2.0]))
    found = []
    for record in train(parts, one, state):
        found.append(record.rollout["values"][:, 0, :-1])
    chances = state.policy.table.detach().softmax(dim=-1).tolist()
    for prompt, learned, rows in zip([[0, 1], [1, 1]], torch.stack(found[-20:]).mean(dim=0), chances, strict=True):
        true = 0.0
        for response in product(range(2), repeat=2):
            chance = math.prod(row[token] for row, token in zip(rows, response, strict=True))
            true += chance * sum(a == b for a, b in zip(response, prompt, strict=True))
        assert learned.tolist() == pytest.approx([true, true], abs=0.04)


DIVERGING = {"delta_mode": "gae", "critic_optimizer": "sgd", "dtype": "float32", "epochs": 3, "steps_per_epoch": 2}


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_a_critic_that_diverges_stops_its_run_alone_and_is_named(critic):
    def trained(rate):
        cells = [config(**DIVERGING, critic=critic, critic_learning_rate=each) for each in (1e-3, rate, 2e-3)]
        parts, state = assemble(cells)
        faults = {}
        for record in train(parts, cells[0], state):
            faults |= record.faults
        return state, faults

    (broken, faults), (whole, nothing) = trained(1e30), trained(1e-2)
    assert list(faults) == [1]
    assert faults[1].told.startswith("the critic's loss is inf: values from")
    assert not nothing
    assert broken.stopped.tolist() == [False, True, False]
    for other in (0, 2):
        assert torch.equal(broken.parameters[other], whole.parameters[other])
        assert torch.equal(broken.learner.parameters[other], whole.learner.parameters[other])
    assert broken.learner.parameters.isfinite().all()


def test_a_critic_that_is_no_longer_finite_is_told_so_and_no_skipping_saves_it():
    keys = DIVERGING | {"critic_learning_rate": 3e38, "reward_scale": 1e6, "critic": "separate", "on_nonfinite": "skip"}
    first, second, _ = (record.faults[0] for record in records(config(**keys))[0])
    for fault in (first, second):
        assert fault.told.startswith("the critic is not finite, of parameters from")
        assert fault.spoilt


def test_among_the_terms_of_a_gradient_that_is_too_large_are_the_critic_and_the_old_policy():
    keys = DIVERGING | {"old_kl_coefficient": 1e38, "loss_mode": "unclipped", "learning_rate": 0.1}
    told = next(record.faults[0].told for record in records(config(**keys))[0] if record.faults)
    assert "e+38 times KL(old || policy)" in told
    assert "the critic's loss" in told


@pytest.mark.usefixtures("undrawn")
def test_a_critic_that_the_last_step_of_all_has_spoilt_fails_its_run(tmp_path):
    keys = DIVERGING | {"epochs": 1, "steps_per_epoch": 1, "critic_learning_rate": 3e38, "reward_scale": 1e6}
    with pytest.raises(RunFailed, match="the critic is not finite after step 0, the last"):
        run(resolve(layers_from(keys | {"name": "x", "critic": "separate"})), tmp_path)
