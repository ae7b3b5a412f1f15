"""What a resumed run does again and what it does not: turns, calls and their order."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

import loops as ai
from loops.providers.scripted import Called, call, in_turn, scripted, text, until
from tests.worker.driving import milling
from tests.worker.worlds import Loop, World, resumed
from worker.link import Link
from worker.run_record import RunStatus


@pytest.fixture
def world() -> World:
    return World()


async def test_a_recorded_turn_is_not_asked_again_and_its_tools_do_not_run_again(
    link: Link, world: World
):
    first, second = [text("one"), call("send", to="x")], [text("two"), call("wait")]
    model = scripted(in_turn(first, second, "done"))
    async with milling(link, {"agent": ai.Agent(model=model, tools=world.tools)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started", count=2)

        ended = await resumed(mill, place, world)

    assert (ended.run.output, ended.run.attempt, model.asked) == ("done", 2, 3)
    assert world.done == ["x", ""]
    assert "".join(data["text"] for data in ended.of("text.delta")) == "onetwodone"
    assert len(ended.of("turn.started")) == len(ended.of("turn.finished")) == 3
    assert [len(ended.of(kind)) for kind in ("tool.queued", "tool.finished")] == [2, 2]


async def test_an_open_turn_is_asked_again_and_shown_anew(link: Link, world: World):
    model = scripted([text("half"), until(world.open), text(" whole")])
    async with milling(link, {"agent": ai.Agent(model=model)}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.finished")

        ended = await resumed(mill, place, world)

    assert (ended.run.output, model.asked) == ("half whole", 2)
    [reset] = ended.of("turn.reset")
    assert ended.events[reset["after"] - 1].type == "turn.started"
    again = [event for event in ended.events if event.seq > reset["after"]]
    voided = again[: [event.type for event in again].index("turn.reset")]
    assert {event.type for event in voided} >= {"text.started", "text.delta"}


async def test_a_turn_that_was_cut_after_its_call_began_is_not_asked_again(
    link: Link, world: World
):
    turn = [text("see"), call("send", to="x"), until(world.open), text("never")]
    model = scripted(in_turn(turn, "done"))
    async with milling(link, {"agent": ai.Agent(model=model, tools=world.tools)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.finished")

        ended = await resumed(mill, place, world)

    assert (ended.run.output, model.asked, world.done) == ("done", 2, ["x"])
    assert [data["stop_reason"] for data in ended.of("turn.finished")] == ["cut", "end_turn"]
    assert "never" not in str(ended.history)
    assert ended.results == ["sent to x"]


async def test_a_clock_in_the_system_prompt_does_not_ask_the_turn_again(link: Link, world: World):
    hours = itertools.count(9)
    model = scripted(in_turn([call("wait", what="tea")], "done"))

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        context.model, context.system = model, f"it is {next(hours)} o'clock"
        async for event in ai.Agent.loop(agent, context):
            yield event

    agent = ai.Agent(model=model, tools=world.tools)
    async with milling(link, {"agent": Loop(loop, world)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")

        ended = await resumed(mill, place, world)

    assert (ended.run.output, model.asked, world.done) == ("done", 2, ["tea"])


def diverging(world: World, tool: str, **arguments: str) -> tuple[ai.Agent, Any]:
    """Return an agent that asks something else in each of its passes, and its model."""
    passes = itertools.count(1)

    def reply(history: list[Any]) -> list[Called] | str:
        return [call(tool, **arguments)] if len(history) == 1 else "done"

    class Diverging(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncIterator[Any]:
            context.system = f"pass {'x' * next(passes)}"
            async for event in super().loop(context):
                yield event
            await world.open.wait()

    model = scripted(reply)
    return Diverging(model=model, tools=world.tools), model


async def test_a_divergence_that_might_repeat_a_tool_fails_the_run(link: Link, world: World):
    agent, _ = diverging(world, "send", to="bob")
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "turn.finished", count=2)

        ended = await resumed(mill, place, world)

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "replay_diverged")
    assert "'send'" in ended.run.error.message
    assert "bob" in ended.run.error.message
    assert world.done == ["bob"]


async def test_a_message_that_differs_from_the_one_in_its_place_fails_the_run(
    link: Link, world: World
):
    agent, _ = diverging(world, "look", at="the sea")
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "turn.finished", count=2)

        ended = await resumed(mill, place, world)

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "replay_diverged")
    assert "message 1 of the run differs" in ended.run.error.message


async def test_a_divergence_that_repeats_no_harm_goes_on_and_is_told(link: Link, world: World):
    passes = itertools.count(1)
    model = scripted([text("so"), call("look", at="the sea")])

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        asked = [*context.messages, ai.Message(role="user", content="x" * next(passes))]
        turn = ai.stream(model, asked)
        async for event in turn:
            yield event
        yield await context.resolve(turn.tool_calls[0])()
        await world.open.wait()

    async with milling(link, {"agent": Loop(loop, world)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.finished")

        ended = await resumed(mill, place, world)

    assert (ended.run.error, ended.run.output, model.asked) == (None, "so", 2)
    reasons = [data["reason"] for data in ended.of("run.retrying")]
    assert reasons == ["worker_lost", "diverged"]


async def test_results_reach_a_resumed_loop_in_the_order_in_which_they_came(
    link: Link, world: World
):
    seen: list[list[str]] = []

    class FirstWins(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncIterator[Any]:
            order: list[str] = []
            seen.append(order)
            async for event in super().loop(context):
                yield event
                if isinstance(event, ai.events.ToolCallResult):
                    order.append(event.content)
            await world.open.wait()

    calls = [call("look", at=str(number)) for number in range(8)]
    agent = FirstWins(model=scripted(in_turn(calls, "done")), tools=world.tools)
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "turn.finished", count=2)

        await resumed(mill, place, world)

    assert len(seen[0]) == 8
    assert seen[1] == seen[0]
