"""A script that has to be written is sent until the server has answered."""

import asyncio
import time

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from loops.tasks import Owner
from tests.faults import Fault, FaultyLink, Trap
from worker.insist import BACKOFF, insist, is_passing, pause
from worker.link import Link

QUEUE, JOB = "arq:queue:t:tools", "t/x/1"


async def enqueue(link: Link) -> object:
    return await insist(
        link, "enqueue", keys=[QUEUE, "t:@queues"], arguments=[JOB, "{}", 0, "tools"]
    )


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_script_is_sent_again_until_it_is_answered(link: Link, fault: Fault):
    faulty = FaultyLink(link.client, Trap(1, fault))

    answer = await enqueue(faulty)
    await faulty.aclose()

    # Done twice, it says the second time that the job is there.
    assert answer == (0 if fault is Fault.AFTER else 1)
    assert await link.command("ZCARD", QUEUE) == 1


async def test_a_server_out_of_memory_is_asked_until_it_has_room(link: Link):
    owner = Owner()
    await link.command("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(RedisError) as refused:
            await link.run("enqueue", [QUEUE, "t:@queues"], [JOB, "{}", 0, "tools"])
        assert is_passing(refused.value)
        waiting = owner.start(enqueue(link), name="insists")
        await asyncio.wait([waiting], timeout=2 * BACKOFF[0])
        assert not waiting.done()
    finally:
        await link.command("CONFIG", "SET", "maxmemory", 0)

    assert await waiting == 1


async def test_a_refusal_for_good_is_raised(link: Link):
    await link.command("SET", QUEUE, "no sorted set", "EX", 60)

    with pytest.raises(ResponseError):
        await enqueue(link)


async def test_whoever_insists_can_be_cancelled(link: Link):
    faulty = FaultyLink(link.client, Trap(1, Fault.BEFORE))
    began = time.monotonic()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(BACKOFF[0] / 5):
            await enqueue(faulty)

    await faulty.aclose()
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (RedisConnectionError("gone"), True),
        (ResponseError("WRONGTYPE Operation against a key"), False),
        (ResponseError("OOM command not allowed"), True),
        (ResponseError("MASTERDOWN Link with MASTER is down"), True),
        (ResponseError("MISCONF Redis is configured to save RDB snapshots"), True),
    ],
)
def test_only_a_refusal_that_would_come_again_does_not_pass(error: RedisError, passes: bool):
    assert is_passing(error) is passes


def test_pauses_grow_up_to_a_second():
    assert [pause(tries) for tries in (1, 2, 3, 4, 5, 6, 100)] == [*BACKOFF, 1.0, 1.0]
