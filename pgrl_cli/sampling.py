"""A run's policy, used: responses with their probabilities and rewards, and the best of several attempts."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pgrl_cli.assembly import assemble
from pgrl_cli.config import Config, ConfigError, Problem
from pgrl_cli.config.layers import layers_of
from pgrl_cli.config.problems import listed
from pgrl_cli.equations.attempts import best_of, best_of_samples
from pgrl_cli.fingerprints import fingerprint
from pgrl_cli.resolution import resolve
from pgrl_cli.runs import Run
from pgrl_cli.tasks.task import Task
from pgrl_cli.training import checkpoints
from pgrl_cli.training.outcomes import MOST_RESPONSES, task_rewards
from pgrl_cli.training.parts import Parts, State
from pgrl_cli.training.snapshots import CheckpointError, part_of, restore

SAMPLES = 256
"""Of each prompt, where not all responses can be gone through."""
ATTEMPTS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Trained:
    """One run's policy as its last whole checkpoint has it."""

    config: Config
    parts: Parts
    state: State
    origin: Config
    """The config with what it starts from."""
    notes: tuple[str, ...] = ()
    """Why it is not the last checkpoint's, where it is not."""

    @torch.no_grad()
    def responses(self, prompts: Tensor, count: int, draw: int = 0) -> Tensor:
        """Responses sampled to each prompt [prompt token]: [prompt response token]; another draw is other ones."""
        shape = (len(prompts), count, self.parts.task.response_length)
        return self.state.policy.respond(prompts, self.parts.uniforms("samples of a finished run", draw, *shape))

    @torch.no_grad()
    def greedy(self, prompts: Tensor) -> Tensor:
        """The likeliest tokens, one response [prompt 1 token] to each prompt."""
        return self.state.policy.respond(prompts, None)

    @torch.no_grad()
    def probabilities(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Of whole responses [prompt response token]: [prompt response]."""
        return self.state.policy.response_log_probs(prompts, responses).double().exp()

    def rewards(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """The task's reward [prompt response], weighted as the config says. Raises RewardError."""
        (share,) = self.parts.shares
        return task_rewards(share.rewards, prompts, responses, torch.float64)

    def right(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Which responses are the right answer: bool [prompt response]."""
        return self.parts.task.is_right(prompts, responses)


@contextmanager
def trained(folder: Run, seed: int | None = None, device: str | None = None) -> Iterator[Trained]:
    """A run's policy; of a run with `seeds` that of one of them, the first unless it is named.

    It lies on the config's device, unless another is named.
    Raises ConfigError for a seed that the run has not, and where there is no whole checkpoint, or none of this config.
    """
    shown = str(folder.folder)
    config = resolve(layers_of(str(folder.folder / "config.yaml"), []), begun=True).config
    seeds = config.run_seeds
    seed = seeds[0] if seed is None else seed
    if seed not in seeds:
        raise ConfigError([Problem(f"has no seed {seed}; it has {listed(seeds, 5)}", shown)])
    place, found, problems = checkpoints.newest_whole(folder.checkpoints)
    if found is None or place is None:
        raise ConfigError([Problem(told, shown) for told in problems or ["has no checkpoint yet"]])
    kept = found.facts.get("books", {}).get("0", {})
    if kept.get("config") != fingerprint(config):
        raise ConfigError([Problem(f"config.yaml is not what {place.name} was made with", shown)])
    if config.seeds is not None:
        found = part_of(found, seeds.index(seed), {})
    origin = config.model_copy(update={"seeds": None, "log_seeds": None, "seed": seed})
    elsewhere = {} if device is None else {"device": device}
    alone = origin.model_copy(update={"init_from": None, **elsewhere})  # where it began may have gone
    parts, state = assemble([alone])
    try:
        restore(state, found)
    except CheckpointError as error:
        raise ConfigError([Problem(str(error), shown)]) from error
    with closing(parts):
        yield Trained(alone, parts, state, origin, tuple(f"{told}; this is {place.name}" for told in problems))


def prompts_of(told: Sequence[str], parts: Parts, held_out: bool = False) -> Tensor:
    """Prompts [prompt token] from texts such as "3 1 2" or "7+25="; without any the task's own, or those held out.

    Shorter ones are filled up as the task's are. Raises ConfigError for what is no prompt of the task.
    """
    task = parts.task
    if held_out and not len(task.held_out):
        raise ConfigError([Problem("no prompts were held out: held_out_count says how many", "--held-out")])
    if not told:
        return task.held_out if held_out else task.prompts
    rows = [task.ids(text) for text in told]
    if None in rows:
        wrong = [text for text, row in zip(told, rows, strict=True) if row is None]
        expected = _expected(task)
        raise ConfigError([Problem(f"came {text[:60]!r}; expected {expected}", "--prompt") for text in wrong])
    return torch.tensor(rows, device=parts.device)


def _expected(task: Task) -> str:
    """What a prompt looks like, with an example."""
    example = f"such as {task.text(task.prompts[0])!r}"
    if task.form is not None:
        return f"a prompt of the task, {example}"
    length, numbers = task.prompts.shape[-1], task.vocab_size - (task.end is not None)
    count = f"{length}" if task.pad is None else f"1 to {length}"
    return f"{count} whole numbers from 0 to {numbers - 1}, {example}"


@dataclass(frozen=True)
class Attempts:
    """What so many responses to a prompt earn at their best, averaged over prompts."""

    attempts: int
    best_reward: float
    passed: float
    """pass@k: the probability that one of them is right."""


def attempts_of(trained: Trained, held_out: bool = False) -> tuple[list[Attempts], bool]:
    """Best-of-n and pass@k for the task's prompts, and whether they are exact, from every response there is.

    The prompts are those that were trained on, or those held out. Beyond 20,000 responses to all of them together some
    are sampled.
    """
    task = trained.parts.task
    prompts = task.held_out if held_out else task.prompts
    exact = len(prompts) * task.response_count <= MOST_RESPONSES
    if exact:
        every = task.every_response()
        responses = every.expand(len(prompts), *every.shape)
        probabilities = trained.probabilities(prompts, responses)
    else:
        responses = trained.responses(prompts, SAMPLES)
    rewards = trained.rewards(prompts, responses)
    right = trained.right(prompts, responses).double()

    def best(values: Tensor, attempts: int) -> float:
        each = best_of(values, probabilities, attempts) if exact else best_of_samples(values, attempts)
        return each.mean().item()

    return [Attempts(count, best(rewards, count), best(right, count)) for count in ATTEMPTS], exact


def told(trained: Trained, prompts: Tensor, responses: Tensor) -> list[dict[str, Any]]:
    """Responses with their probabilities and rewards, prompt by prompt, as JSON holds them.

    Of a task whose responses end also how each is written; `solution` is None where none is known.
    """
    task = trained.parts.task
    probabilities, rewards = trained.probabilities(prompts, responses), trained.rewards(prompts, responses)
    right, solutions = trained.right(prompts, responses), task.solutions(prompts)
    known = task.is_right(prompts, solutions[:, None])[:, 0]
    rows = zip(prompts, solutions, known, responses, probabilities, rewards, right, strict=True)
    return [
        {
            **_written(task, "prompt", prompt),
            **(_written(task, "solution", solution) if is_known else {"solution": None}),
            "responses": [
                {
                    **_written(task, "response", r),
                    "probability": p.item(),
                    "reward": points.item(),
                    "right": bool(fits),
                }
                for r, p, points, fits in zip(*of_prompt, strict=True)
            ],
        }
        for prompt, solution, is_known, *of_prompt in rows
    ]


def _written(task: Task, name: str, tokens: Tensor) -> dict[str, Any]:
    """Token ids, and of a task with an end what they say."""
    ids = {name: tokens.tolist()}
    return ids if task.end is None else ids | {f"{name}_text": task.text(tokens)}
