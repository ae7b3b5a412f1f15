"""A client of HTTP/1.1 that costs little: connections that are kept, requests that are bytes.

What a request is made of is written once, before the clock runs. An answer is over when as much
has come as its head says; in a body in chunks, when the last one has: no reply here has the bytes
of that in its text.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .measuring import quantile
from .processes import BenchError

HOST = "127.0.0.1"
KEY = "sk-of-a-benchmark-and-of-nobody-else"
"""What callers have to show: a proxy of today does not start without a key."""
LAST_CHUNK = b"0\r\n\r\n"
COLD = 4
"""How many requests are made before any is counted."""
PATIENCE = 60.0
"""Seconds within which all has to be answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and when."""

    status: int
    body: bytes
    """As it came, the sizes of its chunks among it."""
    first: float
    """Seconds until the first byte of the body was there."""
    took: float


@dataclass(frozen=True, slots=True)
class Request:
    """One kind of request, with a tag in its text of which an answer has to know."""

    name: str
    path: str
    body: Mapping[str, Any]
    answer: Callable[[str], str]
    """The last words of the right answer to a request with a tag."""

    def encoded(self, tag: str) -> bytes:
        """Return the request as it is sent."""
        body = json.dumps(self.body).replace("TAG", tag).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {KEY}\r\nanthropic-version: 2023-06-01\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def check(self, answer: Answer, tag: str) -> None:
        """See that it is the right answer.

        Raises:
            BenchError: When it is another.
        """
        if answer.status != 200 or self.answer(tag).encode() not in answer.body:
            said = answer.body[-600:].decode(errors="replace")
            raise BenchError(f"{self.name}: status {answer.status}: {said}")


class Caller(asyncio.Protocol):
    """A connection, on which one request after the other is answered."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._received = bytearray()
        self._waits: asyncio.Future[None] | None = None
        self._began = self._first = 0.0
        self._head = self._end = -1
        """Where the body begins, and where it ends when that is known."""

    @classmethod
    async def connect(cls, port: int) -> Caller:
        """Return a connection to a server of this machine."""
        _, caller = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return caller

    def close(self) -> None:
        """End the connection."""
        self._transport.close()

    async def ask(self, request: bytes) -> Answer:
        """Send a request and return its answer.

        Raises:
            ConnectionError: When the server ends the connection before.
        """
        self._received.clear()
        self._head = self._end = -1
        self._first = 0.0
        self._waits = asyncio.get_running_loop().create_future()
        self._began = time.perf_counter()
        self._transport.write(request)
        await self._waits
        took = time.perf_counter() - self._began
        status = int(self._received[9:12])
        return Answer(status, bytes(self._received[self._head :]), self._first, took)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        if self._waits is not None and not self._waits.done():
            self._waits.set_exception(ConnectionError("the server has ended the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._head < 0:
            self._read_head()
        if self._head < 0:
            return
        if not self._first and len(self._received) > self._head:
            self._first = time.perf_counter() - self._began
        if self._is_whole() and self._waits is not None and not self._waits.done():
            self._waits.set_result(None)

    def _read_head(self) -> None:
        head, found, _ = self._received.partition(b"\r\n\r\n")
        if found:
            self._head = len(head) + len(found)
            _, _, length = head.lower().partition(b"content-length:")
            self._end = self._head + int(length.partition(b"\r\n")[0]) if length else -1

    def _is_whole(self) -> bool:
        if self._end >= 0:
            return len(self._received) >= self._end
        return self._received.endswith(LAST_CHUNK)


@dataclass(slots=True)
class Tally:
    """What came back, from the first request to the last answer."""

    began: float = field(default_factory=time.perf_counter)
    ended: float = 0.0
    took: list[float] = field(default_factory=list[float])
    first: list[float] = field(default_factory=list[float])

    def count(self, answer: Answer) -> None:
        """Note an answer that has just come."""
        self.ended = time.perf_counter()
        self.took.append(answer.took * 1000)
        self.first.append(answer.first * 1000)

    def figures(self) -> dict[str, Any]:
        """Return what is kept of it."""
        return {
            "per_second": round(len(self.took) / (self.ended - self.began), 1),
            "p50_ms": round(quantile(self.took, 0.5), 3),
            "p99_ms": round(quantile(self.took, 0.99), 3),
            "first_p50_ms": round(quantile(self.first, 0.5), 3),
            "count": len(self.took),
        }


async def ask_for_a_while(
    port: int, request: Request, *, at_once: int, seconds: float
) -> dict[str, Any]:
    """Ask on so many connections, each one request after the other, and count what comes back.

    No request is begun when the time is over; those that are under way are waited for.

    Raises:
        BenchError: When an answer is wrong; in a group, as several may be.
    """
    callers = [await Caller.connect(port) for _ in range(at_once)]
    for caller in callers[:COLD]:
        await caller.ask(request.encoded("tag-00000000"))
    tally = Tally()

    async def ask(caller: Caller, tag: str) -> None:
        encoded = request.encoded(tag)
        while time.perf_counter() < tally.began + seconds:
            answer = await caller.ask(encoded)
            request.check(answer, tag)
            tally.count(answer)

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for number, caller in enumerate(callers):
            group.create_task(ask(caller, f"tag-{number:08}"))
    for caller in callers:
        caller.close()
    return tally.figures()
