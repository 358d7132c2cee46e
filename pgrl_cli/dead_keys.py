"""Keys that turn nothing while others have certain values: by which, and why, in words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pgrl_cli.config.own_reward_words import has_own_reward
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.registry import knobs, needs
from pgrl_cli.tasks import TASKS
from pgrl_cli.training.updates import OPTIMIZERS

OF_THE_CRITIC = ("critic", "value_target", "critic_optimizer")
"""Words that a config without a critic has none of."""


def asks_for_values(delta_mode: str) -> bool:
    """Whether a delta mode needs a critic."""
    return "values" in needs(ADVANTAGES[delta_mode])


NO_CRITIC = (
    "the delta mode asks for no values, so there is no critic; "
    f"{' and '.join(filter(asks_for_values, ADVANTAGES))} ask for them"
)


def has_rate(optimizer: str) -> bool:
    """Whether an optimizer's steps have a size of their own to be told."""
    return "learning_rate" in needs(OPTIMIZERS[optimizer])


def has_any_rate(values: Mapping[str, Any]) -> bool:
    """Whether the policy or a critic has a learning rate."""
    return has_rate(values["optimizer"]) or asks_for_values(values["delta_mode"])


@dataclass(frozen=True)
class Dead:
    """A key that turns nothing while some other keys have certain values."""

    key: str
    killers: tuple[str, ...]
    when: Callable[[Mapping[str, Any]], bool]
    because: str


def _pays(reward_fn: Any, reward: str) -> bool:
    """Whether the value of `reward_fn`, as it was written, names a reward."""
    return reward in reward_fn if isinstance(reward_fn, dict) else reward_fn == reward


def _draws(warm_start: Any) -> bool:
    """Whether a warm start, as it was written or as it is held, draws prompts."""
    found = warm_start.get("prompts") if isinstance(warm_start, dict) else getattr(warm_start, "prompts", None)
    return found is not None


def _has_end(values: Mapping[str, Any]) -> bool:
    """Whether responses end with a token of their own, so that one may be cut off."""
    own = knobs(TASKS[values["task"]])
    generated = "shortest_prompt" not in own or values.get("prompt_count") is not None
    return "max_response_tokens" in own and generated and values.get("shortest_prompt", 1) is not None


DEAD = (
    Dead(
        "entropy_decay", ("entropy_coefficient",), lambda v: v["entropy_coefficient"] == 0, "entropy_coefficient is 0"
    ),
    Dead(
        "clip_epsilon",
        ("clip_low", "clip_high"),
        lambda v: v.get("clip_low") is not None and v.get("clip_high") is not None,
        "clip_low and clip_high replace it on both sides",
    ),
    Dead(
        "max_response_tokens",
        ("shortest_prompt", "prompt_count", "prompts"),
        lambda v: v.get("shortest_prompt", 1) is None,
        "without shortest_prompt all responses have the length of the prompts",
    ),
    Dead(
        "overlong_margin",
        ("reward_fn",),
        lambda v: not _pays(v["reward_fn"], "overlong_penalty"),
        "reward_fn has no overlong_penalty",
    ),
    Dead(
        "shortest_prompt",
        ("prompt_count", "prompts"),
        lambda v: v.get("prompt_count") is None,
        "prompts are not generated",
    ),
    Dead(
        "prompt_length",
        ("prompt_count", "prompts"),
        lambda v: v.get("prompt_count") is None,
        "prompts are not generated",
    ),
    Dead(
        "held_out_count",
        ("prompt_count", "prompts"),
        lambda v: v.get("prompt_count") is None,
        "prompts are not generated",
    ),
    Dead(
        "prompts_seed",
        ("prompt_count", "prompts", "prompts_per_epoch", "task", "warm_start"),
        lambda v: v.get("prompt_count") is None and v["prompts_per_epoch"] is None and not _draws(v["warm_start"]),
        "prompts are neither generated nor drawn",
    ),
    Dead(
        "kl_placement",
        ("kl_coefficient",),
        lambda v: v["kl_placement"] == "reward" and v["kl_coefficient"] == 0,
        "kl_coefficient is 0, so nothing is placed",
    ),
    Dead(
        "reward_timeout",
        ("reward_fn",),
        lambda v: not has_own_reward(v["reward_fn"]),
        "reward_fn names no function of your own",
    ),
    *(
        Dead(key, ("delta_mode",), lambda v: not asks_for_values(v["delta_mode"]), NO_CRITIC)
        for key in (*OF_THE_CRITIC, "value_clip", "critic_learning_rate")
    ),
    Dead(
        "truncation",
        ("delta_mode", "task", "shortest_prompt", "prompt_count", "prompts"),
        lambda v: not asks_for_values(v["delta_mode"]) or not _has_end(v),
        "no critic is asked what a response that was cut off is worth",
    ),
    Dead(
        "value_coefficient",
        ("delta_mode", "critic"),
        lambda v: not asks_for_values(v["delta_mode"]) or v["critic"] != "shared",
        "no critic shares the policy's body",
    ),
    Dead(
        "learning_rate",
        ("optimizer",),
        lambda v: not has_rate(v["optimizer"]),
        "the optimizer finds the length of its steps itself",
    ),
    *(
        Dead(key, ("optimizer", "delta_mode"), lambda v: not has_any_rate(v), "nothing has a learning rate")
        for key in ("learning_rate_decay", "learning_rate_warmup", "max_gradient_norm")
    ),
    Dead(
        "old_kl_target",
        ("old_kl_coefficient",),
        lambda v: v["old_kl_coefficient"] == 0,
        "old_kl_coefficient is 0, and stays so however often it is doubled",
    ),
    Dead(
        "resampling_rounds",
        ("drop_zero_variance_groups",),
        lambda v: not v["drop_zero_variance_groups"],
        "no group is dropped",
    ),
    Dead(
        "when_unfilled",
        ("drop_zero_variance_groups",),
        lambda v: not v["drop_zero_variance_groups"],
        "no group is dropped",
    ),
    Dead("seed", ("seeds",), lambda v: v["seeds"] is not None, "seeds lists them"),
    Dead("log_seeds", ("seeds",), lambda v: v["seeds"] is None, "there is one seed, and its samples are written"),
)
"""Deaths by value; a knob of a function that no word names is found by the signatures alone."""
