"""Warm starts: a policy is shown right responses first, all runs of a stack the same ones."""

import pytest
import torch
from training.lecture import config, records

from pgrl_cli import resuming
from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from
from pgrl_cli.experiment import Interrupted, run
from pgrl_cli.resolution import resolve
from pgrl_cli.training import trainer
from pgrl_cli.training.warm_start import warm_up

WARM = {"warm_start": {"epochs": 6, "learning_rate": 0.05}, "epochs": 1, "steps_per_epoch": 1}
ENDS = WARM | {"task": "addition", "prompt_count": 4, "policy": "transformer", "width": 8, "layers": 1}


def nats_of(parts, policy):
    """The mean negative log-probability of a solution's tokens up to its end, token by token."""
    solutions = parts.task.solutions(parts.task.prompts)[:, None, :]
    log_probs = policy.log_probs(parts.task.prompts, solutions).squeeze(-2).detach().tolist()
    kept = []
    for solution, row in zip(solutions.squeeze(-2).tolist(), log_probs, strict=True):
        length = solution.index(parts.task.end) + 1 if parts.task.end in solution else len(solution)
        kept += [-nats for nats in row[:length]]
    return sum(kept) / len(kept)


@pytest.mark.parametrize("keys", [WARM, ENDS], ids=["of one length", "with ends"])
def test_it_begins_at_the_cross_entropy_of_the_solutions_and_leads_down(keys):
    one = config(**keys)
    parts, state = assemble([one])
    before = nats_of(parts, state.policy)
    warmth = warm_up(parts, one, state)
    assert warmth.first.item() == pytest.approx(before, rel=1e-12)
    assert nats_of(parts, state.policy) < warmth.last.item() < 0.9 * before
    assert (state.epoch, state.steps) == (0, 0)
    assert all(moment.abs().max() == 0 for moment in state.moments.values())


def test_each_run_of_a_stack_is_warmed_as_it_is_alone():
    keys = ENDS | {"warm_start": {"epochs": 3, "prompts": 2}, "learning_rate": 1e-9}
    (together,), state = records(config(**keys, seeds=[1, 2]))
    for index, seed in enumerate([1, 2]):
        (alone,), own = records(config(**keys, seed=seed))
        torch.testing.assert_close(state.parameters[index], own.parameters, rtol=1e-9, atol=1e-12)
        assert together.warm_start.last[index].item() == pytest.approx(alone.warm_start.last.item(), rel=1e-9)


def test_prompts_are_drawn_for_each_step_from_their_own_seed():
    def after(**keys):
        one = config(**WARM | {"warm_start": {"epochs": 3, "prompts": 1}} | keys)
        parts, state = assemble([one])
        warm_up(parts, one, state)
        return state.parameters

    assert torch.equal(after(), after())
    assert not torch.equal(after(), after(prompts_seed=1))
    assert not torch.equal(after(), after(warm_start={"epochs": 3}))


def test_one_prompt_a_step_still_shows_them_all():
    one = config(**WARM | {"warm_start": {"epochs": 40, "prompts": 1, "learning_rate": 0.02}}, policy="table")
    parts, state = assemble([one])
    prompts = parts.task.prompts
    before = state.policy.response_log_probs(prompts, parts.task.solutions(prompts)[:, None])
    warm_up(parts, one, state)
    assert (state.policy.response_log_probs(prompts, parts.task.solutions(prompts)[:, None]) > before + 0.1).all()


def test_a_critic_with_a_body_of_its_own_begins_where_the_policy_does_after_it():
    one = config(**WARM, delta_mode="gae", critic="separate")
    parts, state = assemble([one])
    warm_up(parts, one, state)
    body = dict(state.learner.critic.body.named_parameters())
    for name, parameter in state.policy.named_parameters():
        assert torch.equal(body[name], parameter)
    start = state.learner.parameters.clone()
    body["embedding"].data.add_(1)
    assert not torch.equal(state.learner.parameters, start)  # the body's parameters are still views of them


def test_only_the_first_epoch_tells_of_it_and_going_on_does_not_warm_again():
    run_, _ = records(config(**WARM | {"epochs": 3}))
    assert [record.warm_start is None for record in run_] == [False, True, True]


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_was_stopped_while_it_warmed_starts_over_and_may_begin_from_another(tmp_path, monkeypatch):
    warm = WARM | {"name": "x", "dtype": "float64", "epochs": 2}
    whole, _ = run(resolve(layers_from(warm)), tmp_path / "whole")

    def interrupted(*given):
        warm_up(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "warm_up", interrupted)
    with pytest.raises(Interrupted) as stopped:
        run(resolve(layers_from(warm)), tmp_path / "stopped")
    monkeypatch.setattr(trainer, "warm_up", warm_up)
    broken = stopped.value.run
    assert not list(broken.checkpoints.glob("*"))
    resuming.resume(resuming.asked_for(broken, []), tell=lambda note: None)
    assert (broken.folder / "metrics.jsonl").read_bytes() == (whole.folder / "metrics.jsonl").read_bytes()

    parts, state = assemble([resolve(layers_from(warm | {"warm_start": None, "init_from": str(whole.folder)})).config])
    log = run(resolve(layers_from(warm | {"init_from": str(whole.folder)})), tmp_path)[0].folder / "train.log"
    assert f"solutions {nats_of(parts, state.policy):.3f} ->" in log.read_text()
