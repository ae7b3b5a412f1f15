"""One request to a provider and the stream of its reply: the I/O that all providers share.

Redirects are refused, since a key must reach no other host; proxies and certificates from the
environment are not looked at. What httpx raises goes through: `loops.model.ask` says it in our
words.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic

import httpx

from loops.errors import Incomplete, Timeout, Unavailable
from loops.reply import ModelEvent

from .failures import failure_of_refusal, refusal_of
from .reader import ReplyReader

CONNECT = timedelta(seconds=10)
"""How long a connection may take."""

IDLE = timedelta(minutes=5)
"""How long nothing may come, and how long nothing but signs of life."""

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


async def exchange(
    asked: Exchange, model: str, reader: ReplyReader, *, client: httpx.AsyncClient | None = None
) -> AsyncIterator[ModelEvent]:
    """Send the request and yield the reply's events up to its end.

    Raises:
        ProviderError: When the service refuses, fails, falls silent or breaks off.
        httpx.TransportError: When it cannot be reached, or the connection breaks.
    """
    async with _opened(client) as opened, _posted(opened, asked) as response:
        await _refuse(response, model)
        heard, chunks = monotonic(), _chunks(response, reader)
        async for chunk in chunks:
            for event in reader.feed(chunk):
                yield event  # noqa: ASYNC119 - whoever reads a reply closes it
            if reader.is_over:
                await _read_out(chunks)
                return
            if reader.says_more:
                heard = monotonic()
            elif monotonic() - heard > asked.idle.total_seconds():
                raise Timeout(f"the model {model!r} has sent only signs of life for {asked.idle}")
        for event in reader.close():
            yield event  # noqa: ASYNC119 - whoever reads a reply closes it
        if reader.is_over:
            return
    raise Incomplete(f"the reply of {model!r} broke off before its end; ask again")


async def _chunks(response: httpx.Response, reader: ReplyReader) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_bytes():
            yield chunk
    except httpx.TransportError:
        if not reader.is_whole:
            raise


async def _read_out(chunks: AsyncIterator[bytes]) -> None:
    """Read what is left of the answer, so that its connection can carry the next one."""
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(LEFT.total_seconds()):
            async for _ in chunks:
                continue


@asynccontextmanager
async def _opened(client: httpx.AsyncClient | None) -> AsyncGenerator[httpx.AsyncClient]:
    if client is not None:
        yield client
        return
    async with httpx.AsyncClient(trust_env=False, follow_redirects=False) as own:
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


async def _refuse(response: httpx.Response, model: str) -> None:
    """Raise what the answer is, if it is no stream."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.is_success and kind in {"text/event-stream", ""}:
        return
    body = await _start_of(response)
    if response.is_success:
        refusal = refusal_of(body)
        if refusal.kind or refusal.fields.get("message"):
            raise failure_of_refusal(model, refusal)
        raise Unavailable(f"the model {model!r} answered with {kind}, and not with a stream")
    raise failure_of_refusal(
        model, refusal_of(body, status=response.status_code, headers=response.headers)
    )


async def _start_of(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= REFUSAL:
            break
    return body[:REFUSAL]
