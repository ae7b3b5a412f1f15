"""Responses that go on while events come: one writer each, and one write for all that is ready.

A stream ends with its run, when its reader leaves or does not read any more, and when the server
stops; whoever comes back shows where it stood. It speaks ASGI itself, which keeps an idle reader
cheap.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from loops.tasks import Owner

from . import sse
from .follower import End
from .frames import Batch

logger = logging.getLogger(__name__)

JSON_LINES = "application/x-ndjson"

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a stream waits."""

    heartbeat: timedelta = timedelta(seconds=10)
    """For events, before it shows that it lives."""

    send_limit: timedelta = timedelta(seconds=30)
    """For its reader to take one write, before that counts as gone."""


class Feed(Protocol):
    """Where a stream's events come from."""

    end: End | None

    @property
    def position(self) -> bytes:
        """What a reader shows to go on from here."""
        ...

    async def next(self, within: timedelta) -> list[Batch] | None:
        """Return what comes next, nothing when there was nothing in time, None after the end."""
        ...

    def close(self) -> None:
        """Give nothing more."""
        ...


class Form(Protocol):
    """How a stream writes down its events."""

    headers: Headers
    opening: bytes

    def written(self, batches: Sequence[Batch]) -> bytes:
        """Return the events as they are sent."""
        ...

    def heartbeat(self, position: bytes | None, /) -> bytes:
        """Return what shows that the stream lives, and the position if that has moved unseen."""
        ...


_UNTOUCHED = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""What keeps everybody on the way from holding a stream up."""


class ServerSentEvents:
    """Events for browsers, and for whoever wants to resume."""

    headers: Headers = ((b"content-type", sse.MEDIA_TYPE.encode()), *_UNTOUCHED)
    opening = sse.RETRY

    def written(self, batches: Sequence[Batch]) -> bytes:
        """Return the events as frames."""
        return batches[0].sse if len(batches) == 1 else b"".join([each.sse for each in batches])

    def heartbeat(self, position: bytes | None, /) -> bytes:
        """Return a comment, after a frame with the position alone where that has moved."""
        return sse.HEARTBEAT if position is None else sse.position_only(position) + sse.HEARTBEAT


class JsonLines:
    """Events for shell tools: one JSON object a line."""

    headers: Headers = ((b"content-type", JSON_LINES.encode()), *_UNTOUCHED)
    opening = b""

    def written(self, batches: Sequence[Batch]) -> bytes:
        """Return the events as lines."""
        return b"".join([each.ndjson for each in batches])

    def heartbeat(self, _: bytes | None, /) -> bytes:
        """Return an empty line."""
        return b"\n"


FRAMES, LINES = ServerSentEvents(), JsonLines()


@dataclass(slots=True)
class Traffic:
    """What the process has sent; read by its metrics."""

    writes: int = 0
    bytes: int = 0
    slow_readers: int = 0


class EventStream(Response):
    """A response that relays a feed, which is opened when the response starts."""

    def __init__(
        self,
        feed: AbstractAsyncContextManager[Feed],
        form: Form,
        *,
        pace: Pace,
        traffic: Traffic,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = list(form.headers)
        self._feed = feed
        self._form = form
        self._pace = pace
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay the feed to its end, or to that of its reader."""
        async with self._feed as feed:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            watch = Owner()
            watch.start(close_when_left(feed, receive), name="stream watch")
            try:
                is_open, shown, within = True, feed.position, timedelta(0)
                while is_open:
                    is_open, shown = await self._step(feed, send, shown, within)
                    within = self._pace.heartbeat
            except TimeoutError:
                self._traffic.slow_readers += 1
                logger.info("· a reader of %s took nothing for too long", scope["path"])
            finally:
                await watch.close()

    async def _step(
        self, feed: Feed, send: Send, shown: bytes, within: timedelta
    ) -> tuple[bool, bytes]:
        """Send what comes next, or a sign of life; say whether there is more, and what was shown.

        A step of its own, so that nothing of it is kept while the next one waits.
        """
        batches = await feed.next(within)
        is_open = feed.end is None
        chunk = b"" if within else self._form.opening
        if batches:
            chunk += self._form.written(batches)
            shown = batches[-1].frames[-1].position
        elif within and is_open:
            moved = feed.position if feed.position != shown else None
            chunk, shown = self._form.heartbeat(moved), feed.position
        await self._write(send, chunk, more=is_open)
        return is_open, shown

    async def _write(self, send: Send, chunk: bytes, *, more: bool) -> None:
        self._traffic.writes += 1
        self._traffic.bytes += len(chunk)
        async with asyncio.timeout(self._pace.send_limit.total_seconds()):
            await send({"type": "http.response.body", "body": chunk, "more_body": more})


async def close_when_left(feed: Feed, receive: Receive) -> None:
    """Close the feed when its reader goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass
    feed.close()


def form_of(request: Request) -> Form | None:
    """Return the form of stream that the request asks for, None when it wants a page."""
    accepted = request.headers.get("accept", "")
    if sse.MEDIA_TYPE in accepted or request.query_params.get("stream") == "true":
        return FRAMES
    return LINES if JSON_LINES in accepted else None
