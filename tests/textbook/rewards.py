"""What tasks pay, by hand: a number for a whole response, or a list with one for each of its tokens."""


def answer(settings, prompt, end):
    """The right tokens, closed where the task has an end."""
    task = settings["task"]
    found = {"sorting": sorted(prompt), "copy": list(prompt), "reverse": list(prompt)[::-1]}[task]
    return found if end is None else [*found, end]


def sort_distance_reward(right, tokens, end):
    return sum(a == b for a, b in zip(right, tokens, strict=False) if a != end)


def exact(right, tokens, end):
    return float(tokens == right)


def partial(right, tokens, end):
    return sum(digits(right, tokens, end))


def digits(right, tokens, end):
    return [(place < len(right) and token == right[place]) / len(right) for place, token in enumerate(tokens)]


REWARDS = {
    "sort_distance_reward": sort_distance_reward,
    "sort_exact_reward": exact,
    "exact": exact,
    "partial": partial,
    "digits": digits,
}
