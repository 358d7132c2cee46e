"""Rollouts of one policy, each with its gradient, against loops."""

from collections import Counter

from diagnosis.small import MODES, agrees, every_subject, known

from pgrl_cli.diagnosis.deltas import QUANTILES, delta_modes
from pgrl_cli.diagnosis.rollouts import cosines, rollouts
from pgrl_cli.equations.advantages import ADVANTAGES


def by_loops(answers, drawn, mode):
    """Each rollout's gradient [parameter], response by response."""
    found = []
    for rollout in drawn.responses.tolist():
        total = 0.0
        for here, group in zip(answers, rollout, strict=True):
            known_as = {each.tokens: each for each in here}
            members = [known_as[tuple(tokens)] for tokens in group]
            advantages = MODES[mode]([each.reward for each in members], [each.square for each in members], here)
            total += sum(a * each.score for a, each in zip(advantages, members, strict=True)) / len(members)
        found.append(total / len(answers))
    return found


@every_subject
def test_a_rollouts_cosine_is_that_of_its_advantages_times_scores(name):
    _, population, answers, truth = known(name)
    drawn = rollouts(population, 12)
    found = cosines(drawn, {mode: ADVANTAGES[mode] for mode in MODES}, truth)
    for mode in MODES:
        expected = []
        for gradient in by_loops(answers, drawn, mode):
            nothing = gradient.norm() < 1e-12
            expected.append(0.0 if nothing else (gradient @ truth / gradient.norm() / truth.norm()).item())
        agrees(found[mode], expected, 1e-7)


@every_subject
def test_responses_are_drawn_as_often_as_they_are_likely(name):
    _, population, answers, _ = known(name)
    drawn = rollouts(population, 1500)
    for prompt, here in enumerate(answers):
        count = Counter(map(tuple, drawn.responses[:, prompt].flatten(0, 1).tolist()))
        total = sum(count.values())
        for each in here:
            error = (each.chance * (1 - each.chance) / total) ** 0.5
            assert abs(count[each.tokens] / total - each.chance) < 5 * error


def test_the_quantiles_of_the_cosine_are_those_of_the_rollouts_drawn():
    _, population, _, truth = known("bandits")
    drawn = rollouts(population, 101)
    found = delta_modes(population, drawn, truth)["normalized_rewards"]["cosine"]
    values = sorted(cosines(drawn, {"it": ADVANTAGES["normalized_rewards"]}, truth)["it"].tolist())
    agrees([found["p05"], found["p50"], found["p95"]], [values[round(100 * level)] for level in QUANTILES])
    assert values[0] < found["p50"] < values[-1]
