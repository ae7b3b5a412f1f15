"""How bytes go to a provider and back: httpx's client over aiohttp's connections.

Over its own connections httpx takes five times as long for a request.
"""

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import aiohttp
import httpx
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from httpx_aiohttp import AiohttpTransport


class Transport(AiohttpTransport):
    """Carries requests, and says what broke in httpx's words.

    A connection that breaks is told as one that was too slow by what it stands on.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its answer, whose body is still to be read.

        Raises:
            httpx.TransportError: When the service cannot be reached, or the connection breaks.
        """
        with _told():
            response = await super().handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)  # noqa: S101 - this side is asynchronous
        response.stream = _Body(stream)
        return response


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _told():
            async for chunk in self._stream:
                yield chunk  # noqa: ASYNC119 - nothing is held here; it says what has broken

    async def aclose(self) -> None:
        await self._stream.aclose()


class Connector(aiohttp.TCPConnector):
    """Keeps connections, but none on which something came that nobody has asked for.

    What came would be taken for the answer to the next request, whoever makes it.
    """

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        # There is no public place between the choice of a connection and its use.
        while (kept := await super()._get(key, traces)) is not None:
            if kept.protocol is not None and not kept.protocol.should_close:
                return kept
            kept.close()
        return None


@contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except httpx.ConnectTimeout as error:
        cause = error.__cause__
        if isinstance(cause, TimeoutError):
            raise
        is_unreachable = isinstance(cause, aiohttp.ClientConnectorError)
        kind = httpx.ConnectError if is_unreachable else httpx.ReadError
        raise kind(str(cause)) from cause
    except aiohttp.ClientError as error:
        # What is no HTTP at all: of these errors the text would name the address, and what came.
        raise httpx.RemoteProtocolError(f"{type(error).__name__} in the answer") from error
