"""A run that did not complete is begun again: with all that it was answered, nothing done twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

import loops as ai
from loops.errors import (
    AlreadySettled,
    ProviderError,
    SessionMovedOn,
    StillRunning,
    Unauthorized,
    UnknownRun,
)
from loops.providers.scripted import call, in_turn, scripted, text, until
from loops.question import Answer
from tests.worker.driving import TENANT, Ended, Mill, milling
from tests.worker.worlds import Loop, World
from worker.calls import RunPlace
from worker.link import Link
from worker.retrying import Changes
from worker.run_record import RunStatus

SOON = timedelta(milliseconds=20)


class Decision(BaseModel):
    """What the tests' hooks want to know."""

    go: bool


class Weather:
    """Whether a loop gets through."""

    is_bad = True


def stormy(world: World, weather: Weather) -> Loop:
    """A loop that fails after its turns as long as the weather is bad."""

    async def loop(context: ai.Context) -> AsyncIterator[object]:
        async for event in ai.default_loop(context):
            yield event
        if weather.is_bad:
            raise ValueError("storm")

    agent = Loop(loop, world)
    agent.model = scripted(in_turn([call("send", to="ann"), call("look", at="sea")], "done"))
    return agent


async def again(mill: Mill, place: RunPlace, changes: Changes | None = None) -> RunPlace:
    made = await mill.resources.runs.retry(TENANT, place.run_id, changes or Changes())
    return RunPlace(place.keys, TENANT, made.run_id)


def people(ended: Ended) -> list[Any]:
    return [each["content"] for each in ended.history if isinstance(each["content"], str)]


async def test_what_was_answered_is_not_done_again(link: Link):
    world, weather = World(), Weather()
    agent = stormy(world, weather)
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit(metadata={"who": "ann"})
        first = await mill.ended(place)
        weather.is_bad = False
        ended = await mill.ended(await again(mill, place))
        ledger = await mill.resources.runs.calls(TENANT, ended.run.id)

    assert first.run.error is not None
    assert "storm" in first.run.error.message
    assert ended.run.status == RunStatus.COMPLETED
    assert (ended.run.output, ended.run.retry_of) == ("done", place.run_id)
    assert ended.run.metadata == {"who": "ann"}
    assert sorted(world.done) == ["ann", "sea"]
    assert people(ended) == ["go"]
    assert all(each.idempotency_key.startswith(place.run_id) for each in ledger)


async def test_a_turn_that_failed_is_asked_again(link: Link):
    world, weather = World(), Weather()

    def reply(history: list[dict[str, Any]]) -> Any:
        if len(history) == 1:
            return [call("send", to="ann")]
        return ValueError("no ink") if weather.is_bad else "done"

    agent = ai.Agent(model=scripted(reply), tools=world.tools)
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.ended(place)
        weather.is_bad = False
        ended = await mill.ended(await again(mill, place))

    assert ended.run.output == "done"
    assert world.done == ["ann"]


async def test_a_call_that_may_have_happened_is_not_called_again(link: Link):
    world = World()
    model = scripted(in_turn([call("wait", what="gate"), call("look", at="sea")], "done"))
    agent = ai.Agent(model=model, tools=world.tools)
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.finished")
        await mill.resources.runs.cancel(TENANT, place.run_id)
        await mill.ended(place)
        ended = await mill.ended(await again(mill, place))

    assert ended.run.output == "done"
    assert world.done == ["sea"]
    lost = [text for text in ended.results if text.startswith("LostTool")]
    assert len(lost) == 1


async def test_a_call_that_never_began_is_begun(link: Link):
    world = World()
    agent = ai.Agent(model=scripted(in_turn([call("send", to="ann")], "done")), tools=world.tools)
    async with milling(link, {"agent": agent}, tools=None) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.queued")
        await mill.resources.runs.cancel(TENANT, place.run_id)
        await mill.ended(place)
        second = await again(mill, place)
        await mill.worker("tools")
        ended = await mill.ended(second)

    assert ended.run.output == "done"
    assert world.done == ["ann"]


async def test_an_answer_is_kept_and_one_that_was_not_given_is_asked_for(link: Link):
    world = World()

    async def asks(context: ai.Context) -> AsyncIterator[object]:
        first = await ai.hook("first", payload=Decision)
        await context.sleep(0.01)
        second = await ai.hook("second", payload=Decision, expires=timedelta(seconds=1))
        yield f"{first.go} {second.go}"

    async with milling(link, {"agent": Loop(asks, world)}) as mill:
        place = await mill.submit()
        await answer(mill, place, "first")
        ended = await mill.ended(place)
        second = await again(mill, place)
        await answer(mill, second, "second")
        retried = await mill.ended(second)

    assert ended.run.error is not None
    assert ended.run.error.code == "hook_expired"
    assert retried.run.output == "True True"
    assert [each["label"] for each in retried.of("hook.opened")] == ["second"]


async def answer(mill: Mill, place: RunPlace, label: str) -> None:
    def is_open(log: list[Any]) -> bool:
        return any(each.type == "hook.opened" and each.data["label"] == label for each in log)

    await mill.until(place, is_open)
    hook = await mill.resources.hooks.load(TENANT, place.run_id, label)
    await mill.resources.hooks.close(TENANT, hook, Answer("resolved", {"go": True}))


async def test_a_child_that_completed_is_not_started_again(link: Link):
    world, weather = World(), Weather()

    async def asks(context: ai.Context) -> AsyncIterator[object]:
        yield (await context.run_agent("poet", "write")).output
        if weather.is_bad:
            raise ValueError("storm")

    poet = ai.Agent(model=scripted(in_turn([call("send", to="ann")], "a poem")), tools=world.tools)
    async with milling(link, {"agent": Loop(asks, world), "poet": poet}) as mill:
        place = await mill.submit()
        await mill.ended(place)
        weather.is_bad = False
        ended = await mill.ended(await again(mill, place))

    assert ended.run.output == "a poem"
    assert world.done == ["ann"]


async def test_a_budget_may_be_raised(link: Link):
    world = World()
    turns = [[call("look", at=f"{at}")] for at in range(3)]
    agent = ai.Agent(model=scripted(in_turn(*turns, "done")), tools=world.tools)
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit(budget={"turns": 2})
        ended = await mill.ended(place)
        second = await again(mill, place, Changes(budget={"turns": 9}))
        retried = await mill.ended(second)

    assert ended.run.error is not None
    assert ended.run.error.code == "budget_exceeded"
    assert retried.run.output == "done"
    assert world.done == ["0", "1", "2"]


async def test_a_session_that_has_gone_on_keeps_what_it_has(link: Link):
    world, weather = World(), Weather()
    async with milling(link, {"agent": stormy(world, weather)}) as mill:
        place = await mill.submit(session_id="s")
        await mill.ended(place)
        weather.is_bad = False
        await mill.through("agent", "more", session_id="s")
        with pytest.raises(SessionMovedOn):
            await again(mill, place)


async def test_only_what_ended_without_completing_is_begun_again(link: Link):
    world, weather = World(), Weather()
    waits = ai.Agent(model=scripted(in_turn([call("wait")], "done")), tools=world.tools)
    async with milling(link, {"agent": stormy(world, weather), "waits": waits}) as mill:
        place = await mill.submit("waits")
        with pytest.raises(StillRunning):
            await again(mill, place)
        world.open.set()
        await mill.ended(place)
        with pytest.raises(AlreadySettled):
            await again(mill, place)
        with pytest.raises(UnknownRun):
            await again(mill, RunPlace(place.keys, TENANT, "run_0"))


async def test_the_same_request_is_done_once(link: Link):
    world, weather = World(), Weather()
    async with milling(link, {"agent": stormy(world, weather)}) as mill:
        place = await mill.submit()
        await mill.ended(place)
        weather.is_bad = False
        changes = Changes(idempotency=("k", "b"))
        first, second = await again(mill, place, changes), await again(mill, place, changes)
        await mill.ended(first)

    assert first == second


async def test_a_run_that_nobody_had_begun_is_simply_begun(link: Link):
    world, weather = World(), Weather()
    weather.is_bad = False
    async with milling(link, {"agent": stormy(world, weather)}, runs=None) as mill:
        place = await mill.submit()
        await mill.resources.runs.cancel(TENANT, place.run_id)
        second = await again(mill, place)
        await mill.worker("runs")
        ended = await mill.ended(second)

    assert ended.run.output == "done"


async def test_a_reply_that_was_cut_off_is_asked_again(link: Link):
    world, gate = World(), asyncio.Event()
    agent = ai.Agent(model=scripted([text("half of it, "), until(gate), text("the rest")]))
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")
        await mill.resources.runs.cancel(TENANT, place.run_id)
        await mill.ended(place)
        gate.set()
        ended = await mill.ended(await again(mill, place))

    assert ended.run.output == "half of it, the rest"
    assert people(ended) == ["go"]
    assert world.done == []


async def test_a_failure_that_the_loop_had_dealt_with_stays_dealt_with(link: Link):
    world, weather = World(), Weather()
    locked = scripted(Unauthorized("no key"), name="locked")

    async def careful(context: ai.Context) -> AsyncIterator[object]:
        with suppress(ProviderError):
            async for _ in ai.stream(locked, context.messages):
                pass
        async for event in ai.default_loop(context):
            yield event
        if weather.is_bad:
            raise ValueError("storm")

    agent = Loop(careful, world)
    agent.model = scripted(in_turn([call("send", to="ann")], "done"))
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.ended(place)
        weather.is_bad = False
        ended = await mill.ended(await again(mill, place))

    assert ended.run.error is None
    assert ended.run.output == "done"
    assert (locked.asked, world.done) == (1, ["ann"])


async def test_a_child_that_failed_is_gone_on_with_as_well(link: Link):
    world, weather = World(), Weather()

    async def asks(context: ai.Context) -> AsyncIterator[object]:
        yield (await context.run_agent("poet", "write")).output

    agents = {"agent": Loop(asks, world), "poet": stormy(world, weather)}
    async with milling(link, agents) as mill:
        place = await mill.submit()
        failed = await mill.ended(place)
        weather.is_bad = False
        ended = await mill.ended(await again(mill, place))

    assert failed.run.error is not None
    assert failed.run.error.code == "child_failed"
    assert ended.run.output == "done"
    assert sorted(world.done) == ["ann", "sea"]


async def test_what_was_said_and_not_heard_is_said_to_the_run_that_goes_on(link: Link):
    world, weather = World(), Weather()

    async def deaf(context: ai.Context) -> AsyncIterator[object]:
        if weather.is_bad:
            await context.resolve(ai.ToolCall("", "", "wait", "{}"))()
            raise ValueError("storm")
        async for event in ai.default_loop(context):
            yield event

    agent = Loop(deaf, world)
    agent.model = scripted(lambda history: f"heard {len(history)}")
    async with milling(link, {"agent": agent}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        said = [{"role": "user", "content": "hurry"}]
        await mill.resources.runs.steer(TENANT, place.run_id, said)
        world.open.set()
        await mill.ended(place)
        weather.is_bad = False
        ended = await mill.ended(await again(mill, place))

    assert people(ended) == ["go", "hurry"]
    assert ended.run.output == "heard 2"
