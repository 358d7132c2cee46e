"""Standard errors and what noise does to squares."""

import numpy as np
import torch
from diagnosis.small import agrees, double

from pgrl_cli.diagnosis.errors import mean_error, pseudo_values, quotient_error, standard_errors


def test_the_standard_error_of_a_mean_is_that_of_its_parts():
    parts = [{"a": float(value), "b": [1.0, 2.0 * value], "name": "x", "none": None} for value in (1, 2, 4, 5)]
    error = np.std([1, 2, 4, 5], ddof=1) / 2
    found = standard_errors(parts)
    agrees([found["a"], *found["b"]], [error, 0.0, 2 * error])
    assert set(found) == {"a", "b"}


def test_a_part_without_a_finite_number_has_no_standard_error():
    assert standard_errors([{"a": 1.0}, {"a": float("nan")}]) == {}
    assert standard_errors([{"a": 1.0}, {"a": float("inf")}]) == {}


def test_pseudo_values_of_a_square_have_the_mean_of_products_of_different_parts():
    parts = double([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0], [-2.0, 4.0]])
    found = pseudo_values(lambda mean: {"square": mean.square().sum(dim=-1)}, [parts.mean(dim=0)], [parts])["square"]
    products = parts @ parts.mT
    agrees(found.mean(), (products.sum() - products.diagonal().sum()) / (4 * 3))


def test_pseudo_values_of_a_mean_are_its_parts():
    parts = double([1.0, 5.0, -2.0])
    agrees(pseudo_values(lambda mean: {"mean": mean}, [parts.mean()], [parts])["mean"], parts)


def test_the_error_of_a_quotient_is_how_far_quotients_of_such_samples_scatter():
    generator = torch.Generator().manual_seed(0)
    by = 4 + torch.randn(4000, 10, generator=generator, dtype=torch.float64)
    values = 0.5 * by + 0.3 * torch.randn(4000, 10, generator=generator, dtype=torch.float64)
    scatter = (values.mean(dim=-1) / by.mean(dim=-1)).std().item()
    told = torch.tensor([quotient_error(v, b) for v, b in zip(values, by, strict=True)]).square().mean().sqrt()
    assert abs(told / scatter - 1) < 0.05
    agrees(mean_error(double([1.0, 3.0])), 1.0)
