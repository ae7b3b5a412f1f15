"""Every command of enqueue, claim, renew and finish fails once in every way: no job is lost or
done twice, and no stale token changes anything."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.faults import Fault, FaultyLink, Trap, faulty_caller
from tests.waiting import wait_until
from tests.worker.workshop import KEYS, LEASE, make_worker, running
from worker.functions import job_function
from worker.link import Link
from worker.queue import QueueClient
from worker.renewal import script_caller

JOBS = 3


@pytest.mark.parametrize("fault", list(Fault))
async def test_an_enqueue_that_is_asked_again_makes_one_job(link: Link, fault: Fault):
    trap = Trap(1, fault)
    faulty = FaultyLink(link.client, trap)
    queue = QueueClient(faulty, KEYS)

    try:
        await queue.enqueue("tools", "f", job_id="t/a")
    except (RedisConnectionError, asyncio.CancelledError):
        await queue.enqueue("tools", "f", job_id="t/a")

    await faulty.aclose()
    assert trap.has_sprung
    assert await link.command("ZRANGE", KEYS.queue("tools").queue, 0, -1) == [b"t/a"]


@pytest.mark.parametrize("fault", list(Fault))
async def test_whatever_command_of_a_worker_fails_each_job_is_done_once(link: Link, fault: Fault):
    at = 1
    while await _pass_with_fault(link, Trap(at, fault)):
        at += 1

    assert at > JOBS + 2, "claim, three ends and the leaving were all met"


async def _pass_with_fault(link: Link, trap: Trap) -> bool:
    """Run some jobs to their end, and say whether the fault was met."""
    done: Counter[str] = Counter()

    async def count(ctx: dict[str, Any]) -> None:
        done[ctx["job_id"]] += 1

    queue = QueueClient(link, KEYS)
    job_ids = [await queue.enqueue("tools", "count") for _ in range(JOBS)]
    faulty = FaultyLink(link.client, trap, link.blocking)
    async with running(make_worker(faulty, [job_function(count, name="count")])):
        await _until_empty(queue)
    await faulty.aclose()

    assert done == Counter(dict.fromkeys(job_ids, 1))
    assert await link.command("EXISTS", KEYS.queue("tools").claims, KEYS.queue("tools").tokens) == 0
    return trap.has_sprung


async def _until_empty(queue: QueueClient, name: str = "tools") -> None:
    async def is_empty() -> bool:
        return await queue.depth(name) == 0

    await wait_until(is_empty, for_="all jobs to end")


async def test_what_is_claimed_in_the_instant_of_shutdown_is_given_back_unbegun(link: Link):
    seen: list[str] = []

    async def note(ctx: dict[str, Any]) -> None:
        seen.append(ctx["job_id"])

    queue = QueueClient(link, KEYS)
    job_id = await queue.enqueue("tools", "note")
    faulty = FaultyLink(link.client, Trap(1, Fault.DELAYED, delay=0.2), link.blocking)
    worker = make_worker(faulty, [job_function(note, name="note")])

    async with running(worker):
        await wait_until(lambda: worker._claimer.is_asking, for_="the claim to be under way")

    await faulty.aclose()
    assert seen == []
    assert await link.command("GET", f"arq:retry:{job_id}") == b"0"
    assert await link.command("EXISTS", KEYS.queue("tools").claims) == 0
    assert await queue.depth("tools") == 1


async def test_what_is_claimed_too_late_is_given_back_and_begun_by_the_next_claim(link: Link):
    seen: list[int] = []

    async def note(ctx: dict[str, Any]) -> None:
        seen.append(ctx["job_try"])

    queue = QueueClient(link, KEYS)
    await queue.enqueue("tools", "note")
    late = Trap(1, Fault.DELAYED, delay=LEASE.total_seconds() * 0.6)
    faulty = FaultyLink(link.client, late, link.blocking)
    worker = make_worker(faulty, [job_function(note, name="note")])

    async with running(worker):
        await _until_empty(queue)

    await faulty.aclose()
    assert worker._hand.counts["retried"] == 1
    assert seen == [1]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.DELAYED])
async def test_whatever_renewal_fails_a_job_longer_than_its_lease_is_done_once(
    link: Link, fault: Fault
):
    traps = [Trap(at, fault) for at in (1, 2, 3, 4)]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run_long_job(link, trap)) for trap in traps]

    assert [task.result() for task in tasks] == [1, 1, 1, 1]
    assert all(trap.has_sprung for trap in traps)


async def _run_long_job(link: Link, trap: Trap) -> int:
    """Run a job under renewals that fail, beside an idle worker, and say how often it was done."""
    done: list[str] = []

    async def last(ctx: dict[str, Any]) -> None:
        await asyncio.sleep(LEASE.total_seconds() * 1.2)
        done.append(ctx["job_id"])

    assert link.blocking is not None
    name = f"tools{trap.at}"
    function = job_function(last, name="last")
    call = faulty_caller(script_caller(link.blocking), trap)
    first = make_worker(link, [function], name, call=call)
    async with running(first, make_worker(link, [function], name)):
        queue = QueueClient(link, KEYS)
        await queue.enqueue(name, "last")
        await _until_empty(queue, name)
    return len(done)
