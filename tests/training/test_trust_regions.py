"""TRPO where it trains: no step of any run goes beyond its own bound, and the critic has steps of its own."""

import numpy as np
import torch
from training.lecture import config, records

from pgrl_cli.assembly import assemble
from pgrl_cli.training.trainer import train

TRPO = {"optimizer": "trpo", "loss_mode": "unclipped", "num_responses": 8, "epochs": 3, "steps_per_epoch": 3}


def test_no_step_goes_further_than_its_runs_own_bound_and_most_go_nearly_as_far():
    bounds = [0.0005, 0.02, 0.3]
    run, _ = records(*(config(**TRPO, max_kl=bound, seed=seed) for seed, bound in enumerate(bounds)))
    kl = np.stack([record.numbers["step_kl"] for record in run])  # [epoch step run]
    assert (kl <= bounds).all()
    assert (np.median(kl, axis=(0, 1)) > 0.2 * np.array(bounds)).all()


def test_the_kl_of_a_step_is_that_between_the_policies_before_and_after_it():
    one = config(**TRPO | {"epochs": 1, "steps_per_epoch": 1}, max_kl=0.05)
    parts, state = assemble([one])
    prompts = parts.task.prompts
    before = state.policy.vocab_log_probs(prompts, None).detach()
    (record,) = train(parts, one, state)
    after = state.policy.vocab_log_probs(prompts, None).detach()
    kl = (before.exp() * (before - after)).sum(dim=-1).mean()
    torch.testing.assert_close(record.measures["step_kl"][0], kl, rtol=1e-9, atol=0)


def test_the_critic_steps_by_its_own_optimizer_whatever_the_policy_does():
    def after(**keys):
        one = config(**TRPO | {"epochs": 1}, delta_mode="gae", **keys)
        return one, records(one)[1]

    one, state = after()
    assert (one.critic, one.critic_optimizer) == ("separate", "adam")
    _, faster = after(critic_learning_rate=0.1)
    _, plainer = after(critic_optimizer="sgd")
    assert not state.moments
    assert set(state.learner.moments) == {"means", "squares"}
    assert torch.equal(state.parameters, faster.parameters)
    assert not torch.equal(state.learner.parameters, faster.learner.parameters)
    assert not torch.equal(state.learner.parameters, plainer.learner.parameters)
