"""The workers of one process: they begin and end together."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from loops.tasks import Owner
from tests.waiting import wait_until
from tests.worker.workshop import KEYS, make_worker, settings
from worker.__main__ import end_together
from worker.functions import job_function
from worker.link import Link
from worker.queue import QueueClient


async def last(ctx: dict[str, Any]) -> None:
    """Take a little time, and leave a note."""
    ctx["begun"].set()
    await asyncio.sleep(0.1)
    ctx["notes"].append("done")


async def fail(ctx: dict[str, Any]) -> None:
    """Fail at once."""
    del ctx
    raise LookupError("no resources")


async def test_a_worker_that_fails_takes_the_others_with_it(link: Link):
    other = make_worker(link, [job_function(last)])
    broken = make_worker(link, [job_function(last)], "runs", on_startup=fail)
    owner = Owner()
    serving = [owner.start(worker.main(), name="worker") for worker in (other, broken)]

    with pytest.raises(LookupError, match="no resources"):
        async with asyncio.timeout(5):
            await end_together([other, broken], serving)

    assert other.lifecycle.draining
    assert all(served.done() for served in serving)


async def test_a_worker_that_stops_first_does_not_hurry_the_others(link: Link):
    ctx: dict[str, Any] = {"notes": [], "begun": asyncio.Event()}
    told = settings(tool_drain=timedelta(seconds=5))
    busy = make_worker(link, [job_function(last)], told=told, ctx=ctx)
    idle = make_worker(link, [job_function(last)], "runs")
    owner = Owner()
    serving = [owner.start(worker.main(), name="worker") for worker in (busy, idle)]
    await QueueClient(link, KEYS).enqueue("tools", "last")
    await wait_until(ctx["begun"].is_set, for_="the job to begin")

    idle.stop()
    busy.stop()
    await end_together([busy, idle], serving)

    assert ctx["notes"] == ["done"]
