"""The transformer: against its equations as plain loops, padded and not, sampled with and without what it remembers."""

import math
from importlib import import_module
from itertools import product

import pytest
import torch
from policies.built import built
from training.lecture import config, records

from pgrl_cli.equations.categorical import inverse_cdf, log_probs_of, log_softmax
from pgrl_cli.policies.attention import causal_mask
from pgrl_cli.policies.block import Block
from pgrl_cli.policies.stack import side_by_side
from pgrl_cli.registry import KnobError
from pgrl_cli.tasks.task import Task


def task(prompts, vocab_size=5, response_length=3, **keys):
    prompts = torch.tensor(prompts)
    return Task(prompts, prompts[:0], vocab_size, response_length, lambda asked: asked, {}, **keys)


MODULE = import_module("pgrl_cli.policies.transformer")
TASK = task([[2, 0], [1, 1], [0, 4]])
PAD = TASK.vocab_size


def policy_of(task, runs=(), dtype=torch.float64, **knobs):
    """Alone, or so many side by side."""
    if not runs:
        return built("transformer", task, width=8, **knobs).to(dtype)
    return side_by_side([built("transformer", task, seed=seed, width=8, **knobs) for seed in range(*runs)]).to(dtype)


def responses_to(prompts, *leading, task=TASK, seed=0, count=6):
    shape = (*leading, len(prompts), count, task.response_length)
    return torch.randint(task.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def uniforms_for(prompts, *leading, task=TASK, seed=0, count=6, dtype=torch.float64):
    shape = (*leading, len(prompts), count, task.response_length)
    return torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def normed(vector):
    mean = sum(vector) / len(vector)
    spread = math.sqrt(sum((each - mean) ** 2 for each in vector) / len(vector) + 1e-5)
    return [(each - mean) / spread for each in vector]


def times(vector, matrix):
    return [
        sum(each * row[column] for each, row in zip(vector, matrix, strict=True)) for column in range(len(matrix[0]))
    ]


def plus(one, other):
    return [a + b for a, b in zip(one, other, strict=True)]


def attended(asked, heads):
    """Of each token's [query key value], what it finds in those up to itself, head by head."""
    width = len(asked[0]) // 3
    depth, found = width // heads, []
    for token in range(len(asked)):
        row = []
        for head in range(heads):
            part = slice(head * depth, (head + 1) * depth)
            ours = asked[token][:width][part]
            keys = [each[width : 2 * width][part] for each in asked[: token + 1]]
            values = [each[2 * width :][part] for each in asked[: token + 1]]
            weights = [math.exp(sum(a * b for a, b in zip(ours, key, strict=True)) / math.sqrt(depth)) for key in keys]
            for place in range(depth):
                row.append(sum(w * value[place] for w, value in zip(weights, values, strict=True)) / sum(weights))
        found.append(row)
    return found


def logits_by_loops(policy, heads, tokens):
    """The logits after each token of one sequence, number by number."""
    parameters = {name: parameter.tolist() for name, parameter in policy.named_parameters()}
    rows = [plus(parameters["embedding"][token], parameters["positions"][place]) for place, token in enumerate(tokens)]
    for layer in range(len(policy.blocks)):
        asked, mixed, wide, narrow = (
            parameters[f"blocks.{layer}.{name}"] for name in ("asked", "attended", "wide", "narrow")
        )
        found = attended([times(normed(row), asked) for row in rows], heads)
        rows = [plus(row, times(each, mixed)) for row, each in zip(rows, found, strict=True)]
        hidden = [[max(0.0, each) for each in times(normed(row), wide)] for row in rows]
        rows = [plus(row, times(each, narrow)) for row, each in zip(rows, hidden, strict=True)]
    columns = list(zip(*parameters["embedding"], strict=True))
    return [[each / policy.temperature for each in times(normed(row), columns)] for row in rows]


@pytest.mark.parametrize("heads", [1, 2])
@torch.no_grad()
def test_it_is_its_equations_as_plain_loops(heads):
    policy = built("transformer", TASK, width=4, heads=heads, layers=2, temperature=0.7)
    responses = responses_to(TASK.prompts, count=2)
    logits = policy.logits(TASK.prompts, responses)
    for prompt, response in product(range(3), range(2)):
        tokens = [*TASK.prompts[prompt].tolist(), *responses[prompt, response, :-1].tolist()]
        expected = torch.tensor(logits_by_loops(policy, heads, tokens)[1:], dtype=torch.float64)
        torch.testing.assert_close(logits[prompt, response], expected, rtol=0, atol=1e-12)


def test_heads_must_divide_the_width():
    with pytest.raises(KnobError, match="heads: came 3, which does not divide width: 32; 1 does"):
        built("transformer", TASK, heads=3)


alone_and_stacked = pytest.mark.parametrize("runs", [(), (2,)], ids=["alone", "stacked"])
both_dtypes = pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])


def fill_up(short, prompts, padding):
    """The same policy for longer prompts, and prompts filled up: the positions that it must not read are NaN."""
    longer = torch.nn.functional.pad(prompts, (padding, 0), value=PAD)
    runs = short.embedding.shape[:-2]
    policy = policy_of(task(longer.tolist(), pad=PAD), runs, short.embedding.dtype)
    positions = torch.nn.functional.pad(short.positions, (0, 0, 0, padding), value=math.nan)
    policy.load_state_dict(short.state_dict() | {"positions": positions})
    return policy, longer


@alone_and_stacked
@both_dtypes
@pytest.mark.parametrize("real", [1, 2])
@pytest.mark.parametrize("padding", range(1, 6))
@torch.no_grad()
def test_padding_changes_nothing(padding, real, dtype, within, runs):
    prompts = TASK.prompts[:, :real]
    short = policy_of(task(prompts.tolist()), runs, dtype)
    long, longer = fill_up(short, prompts, padding)
    responses = responses_to(prompts, *runs)
    log_probs, features = short.log_probs(prompts, responses), short.features(prompts, responses)
    torch.testing.assert_close(long.log_probs(longer, responses), log_probs, rtol=0, atol=within)
    torch.testing.assert_close(long.features(longer, responses), features, rtol=0, atol=2 * within)
    uniforms = uniforms_for(prompts, *runs, dtype=dtype)
    assert torch.equal(long.respond(longer, uniforms), short.respond(prompts, uniforms))
    assert torch.equal(long.respond(longer, None), short.respond(prompts, None))


@alone_and_stacked
def test_prompts_of_different_lengths_are_answered_and_learned_from_as_each_by_itself(runs):
    policy = policy_of(task([[PAD, PAD, 3], [PAD, 1, 4], [2, 0, 0]], pad=PAD), runs)
    prompts = torch.tensor([[PAD, PAD, 3], [PAD, 1, 4], [2, 0, 0]])
    responses, uniforms = responses_to(prompts, *runs), uniforms_for(prompts, *runs)
    leaves = list(policy.parameters())
    together = torch.autograd.grad(policy.log_probs(prompts, responses).sum(), leaves)
    drawn = policy.respond(prompts, uniforms)
    one_by_one = [torch.zeros_like(each) for each in leaves]
    for index in range(3):
        here, real = slice(index, index + 1), prompts[index][prompts[index] != PAD]
        alone = policy_of(task([real.tolist()]), runs)
        alone.load_state_dict(policy.state_dict() | {"positions": policy.positions[..., : len(real) + 3, :]})
        log_probs = alone.log_probs(real[None], responses[..., here, :, :])
        gradients = torch.autograd.grad(log_probs.sum(), list(alone.parameters()))
        for sums, gradient in zip(one_by_one, gradients, strict=True):
            sums[..., : gradient.shape[-2], :] += gradient
        assert torch.equal(alone.respond(real[None], uniforms[..., here, :, :]), drawn[..., here, :, :])
    for ours, theirs in zip(together, one_by_one, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


def test_where_no_prompt_is_padded_all_sequences_share_one_mask():
    policy = policy_of(TASK)
    assert policy.padding(TASK.prompts) is None
    assert causal_mask(5, None, policy.embedding).shape == (5, 5)


def test_a_short_row_of_scores_is_filled_up_to_a_vector_in_float32():
    mask = causal_mask(5, None, torch.ones(1))
    assert mask.shape == (5, 16)
    assert (mask == 0).sum(dim=-1).tolist() == [1, 2, 3, 4, 5]


LONG = task([[1, 2, 3, 4, 0, 1]], response_length=20)
"""As long as needs more than one vector of places."""


@alone_and_stacked
@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 2e-6), (torch.float64, 2e-15)])
@pytest.mark.parametrize("padded", [False, True])
@torch.no_grad()
def test_what_is_remembered_leaves_the_log_probs_that_tokens_are_drawn_with_as_they_are(
    monkeypatch, dtype, within, runs, padded
):
    policy, prompts = policy_of(LONG, runs, dtype, temperature=2.0), LONG.prompts
    if padded:
        policy.pad, prompts = PAD, torch.tensor([[PAD, PAD, 3, 4, 0, 1]])
    seen = []
    monkeypatch.setattr(MODULE, "inverse_cdf", lambda *given: seen.append(given[0]) or inverse_cdf(*given))
    uniforms = uniforms_for(prompts, *runs, task=LONG, dtype=dtype)
    responses = policy.respond(prompts, uniforms)
    uncached = policy.vocab_log_probs(prompts, responses)
    at_drawing = torch.stack([each.expand_as(seen[-1]) for each in seen], dim=-2)
    torch.testing.assert_close(at_drawing, uncached, rtol=0, atol=within * uncached.abs().max().item())
    drawn = log_probs_of(responses, at_drawing)
    torch.testing.assert_close(policy.log_probs(prompts, responses), drawn, rtol=0, atol=within * 4)
    assert torch.equal(inverse_cdf(uncached, uniforms), responses)


@alone_and_stacked
@torch.no_grad()
def test_its_responses_are_those_of_reading_everything_again_for_every_token(runs):
    policy = policy_of(LONG, runs)
    for uniforms in (uniforms_for(LONG.prompts, *runs, task=LONG), None):
        count = 1 if uniforms is None else 6
        responses = torch.zeros(*runs, 1, count, LONG.response_length, dtype=torch.long)
        for place in range(LONG.response_length):
            logits = policy.logits(LONG.prompts, responses[..., : place + 1])[..., -1, :]
            chosen = logits.argmax(-1) if uniforms is None else inverse_cdf(log_softmax(logits), uniforms[..., place])
            responses[..., place] = chosen
        assert torch.equal(policy.respond(LONG.prompts, uniforms), responses)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seeds", [None, 3])
def test_the_ratio_is_exactly_1_on_an_epochs_first_step(dtype, seeds):
    one = config(policy="transformer", dtype=dtype, seeds=seeds, steps_per_epoch=2, learning_rate=0.01)
    for record in records(one)[0]:
        first, second = record.measures["ratio_max"]
        assert (first == 1).all()
        assert (second > 1).all()


END = 4
ENDING = task([[2, 0], [1, 1], [0, 4]], response_length=4, end=END)


@alone_and_stacked
@torch.no_grad()
def test_behind_a_responses_first_end_there_is_nothing_but_the_end(runs):
    policy, endless = policy_of(ENDING, runs), policy_of(task([[2, 0], [1, 1], [0, 4]], response_length=4), runs)
    uniforms = uniforms_for(ENDING.prompts, *runs, task=ENDING, count=40)
    for given in (uniforms, None):
        responses, open_ended = policy.respond(ENDING.prompts, given), endless.respond(ENDING.prompts, given)
        ended = (open_ended == END).cumsum(dim=-1) > 0
        assert torch.equal(responses, open_ended.masked_fill(ended, END))
    reopened = (endless.respond(ENDING.prompts, uniforms) != END) & (policy.respond(ENDING.prompts, uniforms) == END)
    assert reopened.any()


@torch.no_grad()
def test_it_writes_no_further_than_to_the_last_responses_end(monkeypatch):
    written = []
    write = Block.write
    monkeypatch.setattr(Block, "write", lambda self, *given: written.append(self) or write(self, *given))
    for bias, tokens in ((-50.0, 3), (50.0, 0)):
        policy = policy_of(ENDING)
        policy.embedding[END] = 0
        first = policy.features(ENDING.prompts, responses_to(ENDING.prompts, task=ENDING))[:, 0, 0]
        policy.embedding[END] = bias * torch.linalg.lstsq(first, torch.ones(3, 1, dtype=torch.float64)).solution[:, 0]
        written.clear()
        responses = policy.respond(ENDING.prompts, uniforms_for(ENDING.prompts, task=ENDING))
        assert len(written) == tokens * len(policy.blocks)
        assert (responses[..., 0] == END).all() == (tokens == 0)
        assert responses.shape[-1] == 4


def test_the_first_end_counts_and_no_token_after_it_does():
    policy = policy_of(ENDING)
    ended = torch.tensor([[1, END, END, END]]).expand(3, 1, 4)
    rambling = torch.tensor([[1, END, 2, 0]]).expand(3, 1, 4)
    log_probs = policy.log_probs(ENDING.prompts, ended)
    whole = policy.response_log_probs(ENDING.prompts, ended)
    assert torch.equal(whole, log_probs[..., :2].sum(dim=-1))
    leaves = list(policy.parameters())
    ours = torch.autograd.grad(whole.sum(), leaves)
    theirs = torch.autograd.grad(policy.response_log_probs(ENDING.prompts, rambling).sum(), leaves)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)


@torch.no_grad()
def test_the_probabilities_of_all_responses_that_end_or_are_cut_off_add_up_to_one():
    every = ENDING.every_response().expand(3, -1, -1)
    total = policy_of(ENDING).every_probability(ENDING.prompts, every).sum(dim=-1)
    torch.testing.assert_close(total, torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-12)


@torch.no_grad()
def test_one_temperature_is_for_samples_and_for_every_log_prob():
    plain, cold = policy_of(TASK), policy_of(TASK, temperature=0.1)
    responses, uniforms = responses_to(TASK.prompts), uniforms_for(TASK.prompts, count=200)
    tempered = (plain.logits(TASK.prompts, responses) / 0.1).log_softmax(dim=-1)
    torch.testing.assert_close(cold.vocab_log_probs(TASK.prompts, responses), tempered, rtol=0, atol=1e-12)
    greedy = plain.respond(TASK.prompts, None)
    assert torch.equal(cold.respond(TASK.prompts, None), greedy)
    hits = [(policy.respond(TASK.prompts, uniforms) == greedy).all(dim=-1).double().mean() for policy in (plain, cold)]
    chances = [policy.response_log_probs(TASK.prompts, greedy).exp().mean() for policy in (plain, cold)]
    assert hits[1] > 0.9 > 0.5 > hits[0]
    for share, chance in zip(hits, chances, strict=True):
        assert abs(share - chance) < 4 * (chance * (1 - chance) / 600) ** 0.5


@alone_and_stacked
def test_logits_can_be_differentiated_twice(runs):
    """A Hessian times a direction, against central differences of the gradient: what TRPO needs."""
    policy = policy_of(TASK, runs)
    leaves, responses = list(policy.parameters()), responses_to(TASK.prompts, *runs)
    weights = torch.linspace(-1, 1, responses.numel(), dtype=torch.float64).view(responses.shape)
    generator = torch.Generator().manual_seed(0)
    direction = [torch.randn(leaf.shape, dtype=torch.float64, generator=generator) for leaf in leaves]

    def gradient(graph=False):
        return torch.autograd.grad(
            (policy.log_probs(TASK.prompts, responses) * weights).sum(), leaves, create_graph=graph
        )

    slope = sum((one * other).sum() for one, other in zip(gradient(graph=True), direction, strict=True))
    twice = torch.autograd.grad(slope, leaves)
    moved = []
    for step in (1e-6, -2e-6):
        with torch.no_grad():
            for leaf, along in zip(leaves, direction, strict=True):
                leaf += step * along
        moved.append(gradient())
    for exact, ahead, behind in zip(twice, *moved, strict=True):
        torch.testing.assert_close(exact, (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-5 * exact.abs().max().item())


@torch.no_grad()
def test_a_critic_sees_the_last_token_and_logits_are_the_features_times_the_embedding():
    policy, responses = policy_of(TASK), responses_to(TASK.prompts)
    features = policy.features(TASK.prompts, responses)
    logits = policy.logits(TASK.prompts, responses)
    torch.testing.assert_close(features[..., :-1, :] @ policy.embedding.mT, logits, rtol=0, atol=1e-12)
    other = responses.clone()
    other[..., -1] = (other[..., -1] + 1) % TASK.vocab_size
    assert (policy.features(TASK.prompts, other)[..., -1, :] - features[..., -1, :]).abs().amin(dim=(0, 1)).max() > 1e-3


@torch.no_grad()
def test_logits_do_not_pay_for_the_place_that_only_critics_read():
    policy = policy_of(TASK)
    responses = responses_to(TASK.prompts)
    before = policy.logits(TASK.prompts, responses)
    policy.positions[-1] = math.nan
    assert torch.equal(policy.logits(TASK.prompts, responses), before)
    assert policy.features(TASK.prompts, responses)[..., -1, :].isnan().all()
