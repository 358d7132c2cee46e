"""Subjects small enough for plain loops, and what loops over all responses and all groups of them say.

Nothing here uses the package's sums: a response's log-probability, score, reward and advantage are worked out one at a
time, and expectations are added up over ordered groups.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import pytest
import torch
from policies.built import Uncriticized
from torch import Tensor, nn
from training.lecture import config

from pgrl_cli.assembly import assemble
from pgrl_cli.diagnosis.population import enumerated
from pgrl_cli.diagnosis.subject import Subject
from pgrl_cli.equations.categorical import closed, inverse_cdf
from pgrl_cli.policies.stack import frozen_copy
from pgrl_cli.tasks.task import Task

END = 0
"""The token after which nothing counts, where responses end."""


def double(values):
    return torch.as_tensor(values, dtype=torch.float64).clone()


class Chain(Uncriticized):
    """Two tokens, the second of which depends on the first: first [... prompt vocab], second [... vocab vocab]."""

    def __init__(self, first, second, end=None):
        super().__init__(end)
        self.first, self.second = nn.Parameter(double(first)), nn.Parameter(double(second))

    def logits(self, prompts, responses):
        before = torch.nn.functional.one_hot(responses[..., 0], self.second.shape[-1]).to(self.second.dtype)
        later = torch.einsum("...pgv,...vw->...pgw", before, self.second)
        begin = self.first[..., prompts[:, 0], :].unsqueeze(-2).expand_as(later)
        return torch.stack([begin, later], dim=-2)

    def respond(self, prompts, uniforms):
        tokens = torch.zeros((len(prompts), 1, 2) if uniforms is None else uniforms.shape, dtype=torch.long)
        for place in range(2):
            vocab_log_probs = self.vocab_log_probs(prompts, tokens)[..., place, :]
            drawn = (
                vocab_log_probs.argmax(dim=-1)
                if uniforms is None
                else inverse_cdf(vocab_log_probs, uniforms[..., place])
            )
            tokens[..., place] = drawn
        return closed(tokens, self.end)


def task_of(points, length, end=None):
    """A prompt for each row of points, which say what each response earns; right are those that earn most."""
    points = double(points)
    vocab = round(points.shape[1] ** (1 / length))

    def place(responses):
        return sum(responses[..., t] * vocab ** (length - 1 - t) for t in range(length))

    def points_of(prompts, responses):
        return points[prompts[:, :1], place(responses)]

    def best(prompts):
        places = points.argmax(dim=-1)[prompts[:, 0]]
        return torch.stack([places // vocab ** (length - 1 - t) % vocab for t in range(length)], dim=-1)

    prompts = torch.arange(len(points))[:, None]
    return Task(prompts, prompts[:0], vocab, length, best, {"paid": points_of}, end=end)


def subject_of(world=None, actor=None, reference=None, samples=64, seed=5, **keys):
    """A subject: of a config's own task and policy, or of others in their place."""
    one = config(seed=seed, **keys)
    parts, state = assemble([one])
    actor = state.policy.double() if actor is None else actor
    if world is not None:
        share = replace(parts.shares[0], rewards={"paid": (world.rewards["paid"], 1.0)})
        parts = replace(parts, task=world, shares=(share,))
    count = sum(parameter.numel() for parameter in actor.parameters())
    return Subject(
        config=one,
        parts=parts,
        policy=actor.requires_grad_(True),
        reference=frozen_copy(scattered(actor, 99) if reference is None else reference),
        reference_told="another",
        moments={name: torch.zeros(count, dtype=torch.float64) for name in state.moments},
        epochs=0,
        steps=0,
        samples=samples,
    )


def scattered(policy, seed, by=0.7):
    """Another policy of that kind, somewhere near."""
    other = frozen_copy(policy).requires_grad_(True)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += by * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return other


def bandits(points=((9.0, 5.0, 5.0), (1.0, 0.0, 4.0)), seed=1, **keys):
    """Prompts with a token to choose each, three unless points say otherwise; the policy is a free table."""
    subject = subject_of(task_of(points, 1), Bandit(len(points), len(points[0])), **keys)
    policy = scattered(subject.policy, seed)
    return replace(subject, policy=policy)


class Bandit(Uncriticized):
    """A free logit for each prompt and token, and one that all prompts share, so that prompts pull at each other."""

    def __init__(self, prompts, vocab):
        super().__init__()
        self.own = nn.Parameter(torch.zeros(prompts, vocab, dtype=torch.float64))
        self.shared = nn.Parameter(torch.zeros(vocab, dtype=torch.float64))

    def logits(self, prompts, responses):
        own = self.own[..., prompts[:, 0], :]
        return (own + self.shared[..., None, :])[..., :, None, None, :]

    def respond(self, prompts, uniforms):
        vocab_log_probs = self.vocab_log_probs(prompts, None)
        return vocab_log_probs.argmax(dim=-1) if uniforms is None else inverse_cdf(vocab_log_probs, uniforms)


CHAIN = Chain([[0.4, -0.9, 0.2], [1.1, 0.3, -0.5]], [[1.5, -1.0, 0.3], [-0.7, 0.9, 0.4], [0.2, -1.4, 1.2]])
ENDING_CHAIN = Chain(CHAIN.first.detach(), CHAIN.second.detach(), END)
CHAIN_POINTS = ((5.0, 0.0, 1.0, 2.0, 8.0, 0.0, 1.0, 1.0, 3.0), (0.0, 2.0, 2.0, 4.0, 0.0, 0.0, 1.0, 7.0, 2.0))
ENDED_POINTS = ((5.0, 5.0, 5.0, 2.0, 8.0, 0.0, 1.0, 1.0, 3.0), (0.5, 0.5, 0.5, 4.0, 0.0, 0.0, 1.0, 7.0, 2.0))
"""What is after an END earns nothing."""


def chains(**keys):
    """Two prompts, two tokens, the second dependent on the first."""
    return subject_of(task_of(CHAIN_POINTS, 2), frozen_copy(CHAIN), **keys)


def ended(**keys):
    """The same with responses that end."""
    return subject_of(task_of(ENDED_POINTS, 2, END), frozen_copy(ENDING_CHAIN), **keys)


def sorters(**keys):
    """The lecture's policy, two prompts of two numbers below three."""
    words = {"task": "sorting", "prompts": [[1, 0], [2, 1]], "vocab_size": 3, "width": 2}
    subject = subject_of(**words, **keys)
    return replace(subject, policy=scattered(subject.policy, 3, 0.3))


SUBJECTS = {"bandits": bandits, "chains": chains, "ended": ended, "sorters": sorters}


@dataclass
class Answer:
    """One response to a prompt; scores and log-probabilities are of the tokens that count."""

    tokens: tuple[int, ...]
    chance: float
    """That it is drawn."""
    log_prob: float
    reference_log_prob: float
    reward: float
    right: bool
    score: Tensor
    """[parameter]."""
    square: float
    """Of the score with respect to the logits."""
    likeliest: bool
    """Whether each of its tokens is the likeliest after those before it."""


def rows(policy, subject, prompt, tokens, temperature=1.0):
    """The log-probabilities [token vocab] that a response's tokens are drawn from."""
    responses = torch.tensor(tokens)[None, None]
    logits = policy.logits(subject.prompts[prompt : prompt + 1], responses)[0, 0]
    return torch.log_softmax(logits / temperature, dim=-1)


def kept(task, tokens):
    """The places up to a response's first end."""
    return set(range(len(tokens))) if task.end not in tokens else set(range(tokens.index(task.end) + 1))


def counting(subject, tokens):
    """The places of a response's tokens that count."""
    return sorted(kept(subject.parts.task, tuple(tokens)))


def log_prob(policy, subject, prompt, tokens, temperature=1.0):
    """Of the tokens that count."""
    table = rows(policy, subject, prompt, tokens, temperature)
    return sum(table[t, tokens[t]] for t in counting(subject, tokens))


def flat(gradients):
    return torch.cat([gradient.flatten() for gradient in gradients])


def gradient_of(value, policy):
    """[parameter]."""
    leaves = list(policy.parameters())
    return flat(torch.autograd.grad(value, leaves, materialize_grads=True))


def every_tokens(subject):
    """All responses there are: behind an end there is nothing but itself."""
    task = subject.parts.task
    every = product(range(task.vocab_size), repeat=task.response_length)
    return [
        tokens for tokens in every if all(tokens[t] == task.end for t in set(range(len(tokens))) - kept(task, tokens))
    ]


def answers(subject, temperature=1.0):
    """Every response to every prompt, drawn at a temperature and scored at 1: a list for each prompt."""
    return [[answer(subject, p, tokens, temperature) for tokens in every_tokens(subject)] for p in prompts_of(subject)]


def prompts_of(subject):
    return range(len(subject.prompts))


def answer(subject, prompt, tokens, temperature):
    policy = subject.policy
    cold = rows(policy, subject, prompt, tokens, temperature)
    table = rows(policy, subject, prompt, tokens).exp().tolist()
    value = log_prob(policy, subject, prompt, tokens)
    square = 0.0
    for t in counting(subject, tokens):
        square += sum(((token == tokens[t]) - chance) ** 2 for token, chance in enumerate(table[t]))
    asked = subject.prompts[prompt : prompt + 1]
    return Answer(
        tokens=tokens,
        chance=math.exp(sum(cold[t, tokens[t]].item() for t in counting(subject, tokens))),
        log_prob=value.item(),
        reference_log_prob=log_prob(subject.reference, subject, prompt, tokens).item(),
        reward=paid(subject, prompt, tokens),
        right=list(tokens) == subject.parts.task.solutions(asked)[0].tolist(),
        score=gradient_of(value, policy),
        square=square,
        likeliest=all(table[t][tokens[t]] == max(table[t]) for t in counting(subject, tokens)),
    )


def expectation(subject, function, policy=None):
    """The mean over prompts of the sum over responses of chance times function(prompt, tokens), differentiable."""
    policy = subject.policy if policy is None else policy
    total = 0.0
    for prompt in prompts_of(subject):
        for tokens in every_tokens(subject):
            chance = log_prob(policy, subject, prompt, tokens).exp()
            total = total + chance * function(prompt, tokens)
    return total / len(subject.prompts)


def expected_reward(subject, policy=None):
    """As a differentiable sum."""
    return expectation(subject, lambda prompt, tokens: paid(subject, prompt, tokens), policy)


def paid(subject, prompt, tokens):
    """What a response earns."""
    ((reward, weight),) = subject.parts.shares[0].rewards.values()
    return reward(subject.prompts[prompt : prompt + 1], torch.tensor(tokens)[None, None]).item() * weight


def true_gradient(subject):
    """[parameter]."""
    return gradient_of(expected_reward(subject), subject.policy)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def others(values, index):
    return [value for place, value in enumerate(values) if place != index]


def centered(rewards):
    return [r - mean(rewards) for r in rewards]


def normalized(rewards):
    deviation = math.sqrt(sum(c**2 for c in centered(rewards)) / (len(rewards) - 1))
    return [c / (deviation + 1e-5) for c in centered(rewards)]


def optimal(rewards, squares):
    found = []
    for i, reward in enumerate(rewards):
        weights = others(squares, i)
        found.append(reward - sum(w * r for w, r in zip(weights, others(rewards, i), strict=True)) / sum(weights))
    return found


MODES = {
    "rewards": lambda rewards, squares, here: list(rewards),
    "centered_rewards": lambda rewards, squares, here: centered(rewards),
    "normalized_rewards": lambda rewards, squares, here: normalized(rewards),
    "max_rewards": lambda rewards, squares, here: [r if r == max(rewards) else 0.0 for r in rewards],
    "leave_one_out_rewards": lambda rewards, squares, here: [
        r - mean(others(rewards, i)) for i, r in enumerate(rewards)
    ],
    "optimal_baseline": lambda rewards, squares, here: optimal(rewards, squares),
    "true_value_baseline": lambda rewards, squares, here: [r - value_of(here) for r in rewards],
    "greedy_baseline": lambda rewards, squares, here: [r - greedy_reward(here) for r in rewards],
}
"""Each delta mode of one group, by its definition; beside it all answers there are to its prompt."""
SEE_MORE = {
    "batch_normalized_rewards": "other prompts",
    "moving_average_baseline": "earlier epochs",
    "old_policy_baseline": "another policy's draws",
    **dict.fromkeys(("reward_to_go", "n_step", "gae", "process_rewards"), "tokens"),
}
"""What a diagnosis cannot look at, and what more each of these sees than one group of whole responses."""


def value_of(here):
    """What is expected of the answers to a prompt."""
    return sum(each.chance * each.reward for each in here)


def greedy_reward(here):
    (likeliest,) = [each for each in here if each.likeliest]
    return likeliest.reward


@dataclass
class Gradient:
    """The gradient of one rollout as a random vector."""

    mean: Tensor
    variance: float

    def against(self, truth):
        along = (self.mean @ truth / truth.norm()).item()
        square = self.mean.square().sum().item()
        return {
            "scale": along / truth.norm().item(),
            "off_direction": ((self.mean - along * truth / truth.norm()).norm() / square**0.5).item(),
            "total_variance": self.variance,
            "signal_to_noise": math.sqrt(square / self.variance),
            "accuracy": along / math.sqrt(square + self.variance),
        }


def one_rollout(every, mode, size):
    """Its gradient under a delta mode, summed over all ordered groups of each prompt's answers."""
    means, variance = [], 0.0
    for here in every:
        expected, square = 0.0, 0.0
        scores = torch.stack([each.score for each in here])
        for members in product(range(len(here)), repeat=size):
            chance = math.prod(here[i].chance for i in members)
            advantages = MODES[mode]([here[i].reward for i in members], [here[i].square for i in members], here)
            gradient = torch.tensor(advantages, dtype=torch.float64) @ scores[list(members)] / size
            expected, square = expected + chance * gradient, square + chance * (gradient @ gradient).item()
        means.append(expected)
        variance += square - (expected @ expected).item()
    return Gradient(sum(means) / len(means), variance / len(means) ** 2)


@cache
def known(name, size=3):
    """A subject, its enumerated population, its answers by plain loops, and the true gradient."""
    subject = SUBJECTS[name](num_responses=size)
    return subject, enumerated(subject), answers(subject), true_gradient(subject)


def reseeded(subject, seed):
    """The same with other random numbers."""
    return replace(subject, parts=replace(subject.parts, seeds=(seed,)))


def agrees(ours, theirs, within=1e-9):
    """Whether numbers, tensors or lists of them are the same but for rounding."""
    torch.testing.assert_close(double(ours), double(theirs), rtol=within, atol=within)


every_subject = pytest.mark.parametrize("name", SUBJECTS)
