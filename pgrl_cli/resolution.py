"""From layers of words to a config that can run: every name, type, bound and knob is checked before anything starts.

A knob lives while a word names a function whose signature has it. A dead knob is an error where it was written at
least as high as the word that makes it dead; one from a lower layer is dropped with a note.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints
from unicodedata import normalize

import torch
from pydantic import BaseModel

from pgrl_cli.advice import advice, of_the_critic, usual_estimator
from pgrl_cli.config import KEYS, OTHER_WORDS, Config
from pgrl_cli.config.kinds import fitted, misfit, told
from pgrl_cli.config.layers import Entry, Layers
from pgrl_cli.config.problems import ConfigError, Problem, brief, listed, nearest, short
from pgrl_cli.config.reward_words import RewardWords
from pgrl_cli.config.schema import WarmStart, seeds_of
from pgrl_cli.config.seed_words import seeds_written_out, wrong_with_seeds
from pgrl_cli.contradictions import Case, contradictions
from pgrl_cli.dead_keys import DEAD
from pgrl_cli.policies import POLICIES
from pgrl_cli.registry import REQUIRED, Function, Knob, KnobError, apply, knobs
from pgrl_cli.secrecy import holds_secret
from pgrl_cli.starts import checkpoint_at, misfit_of, path_or_run
from pgrl_cli.tasks import TASKS
from pgrl_cli.tasks.task import Task
from pgrl_cli.words import TABLES, every_knob, knobs_of, owners

FROM_TASK: Mapping[str, Callable[[Task], Any]] = {
    "token_budget": lambda task: float(task.response_length),
    "vocab_size": lambda task: task.vocab_size if task.end is None else task.vocab_size - 1,
    "held_out_count": lambda task: len(task.held_out),
    "prompts": lambda task: task.prompts.tolist(),
    "max_response_tokens": lambda task: task.response_length,
    "overlong_margin": lambda task: task.overlong_margin,
}
"""Knobs whose default the task knows."""
DROPPED = "turns nothing here and was dropped"
SEEDS = ("seeds", "log_seeds")
MAPS = ("reward_fn", "warm_start")
"""Keys whose parts may be given one by one: reward_fn.points=2."""
IDLE_WITHOUT_KL = ("kl_average", "kl_level", "kl_target", "kl_horizon", "reference_period")
MOST_HINTS = 50
"""Unknown keys that a nearest name is looked for."""
ANNOTATIONS = get_type_hints(Config, include_extras=True)


@dataclass(frozen=True)
class Resolved:
    """A config that can run, and what a person should hear about it."""

    config: Config
    places: Mapping[str, Entry] = field(default_factory=dict)
    """Where each key was written that was."""
    notes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()


def resolve(layers: Layers, *, begun: bool = False) -> Resolved:
    """The config that the layers make, of a run that is to begin, or has begun: then what it began from may have gone.

    Raises ConfigError with every problem there is.
    """
    return _Resolution(layers, begun).resolved()


@dataclass
class _Resolution:
    layers: Layers
    begun: bool = False
    given: dict[str, Entry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    wrong: set[str] = field(default_factory=set)
    """Keys with a problem: what depends on them cannot be judged."""
    sources: dict[str, Path] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.problems += self.layers.problems

    def resolved(self) -> Resolved:
        """Check one thing after the other. Raises ConfigError with all that is wrong."""
        self.merge()
        words = self.words()
        live = knobs_of(words)
        self.bury_by_word(words, live)
        self.bury_by_value(live)
        values = self.values(live)
        task = self.task(values)
        self.fill_in(values, live, task)
        self.check_rewards(values, task)
        self.check_together(values, task)
        self.check_start(values, task)
        if self.problems:
            raise ConfigError(sorted(self.problems, key=self.place))
        plain = {key: value for key, value in values.items() if key in KEYS}
        chosen = {key: values[key] for key in live if key in values}
        config = Config(**plain, knobs=chosen, sources=self.sources)
        return Resolved(config, dict(self.given), tuple(self.notes), tuple(self.layers.overrides))

    def place(self, problem: Problem) -> tuple[bool, str, int]:
        """Where a problem is told: line by line, the file that was asked for before those it builds on."""
        return problem.line is None, problem.file if problem.file != self.layers.file else "", problem.line or 0

    def tell(self, key: str, message: str, entry: Entry | None = None) -> None:
        """Note a problem of a key, where it was written or in the file as a whole."""
        entry = entry or self.given.get(key)
        self.wrong.add(key)
        told_key = f"{key}: {message}"
        self.problems.append(entry.problem(told_key) if entry else Problem(told_key, self.layers.file))

    def merge(self) -> None:
        """The highest value of each known key; a dotted override replaces one entry of a map."""
        known = {*KEYS, *every_knob()}
        unknown = 0
        for layer in self.layers.layers:
            for key, entry in sorted(layer.items(), key=lambda item: "." in item[0]):  # whole maps before their parts
                head, _, rest = key.partition(".")
                if key in OTHER_WORDS or head not in known:
                    unknown += 1
                    self.problems.append(entry.problem(_unknown(key, known if unknown <= MOST_HINTS else set())))
                elif not rest:
                    self.given[key] = entry
                elif head not in MAPS:
                    self.problems.append(entry.problem(f"unknown key {short(key)!r}: {head} is not a map"))
                else:
                    self.put_into_map(head, rest, entry)

    def put_into_map(self, head: str, rest: str, entry: Entry) -> None:
        """Replace one part of a map that a lower layer gives."""
        below = self.given.get(head)
        if below is None or not isinstance(below.value, dict):
            what = "not set" if below is None else f"the single word {brief(below.value)}"
            whole = f"{head}: {{{short(rest)}: {brief(entry.value)}}}"
            message = (
                f"{head} is {what} here, not a map: there is no {short(rest)!r} in it; as a map it is written {whole}"
            )
            self.problems.append(entry.problem(message))
            return
        self.given[head] = below.with_part(rest, entry)

    def bury_by_value(self, live: Mapping[str, Knob]) -> None:
        """Take away the keys that the values of others leave nothing to turn."""
        self.choose("prompts", "prompts lists them", "prompt_count", "prompt_count={} generates them")
        self.choose("seed", "seed={} asks for one run", "seeds", None)
        values = {key: entry.value for key, entry in self.given.items()}
        defaults = {name: knob.default for name, knob in live.items()}
        complete = {key: Config.model_fields[key].default for key in KEYS} | defaults | values
        for rule in DEAD:
            if rule.key in self.given and self.fine(*rule.killers) and rule.when(complete):
                self.bury(rule.key, rule.killers, rule.because)

    def choose(self, one: str, its_reason: str, other: str, others_reason: str | None) -> None:
        """Of two keys that exclude each other the higher layer wins; without a reason it does so silently."""
        first, second = self.given.get(one), self.given.get(other)
        if first is None or second is None or first.value is None or second.value is None:
            return
        if second.level > first.level and others_reason is None:
            del self.given[one]
        elif second.level > first.level:
            self.bury(one, (other,), str(others_reason).format(brief(second.value)))
        else:
            self.bury(other, (one,), its_reason.format(brief(first.value)))

    def bury(self, key: str, killers: tuple[str, ...], because: str) -> None:
        """Take away a dead key: with a note where a higher layer killed it, else with a problem."""
        entry = self.given.pop(key)
        level = max((self.given[killer].level for killer in killers if killer in self.given), default=-1)
        if level > entry.level:
            self.notes.append(f"{key} (from {entry.file}) {DROPPED}: {because}")
        elif key.startswith("kl_"):  # always legal
            self.notes.append(_idle_kl([key]))
        else:
            self.problems.append(entry.problem(f"{key} turns nothing here: {because}"))

    def words(self) -> dict[str, Any]:
        """What each naming key says, checked against its table; a wrong word is told and the default taken."""
        chosen = {}
        for key, functions in TABLES.items():
            chosen[key] = Config.model_fields[key].default
            entry = self.given.get(key)
            if entry is None or (entry.value is None and chosen[key] is None):
                continue
            if isinstance(entry.value, str) and entry.value in functions:
                chosen[key] = entry.value
                continue
            hint = nearest(entry.value, functions) if isinstance(entry.value, str) else ""
            if chosen[key] is None and entry.value in ("None", "none"):
                hint = " Write null for none."
            self.tell(key, f"came {told(entry.value)}; possible: {listed(functions)}.{hint}")
            del self.given[key]
        if chosen["kl_estimator"] is None:
            placement = self.given.get("kl_placement")
            chosen["kl_estimator"] = usual_estimator(placement.value if placement else "loss")
        return chosen | of_the_critic(chosen)

    def bury_by_word(self, words: Mapping[str, Any], live: Mapping[str, Knob]) -> None:
        """Take away the knobs of functions that no word names."""
        for name in [name for name in self.given if name not in KEYS and name not in live]:
            keys = owners(name)
            if self.wrong.isdisjoint(keys):
                belongs = " or ".join(f"{key}: {listed(having)}" for key, having in keys.items())
                now = ", ".join(f"{key} is {words[key]}" for key in keys)
                self.bury(name, tuple(keys), f"it belongs to {belongs}, but here {now}")

    def values(self, live: Mapping[str, Knob]) -> dict[str, Any]:
        """Every live key's value, checked for type and bounds; defaults where none was given."""
        values: dict[str, Any] = {key: Config.model_fields[key].default for key in KEYS}
        values |= {name: knob.default for name, knob in live.items()}
        values["name"] = self.layers.name[:100]
        if "name" in self.given and self.given["name"].value in ("None", "none"):
            self.tell("name", "came 'None' (text); leave the key out to take the file's name")
        every = {**every_knob(), **live}
        for key, entry in self.given.items():
            annotation = ANNOTATIONS[key] if key in KEYS else every[key].annotation
            if key == "reward_fn" and isinstance(entry.value, dict):
                for word in entry.value:
                    if problem := misfit(float, entry.value[word]):
                        self.tell(key, f"the weight of {short(word)}: {problem}", entry.part(word))
            elif key == "warm_start" and isinstance(entry.value, dict):
                self.check_parts(key, WarmStart, entry)
            elif key in SEEDS:
                self.check_each_seed(key, annotation, seeds_written_out(entry.value))
            elif problem := misfit(annotation, entry.value):
                self.tell(key, problem)
            elif key == "name" and holds_secret(entry.value):
                self.tell(key, "it looks as if there is a secret in it, and names are written down; leave it out")
            if key in values and key not in self.wrong:
                values[key] = fitted(annotation, seeds_written_out(entry.value) if key in SEEDS else entry.value)
        return values

    def check_parts(self, key: str, model: type[BaseModel], entry: Entry) -> None:
        """Every part of a map of settings, at the place where it was written."""
        fields, annotations = model.model_fields, get_type_hints(model, include_extras=True)
        for part, value in entry.value.items():
            if part not in fields:
                told = f"there is no {short(part)!r} in it; possible: {listed(fields)}.{nearest(part, fields)}"
                self.tell(key, told, entry.part(part))
            elif problem := misfit(annotations[part], value):
                self.tell(key, f"{part}: {problem}", entry.part(part))
        if missing := [part for part, field in fields.items() if field.is_required() and part not in entry.value]:
            self.tell(key, f"it says nothing about {listed(missing)}", entry)

    def task(self, values: Mapping[str, Any]) -> Task:
        """The task with the config's knobs; where they do not work, that is told and the default task stands in."""
        build: Function = TASKS[values["task"]]
        if "task" in self.wrong or not self.wrong.isdisjoint(knobs(build)):
            self.wrong.add("task")
            return build()
        try:
            return apply(build, {}, values)
        except KnobError as error:
            for knob, message in error.problems:
                self.tell(knob, message)
            self.wrong.add("task")
            return build()

    def fill_in(self, values: dict[str, Any], live: Mapping[str, Any], task: Task) -> None:
        """Defaults that depend on other words or on the task."""
        if values["reward_fn"] is None:
            values["reward_fn"] = next(iter(task.rewards))
        if values["kl_estimator"] is None:
            values["kl_estimator"] = usual_estimator(values["kl_placement"])
        values |= of_the_critic(values)
        values.pop("prompts" if values.get("prompt_count") is not None else "prompt_count", None)
        for key, of_task in FROM_TASK.items():
            if key in values and values[key] in (None, REQUIRED):
                values[key] = of_task(task)
        if values["seeds"] is not None and values["log_seeds"] is None and self.fine("seeds"):
            seeds = values["seeds"]
            values["log_seeds"] = list(range(seeds))[:2] if isinstance(seeds, int) else seeds[:2]
        for rule in DEAD:
            if rule.key in live and rule.when(values):
                values.pop(rule.key)

    def check_rewards(self, values: dict[str, Any], task: Task) -> None:
        """Each reward is one of the task's, or a function in a file; files are looked at, not run."""
        entry = self.given.get("reward_fn")
        if entry is not None and self.fine("reward_fn", "task"):
            rewards = RewardWords(tuple(task.rewards))
            values["reward_fn"] = rewards.resolved(values["reward_fn"], entry)
            self.sources |= rewards.sources
            for place, message in rewards.problems:
                self.tell("reward_fn", message, place)

    def check_start(self, values: dict[str, Any], task: Task) -> None:
        """Where training starts from is a checkpoint that is there and fits; it is named in full."""
        entry = self.given.get("init_from")
        if self.begun or entry is None or entry.value is None or not self.fine("init_from"):
            return
        if values["init_from"] in ("None", "none"):
            self.tell("init_from", "came 'None' (text); write null to start from random parameters")
            return
        found = checkpoint_at(path_or_run(values["init_from"], entry.folder))
        if isinstance(found, str):
            self.tell("init_from", found)
            return
        values["init_from"] = str(found)
        build: Function = POLICIES[values["policy"]]
        if self.fine("policy", "task", "seed", "seeds", *knobs(build)):
            policy = apply(build, {"task": task, "normals": torch.zeros}, values)
            if wrong := misfit_of(found, policy, seeds_of(values)):
                self.tell("init_from", wrong)

    def check_together(self, values: Mapping[str, Any], task: Task) -> None:
        """What no value can be told by itself; nothing is judged by a value that is wrong already."""
        for key, message, part in contradictions(Case(values, task, self.sources, self.fine)):
            entry = self.given.get(key)
            self.tell(key, message, entry.part(part) if entry and part else entry)
        self.note_idle_kl(values)
        self.notes += list(advice(values))

    def check_each_seed(self, key: str, annotation: Any, seeds: Any) -> None:
        if problem := misfit(annotation, seeds):
            self.tell(key, wrong_with_seeds(seeds) or problem)

    def note_idle_kl(self, values: Mapping[str, Any]) -> None:
        """Keys of the KL are always legal; a note says where one was written that turns nothing."""
        weight = self.given.get("kl_coefficient")
        usual = {key: Config.model_fields[key].default for key in IDLE_WITHOUT_KL}
        usual |= {"kl_estimator": usual_estimator(values["kl_placement"])}
        written = {key: self.given[key] for key in usual if key in self.given and values[key] != usual[key]}
        idle = [key for key, entry in written.items() if weight is None or entry.level >= weight.level]
        if idle and values["kl_coefficient"] == 0 and self.fine("kl_coefficient", *idle):
            self.notes.append(_idle_kl(idle))
        horizon = values["kl_horizon"] != usual["kl_horizon"] and values["kl_coefficient"] > 0
        if horizon and values["kl_target"] is None and self.fine("kl_horizon", "kl_target", "kl_coefficient"):
            self.notes.append("kl_horizon turns nothing while kl_target is null")

    def fine(self, *keys: str) -> bool:
        """Whether nothing is wrong with any of these keys."""
        return self.wrong.isdisjoint(keys)


def _idle_kl(keys: list[str]) -> str:
    return f"{listed(keys)} turn{'s' if len(keys) == 1 else ''} nothing while kl_coefficient is 0"


def _unknown(key: str, known: set[str]) -> str:
    if key in OTHER_WORDS:
        return f"unknown key {key!r}: here it is spelled {OTHER_WORDS[key]!r}"
    plain = normalize("NFKC", key[:100]).lower().replace("-", "_")  # letters of double width, say
    same = [word for word in known if word.lower() == plain]
    hint = f" Did you mean {same[0]!r}?" if same else nearest(key, sorted(known))
    return f"unknown key {short(key)!r}.{hint}"
