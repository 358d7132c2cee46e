"""Rollouts: what one epoch's gradient steps learn from, frozen."""

import torch
from torch import Tensor

from pgrl_cli import draws
from pgrl_cli.config import Config
from pgrl_cli.equations.averages import masked
from pgrl_cli.equations.categorical import log_probs_of
from pgrl_cli.registry import apply, needs
from pgrl_cli.training.parts import Parts, State

Rollout = dict[str, Tensor]
"""Tensors by name; an equation asks for them by naming its parameters.

prompts [prompt token];
responses, old_log_probs, reference_log_probs, advantages [... prompt response token], and mask where not all tokens
count; reference_vocab_log_probs [... prompt response token vocab] where the divergence asks for it;
task_rewards (the task's), `reward/NAME` (its components), rewards (shaped: what the delta mode sees) and, where the KL
is taken from the reward, reward_kl [... prompt response].
"""


@torch.no_grad()  # the one place: nothing here may carry a gradient into a step
def collect(parts: Parts, config: Config, state: State) -> Rollout:
    """Sample a group of responses to each of this epoch's prompts, score them, and compare them with each other."""
    prompts = _prompts(parts, config, state.epoch)
    shape = (len(prompts), config.num_responses, parts.task.response_length)
    responses = state.policy.respond(prompts, parts.uniforms("responses", state.epoch, *shape))
    mask = parts.task.mask(responses)
    old = state.policy.vocab_log_probs(prompts, responses)
    rollout = {
        "prompts": prompts,
        "responses": responses,
        "old_log_probs": masked(log_probs_of(responses, old), mask),
    }
    if mask is not None:
        rollout["mask"] = mask
    if state.reference is not None:
        reference = state.reference.vocab_log_probs(prompts, responses)
        rollout["reference_log_probs"] = masked(log_probs_of(responses, reference), mask)
        if "reference_vocab_log_probs" in needs(parts.divergence):
            rollout["reference_vocab_log_probs"] = reference
    rollout |= _scores(parts, rollout)
    if state.reference is not None and config.kl_placement == "reward":
        at_sampling = rollout | {"log_probs": rollout["old_log_probs"], "vocab_log_probs": old}
        rollout["reward_kl"] = masked(apply(parts.divergence, at_sampling, parts.knobs), mask).sum(dim=-1)
        rollout["rewards"] = rollout["rewards"] - parts.knob("kl_coefficient", axes=2) * rollout["reward_kl"]
    advantages = apply(parts.advantage, rollout, parts.knobs)
    if advantages.ndim == rollout["rewards"].ndim:
        advantages = advantages.unsqueeze(-1)  # one advantage for all of a response's tokens
    return rollout | {"advantages": advantages}


def _prompts(parts: Parts, config: Config, epoch: int) -> Tensor:
    """All prompts, or this epoch's draw of them: the same ones for every run of a stack."""
    prompts = parts.task.prompts
    if config.prompts_per_epoch is None or config.prompts_per_epoch >= len(prompts):
        return prompts
    order = draws.generator(parts.prompts_seed, "prompts per epoch", epoch).permutation(len(prompts))
    return prompts[torch.from_numpy(order[: config.prompts_per_epoch]).to(prompts.device)]


def _scores(parts: Parts, rollout: Rollout) -> Rollout:
    """What the task pays, component by component, in sum, and shifted and scaled as the config asks."""
    scores = {
        f"reward/{name}": reward(rollout["prompts"], rollout["responses"]).to(parts.dtype)
        for name, (reward, _) in parts.rewards.items()
    }
    weighted = [scores[f"reward/{name}"] * weight for name, (_, weight) in parts.rewards.items()]
    task_rewards = torch.stack(weighted).sum(dim=0) if len(weighted) > 1 else weighted[0]
    shaped = task_rewards * parts.knob("reward_scale", axes=2) + parts.knob("reward_shift", axes=2)
    return {**scores, "task_rewards": task_rewards, "rewards": shaped}
