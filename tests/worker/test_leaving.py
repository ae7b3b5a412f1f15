"""Runs that are given up while they go on: parked, handed back, lost; nothing of them is."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import loops as ai
from loops.providers.scripted import call, in_turn, scripted, text, until
from tests.waiting import wait_until
from tests.worker.driving import TENANT, milling
from worker.link import Link
from worker.run_record import RunStatus


class World:
    """What tools do, and when they may."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.done: list[str] = []

        @ai.tool
        async def send(to: str) -> str:
            """Send a letter, when the gate is open."""
            await self.open.wait()
            self.done.append(to)
            return f"sent to {to}"

        self.send = send

    def agent(self, *answers: Any) -> ai.Agent:
        return ai.Agent(model=scripted(in_turn(*answers)), tools=[self.send])


@pytest.fixture
def world() -> World:
    return World()


async def test_runs_that_only_wait_hold_no_slot(link: Link, world: World):
    agents = {"agent": world.agent([call("send", to="x")], "done"), "quick": world.agent("quick")}
    async with milling(link, agents, runs=1) as mill:
        waiting = [await mill.submit() for _ in range(3)]
        for place in waiting:
            await mill.until(place, "tool.started")

        assert (await mill.through("quick")).run.output == "quick"

        world.open.set()
        for place in waiting:
            assert (await mill.ended(place)).run.output == "done"


async def test_a_run_that_waits_for_its_last_tool_holds_no_slot(link: Link, world: World):
    @ai.tool
    async def quick() -> str:
        """Be quick."""
        return "quick"

    turn = [call("quick"), call("send", to="x")]
    model = scripted(in_turn(turn, "done"))
    agents = {
        "agent": ai.Agent(model=model, tools=[world.send, quick]),
        "quick": world.agent("quick"),
    }
    async with milling(link, agents, runs=1) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.finished")

        assert (await mill.through("quick")).run.output == "quick"

        world.open.set()
        assert (await mill.ended(place)).run.output == "done"


async def test_of_too_many_waiting_runs_the_longest_waits_are_parked(link: Link, world: World):
    agent = world.agent([call("send", to="x")], "done")
    async with milling(link, {"agent": agent}, runs=1) as mill:
        places = [await mill.submit() for _ in range(6)]
        for place in places:
            await mill.until(place, "tool.started")
        await mill.until(places[0], "run.waiting")
        run = await mill.run_of(places[0])
        job = mill.resources.keys.run_job(TENANT, run.id)
        assert run.status == RunStatus.WAITING
        assert await link.command("KEYS", f"arq:*{job}") == []

        world.open.set()
        ended = [await mill.ended(place) for place in places]

    assert [one.run.output for one in ended] == ["done"] * 6
    assert {one.run.attempt for one in ended} == {1}
    assert len(world.done) == 6
    assert ended[0].types.count("run.resumed") == ended[0].types.count("run.waiting") >= 1
    assert ended[-1].of("run.waiting") == []


async def test_a_deploy_hands_waiting_runs_back_at_once_and_costs_no_attempt(
    link: Link, world: World
):
    agent = world.agent([text("see"), call("send", to="x")], "done")
    async with milling(link, {"agent": agent}, drain=timedelta(seconds=30)) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")

        mill.workers[0].stop()
        await mill.worker("runs")
        await mill.until(place, "run.resumed")
        world.open.set()
        ended = await mill.ended(place)

    assert (ended.run.output, ended.run.attempt) == ("done", 1)
    assert world.done == ["x"]
    assert "".join(data["text"] for data in ended.of("text.delta")) == "seedone"
    assert len(ended.of("turn.started")) == 2


async def test_a_deploy_waits_for_the_end_of_the_turn(link: Link, world: World):
    agent = world.agent([text("a"), until(world.open), text("b"), call("send", to="x")], "done")
    async with milling(link, {"agent": agent}, drain=timedelta(seconds=30)) as mill:
        place = await mill.submit()
        await mill.until(place, "text.finished")

        mill.workers[0].stop()
        await mill.worker("runs")
        assert (await mill.run_of(place)).status == RunStatus.RUNNING
        world.open.set()
        ended = await mill.ended(place)

    assert (ended.run.output, ended.run.attempt) == ("done", 1)
    assert ended.of("turn.reset") == []
    assert len(ended.of("turn.started")) == 2


async def test_a_deploy_that_waits_no_longer_asks_the_turn_again_elsewhere(
    link: Link, world: World
):
    agent = world.agent([text("half "), until(world.open), text("whole")])
    async with milling(link, {"agent": agent}, drain=timedelta(milliseconds=50)) as mill:
        place = await mill.submit()
        await mill.until(place, "text.finished")

        mill.workers[0].stop()
        await mill.worker("runs")
        await mill.until(place, "turn.started", count=2)
        world.open.set()
        ended = await mill.ended(place)

    assert (ended.run.output, ended.run.attempt) == ("half whole", 1)
    assert ended.of("run.resumed") == [{"attempt": 1, "worker": mill.workers[2].worker_id}]
    [reset] = ended.of("turn.reset")
    assert reset["after"] == ended.types.index("turn.started") + 1


class Stubborn:
    """A loop that goes on working while it is closed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.passes = 0
        self.leaving: list[int] = []
        self.closed: list[int] = []

    async def loop(self, context: ai.Context) -> AsyncIterator[object]:
        self.passes += 1
        mine = self.passes

        async def close() -> int:
            self.closed.append(mine)
            return mine

        try:
            yield "begin"
            await self.world.open.wait()
            yield "end"
        finally:
            self.leaving.append(mine)
            context.output = f"closed by pass {await context.step('close', close)}"


async def test_nothing_that_a_loop_does_after_it_was_given_up_has_an_effect(
    link: Link, world: World
):
    loop = Stubborn(world)
    async with milling(link, {"agent": loop}, drain=timedelta(milliseconds=50)) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")
        mill.workers[0].stop()
        await wait_until(lambda: loop.leaving == [1], for_="the loop to be closed")

        await mill.worker("runs")
        await mill.until(place, "run.resumed")
        world.open.set()
        ended = await mill.ended(place)

    assert (ended.run.output, loop.closed) == ("closed by pass 2", [2])
    assert [data["text"] for data in ended.of("text.delta")] == ["begin", "end"]


async def test_a_pass_whose_claim_was_taken_over_can_change_nothing(link: Link, world: World):
    stuck: list[asyncio.Event] = []

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        mine = asyncio.Event()
        stuck.append(mine)
        yield f"pass {len(stuck)}"
        await mine.wait()
        yield "late" if mine is stuck[0] else "on time"

    async with milling(link, {"agent": loop}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")

        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        await mill.until(place, "text.delta", count=2)
        stuck[0].set()
        stuck[1].set()
        ended = await mill.ended(place)

    assert [data["text"] for data in ended.of("text.delta")] == ["pass 1", "pass 2", "on time"]
    assert ended.run.attempt == 2


async def test_a_queued_call_survives_the_death_of_its_loop(link: Link, world: World):
    agent = world.agent([call("send", to="x")], "done")
    async with milling(link, {"agent": agent}, tools=None) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.queued")

        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        world.open.set()
        await mill.worker("tools")
        ended = await mill.ended(place)

    assert (ended.run.output, world.done) == ("done", ["x"])
    assert len(ended.of("tool.queued")) == 1


async def test_a_park_that_is_refused_tells_the_run_of_its_cancel(link: Link, world: World):
    agent = world.agent([call("send", to="x")], "done")
    async with milling(link, {"agent": agent}, runs=1) as mill:
        first = await mill.submit()
        await mill.until(first, "tool.started")
        await link.command("HSET", first.record, "cancel", "and nobody is told")
        others = [await mill.submit() for _ in range(4)]
        for place in others:
            await mill.until(place, "tool.started")

        ended = await mill.ended(first)

        assert ended.run.error is not None
        assert ended.run.error.code == "cancelled"
        assert ended.of("run.waiting") == []
        world.open.set()
        for place in others:
            await mill.ended(place)
