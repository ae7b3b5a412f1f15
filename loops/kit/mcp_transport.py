"""The two ways to an MCP server: a process of ours, and a URL.

Both tell at once when nothing more can come from the server, which the package tells nobody
until somebody asks in vain.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR

from loops.guard import describe
from loops.jsonable import clean_text, parse_object

KEPT_ERRORS = 2048
"""How many bytes are kept of what a server's process wrote last to its standard error."""

UNSENT = secrets.token_hex(8)
"""What begins the data of an error that is ours: a request had no effect, and its method follows.

No server knows it.
"""

OnEnd = Callable[[], None]
"""What is called when nothing more can come from a server."""

Streams = tuple[Any, Any]
"""What is read from a server and what is written to it; the package keeps their types to itself."""


class Server(Protocol):
    """Where a server is, and how to get to it."""

    @property
    def last_words(self) -> str:
        """What it said of itself before it went away; empty if that is not known."""
        ...

    def open(self, on_end: OnEnd) -> AbstractAsyncContextManager[Streams]:
        """Return the streams of messages from and to it, for one connection."""
        ...


class Child:
    """A server that is a process of ours, spoken with through its standard input and output."""

    def __init__(self, command: str, args: Sequence[str], env: Mapping[str, str]) -> None:
        self._parameters = StdioServerParameters(command=command, args=[*args], env={**env})
        self._heard = _Heard()

    @property
    def last_words(self) -> str:
        """The end of what the newest process wrote to its standard error."""
        return self._heard.text

    @asynccontextmanager
    async def open(self, on_end: OnEnd) -> AsyncGenerator[Streams]:
        """Start the process, and end it and its children at the end of the block."""
        self._heard = _Heard()
        async with (
            _heard_by(self._heard) as errors,
            stdio_client(self._parameters, errlog=errors) as (read, write),
        ):
            # The process has it; as long as we have it too, the pipe does not end.
            errors.close()
            yield _Watched(read, on_end), write


class Remote:
    """A server at a URL."""

    last_words = ""

    def __init__(self, url: str, headers: Mapping[str, str], limit: timedelta) -> None:
        self._url, self._headers, self._limit = url, headers, limit

    @asynccontextmanager
    async def open(self, on_end: OnEnd) -> AsyncGenerator[Streams]:
        """Connect with the server, and say farewell to it at the end of the block."""
        seconds = self._limit.total_seconds()
        timeout = httpx2.Timeout(min(seconds, 30), read=max(seconds, 300))
        async with (
            _Http(headers=self._headers, timeout=timeout) as http,
            streamable_http_client(self._url, http_client=http) as (read, write),
        ):
            http.on_refused = on_end
            yield _Watched(read, on_end), write


class _Http(httpx2.AsyncClient):
    """A client of HTTP whose failures are answers, each to the request that it belongs to.

    The transport takes what is raised for the end of all requests that are under way.
    """

    on_refused: OnEnd | None = None

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
            return response if response.status_code < 400 else await self._refused(response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _answer(request, f"cannot connect: {describe(error)}", data=_unsent(request))
        except httpx2.TransportError as error:
            return _answer(request, f"the connection broke: {describe(error)}", CONNECTION_CLOSED)

    async def _refused(self, response: httpx2.Response) -> httpx2.Response:
        request = response.request
        in_session = "mcp-session-id" in request.headers
        if in_session and self.on_refused is not None:
            # It may be the session that is refused; the next call gets another one.
            self.on_refused()
        if in_session and response.status_code == 404:
            await response.aclose()
            return _answer(request, "the server has forgotten the session", data=_unsent(request))
        if b'"jsonrpc"' in await response.aread():
            return response
        return _answer(request, f"HTTP {response.status_code} {response.reason_phrase}".strip())


def _unsent(request: httpx2.Request) -> str:
    return UNSENT + str(parse_object(request.content.decode()).get("method"))


def _answer(
    request: httpx2.Request, message: str, code: int = INTERNAL_ERROR, *, data: str | None = None
) -> httpx2.Response:
    error = {"code": code, "message": message, "data": data}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(502, request=request, json=body)


class _Watched:
    """The messages of a server; whoever watches is told that there will be no more."""

    def __init__(self, stream: Any, on_end: OnEnd) -> None:
        self._stream, self._on_end = stream, on_end

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        has_come = False
        try:
            message: Any = await self._stream.__anext__()
            has_come = True
        finally:
            if not has_come:
                self._on_end()
        return message

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stream.__aexit__(kind, error, trace)


class _Heard(asyncio.Protocol):
    """What a process wrote last to its standard error."""

    def __init__(self) -> None:
        self._bytes = b""

    def data_received(self, data: bytes) -> None:
        self._bytes = (self._bytes + data)[-KEPT_ERRORS:]

    @property
    def text(self) -> str:
        return clean_text(self._bytes.decode(errors="replace")).strip()


@asynccontextmanager
async def _heard_by(heard: _Heard) -> AsyncGenerator[TextIO]:
    """Give a file whose other end the object reads, to the end of the block."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as errors:
        source = os.fdopen(reading, "rb", buffering=0)
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: heard, source)
        try:
            yield errors
        finally:
            pipe.close()
