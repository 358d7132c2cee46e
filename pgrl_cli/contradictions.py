"""What is wrong with values that are each right by themselves: they ask for what cannot be had together.

Each check looks at a config's live values, and judges nothing by one that is wrong already.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pgrl_cli.config.problems import listed
from pgrl_cli.config.schema import seeds_of
from pgrl_cli.dead_keys import has_rate
from pgrl_cli.equations.advantages import ADVANTAGES
from pgrl_cli.policies.transformer import wrong_with_heads
from pgrl_cli.registry import looks_across_prompts, needs, smallest_group
from pgrl_cli.tasks.task import Task
from pgrl_cli.training.outcomes import too_many


@dataclass(frozen=True)
class Case:
    """What is judged."""

    values: Mapping[str, Any]
    task: Task
    own_rewards: Mapping[str, Any]
    """By their words."""
    fine: Callable[..., bool]
    """Whether nothing is wrong with some keys; asked anew for every check, for one may find another's key wrong."""

    @property
    def asked(self) -> int:
        """The prompts of an epoch."""
        return int(self.values["prompts_per_epoch"] or len(self.task.prompts))


class Contradiction(NamedTuple):
    """Something that does not go together, told of one key."""

    key: str
    message: str
    part: str = ""
    """Of a key that holds a map, the part of it."""


def contradictions(case: Case) -> Iterator[Contradiction]:
    """All there are, one check after the other."""
    for check in (_group, _batch, _every_response, _draws, _seeds, _heads, _clip, _critic, _kl_level):
        yield from check(case)


def _group(case: Case) -> Iterator[Contradiction]:
    """A delta mode that compares a group's responses needs several."""
    mode, size = case.values["delta_mode"], case.values["num_responses"]
    least = smallest_group(ADVANTAGES[mode])
    if size < least and case.fine("num_responses", "delta_mode"):
        message = f"came {size}; delta_mode {mode} compares a group's responses and needs {least}"
        yield Contradiction("num_responses", message)


def _batch(case: Case) -> Iterator[Contradiction]:
    """A delta mode that compares all of an epoch's responses needs two."""
    mode, keys = case.values["delta_mode"], ("num_responses", "prompts_per_epoch", "task", "delta_mode")
    alone = case.values["num_responses"] * case.asked == 1
    if alone and looks_across_prompts(ADVANTAGES[mode]) and case.fine(*keys):
        yield Contradiction("num_responses", f"came 1, to one prompt; delta_mode {mode} compares responses and needs 2")


def _every_response(case: Case) -> Iterator[Contradiction]:
    """A delta mode that goes through every response there is must find few, and no reward of the user's own."""
    mode = case.values["delta_mode"]
    if "true_values" not in needs(ADVANTAGES[mode]):
        return
    if not case.fine("delta_mode", "task", "reward_fn", "seeds", "prompts_per_epoch"):
        return
    why = too_many(case.task, case.asked, len(seeds_of(case.values)))
    if case.own_rewards:
        why = f"{listed(case.own_rewards)} is a function of your own, and is asked for sampled responses alone"
    if why:
        message = f"came {mode!r}, which needs the reward of every response there is; {why}"
        yield Contradiction("delta_mode", f"{message}; optimal_baseline and leave_one_out_rewards do without")


def _draws(case: Case) -> Iterator[Contradiction]:
    """No more prompts can be drawn than there are."""
    drawn, warm_start, count = case.values["prompts_per_epoch"], case.values["warm_start"], len(case.task.prompts)
    only = f"the task has only {count} prompts; null takes them all"
    if drawn is not None and drawn > count and case.fine("prompts_per_epoch", "task"):
        yield Contradiction("prompts_per_epoch", f"came {drawn}; {only}")
    if not case.fine("warm_start", "task") or warm_start is None or warm_start.prompts is None:
        return
    if warm_start.prompts > count:
        yield Contradiction("warm_start", f"prompts: came {warm_start.prompts}; {only}", part="prompts")


def _seeds(case: Case) -> Iterator[Contradiction]:
    """Seeds are different runs, and only theirs can be logged."""
    seeds, logged = case.values["seeds"], case.values["log_seeds"]
    if seeds is None or not case.fine("seeds", "log_seeds"):
        return
    if isinstance(seeds, list) and len(set(seeds)) < len(seeds):
        twice = sorted(seed for seed, times in Counter(seeds).items() if times > 1)
        yield Contradiction("seeds", f"{listed(twice, 5)} came more than once; the same seed is the same run")
    among = range(seeds) if isinstance(seeds, int) else set(seeds)
    if strangers := [seed for seed in logged if seed not in among]:
        told_seeds = f"0 to {seeds - 1}" if isinstance(seeds, int) else listed(seeds, 5)
        yield Contradiction("log_seeds", f"{listed(strangers, 5)} is none of seeds, which are {told_seeds}")


def _heads(case: Case) -> Iterator[Contradiction]:
    """A policy's heads share its width."""
    values = case.values
    if "heads" not in values or not case.fine("policy", "width", "heads"):
        return
    if told := wrong_with_heads(values["width"], values["heads"]):
        yield Contradiction("heads", told)


def _clip(case: Case) -> Iterator[Contradiction]:
    """Each side of a clip needs a bound."""
    values = case.values
    unbounded = [key for key in ("clip_low", "clip_high") if key in values and values[key] is None]
    if unbounded and "clip_epsilon" in values and values["clip_epsilon"] is None:
        needed = "each side of the clip needs a bound, its own or that of clip_epsilon"
        yield Contradiction("clip_epsilon", f"came null, and so did {listed(unbounded)}; {needed}")


def _critic(case: Case) -> Iterator[Contradiction]:
    """A critic on the policy's own body moves it, which an update that bounds its KL cannot allow."""
    optimizer = case.values["optimizer"]
    if case.values["critic"] == "shared" and not has_rate(optimizer) and case.fine("critic", "optimizer"):
        why = f"optimizer {optimizer} bounds how far the policy moves, and a shared critic would move it too"
        yield Contradiction("critic", f"came 'shared', but {why}; write critic: separate")


def _kl_level(case: Case) -> Iterator[Contradiction]:
    """Only what is estimated from sampled tokens can be estimated from whole responses."""
    values = case.values
    if values["kl_level"] == "sequence" and values["kl_estimator"] == "exact" and values["kl_coefficient"] > 0:
        message = "came 'sequence', but kl_estimator exact sums over the vocabulary of each token"
        yield Contradiction("kl_level", f"{message}; take k1, k2 or k3")
