"""One request to a provider and the stream of its reply: the I/O that all providers share.

Redirects are refused, since a key must reach no other host; proxies and certificates from the
environment are not looked at. What httpx raises goes through: `loops.model.ask` says it in our
words.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from time import monotonic
from typing import Any

import httpx
import orjson

from loops.closing import closing
from loops.errors import Incomplete, SetupError, Timeout, Unavailable
from loops.jsonable import jsonable
from loops.reply import ModelEvent, StreamEnd

from .failures import failure_of_refusal, refusal_of, tells_failure
from .reader import ReplyReader

CONNECT = timedelta(seconds=10)
"""How long a connection may take."""

IDLE = timedelta(minutes=5)
"""How long nothing may come, and how long nothing but signs of life."""

PATIENCE = timedelta(seconds=10)
"""How long what does not matter any more is waited for: a refusal's text, a told end's mark."""

LEFT = timedelta(milliseconds=200)
"""How long the rest of an answer may take, when its reply is over."""

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
) -> AsyncIterator[ModelEvent]:
    """Send the request and yield the reply's events up to its end.

    Raises:
        ProviderError: When the service refuses, fails, falls silent or breaks off.
        httpx.TransportError: When it cannot be reached, or the connection breaks.
    """
    async with _opened(client) as opened, _posted(opened, asked) as response:
        await _refuse(response, model, asked.secret)
        events = _read(response, reader, _Silence(asked.idle, model))
        async with closing(events):
            async for event in events:
                yield event  # noqa: ASYNC119 - whoever reads a reply closes it
    if not reader.is_over:
        raise Incomplete(f"the reply of {model!r} broke off before its end; ask again")


async def _read(
    response: httpx.Response, reader: ReplyReader, silence: "_Silence"
) -> AsyncIterator[ModelEvent]:
    chunks = _chunks(response, reader)
    async for chunk in chunks:
        last: list[ModelEvent] = []
        for event in reader.feed(chunk):
            # Whoever hears of the end closes this, and the connection with it.
            if isinstance(event, StreamEnd):
                last.append(event)
            else:
                yield event
        if reader.is_over:
            await _read_out(chunks)
            for event in last:
                yield event
            return
        silence.note(is_broken=reader.says_more or reader.is_whole)
    for event in reader.close():
        yield event


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
    while True:
        try:
            async with asyncio.timeout(PATIENCE.total_seconds() if reader.is_whole else None):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except (TimeoutError, httpx.RequestError):
            if reader.is_whole:
                return
            raise
        yield chunk


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


@asynccontextmanager
async def _opened(client: httpx.AsyncClient | None) -> AsyncGenerator[httpx.AsyncClient]:
    if client is not None:
        yield client
        return
    async with httpx.AsyncClient(verify=_trusted(), trust_env=False) as own:
        yield own


@asynccontextmanager
async def _posted(client: httpx.AsyncClient, asked: Exchange) -> AsyncGenerator[httpx.Response]:
    limits = httpx.Timeout(asked.idle.total_seconds(), connect=CONNECT.total_seconds())
    headers = {"content-type": "application/json", "accept": "text/event-stream", **asked.headers}
    async with client.stream(
        "POST",
        asked.url,
        content=asked.body,
        headers=headers,
        timeout=limits,
        follow_redirects=False,
    ) as response:
        yield response


async def _refuse(response: httpx.Response, model: str, secret: str) -> None:
    """Raise what the answer is, if it is no stream."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.is_success and kind in {"text/event-stream", ""}:
        return
    body = await _start_of(response)
    if response.is_success:
        refusal = refusal_of(body)
        if tells_failure(refusal):
            raise failure_of_refusal(model, refusal, secret=secret)
        raise Unavailable(f"the model {model!r} answered with {kind}, and not with a stream")
    refusal = refusal_of(body, status=response.status_code, headers=response.headers)
    raise failure_of_refusal(model, refusal, secret=secret)


async def _start_of(response: httpx.Response) -> bytes:
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


def key_of(given: str | None, variable: str) -> str:
    """Return a key that was given, or that of the environment; empty where there is none.

    Raises:
        SetupError: When it holds what no header can carry; the text does not show it.
    """
    key = (given or os.environ.get(variable, "")).strip()
    if not (key.isascii() and key.isprintable()):
        raise SetupError(f"the key ({variable}) holds characters that no header can carry")
    return key


def address_of(given: str, path: str) -> str:
    """Return the address of a service's path.

    Raises:
        SetupError: When what was given is none.
    """
    address = f"{given.strip().rstrip('/')}{path}"
    with suppress(httpx.InvalidURL):
        url = httpx.URL(address)
        if url.scheme in {"http", "https"} and url.host:
            return address
    raise SetupError(f"an address begins with https:// or http:// and a host; not {given!r}")
