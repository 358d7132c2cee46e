from matplotlib.figure import Figure

from pgrl_cli.plots.run import Gathered, draw, title_of


def rows(count, **values):
    blank = {"exact_match": None, "held_out_exact_match": None, "kl": None}
    return [
        {"epoch": step // 2, "step": step, "loss": -0.1 * step, "mean_reward": 1.0, "shaped_reward": 1.0}
        | blank
        | values
        for step in range(count)
    ]


def drawn(monkeypatch, tmp_path, metrics, maximum=None):
    """The panels of a picture, as they are when it is saved."""
    kept = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *args, **kwargs: kept.append(figure))
    gathered = Gathered()
    gathered.add(metrics)
    draw(gathered.curves(), tmp_path / "curves.png", title="a title", maximum=maximum)
    return kept[0].axes


def test_it_is_a_picture(tmp_path):
    gathered = Gathered()
    gathered.add(rows(6))
    draw(gathered.curves(), tmp_path / "curves.png", title="a title", maximum=5.0)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_reward_has_a_point_per_epoch_and_the_loss_one_per_step(monkeypatch, tmp_path):
    reward, loss = drawn(monkeypatch, tmp_path, rows(6))
    assert list(reward.lines[0].get_xdata()) == [0, 2, 4]
    assert list(loss.lines[0].get_xdata()) == [0, 1, 2, 3, 4, 5]
    assert (reward.get_ylabel(), loss.get_ylabel()) == ("mean reward", "loss")


def test_the_maximum_is_a_line_where_it_is_known(monkeypatch, tmp_path):
    assert len(drawn(monkeypatch, tmp_path, rows(4))[0].lines) == 1
    assert list(drawn(monkeypatch, tmp_path, rows(4), maximum=5.0)[0].lines[1].get_ydata()) == [5.0, 5.0]


def test_exact_match_has_a_panel_where_it_was_measured_and_held_out_prompts_a_line_of_their_own(monkeypatch, tmp_path):
    metrics = rows(4)
    metrics[3] |= {"exact_match": 0.5, "held_out_exact_match": 0.25}
    _, match, _ = drawn(monkeypatch, tmp_path, metrics)
    assert [list(line.get_ydata()) for line in match.lines] == [[0.5], [0.25]]


def test_what_is_not_a_number_is_a_gap(monkeypatch, tmp_path):
    metrics = rows(4)
    metrics[1]["loss"] = None
    loss = drawn(monkeypatch, tmp_path, metrics)[-1]
    assert [value != value for value in loss.lines[0].get_ydata()] == [False, True, False, False]


def test_the_kl_has_a_panel_where_something_pulls(monkeypatch, tmp_path):
    _, kl, _ = drawn(monkeypatch, tmp_path, rows(4, kl=0.25))
    assert list(kl.lines[0].get_ydata()) == [0.25] * 4
    assert kl.get_ylabel() == "KL (nats)"


def test_a_single_epoch_is_a_dot(monkeypatch, tmp_path):
    reward, loss = drawn(monkeypatch, tmp_path, rows(1))
    assert [panel.lines[0].get_marker() for panel in (reward, loss)] == ["o", "o"]


def test_steps_are_counted_in_whole_numbers(monkeypatch, tmp_path):
    for count in (3, 5, 20):
        *_, loss = drawn(monkeypatch, tmp_path, rows(count))
        assert all(float(place).is_integer() for place in loss.get_xticks())


def test_the_title_says_what_each_of_several_rewards_weighs():
    config = {"name": "mine", "delta_mode": "gae", "loss_mode": "clipped"}
    assert title_of(config | {"reward_fn": "exact"}, [5]) == "mine: gae, clipped loss, seed 5\nexact"
    weighed = title_of(config | {"reward_fn": {"exact": 1.0, "format": 0.25}}, range(8))
    assert weighed == "mine: gae, clipped loss, 8 seeds\nexact + 0.25 format"
