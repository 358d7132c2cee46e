"""What is sampled and what it is worth, as plain numbers: nothing in here is differentiated."""

from dataclasses import dataclass, field

import torch
from textbook import equations
from textbook.policies import every_response, log_probs, vocab_log_probs, written
from textbook.rewards import REWARDS, answer

from pgrl_cli import draws


@dataclass
class Response:
    """One sampled response and all that an epoch learns of it."""

    prompt: tuple
    tokens: list
    points: dict
    """By component, before its weight."""
    task_reward: float
    reward: float
    token_rewards: list
    kl: float
    """Of the whole response, as its estimator says; 0 without a reference."""
    old: torch.Tensor
    """log pi over the vocabulary at sampling: [token vocab]."""
    values: list = field(default_factory=list)
    targets: list = field(default_factory=list)
    advantages: list = field(default_factory=list)

    @property
    def old_log_probs(self):
        return self.old[range(len(self.tokens)), self.tokens]


def response(book, prompt, tokens, parameters=None):
    """What the policy, or another, finds of a response, and what it earns."""
    settings, task = book.settings, book.task
    right = answer(settings, prompt, task.end)
    points = {name: REWARDS[name](right, tokens, task.end) for name in book.weights}
    paid = [0.0] * len(tokens)
    for name, weight in book.weights.items():
        each = points[name] if isinstance(points[name], list) else [0.0] * (len(tokens) - 1) + [points[name]]
        paid = [sum_ + weight * one for sum_, one in zip(paid, each, strict=True)]
        points[name] = float(sum(each))
    shaped = [settings["reward_scale"] * one for one in paid]
    shaped[-1] += settings["reward_shift"]
    old = vocab_log_probs(book.policy, parameters or book.parameters, prompt, tokens)
    kl = 0.0
    if book.reference is not None:
        parts = equations.divergences(
            settings, old, vocab_log_probs(book.policy, book.reference, prompt, tokens), tokens
        ).tolist()
        kl = sum(parts)
        if settings["kl_placement"] == "reward":
            parts = [0.0] * (len(tokens) - len(parts)) + parts
            shaped = [one - book.coefficients["kl_coefficient"] * part for one, part in zip(shaped, parts, strict=True)]
    return Response(prompt, tokens, points, sum(paid), sum(shaped), shaped, kl, old)


def group(book, place, uniforms, parameters=None):
    """Responses to a prompt, one for each row of uniform numbers; the likeliest one where there are none."""
    prompt = book.prompts[place]
    rows = [None] if uniforms is None else uniforms[place]
    sampled = [written(book.policy, parameters or book.parameters, prompt, book.task, row) for row in rows]
    return [response(book, prompt, tokens, parameters) for tokens in sampled]


def groups(book, purpose, parameters=None):
    shape = (len(book.prompts), book.settings["num_responses"], book.task.response_length)
    (uniforms,) = draws.uniforms([book.settings["seed"]], purpose, book.epoch, shape)
    return [group(book, place, uniforms, parameters) for place in range(len(book.prompts))]


def differ(one):
    return len({each.task_reward for each in one}) > 1


@torch.no_grad()
def rounds(book):
    """All groups that are sampled, and those that are learned from."""
    settings, wanted = book.settings, len(book.prompts)
    every = groups(book, "responses")
    judge(book, every)
    if not settings["drop_zero_variance_groups"]:
        return every, every
    number = 0
    while sum(map(differ, every)) < wanted and number < settings["resampling_rounds"]:
        number += 1
        more = groups(book, f"responses, again {number}")
        judge(book, more)
        every += more
    kept = [index for index, one in enumerate(every) if differ(one)][:wanted]
    if settings.get("when_unfilled") == "fill":
        kept += [index for index, one in enumerate(every) if not differ(one)][: wanted - len(kept)]
    return every, [every[index] for index in sorted(kept)]


def judge(book, sampled):
    """Give each response its values, its targets and its advantages."""
    settings = book.settings
    for each in (each for one in sampled for each in one):
        if book.critic is not None:
            each.values = book.values(each.prompt, each.tokens).tolist()
            if (book.task.end is None or each.tokens[-1] == book.task.end) or settings["truncation"] == "end":
                each.values[-1] = 0.0
            each.targets = equations.targets(settings, each.token_rewards, each.values)
    ADVANTAGES[settings["delta_mode"]](book, sampled)


def of_rewards(rule):
    """A mode that looks at the rewards of a group, or of all groups, and gives all tokens of a response the same."""

    def mode(book, sampled):
        for one in sampled:
            for each, advantage in zip(one, rule(book, one, sampled), strict=True):
                each.advantages = [advantage] * len(each.tokens)

    return mode


def of_tokens(rule):
    """A mode that looks at a response's tokens alone."""

    def mode(book, sampled):
        for each in (each for one in sampled for each in one):
            each.advantages = rule(book.settings, each)

    return mode


def rewards_of(one):
    return [each.reward for each in one]


def minus(one, baseline):
    return [reward - baseline for reward in rewards_of(one)]


def score_squares(one):
    return [
        sum(
            (torch.eye(each.old.shape[-1])[t] - row.exp()).square().sum().item()
            for t, row in zip(each.tokens, each.old, strict=True)
        )
        for each in one
    ]


def true_value(book, prompt):
    """The expected reward, response by response."""
    total = 0.0
    for tokens in every_response(book.task):
        chance = log_probs(book.policy, book.parameters, prompt, tokens).sum().exp().item()
        total += chance * response(book, prompt, tokens).reward
    return total


def by_steps(book, sampled):
    """DeepSeekMath, section 4.1.3, each token a step."""
    for one in sampled:
        among = [reward for each in one for reward in each.token_rewards]
        for each in one:
            each.advantages = equations.discounted(equations.z_scores(each.token_rewards, among), 1.0)


def reward_to_go(settings, each):
    found = equations.discounted(each.token_rewards, settings["discount"])
    outer = settings["discount"] if settings["discount_outer"] else 1.0
    return [outer**t * one for t, one in enumerate(found)]


def old_policys(book, one):
    """What an epoch-old policy's own responses earn."""
    place = book.prompts.index(one[0].prompt)
    theirs = groups(book, "responses of the old policy", book.previous or book.parameters)[place]
    return sum(rewards_of(theirs)) / len(theirs)


ADVANTAGES = {
    "rewards": of_rewards(lambda book, one, sampled: rewards_of(one)),
    "centered_rewards": of_rewards(lambda book, one, sampled: minus(one, sum(rewards_of(one)) / len(one))),
    "normalized_rewards": of_rewards(lambda book, one, sampled: equations.z_scores(rewards_of(one), rewards_of(one))),
    "max_rewards": of_rewards(
        lambda book, one, sampled: [r if r == max(rewards_of(one)) else 0.0 for r in rewards_of(one)]
    ),
    "leave_one_out_rewards": of_rewards(lambda book, one, sampled: equations.leave_one_out(rewards_of(one))),
    "optimal_baseline": of_rewards(
        lambda book, one, sampled: equations.leave_one_out(rewards_of(one), score_squares(one))
    ),
    "true_value_baseline": of_rewards(lambda book, one, sampled: minus(one, true_value(book, one[0].prompt))),
    "moving_average_baseline": of_rewards(lambda book, one, sampled: minus(one, book.past_mean or 0.0)),
    "old_policy_baseline": of_rewards(lambda book, one, sampled: minus(one, old_policys(book, one))),
    "greedy_baseline": of_rewards(
        lambda book, one, sampled: minus(one, group(book, book.prompts.index(one[0].prompt), None)[0].reward)
    ),
    "batch_normalized_rewards": of_rewards(
        lambda book, one, sampled: equations.z_scores(
            rewards_of(one), [r for other in sampled for r in rewards_of(other)]
        )
    ),
    "reward_to_go": of_tokens(reward_to_go),
    "n_step": of_tokens(
        lambda settings, each: equations.n_step(
            each.token_rewards, each.values, settings["discount"], settings["n_steps"]
        )
    ),
    "gae": of_tokens(
        lambda settings, each: equations.gae(
            each.token_rewards, each.values, settings["discount"], settings["gae_lambda"]
        )
    ),
    "process_rewards": by_steps,
}
