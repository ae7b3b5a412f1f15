"""Heads of requests that are too long, too slow or never end, over sockets to a real server."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

import httpx
import orjson
import pytest

from api.heads import HEAD_LIMIT, HEAD_PATIENCE, BoundedProtocol
from api.server import configured
from loops.tasks import Owner
from tests.api.author import begin, text
from tests.api.conftest import Live
from tests.api.raw import Raw
from tests.waiting import wait_until
from worker.resources import Resources

START = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


class HastyProtocol(BoundedProtocol):
    """One whose patience a test can wait for."""

    head_patience = timedelta(milliseconds=150)


@pytest.fixture
def hasty(live: Live) -> Live:
    live.server.config.http_protocol_class = HastyProtocol
    return live


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(live: Live, sent: bytes = b"") -> AsyncGenerator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
    writer.write(sent)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answered(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status of the next answer, and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def hung_up(reader: asyncio.StreamReader) -> bytes:
    """Whatever comes before the server closes the connection."""
    async with asyncio.timeout(5):
        with suppress(ConnectionResetError):
            return await reader.read()
    return b""


def test_the_servers_connections_are_bounded(live: Live) -> None:
    assert configured(live.app).http is BoundedProtocol
    assert HEAD_LIMIT == 65536
    assert BoundedProtocol.head_patience == HEAD_PATIENCE == timedelta(seconds=10)


def filled(length: int, start: bytes = START + b"X-Long: ") -> bytes:
    return start + b"x" * (length - len(start))


UNENDING = {
    "value": filled(HEAD_LIMIT),
    "name": filled(HEAD_LIMIT, START),
    "address": filled(HEAD_LIMIT, b"GET /"),
    "many": (START + b"a: b\r\n" * HEAD_LIMIT)[:HEAD_LIMIT],
}


@pytest.mark.parametrize("head", UNENDING.values(), ids=UNENDING)
async def test_a_head_that_is_too_long_is_431_and_the_end(live: Live, head: bytes) -> None:
    async with connected(live, head) as (reader, _):
        status, body = await answered(reader)

        assert (status, orjson.loads(body)["code"]) == (431, "head_too_large")
        assert await hung_up(reader) == b""


async def test_a_long_head_within_the_limit_is_read_however_it_arrives(live: Live) -> None:
    head = filled(HEAD_LIMIT - 4) + b"\r\n\r"
    async with connected(live, head[:40_000]) as (reader, writer):
        await writer.drain()
        writer.write(head[40_000:])
        writer.write(b"\n" + START + b"\r\n")

        assert await answered(reader) == (200, b'{"status":"ok"}')
        assert await answered(reader) == (200, b'{"status":"ok"}')


async def _write_endlessly(writer: asyncio.StreamWriter, sent: list[int]) -> None:
    with suppress(ConnectionError):
        while not writer.transport.is_closing():
            writer.write(b"x" * 65536)
            sent[0] += 65536
            await writer.drain()


async def test_a_header_without_an_end_holds_up_nobody(live: Live, web: httpx.AsyncClient) -> None:
    sent = [0]
    owner = Owner()
    async with connected(live, START + b"X-Endless: ") as (_, writer):
        writing = owner.start(_write_endlessly(writer, sent), name="writer")
        await wait_until(writing.done, for_="the endless header to be cut off")

        assert (await web.get("/healthz")).status_code == 200
        # What the sockets' own buffers hold is all that could be sent.
        assert sent[0] < 32 * 1024 * 1024


async def test_trailers_without_an_end_are_cut_off_too(live: Live) -> None:
    chunked = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with connected(live, chunked + b"1\r\nx\r\n0\r\n") as (reader, writer):
        assert (await answered(reader))[0] == 405
        writer.write(filled(HEAD_LIMIT, b"X-Trailer: "))

        assert b" 431 " in await hung_up(reader)


async def test_a_long_body_is_no_head(live: Live) -> None:
    body = b'{"agent":"echo","input":"%b"}' % (b"x" * 1_000_000)
    async with httpx.AsyncClient(base_url=live.url) as client:
        headers = {"Content-Type": "application/json"}
        answer = await client.post("/v1/runs", content=body, headers=headers)

    assert answer.status_code == 202


SLOW = {
    "nothing": b"",
    "a line": b"GET /healthz HT",
    "half a head": START + b"X-Slow: ",
    "empty lines": b"\r\n",
}


@pytest.mark.parametrize("head", SLOW.values(), ids=SLOW)
async def test_a_head_that_never_ends_is_hung_up_on(hasty: Live, head: bytes) -> None:
    async with connected(hasty, head) as (reader, _):
        assert await hung_up(reader) == b""


async def test_many_half_heads_are_gone_when_their_time_is_over(hasty: Live) -> None:
    connections = hasty.server.server_state.connections
    async with AsyncExitStack() as stack:
        for _ in range(100):
            await stack.enter_async_context(connected(hasty, START))
        await wait_until(lambda: len(connections) > 0)

        await wait_until(lambda: not connections, for_="the half heads to be gone")


async def _drip(writer: asyncio.StreamWriter) -> None:
    while not writer.transport.is_closing():
        writer.write(b"a: b\r\n")
        await asyncio.sleep(0.02)


LATER = {"a head": START, "empty lines": b"\r\n", "a body": b"x"}


@pytest.mark.parametrize("drop", LATER.values(), ids=LATER)
async def test_dripping_after_an_answer_keeps_no_connection(hasty: Live, drop: bytes) -> None:
    length = b"Content-Length: 100000\r\n" if drop == b"x" else b""
    owner = Owner()
    async with connected(hasty, START + length + b"\r\n") as (reader, writer):
        assert (await answered(reader))[0] == 200
        writer.write(drop)
        dripping = owner.start(_drip(writer), name="drip")

        await hung_up(reader)
        dripping.cancel()


async def test_a_stream_outlives_the_patience_with_heads(hasty: Live, resources: Resources) -> None:
    author = await begin(resources)
    path, loop = f"/v1/runs/{author.run_id}/events", asyncio.get_running_loop()
    until = loop.time() + 3 * HastyProtocol.head_patience.total_seconds()
    async with Raw(hasty.port, path, "Accept: text/event-stream") as raw:
        await wait_until(lambda: loop.time() > until)
        await author.append(text("late"))
        await author.settle()

        assert b"late" in await raw.rest()
