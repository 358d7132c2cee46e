import pytest
import torch

from pgrl_cli.registry import apply
from pgrl_cli.training.updates import FIRST_ORDER, OPTIMIZERS, clipped_by_norm, moments_of

TORCH = {
    "adam": (torch.optim.Adam, {}, {}),
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.03}, {"weight_decay": 0.03}),
    "sgd": (torch.optim.SGD, {"momentum": 0.7}, {"momentum": 0.7}),
}


def descend(name, start, rate, steps, **settings):
    """Where an update of ours arrives on a bent bowl, the sum over parameters of x^4 / 4 + x^2."""
    update = OPTIMIZERS[name]
    parameters = start.clone()
    moments = {moment: torch.zeros_like(parameters) for moment in moments_of(update)}
    for count in range(1, steps + 1):
        given = {
            "parameters": parameters,
            "gradient": parameters**3 + 2 * parameters,
            "learning_rate": rate,
            "count": count,
        }
        apply(update, given | moments, settings)
    return parameters


@pytest.mark.parametrize("name", TORCH)
def test_it_walks_exactly_as_torch_does(name):
    start = torch.tensor([1.0, -2.0, 3.0, 1e-4], dtype=torch.float64)
    theirs = start.clone().requires_grad_()
    build, their_settings, settings = TORCH[name]
    optimizer = build([theirs], lr=0.01, **their_settings)
    for _ in range(50):
        optimizer.zero_grad()
        (theirs**4 / 4 + theirs**2).sum().backward()
        optimizer.step()
    torch.testing.assert_close(descend(name, start, 0.01, 50, **settings), theirs.detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FIRST_ORDER)
def test_each_run_of_a_stack_has_its_own_learning_rate(name):
    start = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)
    together = descend(name, start, torch.tensor([[0.01], [0.03]], dtype=torch.float64), 20)
    alone = [descend(name, start[0], 0.01, 20), descend(name, start[1], 0.03, 20)]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-12, atol=0)


def test_every_update_is_compared_with_torch_but_for_one_that_torch_does_not_have():
    assert set(FIRST_ORDER) == set(TORCH)
    assert set(OPTIMIZERS) - set(FIRST_ORDER) == {"trpo"}


def test_a_gradient_of_norm_five_is_shortened_to_the_largest_norm_by_hand():
    gradient, norm = torch.tensor([3.0, -4.0], dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64)
    assert clipped_by_norm(gradient, norm, 1.0).tolist() == pytest.approx([0.6, -0.8], rel=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_run_is_shortened_by_itself_and_only_where_it_is_too_long(dtype):
    gradient = torch.randn(50, 7, dtype=dtype, generator=torch.Generator().manual_seed(0))
    gradient[0] = 0
    norm = torch.linalg.vector_norm(gradient, dim=-1)
    largest = torch.linspace(0.5, 5, 50, dtype=dtype)
    largest[1] = norm[1]
    clipped = clipped_by_norm(gradient, norm, largest.view(-1, 1, 1, 1))
    longer = norm > largest
    assert 10 < longer.sum() < 40
    assert torch.equal(clipped[~longer], gradient[~longer])
    after = torch.linalg.vector_norm(clipped[longer], dim=-1)
    torch.testing.assert_close(after, largest[longer], rtol=1e-6, atol=0)
    straight = torch.nn.functional.cosine_similarity(clipped[longer], gradient[longer])
    torch.testing.assert_close(straight, torch.ones_like(straight), rtol=0, atol=1e-6)


@pytest.mark.parametrize("stacked", [False, True])
def test_it_is_clipped_as_torch_clips_it(stacked):
    gradient = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = []
    for row in gradient:
        parameter = torch.zeros(6, dtype=torch.float64, requires_grad=True)
        parameter.grad = row.clone()
        torch.nn.utils.clip_grad_norm_([parameter], 0.8)
        expected.append(parameter.grad)
    norms = torch.linalg.vector_norm(gradient, dim=-1)
    if stacked:
        ours = clipped_by_norm(gradient, norms, 0.8)
    else:
        ours = torch.stack([clipped_by_norm(row, norm, 0.8) for row, norm in zip(gradient, norms, strict=True)])
    torch.testing.assert_close(ours, torch.stack(expected), rtol=1e-5, atol=0)  # torch adds 1e-6 to the norm


def test_a_gradient_of_zero_or_without_a_finite_norm_stays_as_it_is():
    gradient = torch.tensor([[0.0, -0.0], [torch.nan, 1.0], [torch.inf, 1.0], [3e38, 3e38]])
    clipped = clipped_by_norm(gradient, torch.linalg.vector_norm(gradient, dim=-1), 1.0)
    assert torch.equal(clipped.view(torch.int32), gradient.view(torch.int32))
