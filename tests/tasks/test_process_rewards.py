"""Rewards of whole responses and of their tokens: told apart, summed up, spread out."""

from math import nan

import pytest
import torch

from pgrl_cli.tasks.task import by_token, is_process_reward, total

RESPONSES = torch.zeros(2, 3, 4, dtype=torch.long)
MASK = torch.arange(4) < torch.tensor([[1, 2, 4], [3, 4, 1]])[..., None]
OUTCOME = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def test_an_outcome_is_paid_at_a_responses_last_token():
    expected = [[[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 3]], [[0, 0, 4, 0], [0, 0, 0, 5], [6, 0, 0, 0]]]
    assert by_token(OUTCOME, RESPONSES, MASK).tolist() == expected
    assert by_token(OUTCOME, RESPONSES, None)[0].tolist() == [[0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 3]]


@pytest.mark.parametrize("mask", [MASK, None])
def test_what_the_tokens_have_earned_is_in_all_what_the_response_has(mask):
    assert torch.equal(total(OUTCOME, RESPONSES), OUTCOME)
    assert torch.equal(total(by_token(OUTCOME, RESPONSES, mask), RESPONSES), OUTCOME)


def test_a_process_reward_stays_as_it_is():
    points = torch.arange(24.0).view(2, 3, 4)
    assert is_process_reward(points, RESPONSES)
    assert not is_process_reward(OUTCOME, RESPONSES)
    assert torch.equal(by_token(points, RESPONSES, MASK), points)
    assert total(points, RESPONSES).tolist() == [[6, 22, 38], [54, 70, 86]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tokens", [7, 20, 70])
def test_as_many_right_tokens_earn_the_same_to_the_bit_wherever_they_stand(tokens, dtype):
    generator = torch.Generator().manual_seed(0)
    for right in range(1, tokens + 1):
        places = torch.stack([torch.randperm(tokens, generator=generator) for _ in range(30)]) < right
        earned = total((places.double() / tokens).to(dtype)[None], torch.zeros(1, 30, tokens))
        assert earned.dtype == dtype
        assert earned.amax() == earned.amin()


def test_a_run_axis_goes_along():
    responses, mask = RESPONSES.expand(5, 2, 3, 4), MASK.expand(5, 2, 3, 4)
    outcome = OUTCOME * torch.arange(5.0).view(5, 1, 1)
    paid = by_token(outcome, responses, mask)
    for run in range(5):
        assert torch.equal(paid[run], by_token(outcome[run], RESPONSES, MASK))
    assert torch.equal(total(paid, responses), outcome)


def test_a_token_without_a_step_earns_nothing():
    points = torch.full((1, 1, 3), nan)
    points[..., 1] = 2.0
    assert by_token(points, RESPONSES[:1, :1, :3], None).tolist() == [[[0, 2, 0]]]
    assert total(points, RESPONSES[:1, :1, :3]).tolist() == [[2]]


def test_a_reward_that_is_no_number_spoils_its_own_token_alone():
    points = by_token(torch.tensor([[nan, 1.0, 1.0], [1.0, 1.0, 1.0]]), RESPONSES, MASK)
    assert points.isnan().nonzero().tolist() == [[0, 0, 0]]
