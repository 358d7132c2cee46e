"""Copies of the policy that train on one rollout each, against the trainer's own steps."""

import copy
from dataclasses import replace

import pytest
import torch
from diagnosis.small import SUBJECTS, agrees, every_subject, expected_reward, gradient_of, known

from pgrl_cli.diagnosis.population import enumerated
from pgrl_cli.diagnosis.rollouts import cosines, rollouts
from pgrl_cli.diagnosis.staleness import loss_modes
from pgrl_cli.diagnosis.truth import true_gradient
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.policies.stack import joined, lay_together
from pgrl_cli.registry import apply, needs
from pgrl_cli.training.natural import fisher_products, mean_kl
from pgrl_cli.training.objectives import policy_gradient

STEPS, COUNT = 3, 3
CLIPPING = ("clipped", "sequence_clipped")
ADAM = {"optimizer": "adam", "learning_rate": 0.6}
SGD = {"optimizer": "sgd", "learning_rate": 0.5, "momentum": 0.5}
TRPO = {"optimizer": "trpo", "max_kl": 0.02, "cg_iterations": 4}
CLIP = {"loss_mode": "clipped", "clip_epsilon": 0.05}


def in_training(name, **keys):
    """A subject that has trained for a while: what the update remembers is not nothing."""
    subject = SUBJECTS[name](num_responses=3, steps_per_epoch=STEPS, epochs=10, **keys)
    generator = torch.Generator().manual_seed(7)
    moments = {
        moment: 0.1 * torch.rand(subject.parameter_count, generator=generator, dtype=torch.float64)
        for moment in subject.moments
    }
    return replace(subject, moments=moments, epochs=4, steps=4 * STEPS)


def trained(subject, drawn, number, mode):
    """One rollout's steps as the trainer makes them: before each, the policy, its gradient and its log-probs."""
    policy = copy.deepcopy(subject.policy)
    parameters = lay_together(policy, stacked=False)
    parts = replace(subject.parts, loss=LOSSES[mode])
    remembered = {name: moment.clone() for name, moment in subject.moments.items()}
    rollout = rollout_of(subject, drawn, number)
    for step in range(STEPS):
        objective = policy_gradient(parts, subject.config, policy, rollout, 0.0)
        gradient = joined(torch.autograd.grad(objective.loss, list(policy.parameters())), stacked=False)
        yield copy.deepcopy(policy), gradient, rollout, objective.log_probs
        given = {"gradient": gradient, "learning_rate": subject.config.learning_rate, "count": subject.steps + step + 1}
        if (most := subject.config.max_gradient_norm) is not None and gradient.norm() > most:
            given["gradient"] = gradient * most / gradient.norm()
        given |= natural(subject, policy, rollout, parts) if "fisher_product" in needs(parts.update) else {}
        with torch.no_grad():
            apply(parts.update, {"parameters": parameters} | given | remembered, parts.knobs)


def natural(subject, policy, rollout, parts):
    responses, mask = rollout["responses"], rollout.get("mask")
    before = policy.vocab_log_probs(subject.prompts, responses).detach()

    def trial():
        loss = policy_gradient(parts, subject.config, policy, rollout, 0.0).loss
        return loss, mean_kl(before, policy.vocab_log_probs(subject.prompts, responses), mask)

    return {"fisher_product": fisher_products(policy, subject.prompts, responses, mask), "trial": trial}


def rollout_of(subject, drawn, number):
    responses = drawn.responses[number]
    mask = subject.parts.task.mask(responses)
    with torch.no_grad():
        old = subject.policy.log_probs(subject.prompts, responses)
    advantages = ADVANTAGES[subject.config.delta_mode](drawn.task_rewards[number]).unsqueeze(-1)
    if mask is not None:
        old = torch.where(mask, old, 0.0)
    rollout = {"prompts": subject.prompts, "responses": responses, "old_log_probs": old, "advantages": advantages}
    return rollout if mask is None else rollout | {"mask": mask}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("bandits", ADAM | CLIP),
        ("chains", SGD | CLIP),
        ("ended", ADAM | CLIP),
        ("ended", SGD | CLIP | {"average": "response_mean", "delta_mode": "leave_one_out_rewards"}),
        ("chains", SGD | CLIP | {"max_gradient_norm": 0.3}),
        ("ended", TRPO | CLIP),
    ],
)
def test_copies_go_the_trainers_own_way_and_are_measured_on_it(name, keys):
    subject = in_training(name, **keys)
    population = enumerated(subject)
    drawn = rollouts(population, COUNT)
    told = loss_modes(population, drawn)
    for mode in LOSSES:
        paths = [list(trained(subject, drawn, number, mode)) for number in range(COUNT)]
        for step, found in enumerate(told[mode]):
            seen = [by_hand(subject, mode, *path[step]) for path in paths]
            for name in ("cosine", "expected_reward", "effective_sample_size"):
                agrees(found[name], sum(each[name] for each in seen) / COUNT, 1e-7)
            if mode in CLIPPING:
                agrees(found["clip_fraction"], sum(each["clip_fraction"] for each in seen) / COUNT)
            else:
                assert found["clip_fraction"] is None
            agrees(found["standard_error"], torch.tensor([e["cosine"] for e in seen]).double().std() / COUNT**0.5, 1e-6)
        assert len(told[mode]) == STEPS
    assert all(told[mode][-1]["clip_fraction"] > 0.01 for mode in CLIPPING)
    assert told["naive"][-1]["effective_sample_size"] < 0.999


def by_hand(subject, mode, policy, gradient, rollout, log_probs):
    value = expected_reward(subject, policy)
    truth, ascent = gradient_of(value, policy), -gradient
    lengths = (ascent.norm() * truth.norm()).item()
    counted = rollout.get("mask", torch.ones_like(log_probs, dtype=torch.bool))
    log_ratios = log_probs - rollout["old_log_probs"]
    ratios = log_ratios[counted].exp().tolist()
    sums, counts = (log_ratios * counted).sum(dim=-1, keepdim=True), counted.sum(dim=-1, keepdim=True)
    clipped = (sums / counts).exp().expand_as(log_probs)[counted].tolist() if mode == "sequence_clipped" else ratios
    advantages = rollout["advantages"].expand_as(log_probs)[counted].tolist()
    bound = CLIP["clip_epsilon"]
    held = [(a > 0 and r > 1 + bound) or (a < 0 and r < 1 - bound) for r, a in zip(clipped, advantages, strict=True)]
    return {
        "cosine": (ascent @ truth).item() / lengths if lengths > 0 else 0.0,
        "expected_reward": value.item(),
        "effective_sample_size": sum(ratios) ** 2 / len(ratios) / sum(r**2 for r in ratios),
        "clip_fraction": sum(held) / len(held),
    }


@every_subject
def test_at_the_first_step_every_loss_has_the_plain_policy_gradient(name):
    subject, _, _, _ = known(name)
    subject = replace(subject, config=subject.config.model_copy(update={"average": "response_sum"}))
    population = enumerated(subject)
    drawn = rollouts(population, 40)
    told = loss_modes(population, drawn)
    plain = cosines(drawn, {"it": ADVANTAGES["centered_rewards"]}, true_gradient(population))["it"]
    for mode in LOSSES:
        first = told[mode][0]
        if name != "ended":  # where responses differ in length the mean over tokens weighs them otherwise
            agrees(first["cosine"], plain.mean())
        agrees(first["cosine"], told["naive"][0]["cosine"])
        agrees(first["effective_sample_size"], 1.0)
        agrees(first["expected_reward"], expected_reward(subject).item())
    assert all(told[mode][0]["clip_fraction"] == 0 for mode in CLIPPING)


def test_copies_step_at_the_rate_of_the_epoch_that_comes_next():
    found = {}
    for decay, rate, epochs in (("linear", 0.2, 4), ("none", 0.2 * 5 / 9, 4), ("linear", 0.2, 10), ("none", 0.0, 10)):
        keys = {"optimizer": "sgd", "learning_rate": rate or 1e-12, "learning_rate_decay": decay}
        subject = replace(in_training("bandits", **keys), epochs=epochs)
        population = enumerated(subject)
        found[decay, epochs] = loss_modes(population, rollouts(population, 3))["naive"][-1]["expected_reward"]
    agrees(found["linear", 4], found["none", 4])
    agrees(found["linear", 10], found["none", 10])
    assert abs(found["linear", 4] - found["linear", 10]) > 1e-3


def test_neither_entropy_nor_the_kl_pulls_at_the_copies():
    plain, pulled = (
        in_training("bandits", **ADAM, **keys) for keys in ({}, {"entropy_coefficient": 5.0, "kl_coefficient": 5.0})
    )
    told = [loss_modes(enumerated(each), rollouts(enumerated(each), 3))["unclipped"] for each in (plain, pulled)]
    agrees(told[0][-1]["expected_reward"], told[1][-1]["expected_reward"])
