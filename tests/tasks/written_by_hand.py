"""Tasks with ends in plain Python, on texts: what the right answer is, and what a response earns for it."""

import torch

from pgrl_cli.tasks.task import Task


def numbers(prompt: str, operator: str) -> tuple[int, int]:
    left, right = prompt.removesuffix("=").split(operator)
    return int(left), int(right)


def parities(prompt: str) -> str:
    return "".join(str(prompt[: place + 1].count("1") % 2) for place in range(len(prompt)))


ANSWERS = {
    "copy": lambda prompt: prompt,
    "reverse": lambda prompt: prompt[::-1],
    "addition": lambda prompt: str(sum(numbers(prompt, "+"))),
    "multiplication": lambda prompt: str(numbers(prompt, "*")[0] * numbers(prompt, "*")[1]),
    "parity": parities,
}
"""The right answer to a prompt, without its end."""
STANDING = {"copy": "abcd", "reverse": "abcd", "addition": "0123456789", "multiplication": "0123456789", "parity": "01"}
"""What an answer may be written with."""


def points(answer: str, response: str, standing: str, *, limit: int, margin: int) -> dict[str, float | list[float]]:
    """What a response, written up to its end, earns where the answer, with its end, is right."""
    ended, length = response.endswith("."), len(response)
    right = [place < len(answer) and token == answer[place] for place, token in enumerate(response)]
    places = [int(each) / len(answer) for each in right]
    beyond = length - (limit - margin)
    return {
        "exact": float(response == answer),
        "partial": sum(right) / len(answer),
        "format": float(ended and length > 1 and set(response[:-1]) <= set(standing)),
        "end_reward": float(ended),
        "overlong_penalty": -1.0 if not ended else 0.0 if beyond <= 0 else -beyond / margin,
        "digits": places,
        "steps": places,
    }


def some_responses(task: Task, count: int, seed: int = 0) -> torch.Tensor:
    """Responses [prompt response token]: right ones with some tokens changed, so that many are nearly right.

    An eighth of them has no end.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (len(task.prompts), count, task.response_length)
    changed = torch.rand(shape, generator=generator) < torch.rand(1, count, 1, generator=generator) / 2
    noise = torch.randint(task.vocab_size, shape, generator=generator)
    responses = torch.where(changed, noise, task.solutions(task.prompts)[:, None, :])
    endless = responses[:, : count // 8]
    endless[endless == task.end] = 0
    return responses
