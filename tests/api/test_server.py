"""The server as a whole: it starts, it stops in time whoever reads, it refuses strangers."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from api.server import check_address, listen
from api.tail import LIMIT
from loops.errors import SetupError
from loops.tasks import Owner
from tests.api.author import Author, begin, text
from tests.api.conftest import Live
from tests.api.raw import Raw
from tests.api.reading import read
from tests.waiting import wait_until
from worker.resources import Resources
from worker.settings import Settings

SSE = "Accept: text/event-stream"


async def test_open_streams_end_when_the_server_stops(live: Live, resources: Resources) -> None:
    authors = [await begin(resources) for _ in range(4)]
    owner = Owner()
    readers = [
        Raw(live.port, f"/v1/runs/{author.run_id}/events", SSE)
        for author in authors
        for _ in range(5)
    ]
    for reader in readers:
        await reader.__aenter__()
    busy = owner.start(_write_on(authors[0]), name="author")
    await wait_until(lambda: len(live.office.hub.followers) == 20)

    began = time.monotonic()
    await live.stop()

    assert time.monotonic() - began < 2
    for reader in readers:
        await reader.rest()
        await reader.__aexit__(None, None, None)
    busy.cancel()


async def _write_on(author: Author) -> None:
    while True:
        await author.append(text("more"))


async def test_a_reader_that_reads_nothing_does_not_hold_up_the_server(
    live: Live, resources: Resources
) -> None:
    author = await begin(resources)
    async with Raw(live.port, f"/v1/runs/{author.run_id}/events", SSE):
        for _ in range(40):
            await author.append(text("x" * 200_000))
        traffic = live.office.traffic
        await wait_until(lambda: traffic.bytes > 1_000_000, for_="the reader's pipe to be full")

        began = time.monotonic()
        await live.stop()

        assert time.monotonic() - began < 4


async def test_slow_readers_cost_no_memory_and_miss_nothing(
    live: Live, resources: Resources
) -> None:
    author = await begin(resources)
    path = f"/v1/runs/{author.run_id}/events"
    async with AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(Raw(live.port, path, SSE)) for _ in range(20)]
        quick = await stack.enter_async_context(Raw(live.port, path, SSE))
        for _ in range(60):
            await author.append(text("x" * 100_000))
        await author.settle()
        await quick.rest()

        kept = [channel.tail.size for channel in live.office.hub.followed]
        bodies = [await reader.rest() for reader in slow]

    assert sum(kept) <= LIMIT + 100_000
    expected = [str(seq) for seq in range(1, 63)]
    assert [[p for _, _, p in read(body).events] for body in bodies] == [expected] * 20


PROGRAM = """
import sys
from pydantic import SecretStr
from api.server import serve_api
from worker.settings import Settings
settings = Settings(redis_url=SecretStr(sys.argv[1]), app="my_agents:app")
sys.exit(serve_api(settings, host="127.0.0.1", port=0))
"""

AGENTS = """
import loops as ai
async def loop(context):
    yield "hello"
app = ai.App({"hello": loop})
"""


def test_a_process_says_when_it_is_ready_and_ends_with_0(
    redis_url: str, tmp_path: Path, shipped: Path
) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    environ = {**os.environ, "PYTHONPATH": f"{shipped}:{tmp_path}"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, redis_url], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.removeprefix("loopmill api ready: ").strip()
        agents = httpx.get(f"{url}/v1/agents").json()["agents"]
        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=5) == 0

    assert [agent["name"] for agent in agents] == ["hello"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_strangers_are_not_served_without_keys(host: str) -> None:
    with pytest.raises(SetupError, match="LOOPMILL_API_KEYS"):
        check_address(Settings(), host)

    check_address(Settings(api_keys=(SecretStr("key"),)), host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_is_served_without_keys(host: str) -> None:
    check_address(Settings(), host)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such option")
def test_a_connection_whose_reader_vanished_does_not_stay_for_ever() -> None:
    with listen("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            connection, _ = listener.accept()
            with connection:
                limit = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)

    assert 0 < limit <= 60_000


async def test_small_answers_and_events_go_out_at_once() -> None:
    accepted: asyncio.Queue[int] = asyncio.Queue()

    async def read_option(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        accepted.put_nowait(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listen("127.0.0.1", 0) as listener:
        async with await asyncio.start_server(read_option, sock=listener):
            with socket.create_connection(listener.getsockname()):
                assert await accepted.get()


def test_an_address_that_is_taken_is_an_error() -> None:
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            listen("127.0.0.1", taken.getsockname()[1])
