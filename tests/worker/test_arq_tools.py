"""arq's own client and tools on our queues, with our serialisers."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from arq.connections import ArqRedis, RedisSettings
from arq.jobs import JobStatus
from arq.worker import async_check_health
from redis.asyncio import Redis

from tests.waiting import wait_until
from tests.worker.workshop import KEYS, make_worker, running
from worker.functions import job_function
from worker.link import Link
from worker.payloads import RemoteError, dumps, loads

QUEUE = KEYS.queue("tools").queue


@pytest.fixture
async def arq(redis_url: str) -> AsyncIterator[ArqRedis]:
    """A client as a user of arq would make it."""
    async with Redis.from_url(redis_url) as client:
        yield ArqRedis(
            client.connection_pool,
            job_serializer=dumps,
            job_deserializer=loads,
            default_queue_name=QUEUE,
        )


async def double(ctx: dict[str, Any], number: int, *, times: int = 2) -> int:
    return number * times


async def fail(ctx: dict[str, Any]) -> None:
    raise LookupError("nothing there")


async def sleep(ctx: dict[str, Any]) -> None:
    await asyncio.sleep(60)


FUNCTIONS = [job_function(f, name=f.__name__) for f in (double, fail, sleep)]


async def test_a_job_of_arqs_client_is_picked_up_and_its_result_read(link: Link, arq: ArqRedis):
    async with running(make_worker(link, FUNCTIONS)):
        job = await arq.enqueue_job("double", 5, times=3)
        assert job is not None

        assert await job.result(timeout=5, poll_delay=0.02) == 15
        assert await job.status() is JobStatus.complete


async def test_a_failure_is_raised_with_its_type_and_message(link: Link, arq: ArqRedis):
    async with running(make_worker(link, FUNCTIONS)):
        job = await arq.enqueue_job("fail")
        assert job is not None

        with pytest.raises(RemoteError, match="LookupError: nothing there"):
            await job.result(timeout=5, poll_delay=0.02)


async def test_status_and_facts_of_a_job_are_right_at_every_stage(link: Link, arq: ArqRedis):
    job = await arq.enqueue_job("sleep", _job_id="t/a")
    later = await arq.enqueue_job("double", 1, _defer_by=timedelta(minutes=5), _job_id="t/b")
    assert job is not None
    assert later is not None
    assert await job.status() is JobStatus.queued
    assert await later.status() is JobStatus.deferred

    async with running(make_worker(link, FUNCTIONS)):

        async def is_in_progress() -> bool:
            return await job.status() is JobStatus.in_progress

        await wait_until(is_in_progress, for_="the job to be claimed")
        told = await job.info()
        assert told is not None
        assert (told.function, told.args) == ("sleep", [])
        assert [queued.job_id for queued in await arq.queued_jobs()] == ["t/a", "t/b"]

    assert await job.status() is JobStatus.queued


async def test_an_id_is_refused_while_its_job_is_there(link: Link, arq: ArqRedis):
    assert await arq.enqueue_job("double", 1, _job_id="t/a") is not None

    assert await arq.enqueue_job("double", 1, _job_id="t/a") is None


async def test_a_running_job_is_aborted(link: Link, arq: ArqRedis):
    async with running(make_worker(link, FUNCTIONS)):
        job = await arq.enqueue_job("sleep")
        assert job is not None

        async def is_in_progress() -> bool:
            return await job.status() is JobStatus.in_progress

        await wait_until(is_in_progress, for_="the job to be claimed")

        assert await job.abort(timeout=5, poll_delay=0.02) is True
    assert await link.command("ZCARD", "arq:abort") == 0


async def test_a_waiting_job_is_aborted_before_it_starts(link: Link, arq: ArqRedis):
    job = await arq.enqueue_job("sleep", _defer_by=timedelta(minutes=5))
    assert job is not None
    async with running(make_worker(link, FUNCTIONS)):
        assert await job.abort(timeout=5, poll_delay=0.02) is True


# arq 0.28 closes its client by a name that redis-py 5 calls deprecated.
@pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning")
async def test_arqs_health_check_sees_the_worker_and_its_end(link: Link, redis_url: str):
    settings = RedisSettings.from_dsn(redis_url)
    async with running(make_worker(link, FUNCTIONS)):

        async def is_healthy() -> bool:
            return await async_check_health(settings, queue_name=QUEUE) == 0

        await wait_until(is_healthy, for_="a sign of health")
