"""The keys that every experiment has. Knobs, which belong to a function that the config names, come beside them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel, ConfigDict, Field

from pgrl_cli.registry import Count, Moderate, NonNegative, Positive, Seed, Whole

Name = Annotated[str, MinLen(1), MaxLen(100)]
SeedCount = Annotated[int, Ge(1), Le(100_000)]
Seeds = Annotated[list[Seed], MinLen(1), MaxLen(100_000)]


class WarmStart(BaseModel):
    """Supervised steps on the task's own solutions, before the first epoch."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    epochs: Count
    """Steps of Adam, each on prompts drawn anew."""
    learning_rate: Positive = 1e-3
    """Their size."""
    prompts: Count | None = None
    """Prompts of each step, drawn from `prompts_seed`; all unless it says otherwise."""


class Config(BaseModel):
    """One experiment, resolved: words name functions, numbers are counts and knobs. It never changes."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    name: Name
    """What the run is called; the file's name unless it says otherwise."""
    task: str = "sorting"
    """What the prompts are and what a right answer is."""
    reward_fn: str | dict[str, float] | None = None
    """What scores a response: a reward of the task, `file.py:function`, or a map from such words to weights."""
    reward_timeout: Positive = 60.0
    """Seconds that one answer of a reward of your own may take, and so may loading its file; then it is ended."""
    reward_scale: Positive = 1.0
    """Multiplies the task's reward before the delta mode sees it."""
    reward_shift: float = 0.0
    """Is added after that: -1 turns a 0/1 reward into -1/0."""
    prompts_per_epoch: Count | None = None
    """How many of the prompts an epoch draws; all of them unless it says otherwise."""
    prompts_seed: Seed = 0
    """What generated prompts and an epoch's or a warm start's draws of them come from, the same for every run."""
    policy: str = "positional"
    """What is trained."""
    init_from: str | None = None
    """A run, or one of its checkpoints, whose policy training starts from; of a run with `seeds` each takes its own."""
    warm_start: WarmStart | None = None
    """Supervised steps on solutions before the first epoch: {epochs, learning_rate, prompts}."""
    delta_mode: str = "centered_rewards"
    """How rewards become advantages: how much better a response did than a baseline."""
    critic: str | None = None
    """What learns the values that a delta mode asks for: on the policy's own body, or on one of its own."""
    value_target: str | None = None
    """What the critic learns: lambda_return unless it says otherwise."""
    value_clip: Moderate | None = None
    """How far a value may move from the one at sampling before the critic's loss holds it; null for no bound."""
    value_coefficient: NonNegative = 0.5
    """What the critic's loss weighs beside the policy's, where both move one body."""
    critic_optimizer: str | None = None
    """What turns the critic's gradients into steps: the policy's optimizer where it can, else adam."""
    critic_learning_rate: Positive = 1e-3
    """The size of the critic's steps."""
    truncation: Literal["end", "bootstrap"] = "end"
    """What a response that was cut off is worth behind its last token: nothing, or what the critic says (bootstrap)."""
    loss_mode: str = "naive"
    """The policy loss of a token."""
    average: str = "token_mean"
    """How token losses become one number: who counts the same."""
    kl_coefficient: NonNegative = 0.0
    """The weight of KL(policy || reference); at 0 there is no reference."""
    kl_estimator: str | None = None
    """How the KL is estimated: k3 in the loss, k1 in the reward, unless it says otherwise."""
    kl_placement: Literal["loss", "reward"] = "loss"
    """Where the KL acts: as a term of the loss, or taken from the reward at sampling."""
    kl_level: Literal["token", "sequence"] = "token"
    """What the estimator is taken of: each token's ratio, or the whole response's."""
    kl_average: str = "response_sum"
    """How the loss's KL becomes one number."""
    kl_target: Moderate | None = None
    """The KL of a response (nats) that kl_coefficient is steered to, epoch by epoch; null keeps it as it is."""
    kl_horizon: Moderate = 10_000.0
    """Responses in which kl_coefficient may change by about a fifth: the smaller, the faster it is steered."""
    old_kl_coefficient: NonNegative = 0.0
    """The weight of KL(old || policy), per token, over the whole vocabulary (PPO's penalty)."""
    old_kl_target: Moderate | None = None
    """The KL(old || policy) of a rollout's steps for which old_kl_coefficient is doubled or halved; null keeps it."""
    reference_period: Whole = 10
    """Epochs between refreshes of the reference policy; 0 keeps the initial policy for ever."""
    entropy_coefficient: NonNegative = 0.0
    """The weight of the bonus for the policy's entropy (nats per token)."""
    entropy_decay: Literal["none", "linear"] = "none"
    """Whether the entropy bonus falls to zero at the last epoch."""
    epochs: Count = 100
    """Rounds of sampling; each draws a fresh rollout from the current policy."""
    steps_per_epoch: Count = 10
    """Optimizer steps taken on one epoch's rollout."""
    rollout_reuse: Count = 1
    """Epochs that learn from one rollout before the next is sampled."""
    num_responses: Count = 10
    """Responses sampled for each prompt: its group."""
    drop_zero_variance_groups: bool = False
    """Whether groups whose responses all earn the same from the task are left out of the loss."""
    resampling_rounds: Annotated[int, Ge(0), Le(1_000)] = 0
    """How often at most an epoch samples again, on other prompts if it draws some, to replace dropped groups."""
    when_unfilled: Literal["fewer", "fill"] = "fewer"
    """After the last round: train on the groups there are, or fill up with groups that would be dropped."""
    micro_batch: Count | None = None
    """Prompts, at most, whose gradient is worked out at once: less memory, and the same gradient. All where null."""
    optimizer: str = "adam"
    """What turns gradients into steps."""
    learning_rate: Positive = 1e-3
    """The size of those steps."""
    learning_rate_decay: Literal["none", "linear", "cosine"] = "none"
    """Whether the learning rate falls to zero at the last epoch, and along which curve."""
    learning_rate_warmup: Whole = 0
    """Epochs over which the learning rate rises to its full size."""
    max_gradient_norm: Moderate | None = None
    """The norm that a longer gradient is cut back to, each run's own; null for none."""
    seed: Seed = 5
    """What the initial policy and the sampled responses come from."""
    seeds: SeedCount | Seeds | None = None
    """Many seeds, trained side by side: so many from 0 on, these, or 1000..1127; metrics then have a list per step."""
    log_seeds: list[Seed] | None = None
    """Which of `seeds` have their samples written down; the first two unless it says otherwise."""
    eval_period: Whole = 10
    """Epochs between measurements of exact match, which the last epoch always has; 0: only there."""
    log_every: Whole = 10
    """Epochs between samples in train.log and samples.jsonl, which the last epoch always has; 0: only there."""
    checkpoint_period: Whole = 0
    """Epochs between checkpoints; at the end and on a stop there always is one, and with 0 nowhere else."""
    checkpoint_keep: Count = 2
    """How many checkpoints stay: the newest."""
    on_nonfinite: Literal["stop", "skip"] = "stop"
    """What a gradient without a finite norm does: stop its run, or skip the step. Neither moves the parameters."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where tensors live; auto takes the GPU only for work that is large enough to gain by it."""
    dtype: Literal["float32", "float64"] = "float32"
    """The precision of parameters, log-probs and advantages."""

    knobs: dict[str, Any] = Field(default_factory=dict)
    sources: dict[str, Path] = Field(default_factory=dict)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every value that a function may ask for as a knob, by name."""
        return {key: getattr(self, key) for key in KEYS} | self.knobs

    @property
    def run_seeds(self) -> tuple[int, ...]:
        """The seed of every run: one, or those of `seeds`."""
        return seeds_of({"seed": self.seed, "seeds": self.seeds})

    def weights(self) -> dict[str, float]:
        """The reward's components with their weights."""
        if isinstance(self.reward_fn, dict):
            return dict(self.reward_fn)
        return {} if self.reward_fn is None else {self.reward_fn: 1.0}


def seeds_of(config: Mapping[str, Any]) -> tuple[int, ...]:
    """The seed of every run of a config by its keys, in the order of its metrics."""
    seeds = config.get("seeds")
    if seeds is None:
        return (config.get("seed", 0),)
    return tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)


def work_of(config: Mapping[str, Any]) -> int:
    """Optimizer steps of all runs of a config by its keys."""
    return int(len(seeds_of(config)) * config["epochs"] * config["steps_per_epoch"])


KEYS = tuple(key for key in Config.model_fields if key not in ("knobs", "sources"))
"""The keys a YAML may always have; knobs lie flat beside them, and the paths of own rewards are no key."""

LISTS = {
    "rewards": "reward_fn",
    "deltas": "delta_mode",
    "losses": "loss_mode",
    "divergences": "kl_estimator",
    "averages": "average",
    "policies": "policy",
    "tasks": "task",
    "critics": "critic",
    "targets": "value_target",
    "optimizers": "optimizer",
}
"""What `pgrl list` takes, and the key of a config that each is for."""
