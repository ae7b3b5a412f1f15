"""The log of a gateway's run, read for its caller: what is to be sent, as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Self

import orjson
from redis.exceptions import RedisError

from loops.events import AgentEvent, RunStarted
from loops.gateway.asked import GatewayRequest
from loops.gateway.failing import Failure
from loops.gateway.rows import Row
from loops.gateway.telling import BROKEN, Telling, telling_of
from loops.wire import decode
from worker.looking import look_at_workers
from worker.new_run import RUNS_QUEUE

from .agent_requests import AgentReading, is_agent
from .desk import Office
from .follower import Follower
from .frames import ERROR, NOTICES, Frame

TYPES = frozenset(
    {"frames.received", "custom.round", "custom.failure", "turn.reset", "run.started"}
)
"""The events of a gateway's run that its caller is told of, besides its end."""

LAST = timedelta(seconds=1)
"""How long the run's own end is waited for, when all of the answer is there: it knows the cost."""

NO_WORKER = Failure(
    503,
    "no worker has taken the request, or goes on with it; try again later",
    retry_after=timedelta(seconds=5),
    code="no_worker",
)
GONE = Failure(410, "what was answered is not kept any more; ask anew", code="answer_gone")
STOPPING = Failure(503, "the server is stopping; try again", code="stopping")


class Reading:
    """One caller's reading of his run."""

    def __init__(self, office: Office, asked: GatewayRequest, run_id: str) -> None:
        self._office = office
        self._settings = office.watch.settings
        self._feed: Follower | None = None
        self._agent = AgentReading(asked, run_id) if is_agent(asked) else None
        self._has_started = False
        self._is_settled = False
        self.types = None if is_agent(asked) else TYPES
        """The events that are read; None for all."""
        self.telling: Telling = telling_of(asked.surface, asked.mode, streams=asked.streams)
        self.quiet = self._settings.ping
        """How long a stream may be silent."""
        self.usage: dict[str, Any] | None = None
        """What all rounds have taken and cost, once the run has ended."""

    def over(self, feed: Follower) -> Self:
        """Read this feed."""
        self._feed = feed
        return self

    async def pieces(self) -> AsyncIterator[list[Row]]:
        """Yield the rows that are to be sent together; none when it is time for a sign of life.

        At the end the telling says whether there is an answer, or why not.
        """
        clock, quiet = asyncio.get_running_loop().time, self._settings.ping.total_seconds()
        last = clock()
        late = last + self._settings.wait.total_seconds()
        while not self.telling.is_over:
            due = min(last + quiet, late)
            rows = await self._next(timedelta(seconds=max(0.0, due - clock())))
            now = clock()
            if rows is None:
                rows = self.telling.fail(STOPPING)
            elif now >= late and not (self._has_started and await self._is_served()):
                rows = self.telling.fail(NO_WORKER)
            late = now + self._settings.wait.total_seconds() if now >= late else late
            if rows or (now >= last + quiet and self._has_started):
                last = now
                yield rows

    async def _is_served(self) -> bool:
        """Say whether any worker is there that goes on with the run, perhaps in another's place."""
        resources = self._office.resources
        try:
            async with asyncio.timeout(LAST.total_seconds()):
                workers = await look_at_workers(resources.link, resources.keys)
        except (RedisError, TimeoutError):
            return True
        return any(RUNS_QUEUE in worker.queues for worker in workers)

    async def to_its_end(self) -> None:
        """Read on to the run's own end, which comes with the last of the answer or soon after."""
        clock = asyncio.get_running_loop().time
        end = clock() + LAST.total_seconds()
        while not self._is_settled and (left := end - clock()) > 0:
            if await self._next(timedelta(seconds=left)) is None:
                return

    async def _next(self, within: timedelta) -> list[Row] | None:
        """Return the rows of what comes next, None when nothing comes any more."""
        assert self._feed is not None  # noqa: S101 - `over` goes before
        batches = await self._feed.next(within)
        if batches is None:
            return None
        return [row for batch in batches for each in batch.frames for row in self._take(each)]

    def _take(self, frame: Frame) -> list[Row]:
        if frame.type in NOTICES:
            return self.telling.fail(GONE if frame.type == ERROR else BROKEN)
        told = orjson.loads(frame.line)
        event = decode(frame.type, told["data"], turn=told.get("turn"))
        if isinstance(event, RunStarted):
            self._has_started = True
        if frame.is_final:
            self._is_settled, self.usage = True, told["data"].get("usage")
        events: list[AgentEvent] = [event] if self._agent is None else self._agent.feed(event)
        return [row for each in events for row in self.telling.take(each)]
