"""Two states, two actions: the lecture's case for baselines."""

import torch

from pgrl_cli.tasks.two_state import best_actions, two_state, two_state_reward

BOTH_ACTIONS = torch.tensor([[[0], [1]], [[0], [1]]])


def test_the_first_state_pays_eleven_or_nine_and_the_second_nothing_or_two():
    assert two_state_reward(two_state().prompts, BOTH_ACTIONS).tolist() == [[11, 9], [0, 2]]


def test_what_is_paid_depends_on_the_state_and_not_on_its_place():
    swapped = torch.tensor([[1], [0], [1]])
    responses = torch.tensor([[[1], [0], [1]], [[0], [1], [1]], [[0], [0], [0]]])
    assert two_state_reward(swapped, responses).tolist() == [[2, 0, 2], [11, 9, 9], [0, 0, 0]]


def test_many_runs_are_paid_at_once():
    responses = torch.stack([BOTH_ACTIONS, 1 - BOTH_ACTIONS])
    assert two_state_reward(two_state().prompts, responses).tolist() == [[[11, 9], [0, 2]], [[9, 11], [2, 0]]]


def test_the_best_action_is_the_first_in_one_state_and_the_second_in_the_other():
    assert best_actions(two_state().prompts).tolist() == [[0], [1]]
    assert two_state().is_right(two_state().prompts, BOTH_ACTIONS).tolist() == [[True, False], [False, True]]


def test_it_has_two_prompts_of_one_token_and_holds_none_out():
    task = two_state()
    assert task.prompts.tolist() == [[0], [1]]
    assert (task.vocab_size, task.response_length, len(task.held_out)) == (2, 1, 0)
