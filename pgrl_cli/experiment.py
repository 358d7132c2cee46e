"""From configs to run folders: the whole story on one page."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch

from pgrl_cli import runs
from pgrl_cli.assembly import assemble, multiplications, stacked, threads_for
from pgrl_cli.config import Config, ConfigError, yaml12
from pgrl_cli.notebook import HINT, Notebook, NotFinite, Summary
from pgrl_cli.resolution import Resolved
from pgrl_cli.runs import Run
from pgrl_cli.training.parts import Parts, Share
from pgrl_cli.training.trainer import Runs, train
from pgrl_cli.words import written

__all__ = ["HINT", "Interrupted", "NotFinite", "RunFailed", "Summary", "Watch", "run", "train_together"]

Watch = Callable[[int, float], None]
"""Sees, after each epoch is written, how many are done and their last mean reward."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; its folder keeps what was finished."""

    def __init__(self, run: Run):
        super().__init__("interrupted")
        self.run = run


class RunFailed(Exception):
    """A run that started and did not finish; its folder says how far it came."""

    def __init__(self, run: Run, message: str):
        super().__init__(message)
        self.run = run


def run(
    resolved: Resolved,
    runs_dir: Path,
    *,
    command: Sequence[str] = (),
    watch: Watch = lambda done, mean_reward: None,
) -> tuple[Run, Summary]:
    """Train one config, with all its seeds side by side, and keep the evidence.

    Raises ConfigError before a folder is made, RunFailed after; Ctrl-C marks the run and becomes Interrupted.
    """
    config = resolved.config
    refuse_a_missing_gpu(resolved)
    folder = runs.create(config.name, runs_dir, texts(resolved, command), list(dict.fromkeys(config.sources.values())))
    book = Notebook(folder, config)
    try:
        train_together([config], {0: book}, watch)
    except KeyboardInterrupt as error:
        raise Interrupted(folder) from error
    if book.error is not None:
        raise RunFailed(folder, book.told) from book.error
    return folder, book.summary()


def train_together(
    configs: Sequence[Config],
    books: Mapping[int, Notebook],
    watch: Watch = lambda done, mean_reward: None,
    ended: Callable[[Notebook], None] = lambda book: None,
) -> None:
    """Train configs as one stack; those that have a notebook (by their place) are written down.

    What one book fails by (its reward, its numbers, its files) ends that one alone; what the training fails by ends
    all. Each book says how it went, and `ended` sees it as soon as it does. Ctrl-C marks those that are not done and
    is raised again.
    """
    stack = _Stack(configs, books, ended)
    try:
        stack.each(Notebook.begin)
        stack.train(watch)
        stack.each(Notebook.complete)
        stack.close(*stack.going)
    except KeyboardInterrupt:
        for book in stack.going:
            book.interrupt()
        stack.close(*stack.going)
        raise
    except BaseException as error:
        for book in list(stack.going):
            stack.fail(book, error)


class _Stack:
    """Configs that train together, and the notebooks of those that are written down."""

    def __init__(self, configs: Sequence[Config], books: Mapping[int, Notebook], ended: Callable[[Notebook], None]):
        self.configs, self.books, self.ended = configs, books, ended
        self.going = list(books.values())

    def train(self, watch: Watch) -> None:
        parts, state = assemble(self.configs)
        places = runs_of(self.configs)
        for index, book in self.books.items():
            book.place, book.maximum_reward = places[index], _maximum_reward(book.config, parts, places[index])
        with closing(parts), threads_for(multiplications(self.configs[0], parts.task, [state.policy])):
            for record in train(parts, self.configs[0], state):
                for share, error in record.failures.items():
                    for book in [book for book in self.going if _begins_in(parts.shares[share], book.place)]:
                        self.fail(book, error)
                self.each(Notebook.take, record)
                if not self.going:
                    return
                watch(record.epoch + 1, _mean_reward(self.going))
            with torch.no_grad():
                left = state.policy.log_probs(record.rollout["prompts"], record.rollout["responses"])
            alive = left.isfinite().flatten(-3).all(dim=-1).cpu().numpy()
        self.each(Notebook.leave, alive, record.steps[-1])

    def each(self, do: Callable[..., None], *given: object) -> None:
        """Do something with every open book; what one fails by ends that one alone."""
        for book in list(self.going):
            try:
                do(book, *given)
            except Exception as error:
                self.fail(book, error)

    def fail(self, book: Notebook, error: BaseException) -> None:
        book.fail(error)
        self.close(book)

    def close(self, *books: Notebook) -> None:
        for book in books:
            self.going.remove(book)
            self.ended(book)


def _begins_in(share: Share, here: Runs) -> bool:
    first = here.start if isinstance(here, slice) else here or 0
    return share.runs.start <= first < share.runs.stop


def _mean_reward(books: Sequence[Notebook]) -> float:
    """Of the last epoch, over all runs that are written down."""
    return float(np.nanmean(np.concatenate([book.mean_rewards[-1] for book in books])))


def runs_of(configs: Sequence[Config]) -> list[Runs]:
    """Which of a stack's runs are each config's: a slice for one with `seeds`, else a number; None for a run alone."""
    if not stacked(configs):
        return [None]
    ends = list(accumulate(len(config.run_seeds) for config in configs))
    begins = [0, *ends[:-1]]
    return [
        begin if config.seeds is None else slice(begin, end)
        for config, begin, end in zip(configs, begins, ends, strict=True)
    ]


def refuse_a_missing_gpu(resolved: Resolved) -> None:
    """Raise ConfigError where a config asks for a GPU that is not there."""
    if resolved.config.device == "cuda" and not torch.cuda.is_available():
        message = "device: came 'cuda', but torch sees no GPU here; write auto or cpu"
        raise ConfigError([resolved.places["device"].problem(message)])


def _maximum_reward(config: Config, parts: Parts, here: Runs) -> float | None:
    """What right answers earn on average; None where a reward is the user's own or a weight is negative."""
    (rewards,) = [share.rewards for share in parts.shares if _begins_in(share, here)]
    if config.sources or any(weight < 0 for _, weight in rewards.values()):
        return None
    prompts = parts.task.prompts
    right = parts.task.solutions(prompts)[:, None, :]
    return sum(reward(prompts, right).mean().item() * weight for reward, weight in rewards.values())


def texts(resolved: Resolved, command: Sequence[str]) -> Mapping[str, str]:
    """The files of a run folder that are known before the run starts."""
    typed = {key: yaml12.read(text, key) for key, _, text in (line.partition("=") for line in resolved.overrides)}
    return {
        "config.yaml": written(resolved.config),
        "overrides.yaml": yaml12.write(typed) if typed else "",
        "command.txt": shlex.join(runs.redacted(command)) + "\n",
        "provenance.json": runs.to_json(runs.provenance(), indent=True).decode(),
    }
