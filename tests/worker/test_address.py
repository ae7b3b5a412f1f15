"""Where the server is, in every form in which that can be said."""

import asyncio

import pytest

from worker.address import Address
from worker.embedded import Server


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://:secret@localhost:6380/3",
        "rediss://user:secret@redis.example:6379/0",
        "unix:///run/redis.sock?db=2",
        "redis+sentinel://:secret@a:26379,b:26380/main/1",
        "rediss+sentinel://a/main",
    ],
)
def test_the_password_is_never_shown(url: str):
    address = Address.parse(url)

    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://localhost",
        "redis://localhost/zero",
        "redis://localhost:99999",
        "unix://",
        "redis+sentinel://a:26379",
        "redis+sentinel:///main/0",
        "redis+sentinel://a:x/main/0",
        "redis+sentinel://a:1/main/zero",
    ],
)
def test_what_leads_to_no_server_is_refused(url: str):
    with pytest.raises(ValueError, match=r"write|[Pp]ort"):
        Address.parse(url)


def test_percent_encoded_credentials_are_decoded():
    client = Address.parse("redis://us%40er:p%2Fa%3Ass@host:6380/2").blocking_client()
    options = client.connection_pool.connection_kwargs

    assert (options["username"], options["password"]) == ("us@er", "p/a:ss")
    assert (options["host"], options["port"], options["db"]) == ("host", 6380, 2)


def test_sentinels_lead_to_their_master():
    url = "redis+sentinel://user:p%40ss@a:1,b/main/4?sentinel_password=own"
    client = Address.parse(url).blocking_client()
    pool = client.connection_pool
    sentinels = [s.connection_pool.connection_kwargs for s in pool.sentinel_manager.sentinels]

    assert pool.service_name == "main"
    assert [(s["host"], s["port"], s["password"]) for s in sentinels] == [
        ("a", 1, "own"),
        ("b", 26379, "own"),
    ]
    assert pool.connection_kwargs["password"] == "p@ss"
    assert pool.connection_kwargs["db"] == 4


async def test_every_client_has_time_limits():
    async with Address.parse("redis://host").client() as client:
        options = client.connection_pool.connection_kwargs

    assert options["socket_timeout"] > options["socket_connect_timeout"] > 0


async def test_a_cancellation_in_the_tick_in_which_a_write_ends_is_not_lost(server: Server):
    async with Address.parse(server.url).client() as client:
        await client.ping()
        for ticks in range(12):
            task = asyncio.get_running_loop().create_task(client.blpop(["none"], timeout=5))
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=1)

            assert task.cancelled(), f"the cancellation after {ticks} ticks was lost"
