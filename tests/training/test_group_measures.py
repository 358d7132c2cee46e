"""How long wrong and right answers are: against hand-made groups, in dropped groups, in stacks, and in files."""

import math

import pytest
import torch
from training.lecture import config, records

from pgrl_cli.assembly import assemble
from pgrl_cli.results import ONCE_AN_EPOCH
from pgrl_cli.training.dropping import informative_ones
from pgrl_cli.training.group_measures import group_measures
from pgrl_cli.training.measures import LENGTHS_BY_ANSWER, MAY_BE_UNKNOWN

WRONG, RIGHT = LENGTHS_BY_ANSWER
ENDING = {"task": "copy", "prompt_count": 2, "prompt_length": 1, "policy": "table", "vocab_size": 2}


def groups_of(lengths, right):
    """A rollout of responses [prompt response] of these lengths, some of which are right."""
    lengths, right = torch.tensor(lengths), torch.tensor(right, dtype=torch.bool)
    mask = torch.arange(6) < lengths.unsqueeze(-1)
    paid = right.double()
    whole = {"prompts": torch.arange(len(paid)).unsqueeze(-1), "responses": mask.long(), "old_log_probs": mask.double()}
    return whole | {"mask": mask, "right": right, "task_rewards": paid, "rewards": paid}


def test_wrong_and_right_answers_have_each_their_own_mean_length():
    found = group_measures(groups_of([[1, 2, 6], [4, 5, 3]], [[0, 1, 0], [0, 0, 1]]))
    assert found[WRONG].item() == pytest.approx((1 + 6 + 4 + 5) / 4)
    assert found[RIGHT].item() == pytest.approx((2 + 3) / 2)
    assert found["response_length"].item() == pytest.approx(21 / 6)


@pytest.mark.parametrize(("right", "unknown"), [(0, RIGHT), (1, WRONG)])
def test_where_there_are_no_such_answers_their_length_is_unknown(right, unknown):
    found = group_measures(groups_of([[1, 2], [4, 5]], [[right] * 2] * 2))
    assert math.isnan(found[unknown])
    assert found[WRONG if unknown == RIGHT else RIGHT].item() == 3


def test_the_lengths_are_of_all_groups_that_were_sampled_also_of_those_that_are_dropped():
    one = config(drop_zero_variance_groups=True, num_responses=2, policy="table", resampling_rounds=1)
    first = groups_of([[6, 6], [1, 2]], [[0, 0], [0, 1]])
    again = groups_of([[3, 4], [5, 5]], [[1, 0], [0, 0]])
    found = informative_ones(one, first, lambda number: again)
    assert found["prompts"].flatten().tolist() == [1, 0]
    assert found["right"].tolist() == [[False, True], [True, False]]
    assert found[f"group/{WRONG}"].item() == pytest.approx((6 + 6 + 1 + 4 + 5 + 5) / 6)
    assert found[f"group/{RIGHT}"].item() == pytest.approx((2 + 3) / 2)


@pytest.mark.parametrize("dropping", [{}, {"drop_zero_variance_groups": True}], ids=str)
def test_each_run_of_a_stack_counts_its_own_answers(dropping):
    keys = ENDING | {"num_responses": 60, "epochs": 1, "steps_per_epoch": 1, "max_response_tokens": 5}
    together = config(**keys, **dropping, reward_fn="partial", seeds=[1, 2])
    found = records(together)[0][0].numbers
    for run, seed in enumerate(together.run_seeds):
        alone, _ = records(config(**keys, reward_fn="partial", seed=seed))
        rollout, task = alone[0].rollout, assemble([config(**keys)])[0].task
        lengths = {WRONG: [], RIGHT: []}
        for prompt, answers in zip(task.prompts, rollout["responses"], strict=True):
            for answer in answers:
                written, wanted = task.text(answer), task.text(task.solutions(prompt[None])[0])
                lengths[RIGHT if written == wanted else WRONG].append(len(written))
        assert all(lengths.values())
        for name, each in lengths.items():
            assert found[name][run] == pytest.approx(sum(each) / len(each))


def test_a_line_names_them_after_the_length_of_all_and_only_where_lengths_differ():
    one = config(**ENDING, epochs=1, steps_per_epoch=2, max_response_tokens=5)
    rows = [row for record in records(one)[0] for row in record.rows(one)]
    names = list(rows[0])
    place = names.index("response_length")
    assert names[place + 1 : place + 3] == [WRONG, RIGHT]
    assert rows[0][WRONG] == rows[1][WRONG] > 1
    assert all("nonfinite" not in row for row in rows)
    same_length = config(epochs=1, steps_per_epoch=1)
    assert not {WRONG, RIGHT} & set(next(records(same_length)[0][0].rows(same_length)))


def test_a_reader_knows_that_they_are_the_same_all_epoch_and_may_be_unknown():
    assert {WRONG, RIGHT} <= set(ONCE_AN_EPOCH)
    assert {WRONG, RIGHT} <= set(MAY_BE_UNKNOWN)
