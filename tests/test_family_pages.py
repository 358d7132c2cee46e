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
