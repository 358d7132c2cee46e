"""What the sections on the family work out by themselves, beside what runs measure."""

from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def length(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    from family import length

    return length


@pytest.fixture
def trained(monkeypatch):
    """A run of the comparison, made up: the measures of each epoch [epoch seed], four responses in each."""
    monkeypatch.syspath_prepend(str(DOCS))
    from family.comparison import Trained

    def made_up(right, **measures):
        run = Trained("made up", Path("nowhere"))
        data = {"held_out_exact_match": np.array(right)} | {name: np.array(each) for name, each in measures.items()}
        epochs = np.arange(len(right))
        vars(run).update(data=data | {"epochs": epochs, "loss": data["held_out_exact_match"]})
        vars(run).update(config={"prompts_per_epoch": 2, "num_responses": 2})
        return run

    return made_up


def test_where_half_of_the_seeds_come_near_there_is_no_median_and_one_more_makes_one(trained):
    assert trained([[0.0, 0.0, 0.0, 0.0], [1.0, 0.9, 0.0, 0.0]]).until_near() == "not by most seeds"
    assert trained([[0.0, 0.9, 0.0, 0.0], [1.0, 0.9, 0.95, 0.89]]).until_near() == "8"


def test_the_reward_of_the_last_responses_takes_of_an_epoch_what_lies_among_them(trained):
    rewards = np.arange(30.0)[:, None] * [1.0, 10.0]
    whole = trained(np.zeros((20, 2)), mean_reward=rewards[:20])
    assert whole.late_reward == pytest.approx([19, 190])  # the last twentieth is the last epoch
    parted = trained(np.zeros((30, 2)), mean_reward=rewards)
    assert parted.late_reward == pytest.approx([(29 + 0.5 * 28) / 1.5, (290 + 0.5 * 280) / 1.5])


def test_how_far_epochs_have_led_is_of_the_measured_ones_also_where_more_is_known(trained):
    right = [[np.nan, np.nan], [0.5, 0.5], [np.nan, np.nan], [0.5, 0.5]]
    assert trained(right, epoch_kl=[[9.0, 9.0], [1.0, 2.0], [9.0, 9.0], [3.0, 6.0]]).epoch_kl == 3.0


def test_how_many_prompts_an_epoch_asks_is_told_of_most_and_of_each_that_asks_others(trained):
    from family.comparison import _prompts

    named = {"rloo": {}, "grpo": {}, "trpo": {"prompts_per_epoch": 128, "epochs": 50}, "dapo": {"resampling_rounds": 3}}
    runs = [trained([[1.0]]) for _ in named]
    for run, (name, others) in zip(runs, named.items(), strict=True):
        vars(run).update(name=name, config={"prompts_per_epoch": 32, "epochs": 100} | others)
    trpo, dapo = "TRPO to 128 in each of its 50 epochs", "DAPO to 32 and up to 128 in each of its 100 epochs"
    assert _prompts(runs) == f"32 prompts; {trpo}; {dapo}"


def test_the_table_of_weights_says_what_a_token_counts_under_each_average(length):
    table = {name: [float(cell) for cell in cells] for name, *cells in length.weights_told()}
    of_response_mean = [1 / 6, 1 / 12, 1 / 24]
    for name, weights, by in (
        ("token_mean", [1 / 14] * 3, 4),
        ("response_mean", of_response_mean, 1),
        ("response_sum", [1 / 3] * 3, 4),
        ("budget_mean", [1 / 48] * 3, 4),
    ):
        assert table[f"`{name}`"] == pytest.approx([*weights, by], abs=5e-5)
    assert len(table) == 4


def test_epochs_without_wrong_answers_do_not_count_in_their_length(length):
    wrong = np.array([[4.0, np.nan], [np.nan, np.nan], [6.0, 3.0]])
    assert length.over_training({length.WRONG: wrong}).tolist() == [5.0, 3.0]
