"""A user's own reward: a plain Python function of two lists, in a file named by the config.

    def points(prompt: list[int], response: list[int]) -> float | list[float | None]: ...

It sees what a person would: the prompt without padding, the response up to its end token, that included. A number pays
the response, a list, with a number for each token of the response, pays token by token (a process reward); None in a
list says that no step of the response ends with that token.

It is called once for each distinct (prompt, response) and remembered, so it must not depend on anything else. It runs
in a process of its own (`reward_process`), so it may hang, die and print without harm to the training; `reward_calls`
says what it may answer.
"""

from collections.abc import Sequence
from math import nan
from pathlib import Path

import torch
from einops import rearrange
from torch import Tensor

from pgrl_cli.equations.categorical import closed
from pgrl_cli.registry import Function
from pgrl_cli.reward_calls import Answer, RewardError, told_case
from pgrl_cli.reward_process import Case, Hung, Lost, RewardProcess

TIMEOUT = 60.0
"""Seconds that one answer may take."""
LOADING: Case = ((), ())
"""Stands for the loading of the file, where faults are remembered."""


def own_reward(
    path: Path, name: str, timeout: float = TIMEOUT, *, end: int | None = None, pad: int | None = None
) -> Function:
    """The function `name` of a Python file as a reward of tensors, loaded. Raises RewardError where that fails."""
    own = UserReward(path, name)
    own.load(timeout)
    return own.within(timeout, end=end, pad=pad)


class UserReward:
    """One function of a user's file: what it has answered so far, and the process that runs it while there is one."""

    def __init__(self, path: Path, name: str):
        self.path, self.name = path, name
        self.known: dict[Case, Answer] = {}
        self.process: RewardProcess | None = None
        self.lost: dict[Case, tuple[float, str]] = {}
        """Cases that it hung or died on: with how much time, and what was told."""

    def within(self, timeout: float, *, end: int | None = None, pad: int | None = None) -> Function:
        """The reward of tensors, each answer of which may take so long; once it has failed it is not asked again.

        It maps prompts [prompt token], responses [... prompt response token] to [... prompt response], or, where it
        answers with lists, to [... prompt response token]; `end` is the token behind which a response is over, `pad`
        fills up prompts. Raises RewardError where the file or the function fails, hangs or dies, or where the answers
        are not all finite numbers or all lists of such.
        """
        failed: str | None = None

        def reward(prompts: Tensor, responses: Tensor) -> Tensor:
            nonlocal failed
            if failed is not None:
                raise RewardError(failed)
            length = prompts.shape[-1]
            asked = prompts[:, None, :].expand(*responses.shape[:-1], length)
            pairs = rearrange(torch.cat([asked, closed(responses, end)], dim=-1), "... token -> (...) token")
            rows, where = pairs.cpu().unique(dim=0, return_inverse=True)
            cases = [(_without(row[:length], pad), _until(row[length:], end)) for row in rows.tolist()]
            try:
                self.ask([case for case in cases if case not in self.known], timeout)
                points = self.points(cases, responses.shape[-1])
            except RewardError as error:
                failed = str(error)
                raise
            return points[where].view(*responses.shape[:-1], *points.shape[1:]).to(responses.device)

        reward.__name__ = self.name
        setattr(reward, "close", self.close)  # noqa: B010 - a function has no declared attributes
        return reward

    def points(self, cases: Sequence[Case], length: int) -> Tensor:
        """What is known of cases: [case], or, of lists, [case token]. Raises RewardError where it is some of both.

        NaN is a list's None.
        """
        first = next(iter(self.known))
        by_token = isinstance(self.known[first], list)
        answers = [self.known[case] for case in cases]
        for case, answer in zip(cases, answers, strict=True):
            if isinstance(answer, list) != by_token:
                raise RewardError(self._told_of_both(case, first))
        return torch.tensor([_filled(answer, length) for answer in answers], dtype=torch.float64)

    def ask(self, unknown: Sequence[Case], timeout: float) -> None:
        """Get to know the answers to these cases."""
        if not unknown:
            return
        for case in unknown:
            self._refuse_what_was_lost(case, timeout)
        process = self.load(timeout)
        done = 0
        try:
            for done, number in enumerate(process.answers(unknown, timeout)):
                self.known[unknown[done]] = number
        except Lost as error:
            lost_on = next(case for case in unknown if case not in self.known)
            self._lost_on(lost_on, timeout, error)
            raise

    def load(self, timeout: float) -> RewardProcess:
        """The process, started anew where there is none that lives."""
        if self.process is None or not self.process.open:
            self.close()
            self._refuse_what_was_lost(LOADING, timeout)
            process = RewardProcess(self.path, self.name)
            try:
                process.load(timeout)
            except RewardError as error:
                process.close()
                self._lost_on(LOADING, timeout, error)
                raise
            self.process = process
        return self.process

    def close(self) -> None:
        """End the process; the next question starts another."""
        if self.process is not None:
            self.process.close()
            self.process = None

    def _lost_on(self, case: Case, timeout: float, error: RewardError) -> None:
        self.lost[case] = timeout if isinstance(error, Hung) else float("inf"), str(error)

    def _told_of_both(self, case: Case, other: Case) -> str:
        kinds = ["a list" if isinstance(self.known[each], list) else "a number" for each in (case, other)]
        here, there = (f"{kind} {told_case(*map(list, each))}" for kind, each in zip(kinds, (case, other), strict=True))
        only = "it must pay every response with a number, or the tokens of every response with a list"
        return f"{self.path}: {self.name} returned {here}, and {there}: {only}."

    def _refuse_what_was_lost(self, case: Case, timeout: float) -> None:
        """Another run of the stack may meet a case that cost a process: it need not cost a second one."""
        if case in self.lost and timeout <= self.lost[case][0]:
            raise RewardError(self.lost[case][1])


def _filled(answer: Answer, length: int) -> float | list[float]:
    """An answer as a row of a tensor: a list's places without a step are NaN, those behind the response 0."""
    if not isinstance(answer, list):
        return answer
    return [nan if points is None else points for points in answer] + [0.0] * (length - len(answer))


def _without(prompt: list[int], pad: int | None) -> tuple[int, ...]:
    return tuple(token for token in prompt if token != pad)


def _until(response: list[int], end: int | None) -> tuple[int, ...]:
    return tuple(response[: response.index(end) + 1] if end is not None and end in response else response)
