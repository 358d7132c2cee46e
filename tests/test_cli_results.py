"""`pgrl plot` and `pgrl compare`: what they print where, and what a mistake costs."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from by_hand import rewards, run_folder, sweep_folder
from matplotlib.image import imread
from said import pgrl

from pgrl_cli.plots.run import DRAWN


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def sweep() -> Path:
    """A sweep of two keys, each cell with six seeds."""
    parameters = [{"delta_mode": delta, "clip": clip} for delta in ("rewards", "max_rewards") for clip in (0.1, 0.2)]
    for number, cell in enumerate(sweep_folder(Path("sweep"), parameters)):
        values = [[number + 0.1 * seed + step for seed in range(6)] for step in range(3)]
        rewards(cell, range(6), values, **parameters[number])
    return Path("sweep")


# plot


@pytest.mark.parametrize("kind", ["curves", "final", "heatmap", "profile"])
def test_plot_writes_picture_and_numbers_into_the_folder_and_prints_the_picture_last(sweep: Path, kind: str) -> None:
    said = pgrl("plot", "sweep", "--kind", kind)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [f"sweep/{kind}-mean_reward.csv", f"sweep/{kind}-mean_reward.png"]
    assert (sweep / f"{kind}-mean_reward.png").read_bytes().startswith(b"\x89PNG")
    table = list(csv.DictReader((sweep / f"{kind}-mean_reward.csv").read_text().splitlines()))
    assert {row["delta_mode"] for row in table} == {"rewards", "max_rewards"}


def test_a_run_folder_alone_is_drawn_as_train_draws_it_with_its_numbers_beside() -> None:
    trained = Path(pgrl("train", "--config", "lecture/centered_clipped_kl", "epochs=12", "seeds=2", "-q").out.strip())
    picture = trained / "curves.png"
    as_trained = imread(picture)
    picture.unlink()
    said = pgrl("plot", str(trained))
    assert said.out.splitlines() == [str(trained / "curves.csv"), str(picture)]
    # A file tells float32 in its shortest decimals, so the last bits differ, and with them an edge's shade.
    assert abs(imread(picture) - as_trained).mean() < 1e-3
    rows = list(csv.DictReader((trained / "curves.csv").read_text().splitlines()))
    last = [row for row in rows if row["group"] == "loss"][-1]
    losses = json.loads((trained / "metrics.jsonl").read_text().splitlines()[-1])["loss"]
    assert float(last["value"]) == pytest.approx(sum(losses) / 2)
    assert (last["step"], last["runs"]) == ("119", "2")


@pytest.mark.usefixtures("sweep")
def test_a_run_that_has_written_nothing_is_not_drawn() -> None:
    folder = run_folder(Path("empty"), 3, {"mean_reward": []})
    said = pgrl("plot", str(folder))
    assert (said.code, said.err) == (2, "error: empty: cannot be drawn: no epoch is written yet\n")


@pytest.mark.usefixtures("sweep")
def test_a_picture_of_several_paths_lies_in_the_working_folder_and_a_rerun_overwrites_it() -> None:
    for _ in range(2):
        assert pgrl("plot", "sweep/cells/*clip=0.1*", "sweep").out.splitlines()[-1] == "curves-mean_reward.png"
    assert sorted(path.name for path in Path().iterdir()) == [
        "curves-mean_reward.csv",
        "curves-mean_reward.png",
        "sweep",
    ]


@pytest.mark.usefixtures("sweep")
@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_the_suffix_of_out_says_the_format(suffix: str) -> None:
    assert pgrl("plot", "sweep", "--out", f"picture.{suffix}").code == 0
    assert Path(f"picture.{suffix}").stat().st_size > 1000
    assert Path("picture.csv").exists()


@pytest.mark.usefixtures("sweep")
@pytest.mark.parametrize("name", ["mine.png", "mine.csv"])
def test_a_file_of_the_users_own_is_not_overwritten(name: str) -> None:
    Path(name).write_text("mine")
    said = pgrl("plot", "sweep", "--out", "mine.png")
    assert said.code == 2
    assert name in said.err
    assert Path(name).read_text() == "mine"
    assert len(list(Path().glob("mine.*"))) == 1


@pytest.mark.usefixtures("sweep")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "there is no such folder, and no folder of that pattern"),
        (["sweep", "--metric", "mean_rewards"], "Did you mean 'mean_reward'"),
        (["sweep", "--kind", "curve"], "Did you mean 'curves'"),
        (["sweep", "--statistic", "median"], "possible: mean, iqm"),
        (["sweep", "--kind", "final", "--over", "last_epochs"], "possible: last_10_epochs"),
        (["sweep", "--out", "picture.jpg"], "the suffix is one of .png, .svg, .pdf"),
        (["sweep", "--out", "nowhere/picture.png"], "there is no folder nowhere"),
        (["sweep", "--by", "delta_modes"], "Did you mean 'delta_mode'"),
        (["sweep", "--kind", "heatmap", "--by", "clip"], "these runs differ in delta_mode, clip"),
        (["sweep", "--kind", "final", "--smooth", "3"], "--smooth: does nothing with --kind final; it uses --metric"),
        (["sweep", "--goal", "minimize"], "--goal: does nothing with --kind curves"),
        (["sweep", "--kind", "final", "--goal", "minimize"], "--goal: goes with --over best_epoch"),
        (["sweep", "--kind", "final", "--over", "best_epoch", "--goal", "maximise"], "Did you mean 'maximize'"),
        (["sweep", "--kind", "final", "--over", "best_epoch", "--metric", "kl"], "is the best kl the highest or the"),
        (["sweep", "--over", "all_epochs"], "--over: does nothing with --kind curves"),
        (["sweep", "--kind", "profile", "--statistic", "iqm"], "--statistic: does nothing with --kind profile"),
        (["sweep", "--kind", "run"], "draws one run folder by itself, and 4 are named"),
        (["sweep/cells/*rewards,clip=0.1*", "--kind", "run", "--by", "clip"], "--by: does nothing with --kind run"),
        (["sweep/cells/*rewards,clip=0.1*", "--kind", "heatmap"], "these runs differ in delta_mode"),
    ],
)
def test_a_mistake_is_told_with_its_fix_and_no_picture_is_made(words: list[str], told: str) -> None:
    said = pgrl("plot", *words)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert not [*Path().rglob("*.png"), *Path("sweep").glob("*.csv")]


def test_notes_on_what_is_missing_go_to_standard_error(sweep: Path) -> None:
    cells = sorted((sweep / "cells").iterdir())
    (cells[0] / "metrics.jsonl").write_text("garbage\n")
    (cells[1] / "status.json").write_text('{"status": "interrupted"}')
    said = pgrl("plot", "sweep")
    assert said.code == 0
    assert "is interrupted: its last epoch is 2" in said.err
    assert "left out" in said.err
    assert said.out.splitlines()[-1].endswith(".png")


def test_a_reward_of_ones_own_has_a_file_name_that_any_system_takes() -> None:
    run_folder(Path("run"), 5, {"reward/my rewards.py:points": [1.0, 2.0]})
    said = pgrl("plot", "run", "--metric", "reward/my rewards.py:points")
    assert said.out.splitlines()[-1] == "run/curves-reward-my-rewards.py-points.png"


def _swept(name: str, parameters, configs) -> Path:
    for cell, config in zip(sweep_folder(Path(name), parameters), configs, strict=True):
        rewards(cell, range(6), [[0.1 * seed + step for seed in range(6)] for step in range(3)], **config)
    return Path(name)


def test_a_heatmap_of_two_swept_keys_needs_no_by_though_a_knob_is_dropped_in_some_cells() -> None:
    grid = [{"learning_rate": rate, "loss_mode": loss} for rate in (0.1, 0.2) for loss in ("naive", "clipped")]
    _swept("grid", grid, [each | ({"clip_epsilon": 0.2} if each["loss_mode"] == "clipped" else {}) for each in grid])
    assert pgrl("plot", "grid", "--kind", "heatmap").code == 0
    said = pgrl("plot", "grid", "--kind", "heatmap", "--by", "loss_mode")
    assert "such as learning_rate,loss_mode; these runs differ in learning_rate, loss_mode" in said.err


@pytest.mark.parametrize("kind", ["heatmap", "curves", "final", "profile"])
def test_a_key_that_is_named_twice_is_told(sweep: Path, kind: str) -> None:
    said = pgrl("plot", "sweep", "--kind", kind, "--by", "delta_mode,delta_mode")
    assert (said.code, said.err) == (2, "error: --by: delta_mode came twice; name each key once\n")


def test_pictures_by_different_keys_lie_side_by_side(sweep: Path) -> None:
    names = {pgrl("plot", "sweep", *words).out.splitlines()[-1] for words in ([], ["--by", "clip"])}
    assert names == {"sweep/curves-mean_reward.png", "sweep/curves-mean_reward-by-clip.png"}


# compare


@pytest.fixture
def pair() -> None:
    rewards(Path("a"), range(6), [[1.0] * 6], learning_rate=0.1)
    rewards(Path("b"), range(1, 7), [[1.4, 1.5, 1.6, 1.5, 1.4, 0.9]], learning_rate=0.2)


@pytest.mark.usefixtures("pair")
def test_compare_ends_in_one_plain_sentence_and_notes_the_seeds_left_out() -> None:
    said = pgrl("compare", "a", "b")
    lines = said.out.splitlines()
    assert said.code == 0
    assert re.fullmatch(r"B ends 0\.48 higher \[0\.4\d, 0\.5\d\], better in 100 % of 5 seeds\.", lines[-1])
    assert lines[0] == "A  1.000   a"
    assert said.err == "note: not on both sides, and left out: seed 0, 6\n"


@pytest.mark.usefixtures("pair")
def test_compare_as_json_is_one_object_with_everything() -> None:
    told = json.loads(pgrl("compare", "a", "b", "--json").out)
    assert told["difference"] == pytest.approx(0.48)
    assert (told["n"], told["seeds"], told["metric"]) == (5, [1, 2, 3, 4, 5], "mean_reward")
    assert told["sentence"].startswith("B ends 0.48 higher")
    assert set(told) >= {"low", "high", "probability_of_improvement", "probability_interval", "mean_a", "mean_b"}


@pytest.mark.usefixtures("sweep", "pair")
def test_compare_refuses_a_side_of_several_experiments_and_sides_without_a_common_seed() -> None:
    said = pgrl("compare", "sweep", "a")
    assert (said.code, said.out) == (2, "")
    assert "holds 4 experiments, which differ in delta_mode, clip" in said.err
    rewards(Path("c"), [90, 91], [[1.0, 2.0]])
    said = pgrl("compare", "a", "c")
    assert said.code == 2
    assert "no seed in common" in said.err


def test_the_best_epoch_of_a_loss_is_the_lowest_only_where_that_is_asked_for() -> None:
    for side, level in (("a", 1.0), ("b", 2.0)):
        run_folder(Path(side), [0, 1], {"loss": [[level + 4] * 2, [level] * 2, [level + 9] * 2]}, learning_rate=level)
    said = pgrl("compare", "a", "b", "--metric", "loss", "--over", "best_epoch")
    assert said.code == 2
    assert "Add --goal maximize or --goal minimize" in said.err
    said = pgrl("compare", "a", "b", "--metric", "loss", "--over", "best_epoch", "--goal", "minimize")
    a, b, what, sentence = said.out.splitlines()
    assert (a.split()[1], b.split()[1]) == ("1.000", "2.000")
    assert what == "loss, best epoch (the lowest), mean over 2 common seeds"
    assert sentence.startswith("B is, at its best, 1.00 higher")
    assert "higher in 100 % of 2 seeds" in sentence
    words = ("plot", "a", "b", "--kind", "final", "--metric", "loss", "--over", "best_epoch", "--goal", "maximize")
    table = list(csv.DictReader(Path(pgrl(*words).out.splitlines()[0]).read_text().splitlines()))
    assert {float(row["value"]) for row in table} == {10.0, 11.0}
    assert pgrl("compare", "a", "b", "--metric", "loss", "--goal", "minimize").code == 2


@pytest.mark.usefixtures("sweep")
def test_plot_and_compare_take_ids_and_names_of_runs_that_lie_in_runs() -> None:
    rewards(Path("runs/2026-11-30_09-15-00-mine-3fa9c1"), range(3), [[1.0] * 3, [2.0] * 3], name="mine")
    rewards(Path("runs/2026-11-30_09-15-01-other-77bb00"), range(3), [[1.0] * 3, [3.0] * 3], name="other")
    said = pgrl("plot", "3fa9c1", "other", "--kind", "final")
    assert (said.code, said.out.splitlines()[-1]) == (0, "final-mean_reward.png")
    said = pgrl("compare", "mine", "latest")
    assert (said.code, said.out.splitlines()[0]) == (0, "A  1.500   mine")
    said = pgrl("compare", "mine", "othe")
    assert (said.code, said.out) == (2, "")
    assert "nor has runs a run of that id or name. Did you mean 'other'?" in said.err


@pytest.mark.parametrize("line", ["[1,2]", '{"epoch":1,"step":1,"mean_reward":[1.0,"x"]}'])
def test_a_damaged_line_is_told_with_its_file_and_number_by_every_command(line: str) -> None:
    for name in "ab":
        run_folder(Path(name), [0, 1], {key: [[1.0, 2.0]] for key in DRAWN}, reward_fn="x", loss_mode="naive")
        with Path(name, "metrics.jsonl").open("a") as file:
            file.write(line + "\n")
    for words in (["plot", "a", "-k", "curves"], ["plot", "a"], ["compare", "a", "b"], ["runs", "export", "a"]):
        said = pgrl(*words)
        assert (said.code, "a/metrics.jsonl:2: damaged: " in said.err) == (2, True), words


def test_an_export_of_a_sweep_names_a_cell_and_one_into_no_folder_says_so(sweep: Path) -> None:
    said = pgrl("runs", "export", "sweep")
    assert (
        said.code,
        "is a sweep, and one run is exported; name one of its cells, such as sweep/cells/" in said.err,
    ) == (
        2,
        True,
    )
    rewards(Path("a"), 0, [1.0])
    said = pgrl("runs", "export", "a", "--out", "nodir/x")
    assert (said.code, said.err) == (2, "error: --out: there is no folder nodir\n")


def test_an_export_to_a_closed_output_or_a_full_disk_says_so() -> None:
    rewards(Path("a"), 0, [1.0])
    for line, told in ((">&-", "standard output: is closed"), ("> /dev/full", "standard output: No space left")):
        words = f"{sys.executable} -m pgrl_cli runs export a {line}"
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
        assert done.returncode in (1, 2)
        assert told in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("kind", ["curves", "final", "heatmap", "profile"])
def test_numbers_beyond_any_use_warn_of_nothing(kind: str) -> None:
    for place, cell in enumerate(sweep_folder(Path("huge"), [{"a": a, "b": b} for a in (1, 2) for b in (1, 2)])):
        rewards(cell, range(6), [[1e308 * (1 - 0.1 * seed - 0.01 * place) for seed in range(6)]] * 3, a=place // 2)
    words = [sys.executable, "-m", "pgrl_cli", "plot", "huge", "-k", kind]
    done = subprocess.run(words, capture_output=True, text=True)
    assert "Warning" not in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_metric_is_told_under_its_option() -> None:
    rewards(Path("a"), 0, [1.0])
    assert pgrl("plot", "a", "--metric", "", "--kind", "final").err.startswith("error: --metric: came '' (text)")


def test_a_word_that_is_like_none_is_offered_none() -> None:
    assert "Did you mean" not in pgrl("plot", "a", "--kind", "pie").err
