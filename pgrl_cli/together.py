"""Configs that train as one stack, and the notebooks of those that are written down."""

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import accumulate

import numpy as np
import torch

from pgrl_cli.assembly import assemble, stacked
from pgrl_cli.config import Config
from pgrl_cli.facts import facts_of
from pgrl_cli.keeper import Keeper
from pgrl_cli.notebook import Notebook, NotWritten
from pgrl_cli.stopping import Stop
from pgrl_cli.training.parts import Share, State
from pgrl_cli.training.snapshots import Checkpoint, part_of, restore, snapshot
from pgrl_cli.training.trainer import Record, Runs, train
from pgrl_cli.workload import multiplications, threads_for

Watch = Callable[[int, float], None]
"""Sees, after each epoch is written, how many are done and their last mean reward."""
CHEAP = 200_000
"""Numbers of a state that are copied after every epoch without anybody noticing."""
SLOW = 0.3
"""Seconds of an epoch from which on a copy of the state is cheap, whatever its size."""


def train_together(
    configs: Sequence[Config],
    books: Mapping[int, Notebook],
    watch: Watch = lambda done, mean_reward: None,
    ended: Callable[[Notebook], None] = lambda book: None,
    *,
    keeper: Keeper,
    stop: Stop | None = None,
    resumed: Checkpoint | None = None,
) -> None:
    """Train configs as one stack; those that have a notebook (by their place) are written down.

    What one book fails by (its reward, its numbers, its files) ends that one alone; what the training fails by ends
    all. Each book says how it went, and `ended` sees it as soon as it does. KeyboardInterrupt (Stopped, of a signal)
    writes a checkpoint, marks those that are not done and is raised again.
    """
    stack = _Stack(configs, books, ended, keeper, stop or Stop())
    try:
        stack.go(resumed, watch)
    except KeyboardInterrupt as error:
        stack.interrupt(128 + getattr(error, "signal", signal.SIGINT))
        raise


class _Stack:
    """Configs that train together, and the notebooks of those that are written down."""

    def __init__(
        self,
        configs: Sequence[Config],
        books: Mapping[int, Notebook],
        ended: Callable[[Notebook], None],
        keeper: Keeper,
        stop: Stop,
    ):
        self.configs, self.books, self.ended, self.keeper, self.stop = configs, books, ended, keeper, stop
        self.going = list(books.values())
        self.before_last: Checkpoint | None = None
        """Where all stood before the last epoch, which is written otherwise than it would be in a longer run."""
        self.boundary: Checkpoint | None = None
        """Where all stood between two epochs, the last time that it was noted."""
        self.between = False
        """Whether all epochs that are done are written down."""
        self.stopped: torch.Tensor | None = None
        """The state's, when the last epoch was written down."""

    def go(self, resumed: Checkpoint | None, watch: Watch) -> None:
        """From the beginning to the end; what the training fails by fails all books. Raises KeyboardInterrupt."""
        try:
            self.begin(resumed)
            self.train(watch)
            self.finish()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            for book in list(self.going):
                self.fail(book, error)

    def begin(self, resumed: Checkpoint | None) -> None:
        configs = self.configs
        if resumed is not None:  # what they began from may have gone by now
            configs = [config.model_copy(update={"init_from": None}) for config in configs]
        self.parts, self.state = assemble(configs)
        places = runs_of(self.configs)
        for index, book in self.books.items():
            book.place, book.known = places[index], facts_of(book.config, self.parts.task)
        if resumed is None:
            self.each(Notebook.begin)
            return
        restore(self.state, resumed)
        for index, book in self.books.items():
            book.take_up(resumed.facts["books"][str(index)])
        self.boundary, self.between, self.stopped = resumed, True, self.state.stopped

    def train(self, watch: Watch) -> None:
        config, parts, state = self.configs[0], self.parts, self.state
        with closing(parts), threads_for(multiplications(config, parts.task, [state.policy])):
            self.stop.check()
            for record in train(parts, config, state):
                self.between = False
                for share, error in record.failures.items():
                    for book in [book for book in self.going if _begins_in(parts.shares[share], book.place)]:
                        self.fail(book, error)
                self.each(Notebook.take, record)
                if state.epoch == config.epochs:  # judged before a checkpoint counts on it: nothing comes after
                    for what, finite in _left_finite(state, record).items():
                        self.each(Notebook.leave, finite, record.steps[-1], what)
                if not self.going:
                    return
                self.between, self.stopped = True, state.stopped
                self.note_boundary(sum(record.seconds.values()))
                watch(record.epoch + 1, _mean_reward(self.going))
                self.stop.check()

    def finish(self) -> None:
        """Pictures, last checkpoints and the mark that all is done."""
        whole = self.snapshot()
        last = [
            (book.folder.checkpoints, part_of(whole, book.place, {"books": {"0": book.kept()}})) for book in self.going
        ]
        if self._is_a_runs_own and self.going and self.before_last is not None:
            last.insert(0, (self.keeper.folder, self.before_last))  # from here it can be made longer
        self.keeper.keep(last, [descriptor for book in self.going for descriptor in book.descriptors()])
        self.each(Notebook.draw)
        try:
            self.keeper.settle()
        except Exception as error:
            told = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else f"{error!r}"
            raise NotWritten(f"a checkpoint could not be written: {told}") from error
        for book in list(self.going):
            self.complete(book)

    def interrupt(self, exit_code: int) -> None:
        """Keep a checkpoint of the last epoch that was finished, and mark what is not done."""
        whole = self.between and not self._is_moved
        if whole:
            self.boundary = self.snapshot()
        if self.boundary is not None and self.going:
            if not whole:
                self.cut_back(self.boundary)
            self._keep_boundary()
        for book in self.going:
            book.interrupt(exit_code)
        self.close(*self.going)

    def cut_back(self, boundary: Checkpoint) -> None:
        """Drop what the books have written since; one whose files have gone fails alone."""
        for index, book in self.books.items():
            if book in self.going:
                try:
                    book.cut_back(boundary.facts["books"][str(index)])
                except Exception as error:
                    self.fail(book, error)

    def snapshot(self) -> Checkpoint:
        """A copy of all as it stands between two epochs."""
        kept = {str(index): book.kept() if book in self.going else None for index, book in self.books.items()}
        return snapshot(self.state, {"books": kept})

    def note_boundary(self, seconds: float) -> None:
        """Copy the state where that is cheap, and hand the copy to the keeper where it is due."""
        config, epoch = self.configs[0], self.state.epoch
        due = config.checkpoint_period > 0 and epoch % config.checkpoint_period == 0 and epoch < config.epochs
        last_but_one = epoch == config.epochs - 1
        if due or last_but_one or self.state.parameters.numel() <= CHEAP or seconds >= SLOW:
            self.boundary = self.snapshot()
        if last_but_one:
            self.before_last = self.boundary
        if due:
            self._hand_over()

    def each(self, do: Callable[..., None], *given: object) -> None:
        """Do something with every open book; what one fails by ends that one alone."""
        for book in list(self.going):
            try:
                do(book, *given)
            except Exception as error:
                self.fail(book, error)

    def complete(self, book: Notebook) -> None:
        with self.stop.postponed():
            try:
                book.complete()
            except Exception as error:
                book.fail(error)
            self.close(book)

    def fail(self, book: Notebook, error: BaseException) -> None:
        if self._is_a_runs_own and self.boundary is not None:
            self._keep_boundary()  # the last epoch that was whole
        with self.stop.postponed():
            book.fail(error)
            self.close(book)

    def close(self, *books: Notebook) -> None:
        for book in books:
            self.going.remove(book)
            self.ended(book)

    @property
    def _is_moved(self) -> bool:
        """Whether an epoch that is not done has changed the state already: sampling and scoring do not."""
        state = self.state
        return state.steps != state.epoch * self.configs[0].steps_per_epoch or state.stopped is not self.stopped

    @property
    def _is_a_runs_own(self) -> bool:
        """Whether the checkpoints are those of one run folder, not of a sweep's stack."""
        return [book.folder.checkpoints for book in self.books.values()] == [self.keeper.folder]

    def _keep_boundary(self) -> None:
        """Write the last boundary down; where that fails, earlier checkpoints stay as they are."""
        with suppress(Exception):
            self._hand_over()
            self.keeper.settle()

    def _hand_over(self) -> None:
        assert self.boundary is not None
        descriptors = [descriptor for book in self.going for descriptor in book.descriptors()]
        self.keeper.keep([(self.keeper.folder, self.boundary)], descriptors)


def _begins_in(share: Share, here: Runs) -> bool:
    first = here.start if isinstance(here, slice) else here or 0
    return share.runs.start <= first < share.runs.stop


@torch.no_grad()
def _left_finite(state: State, record: Record) -> dict[str, np.ndarray]:
    """Which of the stack's policies, and of its critics, are still finite after an epoch's last step: [run] each."""
    prompts, responses = record.rollout["prompts"], record.rollout["responses"]
    left = {"policy": state.policy.log_probs(prompts, responses).flatten(-3)}
    if state.learner is not None:
        left["critic"] = state.learner.critic.values(state.policy, prompts, responses).flatten(-3)
    return {what: np.asarray(each.isfinite().all(dim=-1).cpu().numpy()) for what, each in left.items()}


def _mean_reward(books: Sequence[Notebook]) -> float:
    """Of the last epoch, over all runs that are written down."""
    return float(np.nanmean(np.concatenate([book.fates.mean_rewards[-1] for book in books])))


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
