"""A record told for eyes (train.log) and for machines (samples.jsonl)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgrl_cli.training.trainer import Record, Runs, of_runs

SHOWN = ("prompts", "responses", "old_log_probs", "task_rewards", "rewards", "advantages")
"""What samples show of a rollout."""


def epoch_line(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line about an epoch, from its lines of metrics.jsonl: its steps, loss and rewards; of a stack the means."""
    first, last = rows[0], rows[-1]
    parts = [
        f"epoch {first['epoch']}",
        f"steps {first['step']}-{last['step']}",
        f"loss {typical(first['loss']):.6f} -> {typical(last['loss']):.6f}",
        f"mean reward {number(first['mean_reward'])}",
    ]
    for name in ("exact_match", "held_out_exact_match"):
        if last[name] is not None:
            parts.append(f"{name.replace('_', ' ')} {number(last[name])}")
    if np.ndim(first["loss"]) > 0:
        parts.append(f"(means of {np.isfinite(first['loss']).sum()} seeds)")
    return "   ".join(parts)


def warm_start_line(record: Record, runs: Runs) -> str | None:
    """One line about the warm start, before the first epoch; of a stack the means over some of its runs."""
    if record.warm_start is None:
        return None
    first, last = (of_runs(nats.cpu().numpy(), runs) for nats in record.warm_start)
    return f"warm start   nats per token of the solutions {typical(first):.3f} -> {typical(last):.3f}"


def samples(record: Record, run: int | None, seed: int | None) -> Iterator[dict[str, Any]]:
    """For each prompt a run's responses, with log-probs, rewards and advantages; of a stack, which seed's.

    Of a task whose responses end also how all of them are written.
    """
    task = record.task
    rollout = {
        name: record.rollout[name] if run is None or name == "prompts" else record.rollout[name][run] for name in SHOWN
    }
    rollout = {name: tensor.cpu().contiguous() for name, tensor in rollout.items()}
    advantages = rollout["advantages"]
    if advantages.shape[-1] == 1:
        advantages = advantages.squeeze(-1)  # one for the whole response
    for index, prompt in enumerate(rollout["prompts"]):
        if not _is_kept(record, run, index):
            continue
        responses = rollout["responses"][index]
        texts = {"prompt_text": task.text(prompt), "texts": [task.text(response) for response in responses]}
        yield {
            "epoch": record.epoch,
            "step": record.steps[0],
            **({} if seed is None else {"seed": seed}),
            "prompt": prompt.numpy(),
            "responses": responses.numpy(),
            **({} if task.end is None else texts),
            "log_probs": rollout["old_log_probs"][index].numpy(),
            "rewards": rollout["task_rewards"][index].numpy(),
            "shaped_rewards": rollout["rewards"][index].numpy(),
            "advantages": advantages[index].numpy(),
        }


def _is_kept(record: Record, run: int | None, index: int) -> bool:
    """Whether a run learns from a prompt's group, which it may have dropped while another of its stack has not."""
    mask = record.rollout.get("mask")
    return mask is None or bool((mask if run is None else mask[run])[index].any())


def sample_lines(sample: dict[str, Any], end: int | None = None) -> Iterator[str]:
    """The same sample, readable; what lies behind a response's end token is left out."""
    of_seed = f"seed {sample['seed']}   " if "seed" in sample else ""
    yield f"  {of_seed}prompt {_written(sample.get('prompt_text'), sample['prompt'])}"
    texts = sample.get("texts", [None] * len(sample["responses"]))
    rows = zip(texts, sample["responses"], sample["log_probs"], sample["rewards"], sample["advantages"], strict=True)
    for text, response, log_probs, reward, advantage in rows:
        said = response[: _length(response, end)]
        told_log_probs = " ".join(f"{value:7.3f}" for value in log_probs[: len(said)])
        told_delta = " ".join(f"{value:+.3f}" for value in advantage.reshape(-1)[: len(said)])
        told = f"response {_written(text, said)}   log-probs {told_log_probs}"
        yield f"    {told}   reward {reward:g}   delta {told_delta}"


def _length(response: Any, end: int | None) -> int:
    """How many tokens a response has up to its end, that included."""
    if end is None or end not in response:
        return len(response)
    return int(np.flatnonzero(response == end)[0]) + 1


def _written(text: str | None, tokens: Any) -> str:
    """Token ids side by side, behind what they say where that is known."""
    return spaced(tokens) if text is None else f"{text} ({spaced(tokens)})"


def spaced(tokens: Any) -> str:
    """Token ids side by side."""
    return " ".join(str(token) for token in tokens.tolist())


def typical(value: Any) -> float:
    """A number of one run; of a stack the mean over the runs that have one."""
    if np.ndim(value) == 0:
        return float(value) if math.isfinite(value) else math.nan
    return float(np.nanmean(value)) if np.isfinite(value).any() else float("nan")


def number(value: Any) -> str:
    """A measure, short."""
    return "-" if value is None else f"{typical(value):.3f}"
