"""The transformer on one thread, in float32: what is compared is measured in turn in one go.

    python benchmarks/transformer.py [sampling] [stack] [growth] [--pairs 3] [--epochs 12] [--tokens 32] [--widths 32]

sampling  1,024 responses: with remembered keys and values, and by reading prompts and all earlier tokens for each one
stack     16 runs of 4 prompts x 8 responses x 5 tokens, one step per epoch, in a stack and one after another (all take
          what one takes); and a step by itself, without sampling: what an epoch of five takes longer than one of one
growth    an epoch of one run of 8 prompts x 8 responses x 5 tokens, and of more and longer responses

Times are the processor's, of the fastest third: whatever else a machine does only adds to them. They are of training
alone, without files.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pgrl_cli.assembly import assemble
from pgrl_cli.config.layers import layers_from
from pgrl_cli.equations.categorical import inverse_cdf, log_softmax
from pgrl_cli.policies.policy import Policy
from pgrl_cli.policies.transformer import transformer
from pgrl_cli.resolution import resolve
from pgrl_cli.tasks.sorting import sorting
from pgrl_cli.training.trainer import train

RUNS = 16
GROUPS = 32
"""Prompts that are sampled for, and responses to each."""
MORE_STEPS = 4
LEARNT = {"policy": "transformer", "steps_per_epoch": 1, "eval_period": 0, "device": "cpu", "vocab_size": 10}


def fast(seconds: Sequence[float]) -> float:
    """The mean of the fastest third."""
    best = sorted(seconds)[: max(1, len(seconds) // 3)]
    return sum(best) / len(best)


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def reading_everything_again(policy: Policy, prompts: Tensor, uniforms: Tensor) -> Tensor:
    """What `respond` answers, from logits alone."""
    responses = torch.zeros(uniforms.shape, dtype=torch.long)
    for place in range(uniforms.shape[-1]):
        logits = policy.logits(prompts, responses[..., : place + 1])[..., -1, :]
        responses[..., place] = inverse_cdf(log_softmax(logits), uniforms[..., place])
    return responses


@torch.no_grad()
def sampling(pairs: int, tokens: int) -> None:
    task = replace(sorting(prompt_count=GROUPS, prompt_length=5), response_length=tokens)
    generator = torch.Generator().manual_seed(0)
    policy = transformer(task, lambda *shape: torch.randn(shape, generator=generator)).float()
    uniforms = torch.rand(GROUPS, GROUPS, tokens, generator=generator)
    remembering, again = [], []
    for _ in range(pairs):
        remembering.append(timed(lambda: policy.respond(task.prompts, uniforms)))
        again.append(timed(lambda: reading_everything_again(policy, task.prompts, uniforms)))
    print(
        f"{GROUPS * GROUPS:,} responses of {tokens} tokens to {GROUPS} prompts of 5, width 32, 2 layers: {pairs} pairs"
    )
    print(f"  remembering keys and values  {fast(remembering) * 1e3:8.0f} ms")
    print(f"  reading everything again     {fast(again) * 1e3:8.0f} ms")
    print(f"  ratio                        {fast(again) / fast(remembering):8.1f}")


def epochs_of(epochs: int, **keys: object) -> list[float]:
    """The seconds of each epoch but the first, which warms up, and the last, which evaluates."""
    config = resolve(layers_from(LEARNT | {"epochs": epochs + 2} | keys)).config
    parts, state = assemble([config])
    records = train(parts, config, state)
    return [timed(lambda: next(records)) for _ in range(epochs + 1)][1:]


def stack(pairs: int, epochs: int, widths: Sequence[int]) -> None:
    print(f"{RUNS} runs of 4 prompts x 8 responses x 5 tokens, one step per epoch, 2 layers")
    print("| width | epoch of a run alone, ms | in the stack, ms | ratio | step alone, ms | in the stack, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for width in widths:
        keys = {"width": width, "prompt_count": 4, "prompt_length": 5, "num_responses": 8}
        measured: dict[tuple[bool, int], list[float]] = {
            (stacked, steps): [] for stacked in (False, True) for steps in (1, 1 + MORE_STEPS)
        }
        for pair in range(pairs):
            for (stacked, steps), seconds in measured.items():
                runs = {"seeds": RUNS} if stacked else {"seed": pair}
                seconds += epochs_of(epochs, steps_per_epoch=steps, **runs, **keys)
        alone, longer_alone, together, longer = (fast(seconds) * 1e3 for seconds in measured.values())
        epoch = f"{alone:.1f} | {together / RUNS:.2f} | {alone * RUNS / together:.1f}"
        one, many = (longer_alone - alone) / MORE_STEPS, (longer - together) / MORE_STEPS
        print(f"| {width} | {epoch} | {one:.1f} | {many / RUNS:.2f} | {one * RUNS / many:.1f} |", flush=True)


def growth(pairs: int, epochs: int) -> None:
    print("one run of 8 prompts, width 32, one step per epoch; the power by which an epoch grew since the row above")
    print("| responses | tokens | an epoch, ms | power |")
    print("|---|---|---|---|")
    more = [(responses, 5) for responses in (8, 16, 32, 64)]
    longer = [(8, tokens) for tokens in (5, 10, 20, 40)]
    seconds: dict[tuple[int, int], list[float]] = {size: [] for size in more + longer}
    for _ in range(pairs):
        for (responses, tokens), measured in seconds.items():
            size = {"prompt_count": 8, "prompt_length": tokens, "num_responses": responses}
            measured += epochs_of(epochs, **size)
    for sizes in (more, longer):
        before = None
        for size in sizes:
            here = fast(seconds[size])
            power = "" if before is None else f"{math.log2(here / before):.2f}"
            print(f"| {size[0]} | {size[1]} | {here * 1e3:.1f} | {power or 'none'} |")
            before = here


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=["sampling", "stack", "growth"])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--widths", default="16,32,64,128,256")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for what in arguments.what:
        if what == "sampling":
            sampling(arguments.pairs, arguments.tokens)
        elif what == "stack":
            stack(arguments.pairs, arguments.epochs, [int(width) for width in arguments.widths.split(",")])
        else:
            growth(arguments.pairs, arguments.epochs)


if __name__ == "__main__":
    main()
