"""A verdict reaches the server, however long that refuses for now; not what it refuses for good."""

from collections.abc import Callable

import pytest

from tests.waiting import wait_until
from worker.claiming import ClaimedJob
from worker.job import Job
from worker.link import Link
from worker.queue import Claim
from worker.reporter import Reporter
from worker.verdict import Finish

QUEUE, JOB = "arq:queue:t:tools", "t/x/1"
DONE = Finish("done", is_success=True)

Make = Callable[[int], Reporter]


def a_job() -> Job:
    claim = Claim(job_id=JOB, queue=QUEUE, token="w:1", lapses=0, taken_over=False, worker_id="w")
    return Job(ClaimedJob(claim, "tools", b"", is_aborted=False, tries=1, due=0))


@pytest.fixture
def known() -> list[Job]:
    return []


@pytest.fixture
def make(link: Link, known: list[Job]) -> Make:
    return lambda refusals: Reporter(
        link, on_known=known.append, on_unknown_for_too_long=known.append, refusals=refusals
    )


async def test_a_server_that_refuses_for_now_is_told_again_without_a_limit(
    link: Link, make: Make, known: list[Job]
):
    await link.command("HSET", f"{QUEUE}:tokens", JOB, "w:1")
    await link.command("CONFIG", "RESETSTAT")
    await link.command("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        make(0).report(a_job(), DONE)
        await wait_until(lambda: _refused(link), for_="two refusals")
        assert known == []
    finally:
        await link.command("CONFIG", "SET", "min-replicas-to-write", 0)

    await wait_until(lambda: bool(known), for_="the verdict to be known")
    assert await link.command("EXISTS", f"arq:result:{JOB}") == 1


async def _refused(link: Link) -> bool:
    told: bytes = await link.command("INFO", "errorstats")
    return b"errorstat_NOREPLICAS:count=2" in told


async def test_a_server_that_refuses_for_good_is_told_so_often_and_no_more(
    link: Link, make: Make, known: list[Job], caplog: pytest.LogCaptureFixture
):
    await link.command("SET", f"{QUEUE}:tokens", "no hash", "EX", 60)

    make(1).report(a_job(), DONE)
    await wait_until(lambda: bool(known), for_="the claim to be left")

    assert "its end was refused" in caplog.text
