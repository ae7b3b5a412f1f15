"""Real worker processes: killed, stopped, blocked, and with a server that goes away."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.waiting import wait_until
from tests.worker.worker_process import NOTES
from tests.worker.workshop import KEYS
from worker.embedded import Server, start_server
from worker.link import Link, open_link
from worker.queue import QueueClient

LEASE = 2.0

Starter = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(shipped: Path) -> Iterator[Starter]:
    """Start worker processes; at the end none is left."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(url: str, *, lease: float = LEASE, slots: int = 1, stall: float = 60):
        words = [url, lease, slots, stall]
        command = [sys.executable, "-m", "tests.worker.worker_process", *map(str, words)]
        started.append(subprocess.Popen(command, cwd=shipped))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()


async def _notes(link: Link) -> list[tuple[str, str, int]]:
    lines: list[bytes] = await link.command("LRANGE", NOTES, 0, -1)
    words = [line.decode().split() for line in lines]
    return [(what, name, int(pid)) for what, name, pid in words]


async def _noted(link: Link, what: str, name: str, *, by: int | None = None) -> int:
    """Wait for a note, by a certain process or by any, and return the pid of who made it first."""
    found: list[int] = []

    async def is_there() -> bool:
        found[:] = [
            pid
            for noted, noted_name, pid in await _notes(link)
            if (noted, noted_name) == (what, name) and by in {None, pid}
        ]
        return bool(found)

    await wait_until(is_there, timedelta(seconds=20), for_=f"{name} to have {what}")
    return found[0]


async def test_a_killed_workers_job_is_taken_first_before_a_backlog(
    link: Link, redis_url: str, start: Starter
):
    queue = QueueClient(link, KEYS)
    first = start(redis_url)
    await queue.enqueue("tools", "last", ["old", 60])
    assert await _noted(link, "began", "old") == first.pid
    await _pile_up(link, 2000)
    second = start(redis_url)
    await _noted(link, "began", "backlog")

    killed = time.monotonic()
    first.send_signal(signal.SIGKILL)
    first.wait()

    assert await _noted(link, "began", "old", by=second.pid) == second.pid
    assert time.monotonic() - killed < 2 * LEASE + 1
    assert await queue.depth("tools") > 1000


async def _pile_up(link: Link, count: int) -> None:
    payload = '{"t":null,"f":"last","a":["backlog",0.2],"k":{},"et":1}'
    for number in range(count):
        link.send("SET", f"arq:job:t/{number}", payload)
        link.send("ZADD", KEYS.queue("tools").queue, 1, f"t/{number}")
    await link.command("PING")


async def test_a_stopped_worker_hands_back_at_once_and_exits_well(
    link: Link, redis_url: str, start: Starter
):
    queue = QueueClient(link, KEYS)
    first = start(redis_url)
    job_id = await queue.enqueue("tools", "last", ["job", 60])
    await _noted(link, "began", "job")

    first.send_signal(signal.SIGTERM)
    await wait_until(lambda: first.poll() is not None, for_="the worker to exit")

    assert first.returncode == 0
    assert await link.command("GET", f"arq:retry:{job_id}") == b"0"
    assert await link.command("EXISTS", KEYS.queue("tools").claims) == 0
    second = start(redis_url)
    assert await _noted(link, "began", "job", by=second.pid) == second.pid
    assert await link.command("EXISTS", KEYS.queue("tools").lapses) == 0


async def test_a_blocked_event_loop_keeps_its_lease(link: Link, redis_url: str, start: Starter):
    queue = QueueClient(link, KEYS)
    first = start(redis_url)
    await queue.enqueue("tools", "block", ["job", 2 * LEASE])
    await _noted(link, "began", "job")
    start(redis_url)

    await _noted(link, "ended", "job")

    assert [(what, pid) for what, _, pid in await _notes(link)] == [
        ("began", first.pid),
        ("ended", first.pid),
    ]


async def test_an_event_loop_that_stands_still_too_long_loses_its_claim(
    link: Link, redis_url: str, start: Starter
):
    queue = QueueClient(link, KEYS)
    first = start(redis_url, stall=LEASE / 2)
    await queue.enqueue("tools", "block", ["job", 4 * LEASE])
    await _noted(link, "began", "job")
    second = start(redis_url)

    assert await _noted(link, "ended", "job") == second.pid

    await queue.enqueue("tools", "note", ["after"])
    await _noted(link, "did", "after")
    ended = [pid for what, _, pid in await _notes(link) if what == "ended"]
    assert ended == [second.pid]
    assert first.poll() is None


async def test_a_frozen_worker_loses_its_job_and_lives_on(
    link: Link, redis_url: str, start: Starter
):
    queue = QueueClient(link, KEYS)
    first = start(redis_url)
    await queue.enqueue("tools", "linger", ["job", 60])
    await _noted(link, "began", "job")
    second = start(redis_url)

    first.send_signal(signal.SIGSTOP)
    await _noted(link, "began", "job", by=second.pid)
    first.send_signal(signal.SIGCONT)
    await _noted(link, "ended", "job")
    second.kill()
    second.wait()
    await queue.enqueue("tools", "note", ["after"])
    assert await _noted(link, "did", "after") == first.pid
    assert [pid for what, _, pid in await _notes(link) if what == "ended"] == [second.pid]


@pytest.fixture
def start_own(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Start a durable server, always in the same place; at the end it is stopped."""
    started: list[Server] = []

    def start_one() -> Server:
        started.append(start_server(tmp_path, port="unix"))
        return started[-1]

    yield start_one
    started[-1].stop()


async def test_a_worker_outlives_its_server(start_own: Callable[[], Server], start: Starter):
    server = start_own()
    worker = start(server.url, slots=10)
    async with open_link(server.url) as link:
        await QueueClient(link, KEYS).enqueue("tools", "last", ["across", 2.0])
        await _noted(link, "began", "across")

    server.stop()
    server = start_own()

    returned = time.monotonic()
    async with open_link(server.url) as link:
        await QueueClient(link, KEYS).enqueue("tools", "note", ["after"])
        await _noted(link, "did", "after")
        assert time.monotonic() - returned < 5
        assert await _noted(link, "ended", "across") == worker.pid
    assert worker.poll() is None
