"""An HTTP client of a few lines, which shows the bytes as they come."""

import asyncio
from types import TracebackType
from typing import Self


class Raw:
    """One request on a connection of its own."""

    def __init__(self, port: int, path: str, *headers: str, method: str = "GET") -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
        self._request = "\r\n".join(lines).encode()
        self._port = port
        self.status = 0
        self.is_over = False
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.writer.write(self._request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split()[1])
        pairs = [line.partition(": ") for line in head[1:] if line]
        self.headers = {name.lower(): value for name, _, value in pairs}
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.transport.abort()

    async def piece(self) -> bytes:
        """The next chunk of the body, which is one write of the server; empty at the end."""
        size = int(await self.reader.readline(), 16)
        piece = await self.reader.readexactly(size)
        await self.reader.readline()
        self.is_over = not piece
        return piece

    async def rest(self) -> bytes:
        """The body to its end."""
        if "content-length" in self.headers:
            return await self.reader.readexactly(int(self.headers["content-length"]))
        body = b""
        while piece := await self.piece():
            body += piece
        return body
