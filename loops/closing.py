"""Close iterators that can be closed; most asynchronous iterators are not obliged to."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

T = TypeVar("T")


class OpenEvents(ABC, Generic[T]):
    """Events that are read in an `async with`; leaving the block closes them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> T:
        """Return the next event."""

    @abstractmethod
    async def aclose(self) -> None:
        """Leave what is still to come; no-op after the end."""


async def close(iterator: object) -> None:
    """Close the iterator if it can be closed, and wait for its `finally` blocks."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is not None:
        await cast("Callable[[], Awaitable[object]]", aclose)()


@asynccontextmanager
async def closing(iterator: object) -> AsyncGenerator[None]:
    """Close the iterator at the end of the block."""
    try:
        yield
    finally:
        await close(iterator)


_opened: ContextVar[list[OpenEvents[Any]] | None] = ContextVar("loops_opened", default=None)


def note_opened(events: OpenEvents[Any]) -> None:
    """Let the events be closed with the call or the run that surrounds the caller."""
    opened = _opened.get()
    if opened is not None:
        opened.append(events)


@asynccontextmanager
async def closing_opened() -> AsyncGenerator[None]:
    """Close at the end of the block what was opened in it and read without an `async with`.

    A plain `async for` does not close what it reads when its own reader goes away.
    """
    opened: list[OpenEvents[Any]] = []
    token = _opened.set(opened)
    try:
        yield
    finally:
        _opened.reset(token)
        for events in reversed(opened):
            await events.aclose()
