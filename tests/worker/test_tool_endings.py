"""How one claim of a call ends, however its tool behaves and whenever its worker wants it back."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

import loops as ai
from loops.providers.scripted import call, in_turn, scripted
from loops.tasks import Owner
from tests.faults import Fault, FaultyLink, Trap
from tests.waiting import wait_until
from tests.worker.driving import TENANT, Mill, milling
from tests.worker.passes import Hands
from worker.calls import RunPlace
from worker.link import Link, open_link
from worker.queue import Claim, Stop
from worker.resources import resources_over
from worker.tool_job import CANCELLED, WRITING, ToolJob
from worker.working import working

GRACE = timedelta(milliseconds=50)


@dataclass
class Claimed:
    """One claim of the one call of a run, and the task that fulfils it."""

    mill: Mill
    place: RunPlace
    claim: Claim
    task: asyncio.Task[None] = field(init=False)

    def stop(self, stop: Stop) -> None:
        """Take the task back, as a worker does."""
        self.claim.stop = stop
        self.task.cancel()

    async def ended(self) -> str:
        """Wait for the job's end, and return the call's state."""
        await wait_until(self.task.done, for_="the job to end")
        [told] = await self.mill.resources.runs.calls(TENANT, self.place.run_id)
        return told.state


Prepare = Callable[[Claimed], None]


@asynccontextmanager
async def claimed(
    link: Link, tool: ai.Tool, *, over: Link | None = None, prepare: Prepare = lambda _: None
) -> AsyncGenerator[Claimed]:
    """Have the tool called once, and its job done over the other link."""
    agent = ai.Agent(model=scripted(in_turn([call(tool.name)], "done")), tools=[tool])
    owner = Owner()
    async with milling(link, {"agent": agent}, tools=None) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.queued")
        one = Claimed(mill, place, await Hands(link).claim("tools"))
        prepare(one)
        mine = resources_over(over or link, mill.settings)
        async with working(mine, app=mill.app, worker_id="w") as resources:
            await resources.nudges.is_listening.wait()
            key = one.claim.job_id.rpartition("/")[2]
            job = ToolJob(resources, one.claim, place, key, grace=GRACE)
            one.task = owner.start(job.run(), name="job")
            try:
                yield one
            finally:
                await owner.close()


class Stubborn:
    """A tool that does not end when it is cancelled."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.begun = asyncio.Event()

        @ai.tool(timeout=timedelta(milliseconds=20))
        async def soon(context: ai.ToolContext) -> str:
            """Last for ever, though its time is over soon."""
            return await self.work(context)

        @ai.tool
        async def late(context: ai.ToolContext) -> str:
            """Last for ever."""
            return await self.work(context)

        self.soon, self.late = soon, late

    async def work(self, context: ai.ToolContext) -> str:
        self.begun.set()
        # However a test fails, it ends.
        asyncio.get_running_loop().call_later(6, self.open.set)
        while not self.open.is_set():
            with suppress(asyncio.CancelledError):
                await self.open.wait()
        context.give("too late")
        return "too late"


async def test_a_tool_that_swallows_its_timeout_is_left_to_itself(link: Link):
    stubborn = Stubborn()
    async with claimed(link, stubborn.soon) as one:
        assert await one.ended() == "done"
        ended = await one.mill.ended(one.place)
        stubborn.open.set()

    assert ended.results == [
        "ToolTimedOut: 'soon' took longer than 0:00:00.020000, and did not end then"
    ]
    assert ended.of("tool.progress") == []


async def test_a_tool_that_swallows_its_cancellation_is_left_to_itself(link: Link):
    stubborn = Stubborn()
    async with claimed(link, stubborn.late) as one:
        await stubborn.begun.wait()

        await one.mill.resources.runs.cancel(TENANT, one.place.run_id)
        await one.ended()
        ended = await one.mill.ended(one.place)
        stubborn.open.set()

    assert ended.run.status == "cancelled"
    assert one.task.exception() is None


async def test_a_claim_is_not_renewed_for_longer_than_its_tool_may_take(link: Link):
    stubborn = Stubborn()
    async with claimed(link, stubborn.soon) as one:
        await stubborn.begun.wait()

        left = one.claim.renew_until - monotonic()
        stubborn.open.set()

    assert 0 < left <= 0.02 + GRACE.total_seconds() + WRITING


async def test_a_call_that_was_aborted_before_its_begin_is_not_performed(link: Link):
    stubborn = Stubborn()

    def abort(one: Claimed) -> None:
        one.claim.stop = Stop.ABORTED

    async with claimed(link, stubborn.late, prepare=abort) as one:
        assert await one.ended() == "cancelled"
        ended = await one.mill.ended(one.place)

    assert ended.results == [CANCELLED]
    assert not stubborn.begun.is_set()


async def test_a_tool_that_cancels_itself_has_failed(link: Link):
    @ai.tool
    async def rash() -> None:
        """Cancel whoever performs it."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async with claimed(link, rash) as one:
        assert await one.ended() == "done"
        ended = await one.mill.ended(one.place)

    assert ended.results == ["ToolFailed: 'rash' cancelled itself"]


async def test_a_tool_that_cancels_itself_as_it_returns_has_its_result(link: Link):
    @ai.tool
    async def rash() -> str:
        """Cancel whoever performs it, and return."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "sent"

    async with claimed(link, rash) as one:
        assert await one.ended() == "done"
        ended = await one.mill.ended(one.place)

    assert ended.results == ["sent"]


@pytest.mark.parametrize("stop", [Stop.DRAINED, Stop.SHUT])
async def test_what_a_stopped_tool_answers_to_its_cancellation_is_not_its_result(
    link: Link, stop: Stop
):
    begun = asyncio.Event()

    @ai.tool(idempotent=True)
    async def polite() -> str:
        """Say so when it is interrupted."""
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "interrupted"
        return "sent"

    async with claimed(link, polite) as one:
        await begun.wait()
        one.stop(stop)

        assert await one.ended() == "started"
        assert not one.claim.released


STOPS = [Stop.DRAINED, Stop.SHUT, Stop.ABORTED]


@pytest.mark.parametrize("stop", STOPS)
async def test_a_result_wins_over_a_stop_in_its_tick(link: Link, stop: Stop):
    ones: list[Claimed] = []

    @ai.tool
    async def send() -> str:
        """Be stopped when all is done."""
        ones[0].stop(stop)
        return "sent"

    async with claimed(link, send, prepare=ones.append) as one:
        assert await one.ended() == "done"
        ended = await one.mill.ended(one.place)

    assert ended.results == ["sent"]
    assert ended.of("tool.lost") == []


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("at", [2, 3], ids=["what it told", "its result"])
async def test_a_result_wins_over_a_stop_while_the_server_is_away(
    link: Link, redis_url: str, at: int, stop: Stop
):
    @ai.tool
    async def send(context: ai.ToolContext) -> str:
        """Tell something, and end."""
        context.give("told")
        return "sent"

    trap = Trap(at, Fault.BEFORE)
    async with open_link(redis_url) as own:
        faulty = FaultyLink(own.client, trap, own.blocking)
        async with claimed(link, send, over=faulty) as one:
            await wait_until(lambda: trap.has_sprung, for_="the fault")
            one.stop(stop)
            assert await one.ended() == "done"
            ended: Any = await one.mill.ended(one.place)
        await faulty.aclose()

    assert ended.results == ["sent"]
    assert [data["value"] for data in ended.of("tool.progress")] == ["told"]
