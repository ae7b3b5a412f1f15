"""What is said to a run while it goes on: heard at the next turn, once, and never lost."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

import loops as ai
from loops.errors import (
    AlreadySettled,
    IdempotencyConflict,
    InvalidInput,
    QueueFull,
    SessionBusy,
)
from loops.providers.scripted import call, scripted
from tests.worker.driving import TENANT, Ended, Mill, milling
from tests.worker.worlds import Loop, World, resumed
from worker.calls import RunPlace
from worker.link import Link
from worker.run_record import RunStatus

SOON = timedelta(milliseconds=20)


class Decision(BaseModel):
    """What the tests' hooks want to know."""

    go: bool


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def heard(history: list[dict[str, Any]]) -> Any:
    """Wait at the gate first; then say all that a person has said."""
    people = [each["content"] for each in history if isinstance(each["content"], str)]
    return [call("wait")] if len(history) == 1 else f"heard {', '.join(people)}"


def listener(world: World) -> ai.Agent:
    return ai.Agent(model=scripted(heard), tools=world.tools)


async def steer(mill: Mill, place: RunPlace, *texts: str, **how: Any) -> str:
    messages = [said(text) for text in texts]
    return await mill.resources.runs.steer(TENANT, place.run_id, messages, **how)


def people(ended: Ended) -> list[str]:
    return [each["content"] for each in ended.history if isinstance(each["content"], str)]


async def test_what_is_said_meanwhile_is_heard_at_the_next_turn(link: Link):
    world = World()
    async with milling(link, {"agent": listener(world)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        await steer(mill, place, "hurry")
        await steer(mill, place, "please", "now")
        world.open.set()
        ended = await mill.ended(place)

    assert ended.run.output == "heard go, hurry, please, now"
    assert people(ended) == ["go", "hurry", "please", "now"]
    assert ended.of("run.steered") == [{"messages": 3}]


async def test_a_resumed_run_hears_the_same_once(link: Link):
    world = World()

    async def twice(context: ai.Context) -> AsyncIterator[object]:
        async for event in ai.default_loop(context):
            yield event
        context.add("again")
        context.add([{"role": "assistant", "content": "well"}])
        await context.resolve(ai.ToolCall("", "", "wait", "{}"))()

    agent = Loop(twice, world)
    agent.model = scripted("yes")
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit(session_id="s")
        await steer(mill, place, "hurry")
        await mill.until(place, "tool.started")
        ended = await resumed(mill, place, world)

    assert people(ended) == ["go", "hurry", "again"]
    assert ended.types.count("run.steered") == 1


async def at_the_end(mill: Mill, world: World) -> Ended:
    """Say something to a run whose loop has no turn before it any more."""
    place = await mill.submit(session_id="s")
    await mill.until(place, "tool.started")
    await steer(mill, place, "and you?")
    world.open.set()
    return await mill.ended(place)


async def test_a_run_that_would_end_takes_another_turn(link: Link):
    world = World()

    async def waits(context: ai.Context) -> AsyncIterator[object]:
        async for event in ai.default_loop(context):
            yield event
        await context.resolve(ai.ToolCall("", "", "wait", "{}"))()

    agent = Loop(waits, world)
    agent.model = scripted(lambda history: f"heard {len(history)}")
    async with milling(link, {"agent": agent}) as mill:
        ended = await at_the_end(mill, world)

    assert ended.run.output == "heard 3"
    assert people(ended) == ["go", "and you?"]
    assert ended.types.count("turn.started") == 2
    assert {"reason": "steered"}.items() <= ended.of("run.resumed")[-1].items()
    assert world.done == [""]


async def test_what_a_loop_never_takes_in_stands_in_the_session(link: Link):
    world = World()

    async def deaf(context: ai.Context) -> AsyncIterator[object]:
        await context.resolve(ai.ToolCall("", "", "wait", "{}"))()
        yield "done"

    async with milling(link, {"agent": Loop(deaf, world)}) as mill:
        ended = await at_the_end(mill, world)

    assert ended.run.status == RunStatus.COMPLETED
    assert ended.run.output == "done"
    assert people(ended)[-1] == "and you?"
    assert ended.types.count("run.completed") == 1


async def test_so_does_what_was_said_to_a_run_that_is_cancelled(link: Link):
    world = World()
    async with milling(link, {"agent": listener(world)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        await steer(mill, place, "hurry")
        await mill.resources.runs.cancel(TENANT, place.run_id)
        ended = await mill.ended(place)

    assert people(ended) == ["go", "hurry"]


async def test_a_run_that_waits_for_somebody_is_not_woken_by_it(link: Link):
    world = World()

    async def asks(context: ai.Context) -> AsyncIterator[object]:
        await ai.hook("ship", payload=Decision, expires=timedelta(seconds=1))
        yield context.last_message

    async with milling(link, {"agent": Loop(asks, world)}, park_after=SOON) as mill:
        place = await mill.submit()
        await mill.until(place, "run.waiting")
        await steer(mill, place, "hurry")
        assert (await mill.run_of(place)).status == RunStatus.WAITING
        ended = await mill.ended(place)

    assert ended.types.count("run.waiting") == 1
    assert people(ended)[-1] == "hurry"


async def test_a_new_run_may_be_said_to_the_one_that_has_its_session(link: Link):
    world = World()
    agents = {"agent": listener(world), "other": listener(world)}
    async with milling(link, agents) as mill:
        place = await mill.submit(session_id="s", on_conflict="steer")
        await mill.until(place, "tool.started")
        same = await mill.submit("agent", "hurry", session_id="s", on_conflict="steer")
        with pytest.raises(SessionBusy):
            await mill.submit("other", "hurry", session_id="s", on_conflict="steer")
        world.open.set()
        ended = await mill.ended(place)
        later = await mill.submit("agent", "later", session_id="s", on_conflict="steer")
        await mill.ended(later)

    assert same == place
    assert ended.run.output == "heard go, hurry"
    assert later != place


async def test_the_same_request_is_said_once(link: Link):
    world = World()
    async with milling(link, {"agent": listener(world)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        for _ in range(2):
            assert await steer(mill, place, "hurry", idempotency=("k", "b")) == place.run_id
        with pytest.raises(IdempotencyConflict):
            await steer(mill, place, "stop", idempotency=("k", "other"))
        world.open.set()
        ended = await mill.ended(place)

    assert people(ended) == ["go", "hurry"]


async def test_nobody_listens_to_a_run_that_has_ended_or_to_too_much(link: Link):
    world = World()
    async with milling(link, {"agent": listener(world)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        with pytest.raises(InvalidInput, match="at most 100 messages"):
            await steer(mill, place, *["hurry"] * 101)
        await steer(mill, place, *["hurry"] * 60)
        with pytest.raises(QueueFull):
            await steer(mill, place, *["hurry"] * 60)
        world.open.set()
        await mill.ended(place)
        with pytest.raises(AlreadySettled):
            await steer(mill, place, "hurry")


def waiting(turns: int, world: World) -> Loop:
    """A loop of so many turns, and no more; it waits at the gate, then says something itself."""

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        for _ in range(turns):
            stream = ai.stream(context=context)
            async for event in stream:
                yield event
            context.add(stream.message)
        context.add("noted")
        await context.resolve(ai.ToolCall("", "", "wait", "{}"))()
        context.add([{"role": "assistant", "content": "bye"}])

    agent = Loop(loop, world)
    agent.model = scripted("well")
    return agent


async def test_a_loop_of_so_many_turns_takes_no_more_of_them(link: Link):
    world = World()
    async with milling(link, {"agent": waiting(1, world)}, runs=None) as mill:
        place = await mill.submit()
        await steer(mill, place, "first")
        await mill.worker("runs")
        await mill.until(place, "tool.started")
        await steer(mill, place, "second")
        world.open.set()
        ended = await mill.ended(place)

    assert ended.run.status == RunStatus.COMPLETED
    assert people(ended) == ["go", "first", "noted", "second"]
    assert ended.types.count("turn.started") == 1
    assert ended.types.count("run.resumed") <= 1


async def test_what_was_added_after_the_last_turn_stays_where_it_is(link: Link):
    world = World()

    async def adds(context: ai.Context) -> AsyncIterator[object]:
        async for event in ai.default_loop(context):
            yield event
        context.add("noted")
        await context.resolve(ai.ToolCall("", "", "wait", "{}"))()
        context.add([{"role": "assistant", "content": "bye"}])

    agent = Loop(adds, world)
    agent.model = scripted("well")
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        await steer(mill, place, "hurry")
        ended = await resumed(mill, place, world)

    assert ended.run.status == RunStatus.COMPLETED
    assert people(ended) == ["go", "noted", "hurry"]


async def test_words_that_come_together_are_heard_together_and_once(link: Link):
    world = World()
    async with milling(link, {"agent": listener(world)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        for number in range(5):
            await steer(mill, place, f"word {number}")
        world.open.set()
        ended = await mill.ended(place)

    assert people(ended) == ["go", *(f"word {number}" for number in range(5))]
    assert ended.types.count("turn.started") == 2
