"""Generators inside of generators, closed from the innermost on.

`async for x in inner(): yield x` does not close `inner` when the outer one is closed; so whoever
closes the outermost closes all that were opened inside of it.
"""

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from loops.closing import close

T = TypeVar("T")


class Nest:
    """The generators that one loop has opened."""

    def __init__(self) -> None:
        self._opened: list[AsyncIterator[Any]] = []

    def __call__(self, events: AsyncIterator[T]) -> AsyncIterator[T]:
        """Return the events; they are closed with the nest, if they are not at their end."""
        self._opened = [each for each in self._opened if _is_open(each)]
        self._opened.append(events)
        return events

    async def close(self) -> None:
        """Close all that is open, the innermost first."""
        while self._opened:
            await close(self._opened.pop())


def _is_open(events: AsyncIterator[Any]) -> bool:
    # A generator at its end has no frame any more.
    return getattr(events, "ag_frame", events) is not None
