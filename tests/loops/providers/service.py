"""A provider on loopback that answers as it is told: real HTTP, whatever bytes, whatever pace."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import orjson

STREAM = "text/event-stream; charset=utf-8"
OVERLOADED = 529


@dataclass(frozen=True)
class Answer:
    """What the service answers to one request."""

    chunks: Sequence[bytes] = ()
    status: int = 200
    kind: str = STREAM
    headers: dict[str, str] = field(default_factory=dict[str, str])
    pause: float = 0.0
    """Seconds before each chunk after the first."""
    breaks_off: bool = False
    """Whether the connection is cut where the body should end."""
    hangs: bool = False
    """Whether nothing more comes after the chunks, and nothing ends."""
    is_mute: bool = False
    """Whether not even a status comes, before the connection is cut or hangs."""


@dataclass(frozen=True)
class Asked:
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Service:
    """The service, and what it was asked."""

    answers: list[Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])
    connections: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _open: dict[asyncio.Task[Any], asyncio.StreamWriter] = field(default_factory=dict[Any, Any])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                self.asked.append(await _request(reader))
                answer = self.answer_to(self.asked[-1])
                await _answer(writer, answer)
                if answer.hangs:
                    await self.over.wait()
                if answer.breaks_off or answer.hangs:
                    break
        writer.close()
        del self._open[task]

    def answer_to(self, asked: Asked) -> Answer:
        """Return what is answered: one answer a request, the last one again and again."""
        del asked
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def end(self) -> None:
        """End all connections, and wait for those who serve them."""
        self.over.set()
        for writer in self._open.values():
            writer.close()
        if self._open:
            await asyncio.wait(list(self._open), timeout=5)


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncGenerator[Service]:
    """Serve the answers, one a request, the last one again and again."""
    async with served(Service(list(answers))) as service:
        yield service


Kind = TypeVar("Kind", bound=Service)


@asynccontextmanager
async def served(service: Kind) -> AsyncGenerator[Kind]:
    """Let the service answer on a port of its own."""
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    service.url = f"http://{host}:{port}"
    try:
        yield service
    finally:
        server.close()
        await service.end()


async def _request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    named = dict(line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in named.items()}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(head[0].split(" ")[1], headers, orjson.loads(body) if body else None)


async def _answer(writer: asyncio.StreamWriter, answer: Answer) -> None:
    if answer.is_mute:
        return
    named = {"content-type": answer.kind, "transfer-encoding": "chunked", **answer.headers}
    phrase = "Busy" if answer.status == OVERLOADED else HTTPStatus(answer.status).phrase
    lines = [f"HTTP/1.1 {answer.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in named.items() if value]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    # An empty chunk would end the body.
    for number, chunk in enumerate(filter(None, answer.chunks)):
        if number:
            await asyncio.sleep(answer.pause)
        writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await writer.drain()
    if not answer.breaks_off and not answer.hangs:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
