"""Long work in pieces that fit into memory."""

from collections.abc import Iterator


def slices(total: int, size: int) -> Iterator[slice]:
    """Consecutive stretches of at most so many, and of one at least."""
    size = max(1, size)
    return (slice(begin, min(begin + size, total)) for begin in range(0, total, size))
