"""A stream's response by itself: heartbeats, slow readers, servers that fail."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from starlette.types import Message

from api.follower import End
from api.frames import Batch, Frame
from api.streams import EventStream, Form, JsonLines, Pace, ServerSentEvents, Traffic
from loops.tasks import Owner
from tests.waiting import wait_until

QUICK = Pace(heartbeat=timedelta(milliseconds=20), send_limit=timedelta(milliseconds=50))


def batch(*seqs: int, kind: str = "text.delta") -> Batch:
    return Batch(tuple(Frame(seq, b"%d" % seq, kind, b'{"seq":%d}' % seq) for seq in seqs))


class Script:
    """A feed that gives what it is told, and counts who has it open."""

    def __init__(self, *steps: list[Batch], position: int = 0, holds: bool = False) -> None:
        self.steps = list(steps)
        self.end: End | None = None
        self.cursor = position
        self.is_open = False
        self._holds = holds
        self._closed = asyncio.Event()

    @property
    def position(self) -> bytes:
        return b"%d" % self.cursor

    async def next(self, within: timedelta) -> list[Batch] | None:
        if self.end is not None:
            return None
        if self.steps:
            step = self.steps.pop(0)
            if step:
                self.cursor = step[-1].last
            if not self.steps and not self._holds:
                self.end = End.FINISHED
            return step
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._closed.wait()
        except TimeoutError:
            return []
        return None

    def close(self) -> None:
        self.end = End.CLOSED
        self._closed.set()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator["Script"]:
        self.is_open = True
        try:
            yield self
        finally:
            self.is_open = False


class Server:
    """The other side of ASGI."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [each["body"] for each in self.sent[1:]]


async def answer(feed: Script, server: Any, form: Form | None = None) -> Traffic:
    traffic = Traffic()
    stream = EventStream(feed.opened(), form or ServerSentEvents(), pace=QUICK, traffic=traffic)
    await stream({"type": "http", "path": "/here"}, server.receive, server.send)
    return traffic


async def test_what_is_ready_goes_out_in_one_write_and_the_last_one_ends_the_response() -> None:
    server = Server()

    traffic = await answer(Script([batch(1, 2), batch(3)], [batch(4)]), server)

    assert [each["more_body"] for each in server.sent[1:]] == [True, False]
    assert server.bodies[0].startswith(b"retry: 1000\nid: 1\n")
    assert server.bodies[0].count(b"\n\n") == 3
    assert traffic.writes == 2


async def test_a_quiet_stream_shows_that_it_lives() -> None:
    server, owner, feed = Server(), Owner(), Script([batch(1)], holds=True)
    owner.start(answer(feed, server), name="stream")

    await wait_until(lambda: len(server.bodies) >= 3, for_="two heartbeats")
    await owner.close()

    assert server.bodies[1:3] == [b":\n", b":\n"]


async def test_a_heartbeat_tells_a_position_that_moved_unseen_once() -> None:
    server, owner, feed = Server(), Owner(), Script([batch(1)], holds=True)
    owner.start(answer(feed, server), name="stream")
    await wait_until(lambda: len(server.bodies) >= 1)

    feed.cursor = 9
    await wait_until(lambda: len(server.bodies) >= 5, for_="some heartbeats")
    await owner.close()

    assert server.bodies.count(b"id: 9\n\n:\n") == 1
    assert server.bodies.count(b":\n") >= 2


async def test_a_heartbeat_of_lines_is_an_empty_one() -> None:
    server, owner = Server(), Owner()
    owner.start(answer(Script([batch(1)], holds=True), server, JsonLines()), name="stream")

    await wait_until(lambda: len(server.bodies) >= 2, for_="a heartbeat")
    await owner.close()

    assert server.bodies[:2] == [b'{"seq":1}\n', b"\n"]


async def test_a_reader_that_leaves_ends_the_response() -> None:
    server, owner, feed = Server(), Owner(), Script(holds=True)
    task = owner.start(answer(feed, server), name="stream")
    await wait_until(lambda: len(server.sent) >= 2)

    server.left.set()
    await task

    assert feed.end is End.CLOSED
    assert not feed.is_open


class Stuck(Server):
    """A server whose client reads nothing."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()


async def test_a_reader_that_reads_nothing_is_let_go() -> None:
    feed = Script([batch(1)], holds=True)

    traffic = await answer(feed, Stuck())

    assert traffic.slow_readers == 1
    assert not feed.is_open


class Broken(Server):
    """A server that fails at the n-th message."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    async def send(self, message: Message) -> None:
        await super().send(message)
        if len(self.sent) > self.at:
            raise OSError("the connection is gone")


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_server_that_fails_leaves_nothing_open(at: int) -> None:
    for _ in range(100):
        feed = Script([batch(1)], [batch(2)], [batch(3)])

        with pytest.raises(OSError, match="gone"):
            await answer(feed, Broken(at))

        assert not feed.is_open
    assert [task for task in asyncio.all_tasks() if task.get_name() == "stream watch"] == []
