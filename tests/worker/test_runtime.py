"""The runtime of a durable run: steps, calls, answers that are late or lost, long logs."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import loops as ai
from loops.messages import ToolCall
from loops.providers.scripted import call, in_turn, scripted, text, until
from tests.waiting import wait_until
from tests.worker.driving import milling
from tests.worker.worlds import Loop, World, resumed
from worker.link import Link
from worker.run_record import RunStatus


@pytest.fixture
def world() -> World:
    return World()


async def test_a_step_is_taken_once(link: Link, world: World):
    taken = itertools.count(1)

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        async def pay() -> dict[str, Any]:
            return {"receipt": next(taken)}

        first = await context.step("pay", pay)
        second = await context.step("pay", pay)
        yield f"{first['receipt']} {second['receipt']}"
        await world.open.wait()

    async with milling(link, {"agent": loop}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")

        ended = await resumed(mill, place, world)

    assert (ended.run.output, next(taken)) == ("1 2", 3)
    assert ended.of("step.finished") == [{"name": "pay"}] * 2
    assert len(ended.of("text.delta")) == 1


async def test_time_and_chance_are_the_same_again_when_a_run_is_resumed(link: Link, world: World):
    seen: list[Any] = []

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        seen.append([await context.now(), await context.random(), await context.random()])
        yield "seen"
        await world.open.wait()
        seen[-1].append(await context.now())

    async with milling(link, {"agent": loop}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")
        ended = await resumed(mill, place, world)

    first, again = seen
    assert first == again[:3]
    assert first[1] != first[2]
    assert again[3] > first[0]
    assert ended.run.status == RunStatus.COMPLETED


async def test_a_loop_can_tell_that_it_is_replayed(link: Link, world: World):
    seen: list[list[bool]] = []

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        seen.append([context.replaying])
        async for event in ai.default_loop(context):
            yield event
            if isinstance(event, ai.events.StreamEnd):
                seen[-1].append(context.replaying)
        yield ai.events.Custom("done", {})
        await world.open.wait()
        seen[-1].append(context.replaying)

    agent = Loop(loop, world)
    agent.model = scripted(in_turn([call("send", to="x")], "done"))
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "custom.done")
        await resumed(mill, place, world)

    assert seen == [[False, False, False], [True, True, False, False]]


async def test_an_inline_tool_is_performed_where_its_loop_runs(link: Link):
    pids: list[str] = []

    @ai.tool(inline=True)
    async def here(context: ai.ToolContext) -> str:
        pids.append(context.call.name)
        return "here"

    model = scripted(in_turn([call("here")], "done"))
    async with milling(link, {"agent": ai.Agent(model=model, tools=[here])}, tools=None) as mill:
        ended = await mill.through()

    assert (ended.run.output, ended.results, pids) == ("done", ["here"], ["here"])
    assert ended.of("tool.queued", "tool.started") == []


async def test_a_tool_that_fails_is_called_again_by_its_worker(link: Link):
    attempts: list[int] = []

    @ai.tool(retries=2)
    async def flaky(context: ai.ToolContext) -> str:
        attempts.append(context.attempt)
        if len(attempts) < 3:
            raise LookupError("not yet")
        return "now"

    model = scripted(in_turn([call("flaky")], "done"))
    async with milling(link, {"agent": ai.Agent(model=model, tools=[flaky])}) as mill:
        ended = await mill.through()

    assert (attempts, ended.results) == ([1, 2, 3], ["now"])
    assert len(ended.of("tool.started")) == 1


async def test_a_step_gives_the_same_the_first_time_as_later(link: Link, world: World):
    seen: list[Any] = []

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        async def pair() -> tuple[int, int]:
            return (1, 2)

        seen.append(await context.step("pair", pair))
        yield "taken"
        await world.open.wait()

    async with milling(link, {"agent": loop}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")
        await resumed(mill, place, world)

    assert seen == [[1, 2], [1, 2]]


async def test_two_steps_of_one_name_at_one_time_fail_the_run(link: Link):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        async def slow() -> int:
            await asyncio.sleep(0)
            return 1

        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(context.step("same", slow))
        yield "never"

    async with milling(link, {"agent": loop}) as mill:
        ended = await mill.through()

    assert ended.run.error is not None
    assert "DuplicateName" in ended.run.error.message
    assert "'same'" in ended.run.error.message


async def test_a_call_that_no_worker_begins_in_time_is_withdrawn(link: Link, world: World):
    model = scripted(in_turn([call("send", to="x")], "done"))
    agents = {"agent": ai.Agent(model=model, tools=world.tools)}
    wait = timedelta(milliseconds=500)
    async with milling(link, agents, tools=None, queue_wait=wait) as mill:
        ended = await mill.through()
        await mill.worker("tools")

        assert await mill.resources.queue.depth("tools") == 0
    assert (ended.run.output, world.done) == ("done", [])
    [result] = ended.results
    assert result.startswith("ToolTimedOut: no worker began 'send'")


async def test_an_answer_whose_message_was_lost_is_found_by_the_sweep(link: Link, world: World):
    model = scripted(in_turn([call("wait")], "done"))
    agents = {"agent": ai.Agent(model=model, tools=world.tools)}
    async with milling(link, agents) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        nudges = mill.workers[0].ctx["resources"].nudges
        await link.command("CLIENT", "KILL", "TYPE", "pubsub")
        await wait_until(lambda: not nudges.is_listening.is_set())

        world.open.set()

        assert (await mill.ended(place)).run.output == "done"


async def test_arguments_can_be_replaced_even_where_the_models_own_are_broken(
    link: Link, world: World
):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        broken = ToolCall(id="call_0", key="", name="send", arguments="{broken")
        result = await context.resolve(broken)(to="ann")
        yield str(result.content)

    async with milling(link, {"agent": Loop(loop, world)}) as mill:
        ended = await mill.through()

    assert (ended.run.output, world.done) == ("sent to ann", ["ann"])
    [queued] = ended.of("tool.queued")
    assert queued["call"].startswith("x.")


async def test_a_log_that_grows_long_is_cut_below_its_open_turn_while_the_run_goes_on(
    link: Link, world: World
):
    async def loop(context: ai.Context) -> AsyncIterator[object]:
        for number in range(300):
            yield ai.events.Custom("early", number)
        async for event in ai.stream(scripted([text("open"), until(world.open)]), context.messages):
            yield event

    async with milling(link, {"agent": loop}, log_events=100) as mill:
        place = await mill.submit()
        await mill.until(place, lambda events: events[0].seq > 1)
        events = await mill.log(place)
        world.open.set()
        ended = await mill.ended(place)

    assert events[0].seq <= 303
    assert "turn.started" in [event.type for event in events]
    assert ended.run.cut > 0
    assert ended.run.output == "open"


def noting(world: World, done: list[str]) -> Loop:
    """A loop that makes a tool of its own, and waits once the tool was called."""

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        @ai.tool
        async def note(what: str) -> str:
            """Note something down."""
            done.append(what)
            return f"noted {what}"

        model = scripted(in_turn([call("note", what="this")], "done"))
        context.model, context.tools = model, [note]
        async for event in ai.default_loop(context):
            yield event
            if isinstance(event, ai.events.ToolCallResult):
                await world.open.wait()

    return loop


async def test_a_loops_own_tool_is_performed_where_the_loop_runs(link: Link, world: World):
    done: list[str] = []
    async with milling(link, {"agent": noting(world, done)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.finished")
        ended = await resumed(mill, place, world)

    assert (done, ended.results, ended.run.output) == (["this"], ["noted this"], "done")
    assert ended.of("tool.queued") == []
