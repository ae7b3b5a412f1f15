"""One reader of one run: a cursor that goes from the log to the tail, and on to the run's end.

What it gives is every event past its cursor, once and in order, or a notice of what is missing:
`stream.gap` and `state.snapshot` where the log was cut, or lost what the cursor says was read;
`error` when the run is there no more, or its log cannot be read. It never just falls silent.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from enum import StrEnum
from typing import Any

from redis.exceptions import RedisError

from worker.event_log import Snapshot, UnreadableLog
from worker.snapshot import empty_state, fold_events

from .channel import Channel, EventLog
from .frames import ERROR, GAP, SNAPSHOT, Batch

logger = logging.getLogger(__name__)

PAGE = 200
"""How many entries are read from the log at a time at most."""

PAGE_SIZE = 128 * 1024
"""About how many bytes are read at a time, which bounds what a slow reader costs."""

FIRST_PAGE = 16
"""How many entries are read first, when nothing is known of their size."""

AGAIN = timedelta(milliseconds=500)
"""When to look again after Redis did not answer."""


class End(StrEnum):
    """Why a reader gets nothing more."""

    FINISHED = "finished"
    """It has the run's last event."""
    GONE = "gone"
    """The run is there no more, or its log cannot be read."""
    CLOSED = "closed"
    """The reader left, or the server stops."""


class Follower:
    """A reader's place in a run."""

    __slots__ = ("_is_woken", "_log", "_page", "_types", "_waiter", "channel", "cursor", "end")

    def __init__(
        self, channel: Channel, log: EventLog, *, cursor: int, types: frozenset[str] | None = None
    ) -> None:
        self.channel = channel
        self.cursor = cursor
        """The last event that was given, or passed over by its type."""
        self.end: End | None = None
        self._log = log
        self._types = types
        self._waiter: asyncio.Future[None] | None = None
        self._is_woken = False
        self._page = FIRST_PAGE

    @property
    def position(self) -> bytes:
        """What to show to go on from here."""
        return b"%d" % self.cursor

    async def next(self, within: timedelta) -> list[Batch] | None:
        """Return what comes next, nothing when there was nothing in time, None after the end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within.total_seconds()
        while self.end is None:
            self._is_woken = False
            batches = await self._look()
            shown = [batch for each in batches if (batch := each.only(self._types)).frames]
            if shown:
                return shown
            is_late = batches and loop.time() >= deadline
            if is_late or not (batches or await self.woken(deadline)):
                return []
        return None

    def wake(self) -> None:
        """Look again; whoever is looking just now does so once more."""
        self._is_woken = True
        if self._waiter is not None:
            _release(self._waiter)

    def close(self) -> None:
        """Give nothing more, from now on."""
        if self.end is None:
            self.end = End.CLOSED
        self.wake()

    async def woken(self, deadline: float) -> bool:
        """Wait to be woken, and say False when that did not happen in time."""
        if not self._is_woken:
            await self._wait(deadline)
        is_woken, self._is_woken = self._is_woken, False
        return is_woken

    async def _wait(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_at(deadline, _release, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    async def _look(self) -> list[Batch]:
        channel = self.channel
        if channel.is_unreadable:
            return [self._take(self._unreadable())]
        if channel.is_gone or (channel.is_settled and self.cursor == channel.tail.end):
            return [self._take(self._gone())]
        if channel.tail.reaches(self.cursor):
            batches = channel.tail.since(self.cursor)
        else:
            batches = await self._look_up()
        return [self._take(batch) for batch in batches]

    def _take(self, batch: Batch) -> Batch:
        self.cursor = batch.last
        if batch.is_final:
            self.end = End.FINISHED
        return batch

    async def _look_up(self) -> list[Batch]:
        try:
            if self.cursor > self.channel.tail.end:
                return await self._ahead()
            return await self._behind()
        except UnreadableLog as error:
            logger.warning("! %s: %s", self.channel.source.run_id, error)
            return [self._unreadable()]
        except (RedisError, OSError) as error:
            logger.warning("! cannot read %s: %s", self.channel.source.run_id, error)
            asyncio.get_running_loop().call_later(AGAIN.total_seconds(), self.wake)
            return []

    async def _behind(self) -> list[Batch]:
        source = self.channel.source
        events = await self._log.read(source.keys, after=self.cursor, limit=self._page)
        if not events:
            return await self._missing()
        if events[0].seq > self.cursor + 1:
            return [await self._gap(events[0].seq - 1)]
        batch = source.batch(events)
        self._page = page_after(self._page, batch.size)
        self.channel.take(batch)
        return [batch]

    async def _missing(self) -> list[Batch]:
        seq = await self._ask()
        tail = self.channel.tail
        if seq is None or seq < self.cursor or tail.reaches(self.cursor):
            return await self._look()
        return [await self._gap(tail.start - 1)]

    async def _ahead(self) -> list[Batch]:
        seq = await self._ask()
        if seq is None:
            return await self._look()
        if seq >= self.cursor:
            return []  # the channel is behind, and wakes its followers when it has caught up
        snapshot = await self._folded()
        lost = {"from": seq + 1, "to": self.cursor}
        return [self._notices(snapshot.seq, lost, snapshot)]

    async def _folded(self) -> Snapshot:
        """Return what all events of the log come to."""
        keys = self.channel.source.keys
        cut = await self._log.snapshot(keys)
        state = {"seq": cut.seq, **cut.state} if cut is not None else empty_state()
        while events := await self._log.read(keys, after=state["seq"], limit=PAGE):
            state = fold_events(state, events)
        seq: int = state.pop("seq")
        if seq > self.channel.tail.end:
            self.channel.skip_to(seq)
        return Snapshot(seq, state)

    async def _ask(self) -> int | None:
        end = self.channel.tail.end
        (seq,) = await self._log.last_seqs([self.channel.source.keys])
        self.channel.stand_at(seq, since=end)
        return seq

    async def _gap(self, upto: int) -> Batch:
        snapshot = await self._log.snapshot(self.channel.source.keys)
        last = max(upto, snapshot.seq) if snapshot is not None else upto
        if last > self.channel.tail.end:
            self.channel.skip_to(last)
        return self._notices(last, {"from": self.cursor + 1, "to": last}, snapshot)

    def _notices(self, seq: int, missing: dict[str, Any], snapshot: Snapshot | None) -> Batch:
        notices = [(GAP, missing)]
        if snapshot is not None:
            notices.append((SNAPSHOT, {"last_seq": snapshot.seq, "state": snapshot.state}))
        return self.channel.source.notices(seq, notices)

    def _gone(self) -> Batch:
        message = "the run was deleted, or its time is over; what is missing cannot be had any more"
        return self._last_word("run_gone", message)

    def _unreadable(self) -> Batch:
        message = "what comes next in the run's log cannot be read; the server's log says why"
        return self._last_word("log_unreadable", message)

    def _last_word(self, code: str, message: str) -> Batch:
        self.end = End.GONE
        content = {"code": code, "message": message, "retryable": False}
        return self.channel.source.notices(self.cursor, [(ERROR, content)])


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def page_after(page: int, size: int) -> int:
    """Return how many entries to read after a page of this size: as many as come to `PAGE_SIZE`."""
    if size > 2 * PAGE_SIZE:
        return max(1, page // 4)
    return min(PAGE, page * 2) if size < PAGE_SIZE // 2 else page
