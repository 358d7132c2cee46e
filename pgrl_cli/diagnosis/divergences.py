"""Which KL a term measures, and which it descends: every estimator, in the loss and in the reward."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pgrl_cli.diagnosis.population import Population
from pgrl_cli.diagnosis.rollouts import cosine
from pgrl_cli.equations.averages import masked
from pgrl_cli.equations.categorical import log_probs_of
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.stack import joined
from pgrl_cli.registry import apply, needs

NOTHING = 1e-10
"""A gradient that is so much shorter than the KL's own is rounding."""
Values = Callable[[Mapping[str, Tensor]], Tensor]
"""From a policy's and the reference's log-probs to an estimate for each whole response: [prompt response]."""


def kl_terms(population: Population, doubt: bool = True) -> dict[str, dict[str, dict[str, Any]]]:
    """Each estimator of the KL of a whole response as the trainer makes it, the sum over its tokens, in each placement.

    bias and variance: of one response's value against KL(policy || reference), in nats, averaged over prompts.
    cosine_forward, cosine_reverse: of the term's expected gradient, on fresh samples, to the gradients of
    KL(policy || reference) and KL(reference || policy); scale: its component along the first, in lengths of that. None
    where there is no gradient, or (with `doubt`) a sample's is no longer than twice its standard error. As a loss the
    term is differentiated; in the reward it weighs the scores.
    """
    return _terms(population, {name: _token_by_token(name) for name in DIVERGENCES}, doubt)


def kl_terms_of_sequences(population: Population, doubt: bool = True) -> dict[str, dict[str, dict[str, Any]]]:
    """The same of estimates that see a whole response's probability instead of its tokens'."""
    named = {name: function for name, function in DIVERGENCES.items() if "log_probs" in needs(function)}
    return _terms(population, {name: _whole(name) for name in named}, doubt)


def _token_by_token(name: str) -> Values:
    def values(tensors: Mapping[str, Tensor]) -> Tensor:
        found: Tensor = apply(DIVERGENCES[name], tensors, {})
        return masked(found, tensors.get("mask")).sum(dim=-1)

    return values


def _whole(name: str) -> Values:
    def values(tensors: Mapping[str, Tensor]) -> Tensor:
        sums = {each: tensors[each].sum(dim=-1) for each in ("log_probs", "reference_log_probs")}
        return apply(DIVERGENCES[name], sums, {})

    return values


def _terms(
    population: Population, estimators: Mapping[str, Values], doubt: bool
) -> dict[str, dict[str, dict[str, Any]]]:
    """What `kl_terms` tells, of any estimators."""
    found, known = _values(population, estimators), _known(population)
    gradients = _gradients(population, estimators)
    errors = _lengths_of_errors(population, estimators) if doubt and not population.exact else {}
    targets = gradients["the KL", "forward"], gradients["the KL", "reverse"]
    told: dict[str, dict[str, dict[str, Any]]] = {}
    for name, each in found.items():
        means = population.mean(each)
        value = {
            "bias": (means - known).mean().item(),
            "variance": population.mean((each - means[:, None]).square()).mean().item(),
        }
        told[name] = {
            placement: value
            | _directions(gradients[name, placement], *targets, least=2 * errors.get((name, placement), 0.0))
            for placement in ("loss", "reward")
        }
    return told


def _directions(term: Tensor, forward: Tensor, reverse: Tensor, least: float) -> dict[str, float | None]:
    length = forward.norm().item()
    if length == 0 or reverse.norm() == 0:  # the policy is the reference
        return {"cosine_forward": None, "cosine_reverse": None, "scale": None}
    scale = (term @ forward).item() / length**2
    if term.norm() <= max(least, NOTHING * length):
        return {"cosine_forward": None, "cosine_reverse": None, "scale": scale}
    return {
        "cosine_forward": cosine(term, forward).item(),
        "cosine_reverse": cosine(term, reverse).item(),
        "scale": scale,
    }


def _lengths_of_errors(population: Population, estimators: Mapping[str, Values]) -> dict[tuple[str, str], float]:
    """The root mean square error of each term's gradient, from parts of the sample."""
    parts = [_gradients(part, estimators) for part in population.batches()]
    each = {key: torch.stack([part[key] for part in parts]) for key in parts[0]}
    return {key: (g.var(dim=0).sum() / len(g)).sqrt().item() for key, g in each.items()}


def _known(population: Population) -> Tensor:
    """KL(policy || reference) at each prompt: [prompt]."""
    return population.mean(population.log_probs - population.reference_log_probs)


@torch.no_grad()
def _values(population: Population, estimators: Mapping[str, Values]) -> dict[str, Tensor]:
    """Each estimator's value for every response: [prompt response]."""
    return {name: _of_all(population, values) for name, values in estimators.items()}


def _of_all(population: Population, values: Values) -> Tensor:
    """[prompt response]."""
    prompts = len(population.responses)
    return torch.cat(
        [values(_tensors(population, some)).expand(prompts, some.stop - some.start) for some in population.stretches()],
        dim=-1,
    )


def _gradients(population: Population, estimators: Mapping[str, Values]) -> dict[tuple[str, str], Tensor]:
    """[parameter]: of every term, and of both KLs themselves.

    What weighs scores is centered first: that changes no expectation, and takes the noise of a sample away.
    """
    leaves, known = list(population.subject.policy.parameters()), _known(population)
    means = {name: population.mean(each) for name, each in _values(population, estimators).items()}
    sums: dict[tuple[str, str], Tensor] = {("the KL", "reverse"): _reverse(population.of_reference(), leaves)}
    for some in population.stretches():
        tensors = _tensors(population, some)
        weights = population.weights[:, some]
        scored = weights * tensors["log_probs"].sum(dim=-1)  # its gradient weighs the scores
        apart = population.log_probs[:, some] - population.reference_log_probs[:, some]
        terms = {("the KL", "forward"): scored * (apart - known[:, None])}
        for name, values in estimators.items():
            each = values(tensors)
            terms[name, "loss"] = weights * each
            terms[name, "reward"] = scored * (each.detach() - means[name][:, None])
        for key, term in terms.items():
            gradient = _gradient(term.sum() / len(weights), leaves)
            sums[key] = sums[key] + gradient if key in sums else gradient
    return sums


def _reverse(others: Population, leaves: Sequence[Tensor]) -> Tensor:
    """[parameter]: of KL(reference || policy), which is minus the mean score of what the reference draws."""
    found = torch.zeros(())
    for some in others.stretches():
        scored = others.weights[:, some] * _tensors(others, some)["log_probs"].sum(dim=-1)
        found = found - _gradient(scored.sum() / len(scored), leaves)
    return found


def _gradient(value: Tensor, leaves: Sequence[Tensor]) -> Tensor:
    gradients = torch.autograd.grad(value, leaves, retain_graph=True, materialize_grads=True)
    return joined(gradients, stacked=False)


def _tensors(population: Population, some: slice) -> dict[str, Tensor]:
    """What divergences ask for, of some of every prompt's responses."""
    subject, responses = population.subject, population.responses[:, some]
    mask = subject.parts.task.mask(responses)

    def known(policy: Policy) -> tuple[Tensor, Tensor]:
        vocab_log_probs = policy.vocab_log_probs(subject.prompts, responses)
        return masked(log_probs_of(responses, vocab_log_probs), mask), vocab_log_probs

    log_probs, vocab_log_probs = known(subject.policy)
    reference_log_probs, reference_vocab_log_probs = known(subject.reference)
    found = {
        "log_probs": log_probs,
        "vocab_log_probs": vocab_log_probs,
        "reference_log_probs": reference_log_probs,
        "reference_vocab_log_probs": reference_vocab_log_probs,
    }
    return found if mask is None else found | {"mask": mask}
