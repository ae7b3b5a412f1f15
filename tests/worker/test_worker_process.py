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
from worker.embedded import start_server
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


async def _noted(link: Link, what: str, name: str, *, within: float = 20) -> int:
    """Wait for a note, and return the pid of who made it first."""

    async def is_there() -> bool:
        return any((w, n) == (what, name) for w, n, _ in await _notes(link))

    await wait_until(is_there, timedelta(seconds=within), for_=f"{name} to have {what}")
    return next(pid for w, n, pid in await _notes(link) if (w, n) == (what, name))


async def test_a_killed_workers_job_is_taken_first_before_a_backlog(
    link: Link, redis_url: str, start: Starter
):
    queue = QueueClient(link, KEYS)
    first = start(redis_url)
    await queue.enqueue("tools", "last", ["old", 60])
    assert await _noted(link, "began", "old") == first.pid
    for number in range(2000):
        link.send(
            *("ZADD", KEYS.queue("tools").queue, 1, f"t/{number}"),
        )
        link.send(
            "SET",
            f"arq:job:t/{number}",
            f'{{"t":null,"f":"last","a":["b{number}",0.2],"k":{{}},"et":1}}',
        )
    second = start(redis_url)
    await _noted(link, "began", "b0" if False else (await _first_of_backlog(link)))

    killed = time.monotonic()
    first.send_signal(signal.SIGKILL)
    first.wait()

    async def is_taken_over() -> bool:
        return ("began", "old", second.pid) in await _notes(link)

    await wait_until(is_taken_over, timedelta(seconds=15), for_="the takeover")
    assert time.monotonic() - killed < 2 * LEASE + 1
    assert await queue.depth("tools") > 1000


async def _first_of_backlog(link: Link) -> str:
    async def has_begun() -> bool:
        return any(name.startswith("b") for _, name, _ in await _notes(link))

    await wait_until(has_begun, timedelta(seconds=20), for_="the backlog to begin")
    return next(name for _, name, _ in await _notes(link) if name.startswith("b"))


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

    async def goes_on() -> bool:
        return ("began", "job", second.pid) in await _notes(link)

    await wait_until(goes_on, timedelta(seconds=LEASE), for_="another to take it, without a lapse")


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
    await queue.enqueue("tools", "last", ["job", 2.5])
    await _noted(link, "began", "job")
    second = start(redis_url)

    first.send_signal(signal.SIGSTOP)

    async def is_taken_over() -> bool:
        return ("began", "job", second.pid) in await _notes(link)

    await wait_until(is_taken_over, timedelta(seconds=15), for_="the takeover")
    first.send_signal(signal.SIGCONT)
    await _noted(link, "ended", "job")
    second.send_signal(signal.SIGTERM)
    await queue.enqueue("tools", "note", ["after"])
    assert await _noted(link, "did", "after") in {first.pid, second.pid}
    assert [pid for what, _, pid in await _notes(link) if what == "ended"] == [second.pid]


async def test_a_worker_outlives_its_server(tmp_path: Path, start: Starter):
    server = start_server(tmp_path, port="unix")
    worker = start(server.url, slots=10)
    async with open_link(server.url) as link:
        queue = QueueClient(link, KEYS)
        await queue.enqueue("tools", "note", ["before"])
        await _noted(link, "did", "before")
        await queue.enqueue("tools", "last", ["across", 2.0])
        await _noted(link, "began", "across")

        server.stop()
        await wait_until(lambda: not (tmp_path / "server.sock").exists(), for_="the server to end")
        server = start_server(tmp_path, port="unix")
        returned = time.monotonic()

        await queue.enqueue("tools", "note", ["after"])
        await _noted(link, "did", "after")
        assert time.monotonic() - returned < 5
        assert await _noted(link, "ended", "across") == worker.pid
        assert worker.poll() is None
    server.stop()
