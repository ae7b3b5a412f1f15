"""A session's stream: the events of its runs, one run after the other, each from its beginning.

The cursor is `<run's ordinal>.<seq>`. A run that is there no more is a gap, and the stream goes on
with the next; it ends with the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

import orjson
from redis.exceptions import RedisError

from loops.errors import UnknownRun, UnknownSession

from .cursors import SessionCursor
from .desk import Desk
from .errors import RedisAway, Refusal
from .follower import End, Follower
from .frames import ERROR, GAP, Batch, Frame

LOOK = timedelta(milliseconds=500)
"""How often a session is asked for its next run."""


class SessionFeed:
    """A reader's place in a session."""

    def __init__(
        self, desk: Desk, session_id: str, cursor: SessionCursor, types: frozenset[str] | None
    ) -> None:
        self.end: End | None = None
        self.cursor = cursor
        self._desk = desk
        self._session_id = session_id
        self._types = types
        self._run: Follower | None = None
        self._open = AsyncExitStack()
        self._closed = asyncio.Event()

    @property
    def position(self) -> bytes:
        """What to show to go on from here."""
        return str(self.cursor).encode()

    async def next(self, within: timedelta) -> list[Batch] | None:
        """Return what comes next, nothing when there was nothing in time, None after the end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within.total_seconds()
        while self.end is None:
            try:
                batches = await self._look(deadline)
            except (RedisError, RedisAway, Refusal, OSError):
                batches = []
                await self._pause(deadline)
            if batches or (batches is not None and loop.time() >= deadline):
                return batches
        return None

    def close(self) -> None:
        """Give nothing more, from now on."""
        if self.end is None:
            self.end = End.CLOSED
        self._closed.set()
        if self._run is not None:
            self._run.close()

    async def aclose(self) -> None:
        """Leave the run that is being followed."""
        await self._open.aclose()

    async def _look(self, deadline: float) -> list[Batch] | None:
        """Return what comes next, nothing after a wait in vain, None to look again at once."""
        if self._run is None:
            return await self._begin(deadline)
        left = deadline - asyncio.get_running_loop().time()
        batches = await self._run.next(timedelta(seconds=max(0.0, left)))
        ordinal = self.cursor.ordinal
        self.cursor = SessionCursor(ordinal, self._run.cursor)
        if self._run.end in {End.FINISHED, End.GONE}:
            await self._leave()
        elif self._run.end is End.CLOSED:
            self.close()
        return batches and [batch.within_session(ordinal) for batch in batches]

    async def _leave(self) -> None:
        self.cursor = SessionCursor(self.cursor.ordinal + 1, 0)
        self._run = None
        await self._open.aclose()

    async def _begin(self, deadline: float) -> list[Batch] | None:
        ordinal = max(1, self.cursor.ordinal)
        sessions = self._desk.office.resources.sessions
        ids = await sessions.runs(self._desk.tenant, self._session_id, after_ordinal=ordinal - 1)
        if not ids:
            return await self._wait_for_run(deadline)
        self.cursor = SessionCursor(ordinal, self.cursor.seq if self.cursor.ordinal else 0)
        try:
            await self._follow(ids[0])
        except UnknownRun:
            here, there = self.cursor, SessionCursor(ordinal + 1, 0)
            self.cursor = there
            lost = {"from": f"{ordinal}.{here.seq + 1}", "to": str(there)}
            return [self._notice(GAP, lost)]
        return None

    async def _follow(self, run_id: str) -> None:
        record = await self._desk.run(run_id)
        source = self._desk.source(run_id, self._session_id)
        hub, seq = self._desk.office.hub, self.cursor.seq
        if record.is_settled and seq == record.last_seq:
            self.cursor = SessionCursor(self.cursor.ordinal + 1, 0)
            return
        opened = (
            hub.read(
                source, last_seq=record.last_seq, is_settled=True, after=seq, types=self._types
            )
            if record.is_settled
            else hub.follow(source, after=seq, types=self._types)
        )
        self._run = await self._open.enter_async_context(opened)

    async def _wait_for_run(self, deadline: float) -> list[Batch]:
        try:
            await self._desk.office.resources.sessions.load(self._desk.tenant, self._session_id)
        except UnknownSession:
            self.end = End.GONE
            message = "the session was deleted, or its time is over"
            lost = {"code": "session_gone", "message": message, "retryable": False}
            return [self._notice(ERROR, lost)]
        await self._pause(deadline)
        return []

    async def _pause(self, deadline: float) -> None:
        until = min(deadline, asyncio.get_running_loop().time() + LOOK.total_seconds())
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._closed.wait()
        if not self._desk.office.hub.is_open:
            self.close()

    def _notice(self, kind: str, content: Mapping[str, object]) -> Batch:
        fields = {"type": kind, "session": self._session_id, "data": content}
        return Batch((Frame(self.cursor.seq, self.position, kind, orjson.dumps(fields)),))


@asynccontextmanager
async def open_session_feed(
    desk: Desk, session_id: str, cursor: SessionCursor, types: frozenset[str] | None
) -> AsyncGenerator[SessionFeed]:
    """Open a session's stream from the cursor on."""
    feed = SessionFeed(desk, session_id, cursor, types)
    try:
        yield feed
    finally:
        await feed.aclose()
