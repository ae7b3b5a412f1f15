"""Many readers of streams in one process, cheap enough not to be what is measured.

Told what to do by lines of JSON, like the queues' clients. A reader is a raw socket: it sends one
GET and keeps what comes, with its time; what stands in it is looked at later.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any, cast

import uvloop

SENT = re.compile(rb'"sent":([0-9.]+)')
TEXT = re.compile(rb'"type":"text\.delta".*?"text":"((?:[^"\\]|\\.)*)"')
END = re.compile(rb"\nevent: run\.(completed|failed|cancelled|expired)\n")
CONNECT_AT_ONCE = 50
LONGEST_NAME = 64
"""Bytes in which the name of a run's last event stands, wherever a read cut it."""


@dataclass(eq=False)
class Reader(asyncio.Protocol):
    """One stream."""

    path: str
    is_silent: bool = False
    """Whether it takes nothing after the head of the answer."""
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: list[tuple[float, bytes]] = field(default_factory=list)
    ended: str = ""
    tail: bytes = b""
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        headers = "Host: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        self.transport.write(f"GET {self.path} HTTP/1.1\r\n{headers}\r\n".encode())

    def data_received(self, data: bytes) -> None:
        # A thousand of these may be called for one event: whatever is done here makes others late.
        self.arrived.append((time.time(), data))
        if not self.is_open.is_set():
            self._begin(data)
        if b"\nevent: run." in self.tail + data and (found := END.search(self.tail + data)):
            self.ended = found.group(1).decode()
            self.is_over.set()
        self.tail = data[-LONGEST_NAME:]

    def _begin(self, data: bytes) -> None:
        if not data.startswith(b"HTTP/1.1 200"):
            self.ended = data[:200].decode(errors="replace")
        if self.is_silent and self.transport is not None:
            self.transport.pause_reading()
        self.is_open.set()

    def take(self) -> list[tuple[float, bytes]]:
        """Return the whole frames that came, with their times, and forget them."""
        frames: list[tuple[float, bytes]] = []
        rest = b""
        for at, data in self.arrived:
            whole = (rest + data).rfind(b"\n\n") + 1
            frames.append((at, (rest + data)[:whole]))
            rest = (rest + data)[whole:]
        self.arrived = [(time.time(), rest)] if rest else []
        return frames

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a reader that is cut off has read enough
        self.is_open.set()
        self.is_over.set()


@dataclass
class Crowd:
    """All readers of this process."""

    port: int
    readers: list[Reader] = field(default_factory=list)

    async def open(self, paths: list[str], *, silent: bool = False) -> dict[str, Any]:
        """Open a stream for each path, and return when all of them have begun."""
        room = asyncio.Semaphore(CONNECT_AT_ONCE)
        opened = [Reader(path, silent) for path in paths]

        async def one(reader: Reader) -> None:
            async with room, asyncio.timeout(30):
                await self._connect(reader)
                await reader.is_open.wait()

        async with asyncio.TaskGroup() as group:
            for reader in opened:
                group.create_task(one(reader))
        self.readers += opened
        refused = [reader.ended for reader in opened if reader.ended]
        return {"open": len(opened) - len(refused), "refused": refused[:3]}

    async def _connect(self, reader: Reader) -> None:
        sock = socket.socket()
        sock.settimeout(0)
        if reader.is_silent:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", self.port))
        await loop.create_connection(lambda: reader, sock=sock)

    async def finish(self, limit: float) -> dict[str, Any]:
        """Wait until every reader that reads has seen its run's end."""
        reading = [reader for reader in self.readers if not reader.is_silent]
        async with asyncio.timeout(limit):
            for reader in reading:
                await reader.is_over.wait()
        return {"ended": [reader.ended for reader in reading]}

    async def times(self) -> dict[str, Any]:
        """Return how late events came since the last time, in ms."""
        return {
            "ms": [
                round((at - float(sent)) * 1000, 3)
                for reader in self.readers
                for at, frames in reader.take()
                for sent in SENT.findall(frames)
            ]
        }

    async def texts(self) -> dict[str, Any]:
        """Return the text that each reader has got."""
        return {"texts": [_text(reader) for reader in self.readers]}

    async def close(self) -> dict[str, Any]:
        """Close all streams."""
        for reader in self.readers:
            if reader.transport is not None:
                reader.transport.abort()
        self.readers.clear()
        return {}


def _text(reader: Reader) -> str:
    parts = [part for _, frames in reader.take() for part in TEXT.findall(frames)]
    return str(json.loads(b'"' + b"".join(parts) + b'"'))


async def serve(port: int) -> None:
    crowd = Crowd(port)
    loop = asyncio.get_running_loop()
    print(json.dumps({"ready": True}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        answer = await getattr(crowd, asked.pop("ask"))(**asked)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
