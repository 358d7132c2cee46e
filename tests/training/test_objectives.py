import pytest
import torch
from policies.built import Uncriticized
from torch import nn
from training.lecture import config

from pgrl_cli.assembly import assemble
from pgrl_cli.equations.averages import AVERAGES
from pgrl_cli.equations.divergences import DIVERGENCES
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.training.measures import measured
from pgrl_cli.training.objectives import policy_gradient
from pgrl_cli.training.steps import Step

PROMPTS, RESPONSES, TOKENS, VOCAB = 2, 3, 4, 5
MASK = torch.tensor([[[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]], [[1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]]]).bool()


class FreeLogits(Uncriticized):
    """A policy of as many parameters as there are logits: what a response's length does is seen at once."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shape = (PROMPTS, RESPONSES, TOKENS, VOCAB)
        self.free = nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))

    def logits(self, prompts, responses):
        return self.free

    def respond(self, prompts, uniforms):
        raise AssertionError("an objective must not sample")

    @property
    def feature_size(self):
        raise AssertionError("there is no critic")

    def features(self, prompts, responses):
        raise AssertionError("there is no critic")


def rollout(mask):
    generator = torch.Generator().manual_seed(1)
    shape = (PROMPTS, RESPONSES, TOKENS)
    old = torch.randn(shape, generator=generator, dtype=torch.float64) - 2
    vocab = torch.randn((*shape, VOCAB), generator=generator, dtype=torch.float64).log_softmax(-1)
    rewards = torch.randn(shape[:-1], generator=generator, dtype=torch.float64)
    tensors = {
        "prompts": torch.zeros(PROMPTS, 1, dtype=torch.long),
        "responses": torch.randint(VOCAB, shape, generator=generator),
        "old_log_probs": old,
        "reference_log_probs": old + 0.3,
        "reference_vocab_log_probs": vocab,
        "advantages": rewards.unsqueeze(-1),
        "rewards": rewards,
        "task_rewards": rewards,
    }
    return tensors if mask is None else tensors | {"mask": mask}


def gradient(words, mask, policy):
    one = config(kl_coefficient=0.3, entropy_coefficient=0.1, **words)
    parts, _ = assemble([one])
    loss = policy_gradient(parts, one, policy, rollout(mask), 0.1).loss
    return loss, torch.autograd.grad(loss, policy.free)[0]


WORDS = [
    *({"loss_mode": word} for word in LOSSES),
    *({"average": word, "kl_average": word} for word in AVERAGES),
    *({"kl_estimator": word} for word in DIVERGENCES),
]


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_a_token_outside_the_mask_neither_counts_nor_learns_even_if_it_is_nan(words):
    policy, spoilt = FreeLogits(), FreeLogits()
    loss, gradients = gradient(words, MASK, policy)
    assert gradients[~MASK].abs().max() == 0
    assert gradients[MASK].abs().min() > 0
    with torch.no_grad():
        spoilt.free[~MASK] = 1e3
    other_loss, others = gradient(words, MASK, spoilt)
    assert torch.equal(other_loss, loss)
    assert torch.equal(others[MASK], gradients[MASK])


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_a_mask_that_covers_everything_is_no_mask(words):
    full = torch.ones(PROMPTS, RESPONSES, TOKENS, dtype=torch.bool)
    loss, gradients = gradient(words, full, FreeLogits())
    other_loss, others = gradient(words, None, FreeLogits())
    torch.testing.assert_close(loss, other_loss, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients, others, rtol=1e-12, atol=1e-12)


def test_measures_are_over_the_tokens_that_count():
    one = config(loss_mode="clipped", clip_epsilon=0.2)
    parts, state = assemble([one])
    policy, tensors = FreeLogits(), rollout(MASK)
    step = policy_gradient(parts, one, policy, tensors, 0.0)
    found = measured(parts, state, tensors, [Step(step, torch.tensor(0.0), None)])
    log_probs = policy.vocab_log_probs(None, None).gather(-1, tensors["responses"].unsqueeze(-1)).squeeze(-1)
    ratios = (log_probs - tensors["old_log_probs"]).exp()[MASK]
    advantages = tensors["advantages"].expand(MASK.shape)[MASK]
    cut = ((ratios > 1.2) & (advantages > 0)) | ((ratios < 0.8) & (advantages < 0))
    assert found["ratio_max"].item() == pytest.approx(ratios.max().item())
    assert found["effective_sample_size"].item() == pytest.approx(
        (ratios.sum() ** 2 / (len(ratios) * (ratios**2).sum())).item()
    )
    assert found["clip_fraction"].item() == pytest.approx(cut.double().mean().item())
    assert found["response_length"].item() == pytest.approx(MASK.sum().item() / (PROMPTS * RESPONSES))


def test_ratios_beyond_the_bound_are_counted():
    one = config(loss_mode="unclipped")
    parts, state = assemble([one])
    policy, tensors = FreeLogits(), rollout(MASK)
    tensors["old_log_probs"] = tensors["old_log_probs"].clone()
    tensors["old_log_probs"][0, 0, 0] = -90.0  # counts
    tensors["old_log_probs"][0, 0, 3] = -90.0  # is masked
    step = policy_gradient(parts, one, policy, tensors, 0.0)
    assert step.loss.isfinite()
    assert measured(parts, state, tensors, [Step(step, torch.tensor(0.0), None)])["bounded_ratios"].item() == 1
