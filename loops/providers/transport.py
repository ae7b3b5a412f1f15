"""How bytes go to a provider and back: httpx's client over aiohttp's connections.

Over its own connections httpx takes five times as long for a request.
"""

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import aiohttp
import httpx
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
