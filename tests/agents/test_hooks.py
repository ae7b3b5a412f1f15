"""Hooks in one process: asked of whoever reads the run, answered by label, once."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import loops as ai
from loops.errors import AlreadySettled, DuplicateName, HookExpired, SetupError
from loops.events import AgentEvent, Custom, HookEvent
from loops.tasks import Owner
from loops.testing import collect

pytestmark = pytest.mark.timeout(10)


class Decision(BaseModel):
    """What the tests' hooks want to know."""

    go: bool
    note: str = ""


class Asking(ai.Agent):
    """A loop that asks before it says something."""

    async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
        del context
        decision = await ai.hook("ship", payload=Decision, metadata={"what": "release"})
        assert isinstance(decision, Decision)
        yield Custom("decided", decision.note)


def decided(events: list[AgentEvent]) -> list[Any]:
    return [event.value for event in events if isinstance(event, Custom)]


def hooks(events: list[AgentEvent]) -> list[HookEvent]:
    return [event for event in events if isinstance(event, HookEvent)]


async def answered(stream: ai.AgentStream, answer: Any, **how: Any) -> list[AgentEvent]:
    """Read the run to its end; whatever it asks is answered like this."""
    events: list[AgentEvent] = []
    async for event in stream:
        events.append(event)
        if isinstance(event, HookEvent) and event.status == "opened":
            ai.resolve_hook(event, answer, **how)
    return events


@pytest.mark.parametrize("answer", [Decision(go=True, note="yes"), {"go": True, "note": "yes"}])
async def test_66_an_answer_reaches_the_code_that_waits_as_its_type(answer: Any) -> None:
    async with Asking().run() as stream:
        events = await answered(stream, answer)

    assert decided(events) == ["yes"]


async def test_67_a_cancelled_hook_is_a_cancellation_where_it_is_awaited() -> None:
    seen: list[str] = []

    class Catching(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            try:
                await ai.hook("ship", payload=Decision)
            except asyncio.CancelledError as error:
                seen.append(str(error))
            yield Custom("on")

    async with Catching().run() as stream:
        events: list[AgentEvent] = []
        async for event in stream:
            events.append(event)
            if isinstance(event, HookEvent) and event.status == "opened":
                await ai.cancel_hook(event, reason="too late")

    assert seen == ["too late"]
    assert [event.status for event in hooks(events)] == ["opened", "cancelled"]
    assert isinstance(events[-1], Custom)


async def test_68_what_is_not_open_cannot_be_cancelled() -> None:
    with pytest.raises(LookupError):
        await ai.cancel_hook("ship")

    async with Asking().run() as stream:
        with pytest.raises(ValueError, match="no hook labelled 'other' is open"):
            await ai.cancel_hook("other")
        await stream.aclose()


async def test_69_an_answer_may_come_before_the_question() -> None:
    async with Asking().run() as stream:
        ai.resolve_hook("ship", {"go": True, "note": "early"})
        events = await collect(stream)

    assert decided(events) == ["early"]
    assert hooks(events) == []


async def test_70_a_hook_of_another_registry_is_none_of_the_runs() -> None:
    other = ai.HookRegistry()

    class Elsewhere(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            decision = await ai.hook("ship", payload=Decision, registry=other)
            yield Custom("decided", decision.note)

    async with Elsewhere().run() as stream:
        first = await anext(stream)
        with pytest.raises(ValueError, match="no hook labelled"):
            await ai.cancel_hook("ship")
        ai.resolve_hook("ship", {"go": True, "note": "there"}, registry=other)
        events = [first, *await collect(stream)]

    assert decided(events) == ["there"]


async def test_71_a_registry_may_be_the_callers_own() -> None:
    registry = ai.HookRegistry()
    ai.resolve_hook("ship", {"go": True, "note": "mine"}, registry=registry)

    async with Asking().run(hook_registry=registry) as stream:
        events = await collect(stream)

    assert stream.hook_registry is registry
    assert decided(events) == ["mine"]


async def test_72_a_run_inside_of_a_run_asks_the_outermost_reader() -> None:
    class Outer(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            async with Asking().run() as inner:
                events = await collect(inner)
            for event in events:
                if not isinstance(event, HookEvent):
                    yield event

    async with Outer().run() as stream:
        events = await answered(stream, {"go": True, "note": "inside"})

    assert decided(events) == ["inside"]
    assert [event.status for event in hooks(events)] == ["opened", "resolved"]


async def test_72_so_does_an_agent_that_is_a_tool() -> None:
    @ai.tool
    async def ask_the_other(what: str) -> AsyncGenerator[AgentEvent]:
        del what
        async with Asking().run() as inner:
            events = await collect(inner)
        for event in events:
            yield event

    model = ai.scripted(ai.testing.in_turn([ai.testing.call("ask_the_other", what="?")], "done"))
    async with ai.Agent(model=model, tools=[ask_the_other]).run(messages="go") as stream:
        events = await answered(stream, {"go": True, "note": "inside"})

    assert [event.status for event in hooks(events)] == ["opened", "resolved"]
    assert hooks(events)[0].call is not None
    assert stream.output == "done"


async def test_73_an_answer_is_held_against_its_type_at_once() -> None:
    async with Asking().run() as stream:
        first = await anext(stream)
        assert isinstance(first, HookEvent)
        with pytest.raises(ValidationError):
            ai.resolve_hook("ship", {"nope": 1})
        with pytest.raises(ValidationError):
            ai.resolve_hook("later", {"nope": 1}, payload=Decision)
        ai.resolve_hook(first, {"go": True, "note": "at last"})
        events = await collect(stream)

    assert decided(events) == ["at last"]


async def test_74_the_answer_is_told_once_with_what_it_is() -> None:
    async with Asking().run() as stream:
        events = await answered(stream, {"go": False})

    assert [event.resolution for event in hooks(events) if event.status == "resolved"] == [
        {"go": False}
    ]


async def test_75_a_question_carries_what_whoever_answers_must_know() -> None:
    async with Asking().run() as stream:
        asked = await anext(stream)
        assert isinstance(asked, HookEvent)
        await stream.aclose()

    assert asked.metadata == {"what": "release"}
    assert asked.payload is not None
    assert asked.payload["required"] == ["go"]
    assert asked.expires_at is not None


async def test_a_hook_that_nobody_answers_expires() -> None:
    class Hasty(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            try:
                await ai.hook("ship", payload=Decision, expires=timedelta(milliseconds=10))
            except HookExpired as error:
                yield Custom("decided", str(error))

    async with Hasty().run() as stream:
        events = await collect(stream)

    assert decided(events) == ["nobody answered the hook 'ship' in time"]
    assert [event.status for event in hooks(events)] == ["opened", "expired"]


async def test_a_second_answer_is_refused() -> None:
    async with Asking().run() as stream:
        asked = await anext(stream)
        assert isinstance(asked, HookEvent)
        ai.resolve_hook(asked, {"go": True, "note": "first"})
        with pytest.raises(AlreadySettled):
            ai.resolve_hook(asked, {"go": False, "note": "second"})
        events = await collect(stream)

    assert decided(events) == ["first"]


async def test_two_hooks_of_one_label_are_not_open_at_one_time() -> None:
    class Twice(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            owner = Owner()
            one = owner.start(ai.hook("ship", payload=Decision), name="one")
            await asyncio.sleep(0)
            try:
                await ai.hook("ship", payload=Decision)
            except DuplicateName:
                yield Custom("refused")
            await one

    async with Twice().run() as stream:
        events = await answered(stream, {"go": True})

    assert [event.name for event in events if isinstance(event, Custom)] == ["refused"]


@pytest.mark.parametrize("label", ["", "a/b", "a\nb", "x" * 201])
async def test_a_label_is_a_line_that_an_address_can_hold(label: str) -> None:
    with pytest.raises(SetupError, match="a hook's label"):
        ai.resolve_hook(label, {}, registry=ai.HookRegistry())


async def test_outside_of_a_run_there_are_no_hooks() -> None:
    with pytest.raises(LookupError):
        await ai.hook("ship", payload=Decision)
    with pytest.raises(LookupError):
        ai.get_hook_registry()
