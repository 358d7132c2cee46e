"""A record told for eyes (train.log) and for machines (samples.jsonl)."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from pgrl_cli.training.trainer import Record


def epoch_line(record: Record) -> str:
    """One line about an epoch: its steps, loss and rewards."""
    losses = record.measures["loss"]
    assert losses is not None
    parts = [
        f"epoch {record.epoch}",
        f"steps {record.steps[0]}-{record.steps[-1]}",
        f"loss {losses[0].item():.6f} -> {losses[-1].item():.6f}",
        f"mean reward {number(record.measures['mean_reward'])}",
    ]
    for name, value in record.evaluation.items():
        if value is not None:
            parts.append(f"{name.replace('_', ' ')} {number(value)}")
    return "   ".join(parts)


def samples(record: Record) -> Iterator[dict[str, Any]]:
    """For each prompt its responses, with log-probs, rewards and advantages."""
    rollout = {name: tensor.cpu().contiguous() for name, tensor in record.rollout.items()}
    advantages = rollout["advantages"]
    if advantages.shape[-1] == 1:
        advantages = advantages.squeeze(-1)  # one for the whole response
    for index, prompt in enumerate(rollout["prompts"]):
        yield {
            "epoch": record.epoch,
            "step": record.steps[0],
            "prompt": prompt.numpy(),
            "responses": rollout["responses"][index].numpy(),
            "log_probs": rollout["old_log_probs"][index].numpy(),
            "rewards": rollout["task_rewards"][index].numpy(),
            "shaped_rewards": rollout["rewards"][index].numpy(),
            "advantages": advantages[index].numpy(),
        }


def sample_lines(sample: dict[str, Any]) -> Iterator[str]:
    """The same sample, readable."""
    yield f"  prompt {spaced(sample['prompt'])}"
    rows = zip(sample["responses"], sample["log_probs"], sample["rewards"], sample["advantages"], strict=True)
    for response, log_probs, reward, advantage in rows:
        told_log_probs = " ".join(f"{value:7.3f}" for value in log_probs)
        told_delta = " ".join(f"{value:+.3f}" for value in advantage.reshape(-1))
        yield f"    response {spaced(response)}   log-probs {told_log_probs}   reward {reward:g}   delta {told_delta}"


def spaced(tokens: Any) -> str:
    """Token ids side by side."""
    return " ".join(str(token) for token in tokens.tolist())


def number(value: Tensor | None) -> str:
    """A measure of one run, short."""
    return "-" if value is None else f"{value.item():.3f}"
