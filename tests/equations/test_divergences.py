"""Each estimator of KL(policy || reference), against sums over the whole vocabulary written out here."""

import math

import pytest
import torch
from equations.exact import WORLDS, numbers, one_token
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.averages import response_sum
from pgrl_cli.equations.divergences import DIVERGENCES, exact, k1, k2, k3
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.registry import apply

WORLD = one_token()
SAMPLED = [k1, k2, k3]
sampled = pytest.mark.parametrize("estimator", SAMPLED)
worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
patient = settings(deadline=None, derandomize=True)


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def per_token(estimator, world, logits):
    """The estimate at each token of each response: [response token]."""
    if estimator is exact:
        return exact(logits.log_softmax(dim=-1), world.reference.log_softmax(dim=-1))[world.rows]
    return estimator(world.log_probs(logits), world.log_probs(world.reference))


def as_loss(estimator, world, logits):
    """The expected loss of responses drawn from the policy as it stands: what is drawn does not move with it."""
    return world.chances(logits).detach() @ per_token(estimator, world, logits).sum(dim=-1)


def test_the_estimators_here_are_all_there_are():
    assert set(DIVERGENCES.values()) == {*SAMPLED, exact}


@worlds
@pytest.mark.parametrize("estimator", [k1, k3, exact])
def test_the_mean_under_the_policy_is_the_exact_kl(world, estimator):
    """Of a whole response too: the KL of a sequence is the sum of its tokens'."""
    mean = world.chances(world.logits) @ per_token(estimator, world, world.logits).sum(dim=-1)
    assert mean.item() == pytest.approx(world.kl(world.logits).item(), abs=1e-12)


def test_k2_is_biased_by_a_number_known_in_closed_form():
    policy, reference = double([1 / 2, 1 / 2]), double([1 / 4, 3 / 4])
    kl = math.log(4 / 3) / 2
    mean_k2 = (math.log(2) ** 2 + math.log(2 / 3) ** 2) / 4
    mean = policy @ k2(policy.log(), reference.log())
    assert exact(policy.log(), reference.log()).item() == pytest.approx(kl, abs=1e-15)
    assert mean.item() == pytest.approx(mean_k2, abs=1e-15)
    assert mean.item() - kl == pytest.approx(0.0173727, abs=1e-7)


def test_each_estimate_by_hand():
    policy, reference = double([1 / 2]).log(), double([1 / 8]).log()
    assert k1(policy, reference).item() == pytest.approx(math.log(4))
    assert k2(policy, reference).item() == pytest.approx(math.log(4) ** 2 / 2)
    assert k3(policy, reference).item() == pytest.approx(1 / 4 - 1 + math.log(4))
    assert exact(double([1 / 2, 1 / 2]).log(), double([1 / 8, 7 / 8]).log()).item() == pytest.approx(
        math.log(4) / 2 + math.log(4 / 7) / 2
    )


def test_as_losses_on_one_token_the_estimators_descend_what_their_module_says():
    """The gradients by the logits in closed form: p (log p/q - KL) of KL(p || q), and p - q of KL(q || p)."""
    p, q = WORLD.logits.softmax(dim=-1), WORLD.reference.softmax(dim=-1)
    gap = p.log() - q.log()
    forward, backward = p * (gap - (p * gap).sum()), p - q
    expected = {k1: torch.zeros_like(p), k2: forward, k3: backward, exact: forward}
    for estimator, gradient in expected.items():
        found = WORLD.gradient(lambda logits, estimator=estimator: as_loss(estimator, WORLD, logits))
        torch.testing.assert_close(found, gradient, rtol=0, atol=1e-14)
    assert (forward - backward).abs().max() > 0.05


@worlds
@pytest.mark.parametrize("estimator", [k2, k3, exact])
@pytest.mark.parametrize("seed", range(10, 15))
def test_one_step_with_nothing_but_the_kl_lowers_it(world, estimator, seed):
    logits = numbers(*world.logits.shape, seed=seed).requires_grad_()
    (gradient,) = torch.autograd.grad(as_loss(estimator, world, logits), logits)
    with torch.no_grad():
        assert world.kl(logits - 0.05 * gradient) < world.kl(logits) - 1e-4


@worlds
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("mode", ["rewards", "centered_rewards", "leave_one_out_rewards"])
def test_k1_taken_from_the_reward_lowers_the_kl(world, mode, loss):
    """In the reward a KL is a number, and the score function turns it into the gradient of the exact one."""
    members, chances = world.groups(2)
    old = world.log_probs(world.logits)
    rewards = -k1(old, world.log_probs(world.reference)).sum(dim=-1)[members].unsqueeze(-2)
    advantages = ADVANTAGES[mode](rewards).unsqueeze(-1)

    def objective(logits):
        tensors = {
            "log_probs": world.log_probs(logits)[members].unsqueeze(-3),
            "old_log_probs": old[members].unsqueeze(-3),
            "advantages": advantages,
        }
        values = apply(loss, tensors, {})
        return chances @ response_sum(values, torch.ones_like(values, dtype=torch.bool))

    gradient = world.gradient(objective)
    shrunk = 1 / 2 if mode == "centered_rewards" else 1
    torch.testing.assert_close(gradient, shrunk * world.gradient(world.kl), rtol=0, atol=1e-12)
    assert world.kl(world.logits - 0.05 * gradient) < world.kl(world.logits) - 1e-4


@given(log_probs=st.lists(st.floats(-50, 0), min_size=1, max_size=6))
@patient
def test_where_the_policies_agree_every_estimate_is_exactly_zero(log_probs):
    for dtype in (torch.float32, torch.float64):
        both = torch.tensor(log_probs, dtype=dtype)
        for estimator in DIVERGENCES.values():
            estimate = estimator(both, both.clone())
            assert torch.equal(estimate, torch.zeros_like(estimate))


@pytest.mark.parametrize("estimator", [k2, k3])
@given(log_prob=st.floats(-1000, 0), reference=st.floats(-1000, 0))
@patient
def test_k2_and_k3_are_never_negative(estimator, log_prob, reference):
    for dtype in (torch.float32, torch.float64):
        both = torch.tensor([log_prob, reference], dtype=dtype)
        assert estimator(both[0], both[1]).item() >= 0


@given(data=st.data(), vocab=st.integers(2, 6))
@patient
def test_the_exact_kl_is_never_negative(data, vocab):
    """Up to rounding: terms of both signs cancel in it, each below 60 nats."""
    logits = st.lists(st.floats(-30, 30), min_size=vocab, max_size=vocab)
    policy, reference = (double(data.draw(logits)).log_softmax(dim=-1) for _ in range(2))
    assert exact(policy, reference).item() >= -1e-13


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@sampled
def test_log_ratios_of_a_thousand_leave_estimates_and_gradients_finite(estimator, dtype):
    reference = torch.tensor([-1001.0, -1.0], dtype=dtype)
    log_probs = torch.tensor([-1.0, -1001.0], dtype=dtype, requires_grad=True)
    estimates = estimator(log_probs, reference)
    (gradient,) = torch.autograd.grad(estimates.sum(), log_probs)
    assert estimates.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("estimator", [k2, k3])
@given(log_prob=st.floats(-1000, 0), reference=st.floats(-1000, 0))
@patient
def test_as_a_loss_the_pull_is_never_away_from_the_reference(estimator, log_prob, reference):
    log_probs = double(log_prob).requires_grad_()
    (gradient,) = torch.autograd.grad(estimator(log_probs, double(reference)), log_probs)
    assert gradient.item() * (log_prob - reference) >= 0


@pytest.mark.parametrize("log_ratio", [19.0, 21.0, 1e3, 1e9, 1e20, -21.0, -1e3])
def test_k3_is_never_negative_however_far_the_policies_are_apart(log_ratio):
    value = k3(torch.tensor(-log_ratio), torch.tensor(0.0)).item()
    assert value > 0
    if log_ratio < 0:
        assert value == pytest.approx(-log_ratio - 1, rel=1e-5)
