"""The answer to a caller of the gateway: his run's log, relayed in the protocol that he speaks.

Nothing is sent before it is known how the answer begins, so that a failure has its own status. A
stream that is silent for long says that it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import orjson
from redis.exceptions import RedisError
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from loops.closing import closing
from loops.errors import AlreadySettled, UnknownRun
from loops.gateway.asked import GatewayRequest
from loops.gateway.rendering import error_rows, ping, sse
from loops.gateway.telling import PlainTelling
from loops.tasks import Owner

from .desk import Desk, promptly
from .errors import RedisAway
from .gateway_reading import NO_WORKER, Reading
from .streams import close_when_left
from .wording import failed
from .wrapping import wrapped

STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

COST, USAGE = b"x-loopmill-response-cost", b"x-loopmill-usage"
"""Headers of an answer that is no stream: what all of its rounds have cost and taken."""


@dataclass(frozen=True, slots=True)
class Told:
    """Whose answer it is."""

    asked: GatewayRequest
    run_id: str
    session_id: str
    goes_on: bool = False
    """Whether the run goes on when its caller leaves: he may come back for it by his key."""


class GatewayAnswer(Response):
    """A response that relays a gateway's run; when its reader leaves, the run is cancelled."""

    def __init__(self, desk: Desk, told: Told) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = []
        self._desk = desk
        self._told = told
        self._pace = desk.office.pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        hub, told = self._desk.office.hub, self._told
        source = self._desk.source(told.run_id, told.session_id)
        reading = Reading(self._desk.office, told.asked, told.run_id)
        try:
            async with hub.follow(source, after=0, types=reading.types) as feed:
                watch = Owner()
                watch.start(close_when_left(feed, receive), name="gateway watch")
                try:
                    await self._answer(reading.over(feed), scope, receive, send)
                finally:
                    await watch.close()
        finally:
            if not (reading.telling.is_complete or told.goes_on):
                await self._cancel(is_late=reading.telling.failure is NO_WORKER)

    async def _answer(self, reading: Reading, scope: Scope, receive: Receive, send: Send) -> None:
        telling = reading.telling
        if isinstance(telling, PlainTelling):
            async for _ in reading.pieces():
                # A body that is not there yet cannot be begun.
                continue
            if telling.failure is None:
                await reading.to_its_end()
        elif await self._stream(reading, send):
            return
        if telling.failure is not None:
            run_id = self._told.run_id
            await failed(self._told.asked.surface, telling.failure, run_id=run_id)(
                scope, receive, send
            )
        elif isinstance(telling, PlainTelling):
            await self._whole(telling, reading, send)
        else:
            # Callbacks that wrap the stream have left nothing of it.
            await self._begin(send)
            await self._send(send, {"type": "http.response.body", "body": b""})

    async def _whole(self, telling: PlainTelling, reading: Reading, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), self._request_id()]
        if reading.usage is not None:
            headers.append((USAGE, orjson.dumps(reading.usage)))
            if "cost" in reading.usage:
                headers.append((COST, b"%r" % reading.usage["cost"]))
        body = telling.body()
        headers.append((b"content-length", b"%d" % len(body)))
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(send, {"type": "http.response.body", "body": body})

    async def _stream(self, reading: Reading, send: Send) -> bool:
        """Send the stream; say whether it has begun, or nothing was sent."""
        has_begun = False
        async with closing(chunks := self._chunks(reading)):
            async for chunk in chunks:
                if not has_begun:
                    await self._begin(send)
                has_begun = True
                body = {"type": "http.response.body", "body": chunk, "more_body": True}
                await self._send(send, body)
        if has_begun:
            # Signs of life have no status any more that could tell of a failure.
            failure, surface = reading.telling.failure, self._told.asked.surface
            rest = b"" if failure is None else sse(error_rows(surface, failure))
            await self._send(send, {"type": "http.response.body", "body": rest})
        return has_begun

    async def _begin(self, send: Send) -> None:
        headers = [*STREAM, self._request_id()]
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        await self._send(send, start)

    async def _chunks(self, reading: Reading) -> AsyncIterator[bytes]:
        asked = self._told.asked
        wrappers = self._desk.office.watch.wrappers()
        if wrappers:
            async with closing(chunks := wrapped(wrappers, reading, asked)):
                async for chunk in chunks:
                    yield chunk  # noqa: ASYNC119 - whoever reads them closes them
            return
        async for rows in reading.pieces():
            yield sse(rows) if rows else ping(asked.surface)

    def _request_id(self) -> tuple[bytes, bytes]:
        return b"x-request-id", self._told.run_id.encode()

    async def _send(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._pace.send_limit.total_seconds()):
            await send(message)

    async def _cancel(self, *, is_late: bool) -> None:
        """Stop the run of a caller who has left, or was told that there is no answer."""
        runs = self._desk.office.resources.runs
        why = "no worker has taken it in time" if is_late else "its caller has left"
        with suppress(AlreadySettled, UnknownRun, RedisAway, RedisError):
            await promptly(runs.cancel(self._desk.tenant, self._told.run_id, reason=why))
