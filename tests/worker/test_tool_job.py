"""Calls as jobs of workers in this process: what they know, and how they end."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import loops as ai
from loops.providers.scripted import call, in_turn, scripted
from tests.faults import Fault, FaultyLink, Trap
from tests.waiting import wait_until
from tests.worker.driving import TENANT, Ended, Mill, milling
from worker.calls import RunPlace
from worker.link import Link, open_link
from worker.run_record import CallRecord
from worker.tool_job import CANCELLED, DRAINED, LOST, POISONED


class World:
    """What tools did, and when they may go on."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.begun: list[ai.ToolContext] = []

        @ai.tool
        async def send(context: ai.ToolContext) -> str:
            """Send a letter."""
            return await self.work(context)

        @ai.tool(read_only=True)
        async def look(context: ai.ToolContext) -> str:
            """Look at something."""
            return await self.work(context)

        self.tools = [send, look]

    async def work(self, context: ai.ToolContext) -> str:
        self.begun.append(context)
        await self.open.wait()
        return f"try {context.attempt}"

    def agent(self, tool: str) -> ai.Agent:
        model = scripted(in_turn([call(tool)], "done"))
        return ai.Agent(model=model, tools=self.tools)


@pytest.fixture
def world() -> World:
    return World()


async def call_of(mill: Mill, place: RunPlace) -> CallRecord:
    [found] = await mill.resources.runs.calls(TENANT, place.run_id)
    return found


async def lapsed(mill: Mill, place: RunPlace) -> None:
    """Let the worker of the run's one call die."""
    key = (await call_of(mill, place)).key
    await mill.lapse("tools", mill.resources.keys.call_job(TENANT, place.run_id, key))


async def test_a_tool_knows_its_run_its_call_and_its_try(link: Link, world: World):
    world.open.set()
    async with milling(link, {"agent": world.agent("send")}) as mill:
        ended = await mill.through(session_id="s")
        [told] = await mill.resources.runs.calls(TENANT, ended.run.id)

    [context] = world.begun
    assert (context.run, context.chat_id, context.attempt) == (ended.run.id, "s", 1)
    assert context.call.key == told.key
    assert context.idempotency_key == told.idempotency_key == f"{ended.run.id}:{told.key}"
    assert (told.state, told.attempts, told.worker) == ("done", 1, mill.workers[1].worker_id)


async def test_a_tool_that_may_run_again_does_when_its_worker_died(link: Link, world: World):
    async with milling(link, {"agent": world.agent("look")}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")

        await lapsed(mill, place)
        await mill.until(place, "tool.started", count=2)
        world.open.set()
        ended = await mill.ended(place)

    assert ended.results == ["try 2"]
    assert [context.attempt for context in world.begun] == [1, 2]
    assert len({context.idempotency_key for context in world.begun}) == 1
    assert ended.of("tool.lost") == []


async def test_a_tool_that_may_not_run_again_is_lost_with_its_worker(link: Link, world: World):
    async with milling(link, {"agent": world.agent("send")}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")

        await lapsed(mill, place)
        ended = await mill.ended(place)
        assert (await call_of(mill, place)).state == "lost"

    assert ended.results == [LOST]
    assert len(world.begun) == 1
    assert len(ended.of("tool.lost")) == 1
    assert ended.run.output == "done"


async def test_a_late_result_is_refused_and_logged(
    link: Link, world: World, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "loopmill.tool")
    async with milling(link, {"agent": world.agent("look")}, lease=timedelta(hours=1)) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        call = await call_of(mill, place)
        result = '{"call":"","id":"","name":"","content":"by hand"}'
        await link.command("HSET", place.calls, f"{call.key}|state", "done")
        await link.command("HSET", place.calls, f"{call.key}|result", result)

        world.open.set()
        ended = await mill.ended(place)
        await wait_until(lambda: bool(caplog.records), for_="the late result")

    assert ended.results == ["by hand"]
    assert "too late" in caplog.text


async def test_a_call_that_cost_three_workers_is_given_up(link: Link, world: World):
    async with milling(link, {"agent": world.agent("look")}, tools=None) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.queued")
        key = (await call_of(mill, place)).key
        names = mill.resources.keys.queue("tools")
        job = mill.resources.keys.call_job(TENANT, place.run_id, key)
        await link.command("HSET", names.lapses, job, 2)
        await mill.lapse("tools", job)
        await mill.worker("tools")

        ended = await mill.ended(place)

    assert (ended.results, world.begun) == ([POISONED], [])


async def drained(mill: Mill, place: RunPlace) -> None:
    """Shut the tools' worker down while it performs a call, and start another one."""
    await mill.until(place, "tool.started")
    mill.workers[1].stop()
    await mill.worker("tools")


async def test_a_deploy_lets_tools_end(link: Link, world: World):
    agents = {"agent": world.agent("send")}
    async with milling(link, agents, tool_drain=timedelta(seconds=30)) as mill:
        place = await mill.submit()
        await drained(mill, place)

        world.open.set()
        ended = await mill.ended(place)

    assert (ended.results, len(world.begun)) == (["try 1"], 1)


async def test_a_deploy_that_waits_no_longer_hands_a_repeatable_call_back(link: Link, world: World):
    async with milling(link, {"agent": world.agent("look")}) as mill:
        place = await mill.submit()
        await drained(mill, place)

        await mill.until(place, "tool.started", count=2)
        world.open.set()
        ended = await mill.ended(place)

    assert ended.results == ["try 2"]
    assert ended.of("tool.lost") == []


async def test_a_deploy_that_waits_no_longer_loses_a_call_that_may_not_be_repeated(
    link: Link, world: World
):
    async with milling(link, {"agent": world.agent("send")}) as mill:
        place = await mill.submit()
        await drained(mill, place)

        ended = await mill.ended(place)

    assert ended.results == [DRAINED]
    assert len(ended.of("tool.lost")) == len(world.begun) == 1


async def test_a_call_that_arq_aborts_is_cancelled_and_its_run_goes_on(link: Link, world: World):
    async with milling(link, {"agent": world.agent("send")}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        job = mill.resources.keys.call_job(TENANT, place.run_id, (await call_of(mill, place)).key)
        seconds, _ = await link.command("TIME")
        await link.command("ZADD", "arq:abort", int(seconds) * 1000, job)

        ended = await mill.ended(place)

    assert (ended.results, ended.run.output) == ([CANCELLED], "done")


async def test_a_tool_in_a_thread_is_told_that_it_is_cancelled(link: Link):
    told = threading.Event()
    started = threading.Event()

    @ai.tool
    def blocks(context: ai.ToolContext) -> str:
        """Block until told."""
        started.set()
        assert context.cancelled.wait(5)
        told.set()
        return "late"

    model = scripted(in_turn([call("blocks")], "done"))
    async with milling(link, {"agent": ai.Agent(model=model, tools=[blocks])}) as mill:
        place = await mill.submit()
        await wait_until(started.is_set)

        receipt = await mill.resources.runs.cancel(TENANT, place.run_id)
        ended = await mill.ended(place)
        await wait_until(told.is_set, for_="the tool to hear of it")

    assert len(receipt.stopping) == 1
    assert ended.run.status == "cancelled"


def telling(world: World) -> ai.Agent:
    @ai.tool
    async def tell() -> AsyncIterator[int]:
        """Tell some numbers."""
        world.begun.append(ai.ToolContext())
        for number in range(3):
            yield number

    return ai.Agent(model=scripted(in_turn([call("tell")], "done")), tools=[tell])


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_call_is_performed_once_whichever_command_of_its_worker_fails(
    link: Link, world: World, redis_url: str, fault: Fault, caplog: pytest.LogCaptureFixture
):
    async with open_link(redis_url) as own:
        for at in range(1, 60):
            trap = Trap(at, fault)
            ended = await _performed(link, own, telling(world), trap)
            assert ended.results == ["2"]
            assert [data["value"] for data in ended.of("tool.progress")] == [0, 1, 2]
            assert (ended.run.attempt, len(world.begun)) == (1, at)
            if not trap.has_sprung:
                break
    assert at > 3
    assert "too late" not in caplog.text


async def _performed(link: Link, own: Link, agent: ai.Agent, trap: Trap) -> Ended:
    faulty = FaultyLink(own.client, Trap(0, trap.fault), own.blocking)
    async with milling(link, {"agent": agent}, tools=None) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.queued")
        await mill.worker("tools", link=faulty)
        faulty.trap = trap
        ended: Any = await mill.ended(place)
    await faulty.aclose()
    return ended
