"""The link: one connection for many commands, whatever becomes of any one of them."""

import asyncio
import gc
import random

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.waiting import wait_until
from worker.embedded import Server
from worker.link import Link, open_link


async def test_a_command_gives_its_reply(any_link: Link):
    await any_link.command("SET", "key", "value", "EX", 60)

    assert await any_link.command("GET", "key") == b"value"


async def test_replies_are_bytes_integers_none_and_lists_of_these(any_link: Link):
    await any_link.command("RPUSH", "list", "a", b"\x00\xff", 3)
    await any_link.command("EXPIRE", "list", 60)

    assert await any_link.command("LRANGE", "list", 0, -1) == [b"a", b"\x00\xff", b"3"]
    assert await any_link.command("LLEN", "list") == 3
    assert await any_link.command("GET", "none") is None


async def test_commands_are_done_in_the_order_in_which_they_were_issued(any_link: Link):
    replies = [any_link.send("INCR", "count") for _ in range(200)]
    any_link.send("EXPIRE", "count", 60)

    assert [await reply for reply in replies] == list(range(1, 201))


async def test_one_commands_error_reaches_its_caller_alone(any_link: Link):
    before = any_link.send("SET", "key", "text", "EX", 60)
    wrong = any_link.send("LPUSH", "key", "x")
    after = any_link.send("GET", "key")

    with pytest.raises(redis.ResponseError):
        await wrong
    assert await before == b"OK"
    assert await after == b"text"


async def test_a_part_that_cannot_be_sent_is_refused_before_it_harms_others(any_link: Link):
    other = any_link.send("PING")

    with pytest.raises(TypeError):
        any_link.send("SET", "key", {"no": "bytes"})  # type: ignore[arg-type] - that is the point

    assert await other == b"PONG"


async def test_commands_of_one_tick_reach_the_server_in_one_read(link: Link):
    await link.command("PING")
    before = await _reads(link)

    replies = [link.send("PING") for _ in range(100)]
    assert [await reply for reply in replies] == [b"PONG"] * 100

    # One read for the hundred, and one for the question itself.
    assert await _reads(link) - before == 2


async def _reads(link: Link) -> int:
    told: bytes = await link.command("INFO", "stats")
    line = next(part for part in told.split() if part.startswith(b"total_reads_processed:"))
    return int(line.partition(b":")[2])


async def test_each_answer_belongs_to_its_key_whoever_is_cancelled(link: Link):
    for number in range(1000):
        link.send("SET", f"key{number}", number, "EX", 60)
    chance = random.Random(7)

    async def ask(number: int) -> bool:
        reply = link.send("GET", f"key{number}")
        if chance.random() < 0.3:
            asyncio.get_running_loop().call_later(chance.random() / 500, reply.cancel)
        try:
            return await reply == str(number).encode()
        except asyncio.CancelledError:
            return True

    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(ask(number)) for number in range(1000)]

    assert all(answer.result() for answer in answers)


async def test_a_callers_cancellation_leaves_the_flush_to_the_others(any_link: Link):
    await any_link.command("PING")
    cancelled = any_link.send("SET", "first", 1, "EX", 60)
    kept = any_link.send("SET", "second", 2, "EX", 60)

    cancelled.cancel()

    assert await kept == b"OK"
    assert await any_link.command("GET", "second") == b"2"


async def test_a_command_that_is_cancelled_in_its_tick_is_not_sent(any_link: Link):
    any_link.send("SET", "never", 1, "EX", 60).cancel()

    assert await any_link.command("EXISTS", "never") == 0


async def test_a_script_is_sent_whole_when_the_server_does_not_know_it(any_link: Link):
    await any_link.command("SCRIPT", "FLUSH")

    removed = [any_link.send_script("remove", ["queue"], ["id"]) for _ in range(3)]

    assert [await reply for reply in removed] == [0, 0, 0]


async def test_a_script_that_the_server_forgot_is_loaded_again_inside_of_a_flush(any_link: Link):
    await any_link.run("remove", ["queue"], ["id"])

    flushed = any_link.send("SCRIPT", "FLUSH")
    again = any_link.send_script("remove", ["queue"], ["id"])
    other = any_link.send("PING")

    assert await flushed == b"OK"
    assert await other == b"PONG"
    assert await again == 0


async def test_a_lost_connection_reaches_all_who_wait_and_the_next_command_goes_on(link: Link):
    await link.command("PING")
    with redis.Redis.from_url(_url(link)) as other:
        waiting = [link.send("PING") for _ in range(10)]
        link.send("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
        lost = link.send("GET", "key")
        for reply in waiting:
            await asyncio.wait([reply])
        with pytest.raises(RedisConnectionError):
            await lost

        assert other.ping()

    assert await link.command("PING") == b"PONG"


async def test_an_idle_connection_that_was_cut_costs_no_command(link: Link):
    await link.command("PING")
    with redis.Redis.from_url(_url(link)) as other:
        other.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # type: ignore[no-untyped-call] - redis-py
    await wait_until(lambda: link._wire is None or link._wire.is_broken, for_="the cut to be seen")

    assert await link.command("PING") == b"PONG"


async def test_a_server_that_is_away_is_a_connection_error():
    async with open_link("redis://127.0.0.1:1/0") as link:
        commands = [link.send("PING") for _ in range(3)]
        await asyncio.wait(commands)

        assert [type(command.exception()) for command in commands] == [RedisConnectionError] * 3


async def test_many_commands_give_their_replies_in_order(any_link: Link):
    replies = await any_link.all(("INCRBY", "count", number) for number in (1, 2, 3))
    await any_link.command("EXPIRE", "count", 60)

    assert replies == [1, 3, 6]
    assert await any_link.all([]) == []


async def test_many_commands_that_fail_are_one_error_and_no_other_is_left_unseen():
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: seen.append(context["message"]))

    told = await _ask_in_vain()
    gc.collect()

    assert "connecting" in told
    assert seen == []


async def _ask_in_vain() -> str:
    async with open_link("redis://127.0.0.1:1/0") as link:
        try:
            await link.all([("PING",)] * 3)
        except RedisConnectionError as error:
            return str(error)
    return ""


async def test_the_first_error_of_many_commands_is_told_once_all_have_their_replies(
    any_link: Link,
):
    with pytest.raises(redis.ResponseError, match="wrong number"):
        await any_link.all(
            [("PING",), ("GET",), ("SET", "key", "x", "EX", 60), ("LPUSH", "key", 1)]
        )

    assert await any_link.command("GET", "key") == b"x"


async def test_a_wrong_password_is_a_connection_error(server: Server):
    async with open_link(server.url.replace("://", "://user:wrong@")) as link:
        with pytest.raises(RedisConnectionError):
            await link.command("PING")


async def test_a_closed_link_refuses_and_fails_what_still_waits(redis_url: str):
    async with open_link(redis_url) as link:
        await link.command("PING")
        waiting = link.send("PING")

    with pytest.raises(RedisConnectionError):
        await waiting
    with pytest.raises(RedisConnectionError, match="closed"):
        link.send("PING")


async def test_a_server_that_lost_its_rank_is_asked_no_more(link: Link, server: Server):
    await link.command("SET", "key", 1, "EX", 60)
    with redis.Redis.from_url(server.url) as other:
        other.execute_command("REPLICAOF", "127.0.0.1", "1")  # type: ignore[no-untyped-call] - redis-py
        try:
            with pytest.raises(RedisConnectionError):
                await link.command("SET", "key", 2)
        finally:
            other.execute_command("REPLICAOF", "NO", "ONE")  # type: ignore[no-untyped-call] - redis-py

    assert await link.command("SET", "key", 3, "EX", 60) == b"OK"


async def test_at_most_a_few_flushes_wait_and_the_rest_gathers(link: Link):
    await link.command("PING")
    replies: list[asyncio.Future[object]] = []

    for _ in range(300):
        replies.append(link.send("ECHO", "x" * 1000))
        await asyncio.sleep(0)

    assert [await reply for reply in replies] == [b"x" * 1000] * 300


def _url(link: Link) -> str:
    options = link.client.connection_pool.connection_kwargs
    return f"redis://{options['host']}:{options['port']}/0"
