"""TRPO's step against Fisher matrices that are written out, and against steps worked out by hand."""

import math

import pytest
import torch
from policies.built import TASK, built

from pgrl_cli.policies import POLICIES
from pgrl_cli.policies.stack import joined, lay_together, side_by_side
from pgrl_cli.training.natural import conjugate, fisher_products, mean_kl, trpo

PROMPTS = TASK.prompts
EVERY = TASK.every_response().expand(len(PROMPTS), -1, -1)
"""[prompt response token]: all nine responses to each prompt."""
any_policy = pytest.mark.parametrize("name", POLICIES)


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def normal(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


POINTS = normal(*EVERY.shape[:2], seed=5)
"""[prompt response]: what each of them earns."""
SOME = normal(*EVERY.shape, seed=6) < 0.5
"""[prompt response token]: a mask."""


class Climb:
    """A policy, or a stack of them, on the way to more points: all that a step asks for."""

    def __init__(self, *policies):
        stacked = len(policies) > 1
        self.policy = side_by_side(policies) if stacked else policies[0]
        self.parameters = lay_together(self.policy, stacked)
        self.start = self.parameters.clone()
        self.responses = EVERY.expand(len(policies), *EVERY.shape) if stacked else EVERY
        self.before = self.vocab_log_probs().detach()
        self.gradient = joined(torch.autograd.grad(self.loss().sum(), list(self.policy.parameters())), stacked)

    def vocab_log_probs(self):
        return self.policy.vocab_log_probs(PROMPTS, self.responses)

    def loss(self):
        return -(self.policy.every_probability(PROMPTS, self.responses) * POINTS).sum(dim=(-2, -1))

    def trial(self):
        return self.loss(), mean_kl(self.before, self.vocab_log_probs(), None)

    def step(self, **knobs):
        product = fisher_products(self.policy, PROMPTS, self.responses, None)
        return trpo(self.parameters, self.gradient, product, self.trial, **knobs)


def test_going_back_ends_where_rounding_leaves_nothing_of_a_step_however_often_it_may_be_halved():
    climb, tried = Climb(built("table")), []

    def trial():
        tried.append(climb.parameters.clone())
        return torch.ones(()), torch.zeros(())

    climb.trial = trial
    step = climb.step(backtracks=2**31 - 1)
    assert not step.moved
    assert 20 < len(tried) < 2000
    assert torch.equal(climb.parameters, climb.start)


def scores(policy):
    """[score parameter]: the slope of every log-prob of every token after every response's beginning; the shape."""
    log_probs = policy.vocab_log_probs(PROMPTS, EVERY)
    leaves = list(policy.parameters())
    slopes = [torch.autograd.grad(one, leaves, retain_graph=True) for one in log_probs.flatten()]
    return torch.stack([joined(slope, False) for slope in slopes]), log_probs.detach()


def shares(log_probs, mask):
    """[score]: how much each score counts in the mean over tokens."""
    weights = log_probs.exp().expand(*EVERY.shape, TASK.vocab_size) * mask.unsqueeze(-1)
    weights = weights / mask.sum()
    return (weights.sum(dim=-3) if log_probs.shape[-3] == 1 else weights).flatten()


def exact_direction(climb):
    """The gradient times the pseudo-inverse of the Fisher matrix, and how much of the KL's square root it takes."""
    slopes, log_probs = scores(climb.policy)
    matrix = slopes.T @ (shares(log_probs, torch.ones(EVERY.shape)).unsqueeze(-1) * slopes)
    direction = torch.linalg.pinv(matrix, hermitian=True, rtol=1e-10) @ climb.gradient
    return direction, (direction @ matrix @ direction).sqrt()


@any_policy
def test_a_product_is_that_of_the_fisher_matrix_made_of_every_score(name):
    policy = built(name)
    slopes, log_probs = scores(policy)
    vector = normal(slopes.shape[-1])
    for mask in (None, SOME):
        ours = fisher_products(policy, PROMPTS, EVERY, mask)(vector)
        counted = shares(log_probs, torch.ones(EVERY.shape) if mask is None else mask)
        torch.testing.assert_close(ours, slopes.T @ (counted * (slopes @ vector)), rtol=1e-9, atol=1e-12)


@any_policy
def test_each_run_of_a_stack_has_its_own_fisher_matrix(name):
    policies = [built(name, seed=seed) for seed in range(3)]
    vectors = normal(3, sum(parameter.numel() for parameter in policies[0].parameters()))
    mask = torch.stack([SOME, ~SOME, SOME | True])
    together = fisher_products(side_by_side(policies), PROMPTS, EVERY.expand(3, *EVERY.shape), mask)(vectors)
    for run, policy in enumerate(policies):
        alone = fisher_products(policy, PROMPTS, EVERY, mask[run])(vectors[run])
        torch.testing.assert_close(together[run], alone, rtol=1e-9, atol=1e-12)


def test_a_parameter_that_no_token_depends_on_has_no_part_in_the_fisher_matrix():
    policy = built("table")
    alone = fisher_products(policy, PROMPTS, EVERY, None)(normal(18))
    policy.register_parameter("more", torch.nn.Parameter(numbers(1, 2)))
    assert torch.equal(
        fisher_products(policy, PROMPTS, EVERY, None)(torch.cat([normal(18), numbers(1, 1)]))[:18], alone
    )
    assert not fisher_products(policy, PROMPTS, EVERY, None)(normal(20))[18:].any()


@any_policy
def test_the_kl_of_a_small_step_is_half_the_fisher_matrix_from_both_sides(name):
    climb = Climb(built(name))
    along = normal(len(climb.parameters), seed=3)
    half = along @ fisher_products(climb.policy, PROMPTS, EVERY, None)(along) / 2
    errors = []
    for size in (1e-3, 1e-4):
        climb.parameters.copy_(climb.start + size * along)
        errors.append((climb.trial()[1] / (size**2 * half) - 1).abs().item())
    assert errors[0] < 0.5
    assert errors[1] < 0.2 * errors[0]


@pytest.mark.parametrize("seed", range(5))
def test_on_the_table_it_is_the_exact_natural_gradient(seed):
    climb = Climb(built("table", seed=seed))
    direction, length = exact_direction(climb)
    step = climb.step(max_kl=1e-3, cg_iterations=30, cg_damping=0.0)
    expected = -(math.sqrt(2 * 1e-3) / length) * direction * 0.5**step.halvings
    torch.testing.assert_close(climb.parameters - climb.start, expected, rtol=1e-6, atol=1e-6 * expected.abs().max())
    assert step.moved


def test_every_iteration_gains_more_at_the_same_kl_and_the_last_one_all_there_is_to_gain():
    gains = []
    for iterations in (1, 3, 6, 9, 12):  # three prompts, two tokens, two free probabilities each
        climb = Climb(built("positional"))
        product = fisher_products(climb.policy, PROMPTS, EVERY, None)
        direction = conjugate(product, climb.gradient, iterations)
        gains.append((climb.gradient @ direction / (direction @ product(direction)).sqrt()).item())
    exact, length = exact_direction(climb)
    assert gains == sorted(gains)
    assert gains[0] < 0.95 * gains[-1]
    assert gains[-1] == pytest.approx((climb.gradient @ exact / length).item(), rel=1e-9)


@any_policy
def test_the_accepted_kl_never_exceeds_the_bound_and_the_objective_falls(name):
    many = 3 if name == "transformer" else 100
    climb = Climb(*[built(name, seed=seed) for seed in range(many)])
    bounds = torch.logspace(-6, 1, many, dtype=torch.float64)
    start = climb.loss().detach()
    step = climb.step(max_kl=bounds.view(-1, 1, 1, 1), cg_damping=1e-3)
    probabilities = climb.before.exp()
    distance = (probabilities * (climb.before - climb.vocab_log_probs())).sum(dim=-1).mean(dim=(-3, -2, -1))
    assert step.moved.double().mean() > 0.9
    assert (step.kl <= bounds).all()
    torch.testing.assert_close(step.kl, distance, rtol=1e-9, atol=1e-15)
    assert torch.equal(climb.loss() < start, step.moved)
    assert (step.kl / bounds)[step.moved].median() > 0.25  # and it is made use of


@any_policy
def test_a_stack_steps_as_its_runs_do_alone(name):
    policies = [built(name, seed=seed) for seed in range(5)]
    bounds, dampings = numbers(1e-3, 0.01, 0.1, 1, 3), numbers(0.1, 1e-3, 0.01, 0.05, 1)
    alone = [Climb(policy) for policy in policies]
    steps = [
        climb.step(max_kl=bound.item(), cg_damping=damping.item())
        for climb, bound, damping in zip(alone, bounds, dampings, strict=True)
    ]
    together = Climb(*[built(name, seed=seed) for seed in range(5)])
    step = together.step(max_kl=bounds.view(-1, 1, 1, 1), cg_damping=dampings.view(-1, 1, 1, 1))
    torch.testing.assert_close(
        together.parameters, torch.stack([climb.parameters for climb in alone]), rtol=1e-9, atol=1e-9
    )
    torch.testing.assert_close(step.kl, torch.stack([one.kl for one in steps]), rtol=1e-9, atol=1e-12)
    assert step.halvings.tolist() == [one.halvings.item() for one in steps]
    assert step.moved.tolist() == [one.moved.item() for one in steps]


def test_runs_without_a_usable_gradient_or_matrix_stay_to_the_bit_and_the_others_step_as_ever():
    free, held = (Climb(*[built("table", seed=seed) for seed in range(6)]) for _ in range(2))
    free.step()
    held.gradient[0] = 0
    held.gradient[1, 3] = torch.nan
    held.gradient[2, 3] = -torch.inf
    product = fisher_products(held.policy, PROMPTS, held.responses, None)
    spoilt = numbers(1, 1, 1, torch.nan, 0, 1).unsqueeze(-1)
    step = trpo(held.parameters, held.gradient, lambda vectors: product(vectors) * spoilt, held.trial)
    assert torch.equal(held.parameters[:5], held.start[:5])
    assert torch.equal(held.parameters[5], free.parameters[5])
    assert step.moved.tolist() == [False] * 5 + [True]
    assert step.halvings[:5].tolist() == step.kl[:5].tolist() == [0] * 5


def test_a_step_of_which_no_part_is_accepted_leaves_the_parameters_to_the_bit():
    free, held = (Climb(*[built("table", seed=seed) for seed in range(5)]) for _ in range(2))
    free.step()
    asked = []

    def trial():
        loss, kl = Climb.trial(held)
        if asked:  # the first is where it starts
            loss[0], loss[1], kl[2], kl[3] = math.inf, math.nan, math.nan, 1.0
        asked.append(1)
        return loss.detach(), kl.detach()

    held.trial = trial
    step = held.step(backtracks=4)
    assert len(asked) == 6
    assert torch.equal(held.parameters[:4], held.start[:4])
    assert torch.equal(held.parameters[4], free.parameters[4])
    assert step.moved.tolist() == [False] * 4 + [True]
    assert step.halvings[:4].tolist() == [4] * 4
    assert step.kl[:4].tolist() == [0] * 4


def on_a_bowl(gradient, matrix, kl, *, parameters=None, **knobs):
    """A step where everything is known: a straight slope, a matrix, and a KL of so many times the squared distance."""
    start = torch.zeros_like(gradient) if parameters is None else parameters.clone()
    parameters = start.clone()

    def trial():
        moved = parameters - start
        return (moved * gradient).sum(dim=-1), kl * (moved * moved).sum(dim=-1)

    knobs = {"cg_damping": 0.0} | knobs
    step = trpo(parameters, gradient, lambda vectors: vectors @ matrix, trial, **knobs)
    return parameters, step


@pytest.mark.parametrize(
    ("times", "halvings", "kl"),
    [
        (0.5, 0, 0.02),  # just as the matrix foretells
        (1.9, 1, 0.019),  # at full length 0.076
        (7.9, 2, 0.01975),
        (1e9, 10, None),
    ],
)
def test_a_step_is_halved_until_its_kl_is_within_the_bound_by_hand(times, halvings, kl):
    moved, step = on_a_bowl(numbers(0.3, -0.4), torch.eye(2, dtype=torch.float64), times, max_kl=0.02 + 1e-12)
    length = 0.0 if kl is None else 0.2 * 0.5**halvings  # sqrt(2 * 0.02)
    torch.testing.assert_close(moved, numbers(-0.6, 0.8) * length, rtol=1e-9, atol=0)
    assert step.halvings.item() == halvings
    assert step.moved.item() is (kl is not None)
    assert step.kl.item() == pytest.approx(kl or 0.0, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_objective_that_falls_by_rounding_alone_has_not_fallen(dtype):
    """A clip that holds every token leaves an objective flat and a gradient of rounding, in no direction at all."""
    start = torch.tensor([0.3, -0.3, 0.3, -0.3], dtype=dtype)
    after = torch.nextafter(torch.nextafter(start, start - 1), start - 1)
    after[2:] = start[2:] * (1 - torch.sign(start[2:]) * 1e-5)
    parameters, objectives = torch.zeros(4, 2, dtype=dtype), iter([start, *[after] * 20])
    step = trpo(
        parameters,
        torch.full_like(parameters, 1e-17),
        lambda vectors: vectors,
        lambda: (next(objectives), torch.full_like(start, 1e-3)),
    )
    assert step.moved.tolist() == [False, False, True, True]
    assert not parameters[:2].any()
    assert parameters[2:].all()


def test_conjugate_gradients_by_hand():
    matrix, wanted = numbers(4, 1, 1, 3).view(2, 2), numbers(1, 2)
    torch.testing.assert_close(conjugate(matrix.mv, wanted, 1), numbers(0.25, 0.5))  # 5 / 20 of the way
    torch.testing.assert_close(conjugate(matrix.mv, wanted, 2), numbers(1 / 11, 7 / 11), rtol=1e-14, atol=0)
    torch.testing.assert_close(conjugate(matrix.mv, wanted, 50), numbers(1 / 11, 7 / 11), rtol=1e-14, atol=0)


def test_conjugate_gradients_ask_for_no_more_products_than_the_hardest_run_needs():
    asked = []

    def product(vectors):
        asked.append(1)
        return vectors * numbers(1, 1, 1, 2, 3, 4).view(2, 3)

    wanted = torch.ones(2, 3, dtype=torch.float64)
    torch.testing.assert_close(conjugate(product, wanted, 100), numbers(1, 1, 1, 1 / 2, 1 / 3, 1 / 4).view(2, 3))
    assert len(asked) == 3


def test_conjugate_gradients_rest_where_a_matrix_turns_out_flat_or_bent_the_other_way():
    diagonals, wanted = numbers(1, 0, 1, -1, 1, 2).view(3, 2), numbers(1, 1, 1, 2, 1, 2).view(3, 2)
    solution = conjugate(lambda vectors: vectors * diagonals, wanted, 10)
    torch.testing.assert_close(solution, numbers(2, 2, 0, 0, 1, 1).view(3, 2))  # 2 / 1 of the first way, and no further


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_conjugate_gradients_leave_alone_what_a_singular_matrix_does_not_reach(dtype):
    bends = normal(20, 8, 5)
    matrices = (bends @ bends.mT).to(dtype)  # of rank 5 in 8 dimensions
    wanted = torch.einsum("rij,rj->ri", matrices, normal(20, 8, seed=1).to(dtype))
    solution = conjugate(lambda v: torch.einsum("rij,rj->ri", matrices, v), wanted, 100)
    expected = torch.einsum(
        "rij,rj->ri", torch.linalg.pinv(bends @ bends.mT, hermitian=True, rtol=1e-9), wanted.double()
    )
    within = 1e-2 if dtype == torch.float32 else 1e-7
    assert ((solution - expected).norm(dim=-1) < within * expected.norm(dim=-1)).all()


def test_how_steep_the_objective_is_does_not_matter_only_its_direction():
    matrix, gradient = torch.diag(numbers(1, 2, 3)), normal(4, 3)
    steepness = numbers(1e-200, 1e-30, 1, 1e200).unsqueeze(-1)
    usual, _ = on_a_bowl(gradient, matrix, 0.1)
    steep, _ = on_a_bowl(gradient * steepness, matrix, 0.1)
    torch.testing.assert_close(steep, usual, rtol=1e-12, atol=0)


def test_in_other_units_of_the_parameters_the_step_is_the_same():
    bend, units = normal(3, 3), normal(3, 3, seed=1)
    matrix, gradient = bend @ bend.T, normal(3, seed=2)
    usual, _ = on_a_bowl(gradient, matrix, 0.0, max_kl=0.1)
    other, _ = on_a_bowl(units.T @ gradient, units.T @ matrix @ units, 0.0, max_kl=0.1)
    torch.testing.assert_close(units @ other, usual, rtol=1e-8, atol=1e-10)
    assert usual @ matrix @ usual / 2 == pytest.approx(0.1, rel=1e-9)


def test_damping_turns_the_direction_towards_the_plain_gradient_and_keeps_the_length():
    matrix, gradient = torch.diag(numbers(1.0, 0.01)), numbers(1, 1)
    turned = [on_a_bowl(gradient, matrix, 0.0, cg_damping=damping)[0] for damping in (0.0, 0.1, 1e6)]
    ratios = [(step[1] / step[0]).item() for step in turned]
    assert ratios == pytest.approx([100, 10, 1], rel=1e-4)
    assert [(step @ matrix @ step / 2).item() for step in turned] == pytest.approx([0.01] * 3, rel=1e-9)
