"""Interleave several streams into one, as their events arrive."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from .aggregate import Aggregator
from .closing import close, closing
from .guard import Raised, outcome_of
from .tasks import Owner, Signal
from .tool_context import running_context

T = TypeVar("T")
Told = TypeVar("Told")


async def merge(
    *sources: AsyncIterable[T], restart: bool = True, priority: bool = False
) -> AsyncGenerator[T]:
    """Yield the items of all sources as they arrive.

    The first item of each source is asked for at once; each further one only after the one before
    it was yielded and the reader asks again, so no source runs ahead of the reader.

    A source that has ended and is not its own iterator is iterated again after another source has
    yielded: it may have got something new by what the reader did with that item. It all ends when
    no source has anything left. Without `restart` each source is iterated once.

    With `priority`, of what has arrived the item of the source that was named first comes first;
    it takes `restart=False`.

    An error of one source is raised as it is, after the items that came before it; the others are
    closed. Each source runs in a task of its own, in which it is closed as well.

    Raises:
        ValueError: For `priority` with `restart`.
    """
    if priority and restart:
        raise ValueError("merge(priority=True) iterates each source once: give restart=False, too")
    table = _Table(sources, restarts=restart, ranks=priority)
    try:
        while True:
            arrived = await table.next()
            if arrived is None:
                return
            yield arrived.item
            table.settle(arrived.source)
    finally:
        await table.close()


class _Source(Generic[T]):
    def __init__(self, iterable: AsyncIterable[T], rank: int, *, restarts: bool) -> None:
        self.iterable = iterable
        self.rank = rank
        """Of two items that have arrived, the one whose source has the lower rank comes first."""
        self.restarts = restarts and not isinstance(iterable, AsyncIterator)
        self.gate = Signal()
        self.is_running = False
        self.given = 0
        """How many of its items were yielded."""
        self.seen = 0
        """How many items of the others had been yielded when it was last begun."""

    def begin(self) -> AsyncIterator[T]:
        self.is_running = True
        return aiter(self.iterable)

    @property
    def is_idle(self) -> bool:
        """Whether it says by itself that a new iteration would yield nothing."""
        return bool(getattr(self.iterable, "is_idle", False))


class _Arrived(Generic[T]):
    __slots__ = ("item", "source")

    def __init__(self, source: _Source[T], item: T) -> None:
        self.source = source
        self.item = item


class _Table(Generic[T]):
    """What has arrived and was not yet yielded, and the tasks that bring it."""

    def __init__(
        self, iterables: Sequence[AsyncIterable[T]], *, restarts: bool, ranks: bool
    ) -> None:
        self._sources = [
            _Source(each, rank, restarts=restarts) for rank, each in enumerate(iterables)
        ]
        self._ranks = ranks
        self._arrived: deque[_Arrived[T] | BaseException] = deque()
        self._arrival = Signal()
        self._owner = Owner()
        self._given = 0
        self._is_begun = False
        self._running = 0
        self._has_ended = False
        """Whether a source has ended since it was last looked which of them to begin again."""

    async def next(self) -> _Arrived[T] | None:
        """Return what arrives next, or None when nothing can arrive any more."""
        if not self._is_begun:
            self._is_begun = True
            for source in self._sources:
                self._begin(source)
        while not self._arrived:
            if self._has_ended:
                self._begin_again()
            if not self._running:
                return None
            await self._arrival.wait()
        arrived = self._first() if self._ranks else self._arrived.popleft()
        if isinstance(arrived, BaseException):
            raise arrived
        return arrived

    def _first(self) -> _Arrived[T] | BaseException:
        """Take what comes first by rank; what came before an error comes before it."""
        first = self._arrived[0]
        for each in self._arrived:
            if isinstance(first, BaseException) or isinstance(each, BaseException):
                break
            first = each if each.source.rank < first.source.rank else first
        self._arrived.remove(first)
        return first

    def settle(self, source: _Source[T]) -> None:
        """Let the source go on after its item was yielded and the reader asks for more."""
        source.given += 1
        self._given += 1
        self._begin_again()
        source.gate.call()

    async def close(self) -> None:
        """End all tasks; each closes its own source."""
        await self._owner.close()

    def _begin_again(self) -> None:
        self._has_ended = False
        for source in self._sources:
            if source.is_running or not source.restarts:
                continue
            others = self._given - source.given
            if others == source.seen:
                continue
            source.seen = others
            if not source.is_idle:
                self._begin(source)

    def _begin(self, source: _Source[T]) -> None:
        source.seen = self._given - source.given
        iterator = source.begin()
        self._running += 1
        task = self._owner.start(self._pump(source, iterator), name="merge")
        task.add_done_callback(partial(self._ended, source))

    async def _pump(self, source: _Source[T], iterator: AsyncIterator[T]) -> None:
        try:
            outcome = await outcome_of(partial(self._drain, source, iterator))
        finally:
            await close(iterator)
        if isinstance(outcome, Raised):
            self._arrived.append(outcome.error)

    async def _drain(self, source: _Source[T], iterator: AsyncIterator[T]) -> None:
        async for item in iterator:
            self._arrived.append(_Arrived(source, item))
            self._arrival.call()
            await source.gate.wait()

    def _ended(self, source: _Source[T], task: asyncio.Task[None]) -> None:
        source.is_running = False
        self._running -= 1
        self._has_ended = True
        if not task.cancelled() and (error := task.exception()) is not None:
            self._arrived.append(error)
        self._arrival.call()


async def yield_from(source: AsyncIterable[T], *, aggregator: Aggregator[T, Any, Told]) -> Told:
    """Give each item as the running tool does by yielding it, and return what a model is told.

    For a tool that waits for several sources side by side, or does more than one of them.

    Raises:
        LookupError: Outside of a tool.
    """
    context = running_context.get()
    if context is None:
        raise LookupError("nobody takes pieces here: yield_from is for the inside of a tool")
    async with closing(source):
        async for item in source:
            context.give(item)
            aggregator.feed(item)
    return aggregator.get_model_input()
