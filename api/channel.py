"""A run that is followed in this process: what was heard of it, and how far its log is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from worker.event_log import LogEvent, Snapshot, UnreadableLog, decode_message
from worker.keys import RunKeys

from .frames import Batch, Source
from .tail import Tail

logger = logging.getLogger(__name__)

PAGE = 500
"""How many entries a channel reads to catch up; further behind, its followers read themselves."""


class EventLog(Protocol):
    """The logs, as whoever follows them needs them."""

    async def read(self, run: RunKeys, *, after: int = 0, limit: int = 1000) -> list[LogEvent]:
        """Return the events past `after`, in order, from at most `limit` entries."""
        ...

    async def last_seqs(self, runs: Sequence[RunKeys]) -> list[int | None]:
        """Return each run's newest seq, None where there is no such run, in one round trip."""
        ...

    async def snapshot(self, run: RunKeys) -> Snapshot | None:
        """Return what stands for the events that were cut from the log's head."""
        ...


class Listener(Protocol):
    """Somebody who reads a channel."""

    cursor: int
    """The last event that it has read."""

    def wake(self) -> None:
        """Look at the channel again."""
        ...


class Channel:
    """What one process knows of a run's log.

    It is of use once it is known where the log stands; what was heard before that only tells that
    there is more.
    """

    __slots__ = (
        "_newest",
        "is_gone",
        "is_known",
        "is_settled",
        "is_unreadable",
        "listeners",
        "source",
        "tail",
    )

    def __init__(self, source: Source) -> None:
        self.source = source
        self.listeners: set[Listener] = set()
        self.tail = Tail(0)
        self.is_known = False
        """Whether it is known where the log stands, or that there is none."""
        self.is_gone = False
        """Whether the run has been deleted, or its time is over."""
        self.is_unreadable = False
        """Whether something stands in the log that is no event."""
        self.is_settled = False
        """Whether the log grows no more."""
        self._newest = 0

    @classmethod
    def at_rest(cls, source: Source, last_seq: int, *, is_settled: bool) -> Channel:
        """Return a channel that hears nothing: a way to read what stands in the log."""
        channel = cls(source)
        channel.stand_at(last_seq, since=0)
        channel.is_settled = is_settled
        return channel

    @property
    def is_behind(self) -> bool:
        """Whether the log is known to hold more than the tail."""
        is_followed = not (self.is_gone or self.is_unreadable)
        return is_followed and self._newest > self.tail.end

    def stand_at(self, seq: int | None, *, since: int) -> None:
        """Learn the log's newest seq, None for no log, asked for when the tail ended at `since`.

        A log that is shorter than it was has lost events together with its server. What was heard
        of them is void, and whoever has read them finds out by its cursor.
        """
        if seq is None:
            self.is_gone = True
        elif not self.is_known:
            self.tail.move(seq)
            self._newest = max(self._newest, seq)
        elif seq < since:
            self.tail.move(seq)
            self._newest = seq
        else:
            self._newest = max(self._newest, seq)
        if seq is None or seq < since or not self.is_known:
            self.is_known = True
            self.wake()

    def hear(self, message: bytes) -> bool:
        """Take a published message; say False where the log has to be asked instead.

        That is so when the message does not continue the tail, and when it cannot be read.
        """
        try:
            first, last, events = decode_message(message)
        except UnreadableLog as error:
            logger.warning("! %s: %s", self.source.run_id, error)
            return False
        self._newest = max(self._newest, last)
        if events and self.is_known and first <= self.tail.end + 1 and last > self.tail.end:
            self.take(self.source.batch(events))
        return not self.is_behind

    def take(self, batch: Batch) -> None:
        """Take events that continue the tail, and tell everybody if they are new."""
        end = self.tail.end
        self._newest = max(self._newest, batch.last)
        if self.tail.extend(batch) and self.tail.end > end:
            self.wake()

    def skip_to(self, seq: int) -> None:
        """Go on after `seq`: what is before can be had from the log alone, if at all."""
        self.tail.move(seq)
        self._newest = max(self._newest, seq)
        self.wake()

    async def catch_up(self, log: EventLog) -> None:
        """Read what was missed, unless that is so much that the followers had better read it."""
        if self._newest - self.tail.end > PAGE:
            self.skip_to(self._newest)
            return
        end, newest = self.tail.end, self._newest
        try:
            events = await log.read(self.source.keys, after=end, limit=PAGE)
        except UnreadableLog as error:
            logger.warning("! %s: %s", self.source.run_id, error)
            self.is_unreadable = True
            self.wake()
            return
        if not events:
            self.skip_to(newest)
            return
        if events[0].seq > self.tail.end + 1:
            self.skip_to(events[0].seq - 1)
        self.take(self.source.batch(events))

    def wake(self) -> None:
        """Let everybody look again."""
        for listener in self.listeners:
            listener.wake()

    def forget_what_was_read(self) -> None:
        """Keep no event in memory that everybody has."""
        cursors = [listener.cursor for listener in self.listeners]
        self.tail.forget(min(cursors, default=self.tail.end))
