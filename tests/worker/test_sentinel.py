"""A link through sentinels follows the master, also when that is another one."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.waiting import wait_until
from worker.embedded import Server, find_binary, start_server
from worker.link import Link, open_link

CONFIGURATION = """
port 0
unixsocket {folder}/sentinel.sock
bind 127.0.0.1
dir {folder}
sentinel monitor main 127.0.0.1 {master} 1
sentinel down-after-milliseconds main 500
sentinel failover-timeout main 2000
"""


def _port(server: Server) -> str:
    return server.url.rpartition(":")[2].partition("/")[0]


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[list[Server]]:
    """A master and its replica."""
    master, replica = (start_server(tmp_path / name, durable=False) for name in ("m", "r"))
    async with open_link(master.url) as link:
        await link.command("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    async with open_link(replica.url) as link:
        await link.command("REPLICAOF", "127.0.0.1", _port(master))
        await wait_until(lambda: _has_synced(link), timedelta(seconds=10), for_="the replica")
    yield [master, replica]
    master.stop()
    replica.stop()


async def _has_synced(link: Link) -> bool:
    return b"master_link_status:up" in await link.command("INFO", "replication")


@pytest.fixture
def sentinel(pair: list[Server], tmp_path: Path) -> Iterator[str]:
    """The URL of the master, by way of a sentinel."""
    watch = start_server(tmp_path / "probe", durable=False)
    port = _port(watch)
    watch.stop()
    text = CONFIGURATION.format(folder=tmp_path, master=_port(pair[0]))
    path = tmp_path / "sentinel.conf"
    path.write_text(text.replace("port 0", f"port {port}"))
    binary = find_binary()
    assert binary is not None
    started = subprocess.Popen([binary, path, "--sentinel"], stdout=subprocess.DEVNULL)
    yield f"redis+sentinel://127.0.0.1:{port}/main/0"
    started.kill()
    started.wait()


@pytest.fixture
async def through_sentinel(sentinel: str) -> AsyncIterator[Link]:
    """A link that knows the sentinel only."""
    async with open_link(sentinel) as link:
        yield link


async def test_a_link_follows_the_master(pair: list[Server], through_sentinel: Link):
    link = through_sentinel
    await wait_until(lambda: _is_set(link, 1), timedelta(seconds=10), for_="the master")
    async with open_link(pair[1].url) as replica:
        await wait_until(lambda: _knows_replica(link), timedelta(seconds=15), for_="the sentinel")
        assert await replica.command("GET", "key") == b"1"

    pair[0].kill()

    await wait_until(lambda: _is_set(link, 2), timedelta(seconds=15), for_="the new master")
    assert link.blocking is not None
    assert link.blocking.get("key") == b"2"
    assert await link.client.get("key") == b"2"


async def _is_set(link: Link, value: int) -> bool:
    try:
        return await link.command("SET", "key", value) == b"OK"
    except RedisConnectionError:
        return False


async def _knows_replica(link: Link) -> bool:
    sentinel = link.client.connection_pool.sentinel_manager.sentinels[0]
    return bool(await sentinel.sentinel_slaves("main"))
