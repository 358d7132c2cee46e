"""`pgrl sample` and `init_from`: a finished run is used."""

import json
from pathlib import Path

import pytest
import torch
from said import pgrl

from pgrl_cli import sampling
from pgrl_cli.assembly import assemble
from pgrl_cli.config import ConfigError
from pgrl_cli.config.layers import layers_from, layers_of
from pgrl_cli.experiment import run
from pgrl_cli.resolution import resolve
from pgrl_cli.runs import Run
from pgrl_cli.training import checkpoints
from pgrl_cli.training.snapshots import restore

pytestmark = pytest.mark.usefixtures("undrawn")
SHORT = {"epochs": 4, "steps_per_epoch": 3, "name": "short", "learning_rate": 0.01}


def trained(folder, **keys) -> Run:
    return run(resolve(layers_from(SHORT | keys, folder=folder)), folder / "runs")[0]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_samples_have_the_probabilities_and_rewards_of_the_runs_policy(tmp_path):
    folder = trained(tmp_path)
    code, out, err = pgrl("sample", str(folder.folder), "-n", "3", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert [each["prompt"] for each in said["samples"]] == [[1, 0, 2], [3, 2, 4], [1, 2, 3]]
    config = resolve(layers_of(str(folder.folder / "config.yaml"))).config
    parts, state = assemble([config])
    restore(state, checkpoints.read(folder.checkpoints / "epoch-000004"))
    for each in said["samples"]:
        assert len(each["responses"]) == 3
        for response in each["responses"]:
            tokens = torch.tensor([[response["response"]]])
            log_probs = state.policy.log_probs(torch.tensor([each["prompt"]]), tokens)
            assert response["probability"] == pytest.approx(log_probs.double().sum().exp().item())
            (share,) = parts.shares
            ((reward, _),) = share.rewards.values()
            assert response["reward"] == reward(torch.tensor([each["prompt"]]), tokens).item()
            assert response["right"] == (response["response"] == sorted(each["prompt"]))


def test_the_same_draw_is_the_same_and_another_is_another(tmp_path):
    folder = trained(tmp_path, epochs=1, learning_rate=1e-5)
    said = [pgrl("sample", str(folder.folder), "-n", "20", "--draw", draw)[1] for draw in ("0", "0", "1")]
    assert said[0] == said[1] != said[2]


def test_greedy_is_the_likeliest_and_prompts_may_be_given(tmp_path):
    folder = trained(tmp_path)
    code, out, _ = pgrl("sample", "latest", "--greedy", "--prompt", "3 1 2", "--prompt", "4,4,0", "--json")
    said = json.loads(out)
    assert (code, said["run"]) == (0, f"runs/{folder.folder.name}")
    assert [each["prompt"] for each in said["samples"]] == [[3, 1, 2], [4, 4, 0]]
    with sampling.trained(folder) as policy:
        prompts = torch.tensor([[3, 1, 2], [4, 4, 0]])
        every = policy.state.policy.logits(prompts, prompts[:, None])
        assert torch.equal(policy.greedy(prompts), every.argmax(dim=-1))


ADDITION = {"task": "addition", "digits": 2, "reward_fn": "digits", "epochs": 1, "prompt_count": 6, "held_out_count": 4}


def test_prompts_of_tasks_with_symbols_are_texts_and_so_are_the_answers(tmp_path):
    folder = trained(tmp_path, **ADDITION, num_responses=2)
    asked = ["sample", str(folder.folder), "--no-attempts", "-n", "1"]
    said = json.loads(pgrl(*asked, "--prompt", "7+25=", "-p", "90+99=", "--json")[1])["samples"]
    assert [each["prompt"] for each in said] == [[13, 7, 10, 2, 5, 11], [9, 0, 10, 9, 9, 11]]
    assert [(each["prompt_text"], each["solution_text"]) for each in said] == [("7+25=", "32."), ("90+99=", "189.")]
    (answered,) = said[0]["responses"]
    symbols = dict(enumerate("0123456789+=."))
    written = "".join(symbols[token] for token in answered["response"])
    assert answered["response_text"] == written.partition(".")[0] + "." * ("." in written)
    out = pgrl(*asked, "--prompt", "7+25=")[1]
    assert out.startswith("prompt 7+25= (13 7 10 2 5 11)   right answer 32. (3 2 12 12)\n  ")
    for wrong in ("7+=", "7*25=", "7+125=", "07+2=", "7 + 25 =", "٣+25=", ""):
        code, out, err = pgrl(*asked, "--prompt", wrong)
        assert (code, out) == (2, "")
        assert f"came {wrong!r}; expected a prompt of the task, such as " in err


def test_prompts_that_were_held_out_can_be_asked_and_their_attempts_counted(tmp_path):
    folder = trained(tmp_path, **ADDITION, num_responses=2)
    with sampling.trained(folder) as policy:
        expected = policy.parts.task.held_out.tolist()
        (first, *_), _ = sampling.attempts_of(policy, held_out=True)
    said = json.loads(pgrl("sample", str(folder.folder), "--held-out", "--json")[1])
    assert [each["prompt"] for each in said["samples"]] == expected
    assert said["attempts"][0]["best_reward"] == first.best_reward
    assert "mean over the held-out prompts" in pgrl("sample", str(folder.folder), "--held-out")[1]
    told = pgrl("sample", str(folder.folder), "--held-out", "--prompt", "7+25=")
    assert (told[0], "leave --prompt out" in told[2]) == (2, True)
    told = pgrl("sample", str(trained(tmp_path, epochs=1).folder), "--held-out")
    assert (told[0], "no prompts were held out" in told[2]) == (2, True)


def test_a_prompt_of_countdown_that_was_not_drawn_has_no_known_answer_and_is_judged_all_the_same(tmp_path):
    folder = trained(tmp_path, task="countdown", prompt_count=3, reward_fn="exact", epochs=1, num_responses=2)
    with sampling.trained(folder) as policy:
        task = policy.parts.task
        prompts = sampling.prompts_of(["1 1 1:99=", task.text(task.prompts[0])], policy.parts)
        unknown, known = sampling.told(policy, prompts, policy.greedy(prompts))
    assert unknown["solution"] is None
    assert "solution_text" not in unknown
    assert known["solution"] is not None


def test_attempts_are_exact_where_all_responses_can_be_gone_through_and_estimated_elsewhere(tmp_path, monkeypatch):
    folder = trained(tmp_path)
    with sampling.trained(folder) as policy:
        exact, is_exact = sampling.attempts_of(policy)
        monkeypatch.setattr(sampling, "MOST_RESPONSES", 10)
        monkeypatch.setattr(sampling, "SAMPLES", 20_000)
        sampled, is_sampled_exact = sampling.attempts_of(policy)
    assert (is_exact, is_sampled_exact) == (True, False)
    assert [each.attempts for each in exact] == [1, 2, 4, 8, 16, 32]
    for one, other in zip(exact, sampled, strict=True):
        assert one.best_reward == pytest.approx(other.best_reward, abs=0.05)
        assert one.passed == pytest.approx(other.passed, abs=0.03)
    summary = folder.status()
    assert exact[0].passed == pytest.approx(summary["solution_probability"], abs=1e-5)


def test_a_run_with_seeds_answers_for_one_of_them(tmp_path):
    folder = trained(tmp_path, seeds=[3, 8], dtype="float64")
    alone = trained(tmp_path, seed=8, dtype="float64")
    said = [
        json.loads(pgrl("sample", str(which.folder), *words, "--json")[1])
        for which, words in ((folder, ["--seed", "8"]), (alone, []), (folder, []))
    ]
    assert said[0]["samples"] == said[1]["samples"] != said[2]["samples"]
    code, _, err = pgrl("sample", str(folder.folder), "--seed", "5")
    assert (code, "has no seed 5; it has 3, 8" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--prompt", "3 1"], "came '3 1'; expected 3 whole numbers from 0 to 4, such as '1 0 2'"),
        (["--prompt", "3 1 9"], "from 0 to 4"),
        (["--prompt", "a b c"], "came 'a b c'"),
        (["--greedy", "-n", "3"], "leave -n and --draw out"),
    ],
)
def test_what_cannot_be_asked_is_told(tmp_path, words, told):
    folder = trained(tmp_path)
    code, out, err = pgrl("sample", str(folder.folder), *words)
    assert (code, out) == (2, "")
    assert told in err


def test_a_damaged_last_checkpoint_gives_way_to_the_one_before_it_and_none_is_told(tmp_path):
    folder = trained(tmp_path)
    (folder.checkpoints / "epoch-000004" / "tensors.safetensors").write_bytes(b"")
    with sampling.trained(folder) as policy:
        assert policy.state.epoch == 3
    assert "tensors.safetensors" in pgrl("sample", str(folder.folder))[2]
    (folder.checkpoints / "epoch-000003" / "state.json").write_bytes(b"")
    with pytest.raises(ConfigError, match="tensors"), sampling.trained(folder):
        pass


def test_a_reward_of_ones_own_scores_samples_too(tmp_path):
    (tmp_path / "mine.py").write_text("def points(prompt, response):\n    return sum(response)\n")
    folder = trained(tmp_path, reward_fn="mine.py:points")
    samples = json.loads(pgrl("sample", str(folder.folder), "--json")[1])["samples"]
    assert all(each["reward"] == sum(each["response"]) for sample in samples for each in sample["responses"])
    assert "best of k" not in pgrl("sample", str(folder.folder))[1]
    assert "best of k" in pgrl("sample", str(folder.folder), "--attempts")[1]


def test_a_run_can_be_named_where_a_new_one_starts_from_it(tmp_path):
    trained(tmp_path, name="first")
    code, out, err = pgrl("train", "--config", "lecture/two_state", "init_from=first", "epochs=1")
    assert (code, out) == (2, "")
    assert "holds another policy" in err
    assert pgrl("train", "--config", "lecture/centered_naive", "init_from=first", "epochs=1", "-q")[0] == 0


# init_from


def parameters_at(folder: Run, epoch: int):
    return checkpoints.read(folder.checkpoints / f"epoch-{epoch:06d}").tensors


@pytest.mark.parametrize("seeds", [None, [1, 5]])
def test_training_starts_from_a_run_and_a_run_with_seeds_hands_each_seed_its_own(tmp_path, seeds):
    first = trained(tmp_path, seeds=seeds)
    config = resolve(layers_from(SHORT | {"init_from": str(first.folder), "seeds": seeds})).config
    assert config.init_from == str(first.checkpoints / "epoch-000004")
    _, state = assemble([config])
    given = parameters_at(first, 4)
    assert all(torch.equal(parameter, given[f"policy.{name}"]) for name, parameter in state.policy.named_parameters())


def test_every_seed_may_start_from_one_run(tmp_path):
    first = trained(tmp_path)
    _, state = assemble([resolve(layers_from(SHORT | {"init_from": str(first.folder), "seeds": 3})).config])
    assert torch.equal(state.parameters[0], state.parameters[2])


def test_the_path_is_relative_to_the_config_and_the_run_can_be_fed_back(tmp_path):
    first = trained(tmp_path)
    (tmp_path / "second.yaml").write_text(
        f"base: lecture/centered_naive\ninit_from: runs/{first.folder.name}\nepochs: 2\n"
    )
    second, _ = run(resolve(layers_of("second.yaml")), tmp_path / "more")
    again, _ = run(resolve(layers_of(str(second.folder / "config.yaml"))), tmp_path / "more")
    assert (again.folder / "metrics.jsonl").read_bytes() == (second.folder / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"init_from": "nowhere"}, "there is no run folder"),
        ({"init_from": "empty"}, "has no checkpoint to start from"),
        ({"init_from": "RUN", "width": 11}, "holds another policy"),
        ({"init_from": "RUN", "policy": "table"}, "holds another policy"),
        ({"init_from": 3}, "came 3; expected text"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_before_a_folder_is_made(tmp_path, keys, told):
    first = trained(tmp_path)
    (tmp_path / "empty").mkdir()
    keys = {key: str(first.folder) if value == "RUN" else value for key, value in keys.items()}
    with pytest.raises(ConfigError, match=told):
        resolve(layers_from(SHORT | keys, folder=tmp_path))


def test_a_start_whose_parameters_fit_with_other_heads_alone_is_refused(tmp_path):
    keys = {"policy": "transformer", "width": 4, "layers": 1, "epochs": 1}
    again = keys | {"init_from": str(trained(tmp_path, **keys, heads=1).folder)}
    assert resolve(layers_from(SHORT | again | {"heads": 1})).config.init_from
    with pytest.raises(ConfigError, match="holds another policy: heads is 1, and here 2"):
        resolve(layers_from(SHORT | again | {"heads": 2}))


def test_seeds_that_the_other_run_has_not_are_refused(tmp_path):
    first = trained(tmp_path, seeds=[1, 5])
    with pytest.raises(ConfigError, match="has no seed 2"):
        resolve(layers_from(SHORT | {"init_from": str(first.folder), "seeds": [1, 2]}))
