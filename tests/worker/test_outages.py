"""A server that is frozen, full or cut off for a while: the worker lives on and loses nothing."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.waiting import wait_until
from tests.worker.workshop import KEYS, LEASE, make_worker, running
from worker import wire
from worker.embedded import Server, start_server
from worker.functions import job_function
from worker.link import Link, open_link
from worker.queue import QueueClient


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server of this test alone, which it may freeze."""
    server = start_server(tmp_path, durable=False)
    yield server
    os.kill(server.pid, signal.SIGCONT)
    server.stop()


@pytest.fixture
async def own_link(own_server: Server) -> AsyncIterator[Link]:
    async with open_link(own_server.url) as link:
        yield link


async def test_a_frozen_server_fails_commands_in_time_and_is_used_again(
    own_server: Server, own_link: Link
):
    await own_link.command("PING")
    loop = asyncio.get_running_loop()
    os.kill(own_server.pid, signal.SIGSTOP)

    asked = loop.time()
    with pytest.raises(RedisConnectionError, match="in time"):
        await own_link.command("PING")
    assert loop.time() - asked < wire.PATIENCE.total_seconds() + 1

    os.kill(own_server.pid, signal.SIGCONT)
    assert await own_link.command("PING") == b"PONG"


async def test_a_worker_lives_through_a_frozen_server(own_server: Server, own_link: Link):
    seen: list[str] = []
    thaw_after = 2 * LEASE.total_seconds()

    async def freeze(ctx: dict[str, Any]) -> None:
        seen.append("begun")
        os.kill(own_server.pid, signal.SIGSTOP)
        loop = asyncio.get_running_loop()
        loop.call_later(thaw_after, os.kill, own_server.pid, signal.SIGCONT)
        await asyncio.sleep(thaw_after / 2)
        seen.append("ended")

    queue = QueueClient(own_link, KEYS)
    async with running(make_worker(own_link, [job_function(freeze, name="freeze")])):
        await queue.enqueue("tools", "freeze")
        await wait_until(lambda: seen == ["begun", "ended"], for_="the job to end")

        async def is_empty() -> bool:
            return await queue.depth("tools") == 0

        await wait_until(is_empty, for_="the server to know")

    assert seen == ["begun", "ended"]


@pytest.fixture
def full(redis_url: str) -> Iterator[redis.Redis]:
    """Makes the server full until the test ends, or says otherwise."""
    with redis.Redis.from_url(redis_url) as client:
        yield client
        client.config_set("maxmemory", 0)


async def test_a_full_server_takes_nothing_new(link: Link, full: redis.Redis):
    seen: list[int] = []

    async def note(ctx: dict[str, Any], number: int) -> None:
        seen.append(number)

    queue = QueueClient(link, KEYS)
    await queue.enqueue("tools", "note", [1])
    full.config_set("maxmemory", 1)
    with pytest.raises(redis.ResponseError, match="maxmemory"):
        await queue.enqueue("tools", "note", [2])
    worker = make_worker(link, [job_function(note, name="note")])
    async with running(worker):
        await wait_until(lambda: bool(worker._claimer._lost), for_="a claim to be refused")
        assert seen == []

        full.config_set("maxmemory", 0)
        await wait_until(lambda: seen == [1], for_="the job to run")


async def test_a_full_server_lets_go_on_and_end_what_runs(link: Link, full: redis.Redis):
    go_on = asyncio.Event()

    async def wait(ctx: dict[str, Any]) -> None:
        await go_on.wait()

    names = KEYS.queue("tools")
    async with running(make_worker(link, [job_function(wait, name="wait")])):
        await QueueClient(link, KEYS).enqueue("tools", "wait")
        await wait_until(lambda: full.zcard(names.claims) == 1, for_="the claim")
        full.config_set("maxmemory", 1)
        ends = full.zscore(names.claims, _only_claim(full))

        await wait_until(
            lambda: full.zscore(names.claims, _only_claim(full)) != ends, for_="a renewal"
        )
        go_on.set()
        await wait_until(lambda: full.zcard(names.queue) == 0, for_="its end")


def _only_claim(client: redis.Redis) -> str:
    [job_id] = client.zrange(KEYS.queue("tools").claims, 0, -1)
    return job_id.decode()


async def test_a_worker_works_again_after_its_connections_were_cut(link: Link, redis_url: str):
    seen: list[int] = []

    async def note(ctx: dict[str, Any], number: int) -> None:
        seen.append(number)

    async with (
        open_link(redis_url) as other,
        running(make_worker(link, [job_function(note, name="note")])),
    ):
        for number in range(5):
            queue = QueueClient(other, KEYS)
            await queue.enqueue("tools", "note", [number], job_id=f"t/{number}")
            await wait_until(lambda: len(seen) == number + 1, for_="the job to run")  # noqa: B023 - awaited at once
            with redis.Redis.from_url(redis_url) as cutter:
                cutter.client_kill_filter(_type="normal", skipme=True)
            await wait_until(lambda: _is_cut(other), for_="the cut")

    assert seen == list(range(5))


def _is_cut(link: Link) -> bool:
    return link._wire is None or link._wire.is_broken


async def test_a_new_worker_leaves_lapsed_claims_to_their_owners_for_half_a_lease(link: Link):
    seen: list[float] = []
    loop = asyncio.get_running_loop()

    async def note(ctx: dict[str, Any]) -> None:
        seen.append(loop.time())

    job_id = await QueueClient(link, KEYS).enqueue("tools", "note")
    names = KEYS.queue("tools")
    await link.command("HSET", names.tokens, str(job_id), "slow:1")
    await link.command("ZADD", names.claims, 1, str(job_id))

    started = loop.time()
    async with running(make_worker(link, [job_function(note, name="note")])):
        await wait_until(lambda: len(seen) == 1, for_="the takeover")

    assert seen[0] - started >= LEASE.total_seconds() / 2
