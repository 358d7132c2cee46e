"""Groups are called by what tells them apart, as short as that can be."""

from pgrl_cli.plots.names import names_of

LABELLED = [
    ("a", {"delta_mode": "rewards", "reward_fn": "sort_distance_reward", "loss_mode": "naive"}),
    ("b", {"delta_mode": "centered_rewards", "reward_fn": "sort_exact_reward", "loss_mode": "naive"}),
]


def test_values_are_told_under_their_keys_and_a_key_in_which_all_agree_once() -> None:
    names = names_of(LABELLED)
    assert names.header == "delta_mode, reward_fn"
    assert names.lines == ["rewards, sort_distance_reward", "centered_rewards, sort_exact_reward"]
    assert names.everywhere == "loss_mode=naive"


def test_shortened_names_lose_what_all_values_of_a_key_share_and_stay_different() -> None:
    assert names_of(LABELLED).shortened().lines == ["rewards, distance", "centered, exact"]
    values = [("a", {"name": "run"}), ("b", {"name": "run_run"}), ("c", {"name": "x_run"})]
    assert len(set(names_of(values).shortened().lines)) == 3


def test_names_are_shortened_only_where_they_do_not_fit() -> None:
    assert names_of(LABELLED).fitted(9.0).lines[0] == "rewards, sort_distance_reward"
    assert names_of(LABELLED).fitted(1.0).lines[0] == "rewards, distance"


def test_groups_of_other_keys_are_called_by_their_labels() -> None:
    assert names_of([("first", {"a": 1}), ("second", {})]).lines == ["first", "second"]
    assert names_of([("a=1", {"a": 1})]).lines == ["a=1"]


def test_numbers_and_nothing_are_told_as_in_a_config() -> None:
    assert names_of([("", {"a": 0.1}), ("", {"a": None}), ("", {"a": True})]).lines == ["0.1", "null", "true"]


def test_more_than_two_keys_are_told_with_their_values_and_without_what_is_not_there() -> None:
    parts = [{"loss_mode": "clipped", "clip_epsilon": 0.2, "epochs": 100}]
    parts += [{"loss_mode": "naive", "clip_epsilon": None, "epochs": 50}]
    names = names_of([("a", parts[0]), ("b", parts[1])])
    assert names.header == ""
    assert names.lines == ["loss_mode=clipped, clip_epsilon=0.2, epochs=100", "loss_mode=naive, epochs=50"]
