"""One request to a provider and the stream of its reply: the I/O that all providers share.

Redirects are refused, since a key must reach no other host; proxies and certificates from the
environment are not looked at. What httpx raises goes through: `loops.model.ask` says it in our
words.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from http.cookiejar import DefaultCookiePolicy
from time import monotonic
from typing import Any

import aiohttp
import httpx
import orjson

from loops.closing import closing
from loops.errors import Incomplete, ProviderError, Timeout, Unavailable
from loops.jsonable import jsonable
from loops.reply import ModelEvent, StreamEnd

from .failures import failure_of_refusal, refusal_of, tells_failure
from .reader import ReplyReader
from .transport import Connector, Transport

CONNECT = timedelta(seconds=10)
"""How long a connection may take."""

IDLE = timedelta(minutes=5)
"""How long nothing may come, and how long nothing but signs of life."""

PATIENCE = timedelta(seconds=10)
"""How long what does not matter any more is waited for: a refusal's text, a told end's mark."""

KEPT_FOR = timedelta(seconds=15)
"""How long a client keeps an idle connection."""

LEFT = timedelta(milliseconds=200)
"""How long the rest of an answer may take, when its reply is over."""

AT_ONCE = 1024 * 1024
"""How many bytes of a request are sent in one go at most."""

PIECE = 256 * 1024
"""How many of a longer one."""

REFUSAL = 64 * 1024
"""How many bytes of a refusal are read."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as bytes."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    idle: timedelta = IDLE
    secret: str = field(default="", repr=False)
    """What no error may show, whatever the service echoes."""


async def exchange(
    asked: Exchange, model: str, reader: ReplyReader, *, client: httpx.AsyncClient | None = None
) -> AsyncIterator[list[ModelEvent]]:
    """Send the request and yield the reply's events up to its end, those that came together as one.

    Raises:
        ProviderError: When the service refuses, fails, falls silent or breaks off.
        httpx.TransportError: When it cannot be reached, or the connection breaks.
    """
    async with opened(client) as own, posted(own, asked) as response:
        await _refuse(response, model, asked.secret)
        batches = _read(response, reader, _Silence(asked.idle, model))
        async with closing(batches):
            async for events in batches:
                yield events  # noqa: ASYNC119 - whoever reads a reply closes it
    if not reader.is_over:
        raise Incomplete(f"the reply of {model!r} broke off before its end; ask again")


async def _read(
    response: httpx.Response, reader: ReplyReader, silence: "_Silence"
) -> AsyncIterator[list[ModelEvent]]:
    chunks = _chunks(response, reader)
    async for chunk in chunks:
        events: list[ModelEvent] = []
        try:
            events.extend(reader.feed(chunk))
        except ProviderError:
            yield events
            raise
        if reader.is_over:
            # Whoever hears of the end closes this, and the connection with it.
            yield [each for each in events if not isinstance(each, StreamEnd)]
            await _read_out(chunks)
            yield [each for each in events if isinstance(each, StreamEnd)]
            return
        yield events
        silence.note(is_broken=reader.says_more or reader.is_whole)
    yield reader.close()


class _Silence:
    """Counts for how long a service says nothing but that it is alive."""

    def __init__(self, limit: timedelta, model: str) -> None:
        self._limit = limit
        self._model = model
        self._since = monotonic()

    def note(self, *, is_broken: bool) -> None:
        """Note that something came.

        Raises:
            Timeout: When it has been signs of life for too long.
        """
        if is_broken:
            self._since = monotonic()
        elif monotonic() - self._since > self._limit.total_seconds():
            raise Timeout(
                f"the model {self._model!r} has sent only signs of life for {self._limit}"
            )


async def _chunks(response: httpx.Response, reader: ReplyReader) -> AsyncIterator[bytes]:
    """Yield the answer's bytes; a reply that may end here is not waited for, nor for its break."""
    chunks = response.aiter_bytes()
    async for chunk in chunks:
        yield chunk
        if reader.is_whole:
            break
    while (rest := await _soon(chunks)) is not None:
        yield rest


async def _soon(chunks: AsyncIterator[bytes]) -> bytes | None:
    """Return what comes next; None where nothing does in time, or the connection breaks."""
    with suppress(TimeoutError, httpx.RequestError):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            return await anext(chunks, None)
    return None


async def _read_out(chunks: AsyncIterator[bytes]) -> None:
    """Read what is left of the answer, so that its connection can carry the next one."""
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(LEFT.total_seconds()):
            async for _ in chunks:
                continue


@cache
def _trusted() -> ssl.SSLContext:
    """Return whom we trust: read once, for that takes longer than a short reply."""
    return httpx.create_ssl_context(trust_env=False)


def _session() -> aiohttp.ClientSession:
    """Return what keeps the connections, any number of them."""
    connector = Connector(limit=0, keepalive_timeout=KEPT_FOR.total_seconds(), ssl=_trusted())
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    )


def new_client() -> httpx.AsyncClient:
    """Return a client for any number of replies at the same time; whoever asked for it closes it.

    A connection that was idle for long is not used again: it may be gone, and nobody knows yet.
    """
    transport = Transport(verify=_trusted(), trust_env=False, client=_session)
    client = httpx.AsyncClient(transport=transport, trust_env=False)
    # What a service wants remembered of one asking is no affair of another's.
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


@asynccontextmanager
async def opened(client: httpx.AsyncClient | None) -> AsyncGenerator[httpx.AsyncClient]:
    """Give the client, or one for the block alone where there is none."""
    if client is not None:
        yield client
        return
    async with new_client() as own:
        yield own


@asynccontextmanager
async def posted(client: httpx.AsyncClient, asked: Exchange) -> AsyncGenerator[httpx.Response]:
    """Send the request; the answer's body is read in the block."""
    limits = httpx.Timeout(asked.idle.total_seconds(), connect=CONNECT.total_seconds())
    headers = {"content-type": "application/json", "accept": "text/event-stream", **asked.headers}
    async with client.stream(
        "POST",
        asked.url,
        content=asked.body if len(asked.body) <= AT_ONCE else _in_pieces(asked.body),
        headers={**headers, "content-length": str(len(asked.body))},
        timeout=limits,
        follow_redirects=False,
    ) as response:
        yield response


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield a long body in pieces, between which others have their turn."""
    for at in range(0, len(body), PIECE):
        yield body[at : at + PIECE]


async def _refuse(response: httpx.Response, model: str, secret: str) -> None:
    """Raise what the answer is, if it is no stream."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.is_success and kind in {"text/event-stream", ""}:
        return
    body = await start_of(response)
    if response.is_success:
        refusal = refusal_of(body, headers=response.headers)
        if tells_failure(refusal):
            raise failure_of_refusal(model, refusal, secret=secret)
        raise Unavailable(f"the model {model!r} answered with {kind}, and not with a stream")
    refusal = refusal_of(body, status=response.status_code, headers=response.headers)
    raise failure_of_refusal(model, refusal, secret=secret)


async def start_of(response: httpx.Response) -> bytes:
    """Return what a refusal says, as far as it comes: its status is known already."""
    body = b""
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) >= REFUSAL:
                    break
    return body[:REFUSAL]


def body_of(wire: Mapping[str, Any]) -> bytes:
    """Return a request as bytes; what JSON cannot carry is replaced."""
    try:
        return orjson.dumps(wire)
    except TypeError:
        return orjson.dumps(jsonable(wire))
