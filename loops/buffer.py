"""Let a stream run ahead of its reader, as far as it may."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from .closing import closing
from .errors import LoopFailed, RunLeft
from .guard import Raised, outcome_of
from .tasks import Owner, Signal

T = TypeVar("T")


class Buffer(Generic[T]):
    """The items of a source, which runs in a task of its own.

    With `size` None the source runs on by itself, with N it is at most N items ahead of what the
    reader has asked for, with 0 it goes on only when the reader asks. Nothing runs before the first
    question. A reader that gives up waiting loses nothing: the item comes with its next question.
    """

    def __init__(self, source: Callable[[], AsyncIterator[T]], *, size: int | None) -> None:
        self._source = source
        self._size = size
        self._items: deque[T] = deque()
        self._produced = 0
        self._delivered = 0
        self._wanted = 0
        self._demand = Signal()
        self._arrival = Signal()
        self._failure: BaseException | None = None
        self._state = _NEW
        self._owner = Owner()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        """Return the next item; an error of the source comes after the items before it."""
        if self._state == _NEW:
            self._state = _RUNNING
            self._owner.start(self._run(), name="loop")
        self._wanted = self._delivered + 1
        self._demand.call()
        while not self._items:
            if self._state == _OVER:
                raise self._end()
            await self._arrival.wait()
        self._delivered += 1
        return self._items.popleft()

    def put(self, item: T) -> None:
        """Give the reader an item that is none of the source's, before what the source gives next.

        After the end of the source nobody waits for it any more, and it is dropped.
        """
        if self._state == _RUNNING:
            self._items.append(item)
            self._produced += 1
            self._arrival.call()

    async def aclose(self) -> None:
        """Close the source and wait for it; what it raises while it is closed is raised here."""
        if self._state == _NEW:
            self._state = _OVER
        was_running = self._state == _RUNNING
        await self._owner.close()
        self._items.clear()
        failure, self._failure = self._failure, None
        if was_running and failure is not None:
            raise failure

    def _end(self) -> BaseException:
        failure, self._failure = self._failure, None
        return StopAsyncIteration() if failure is None else failure

    async def _run(self) -> None:
        try:
            outcome = await outcome_of(self._drain)
            if isinstance(outcome, Raised):
                self._failure = _as_failure(outcome.error)
        except RunLeft as error:
            self._failure = error
        finally:
            self._state = _OVER
            self._arrival.call()

    async def _drain(self) -> None:
        source = self._source()
        async with closing(source):
            async for item in source:
                self._items.append(item)
                self._produced += 1
                self._arrival.call()
                while self._size is not None and self._produced >= self._wanted + self._size:
                    await self._demand.wait()


_NEW, _RUNNING, _OVER = "new", "running", "over"


def _as_failure(error: BaseException) -> BaseException:
    if not isinstance(error, asyncio.CancelledError):
        return error
    # Raised as it is, it would look to the reader as if somebody had cancelled the reader.
    failure = LoopFailed("the loop raised CancelledError though nobody cancelled it")
    failure.__cause__ = error
    return failure
