import pytest
import torch

from pgrl_cli.registry import apply
from pgrl_cli.training.updates import OPTIMIZERS, moments_of

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


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_run_of_a_stack_has_its_own_learning_rate(name):
    start = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)
    together = descend(name, start, torch.tensor([[0.01], [0.03]], dtype=torch.float64), 20)
    alone = [descend(name, start[0], 0.01, 20), descend(name, start[1], 0.03, 20)]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-12, atol=0)


def test_every_update_is_compared_with_torch():
    assert set(OPTIMIZERS) == set(TORCH)
