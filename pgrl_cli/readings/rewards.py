"""What the reward pays for, and how often a group of responses teaches anything."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgrl_cli.readings.numbers import CERTAIN, NONE, counted, estimate, number, points, ratio, share
from pgrl_cli.readings.reading import Found, Reading, error_of

MOST_PROMPTS = 8
"""Rows of the table."""
LONGEST = 17
"""Letters of a prompt or a response in the table: three of them have to fit into a page."""
LONGER = 60
HALF = 0.5
LEGEND = (
    "The share of groups in which not all responses earn the same: from the others a delta mode that compares "
    "responses learns nothing."
)


def reward(found: Found) -> Reading:
    """Each prompt's best wrong response beside the right one."""
    prompts, exact = found["reward"]["prompts"], found["subject"]["exact"]
    others = "all others" if exact else "the others that were sampled"
    return Reading(
        section="reward",
        question="What can be earned without solving the task?",
        columns=("prompt", "right answer", "best wrong one", "right earns", "wrong earns", "probability of wrong"),
        rows=tuple(_row(each) for each in prompts[:MOST_PROMPTS]),
        legend=f"What the right answer earns, and the best of {others}; of equals the likeliest.",
        sentences=tuple(_sentences(found)),
        words=3,
    )


def _row(each: Mapping[str, Any]) -> tuple[str, ...]:
    wrong = each["best_wrong_response"]
    return (
        _spaced(each["prompt"]),
        _spaced(each["solution"]),
        NONE if wrong is None else _spaced(wrong),
        points(each["solution_reward"]),
        points(each["best_wrong_reward"]),
        number(each["best_wrong_probability"]),
    )


def _sentences(found: Found) -> Iterator[str]:
    prompts = found["reward"]["prompts"]
    if len(prompts) > MOST_PROMPTS:
        yield f"The first {MOST_PROMPTS} of {len(prompts)} prompts; --json and --out have all."
    wrong = [each for each in prompts if each["best_wrong_response"] is not None]
    yield _of_loopholes(wrong, len(prompts), found["subject"]["exact"])
    likely = max(wrong, key=lambda each: each["best_wrong_probability"], default=None)
    if likely is not None and likely["best_wrong_probability"] > 0:
        prompt, answer = (_spaced(likely[name], LONGER) for name in ("prompt", "best_wrong_response"))
        probability, earned = number(likely["best_wrong_probability"]), points(likely["best_wrong_reward"])
        yield (
            f"To the prompt {prompt} the policy gives the wrong {answer} with a probability of {probability}; it earns "
            f"{earned}."
        )
    yield from _of_being_right(found)


def _of_loopholes(wrong: Sequence[Mapping[str, Any]], prompts: int, exact: bool) -> str:
    if not wrong:
        return "No response is wrong." if exact else "No sampled response is wrong."
    sampled, at_least = ("", "") if exact else ("sampled ", "at least ")
    open_ = [each for each in wrong if each["best_wrong_reward"] >= _all_but_rounding(each["solution_reward"])]
    if open_:
        return (
            f"A loophole: to {len(open_)} of {counted(prompts, 'prompt')} a {sampled}wrong response earns as much as "
            "the right answer, or more, so the reward does not prefer the right one there."
        )
    earned, most = (sum(each[name] for each in wrong) / len(wrong) for name in ("best_wrong_reward", "solution_reward"))
    return f"Without a right answer {at_least}{points(earned)} of {points(most)} can be earned, averaged over prompts."


def _all_but_rounding(most: float) -> float:
    return most - CERTAIN * abs(most)


def _of_being_right(found: Found) -> Iterator[str]:
    reward = found["reward"]
    if not reward["exact_match"] and not found["subject"]["exact"]:
        yield "No sampled response is right."
        return
    right = estimate(reward["exact_match"], error_of(found, "reward", "exact_match"))
    told = f"A response is right with a probability of {right}"
    if reward["correlation"] is None:
        yield f"{told}; reward and being right have no correlation, since one of them never changes under this policy."
    else:
        correlation = ratio(reward["correlation"], error_of(found, "reward", "correlation"))
        yield f"{told}; over the responses to a prompt, reward and being right have a correlation of {correlation}."


def groups(found: Found) -> Reading:
    """The expected share of groups that are informative, by their size."""
    reward, size = found["reward"], found["subject"]["group_size"]
    expected, seen = reward["informative_groups"], reward["observed_informative_groups"]
    observed = {str(seen["size"]): share(seen["share"], seen["standard_error"])}
    errors = error_of(found, "reward", "informative_groups") or {}
    return Reading(
        section="reward",
        question="How often does a group of responses teach anything?",
        columns=(
            "responses in a group",
            "expected to differ",
            f"observed in {found['subject']['rollouts']:,} rollouts",
        ),
        rows=tuple((each, share(value, errors.get(each)), observed.get(each, "")) for each, value in expected.items()),
        legend=LEGEND,
        sentences=tuple(_sentences_of_groups(expected, size, found["subject"]["exact"])),
    )


def _sentences_of_groups(expected: Mapping[str, float], size: int, exact: bool) -> Iterator[str]:
    if size == 1:
        yield "This config's groups are of one response: there is nothing to compare it with."
        return
    own = expected[str(size)]
    if own <= CERTAIN:
        if exact:
            why = "all that the policy answers to a prompt earns the same, and such a mode stands still"
        else:
            why = "all sampled responses to a prompt earn the same"
        yield f"With this config's {size} it is none: {why}."
        return
    told = f"With this config's {size} it is {share(own)}"
    half = next((each for each, value in expected.items() if int(each) > size and value >= HALF), None)
    if own < HALF and half is not None:
        told += f"; with {half}, more than half"
    elif own < HALF:
        told += f"; {list(expected)[-1]} are not enough for half"
    yield f"{told}."


def _spaced(tokens: Sequence[int], longest: int = LONGEST) -> str:
    told = " ".join(map(str, tokens))
    return told if len(told) <= longest else f"{told[: longest - 1].rpartition(' ')[0]} …"
