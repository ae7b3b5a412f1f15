"""Hooks are the same to whoever reads the run, in one process as on workers."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import loops as ai
from loops.errors import HookDeferred
from loops.events import AgentEvent, Custom, HookEvent, RunBlocked, StreamEnd, ToolCallResult
from loops.tasks import Owner
from loops.testing import call, collect, in_turn, scripted, text, until, wait_until
from tests.agents.runtimes import Outcome, Through, when_asked

YES = {"go": True, "note": "yes"}
GRANTED = {"granted": True}


class Decision(BaseModel):
    """What the tests' hooks want to know."""

    go: bool
    note: str = ""


@ai.tool(require_approval=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


class Asking(ai.Agent):
    """A loop that asks before it says something."""

    async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
        del context
        decision = await ai.hook("ship", payload=Decision)
        yield Custom("decided", decision.note)


def decided(ended: Outcome) -> list[Any]:
    return [each.value for each in ended.of(Custom)]


def order(ended: Outcome, *kinds: type[AgentEvent]) -> list[str]:
    """Say in which order events of these kinds came; hooks by what became of them."""
    return [
        each.status if isinstance(each, HookEvent) else each.type
        for each in ended.events
        if isinstance(each, kinds)
    ]


async def test_72_a_run_inside_of_a_loop_asks_as_the_run_around_it(through: Through) -> None:
    class Outer(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            async with Asking().run() as inner:
                events = await collect(inner)
            for event in events:
                if not isinstance(event, HookEvent):
                    yield event

    ended = await through(Outer(), react=when_asked(YES))

    assert decided(ended) == ["yes"]
    assert order(ended, HookEvent) == ["opened", "resolved"]


async def test_73_a_loop_that_answers_itself_is_held_to_the_type(through: Through) -> None:
    class Alone(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            owner, registry = Owner(), ai.get_hook_registry()
            asked = owner.start(ai.hook("ship", payload=Decision), name="ship")
            await wait_until(lambda: registry.is_live("ship"))
            with pytest.raises(ValidationError):
                ai.resolve_hook("ship", {"nope": 1})
            with pytest.raises(ValidationError):
                ai.resolve_hook("later", {"nope": 1}, payload=Decision)
            ai.resolve_hook("ship", YES)
            yield Custom("decided", (await asked).note)

    ended = await through(Alone())

    assert decided(ended) == ["yes"]
    assert [each.resolution for each in ended.of(HookEvent)] == [None, YES]


async def test_75_a_loop_may_end_when_its_question_is_put_off() -> None:
    class Patient(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            try:
                await ai.hook("ship", payload=Decision, metadata={"what": "release"})
            except HookDeferred as error:
                yield Custom("put off", error.label)

    events: list[AgentEvent] = []
    async with Patient().run() as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, HookEvent):
                ai.defer_hook(event)

    assert [each.value for each in events if isinstance(each, Custom)] == ["ship"]
    assert [hook.metadata for hook in stream.deferred_hooks] == [{"what": "release"}]


async def test_83_on_workers_a_question_waits_and_is_not_put_off(through_workers: Through) -> None:
    class Hasty(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            owner, registry = Owner(), ai.get_hook_registry()
            asked = owner.start(ai.hook("ship", payload=Decision), name="ship")
            await wait_until(lambda: registry.is_live("ship"))
            with pytest.raises(TypeError, match="on workers a hook waits for its answer"):
                ai.defer_hook("ship")
            yield Custom("refused", "ship")
            yield Custom("decided", (await asked).note)

    def react(event: AgentEvent) -> Mapping[str, Any]:
        return {"ship": YES} if isinstance(event, Custom) and event.name == "refused" else {}

    ended = await through_workers(Hasty(), react=react)

    assert order(ended, HookEvent, Custom) == ["opened", "custom", "resolved", "custom"]
    assert decided(ended) == ["ship", "yes"]


class Shipping(ai.Agent):
    """A loop that asks after its last turn."""

    async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
        async for event in super().loop(context):
            yield event
        decision = await ai.hook("ship", payload=Decision)
        yield Custom("decided", decision.note)


async def test_82_a_hook_of_the_loop_blocks_the_run_once(through: Through) -> None:
    def react(event: AgentEvent) -> Mapping[str, Any]:
        return {event.hooks[0]: YES} if isinstance(event, RunBlocked) else {}

    ended = await through(Shipping(model=scripted("written")), react=react)

    assert order(ended, StreamEnd, HookEvent, RunBlocked, Custom) == [
        *("turn.finished", "opened", "run.blocked", "resolved", "custom")
    ]
    assert decided(ended) == ["yes"]


async def test_85_a_reply_that_is_still_written_is_waited_for(through_workers: Through) -> None:
    written = asyncio.Event()

    def react(event: AgentEvent) -> Mapping[str, Any]:
        if isinstance(event, HookEvent):
            written.set()
        return {event.hooks[0]: GRANTED} if isinstance(event, RunBlocked) else {}

    model = scripted(in_turn([call("pay", amount=5), until(written), text("…")], "done"))
    ended = await through_workers(ai.Agent(model=model, tools=[pay]), react=react)

    assert order(ended, HookEvent, StreamEnd, RunBlocked) == [
        *("opened", "turn.finished", "run.blocked", "resolved", "turn.finished")
    ]


async def test_85_also_where_a_sibling_has_ended_before_the_reply_does(
    through_workers: Through,
) -> None:
    written = asyncio.Event()

    @ai.tool
    async def quick() -> str:
        return "quick"

    def react(event: AgentEvent) -> Mapping[str, Any]:
        if isinstance(event, ToolCallResult) and event.name == "quick":
            written.set()
        return {event.hooks[0]: GRANTED} if isinstance(event, RunBlocked) else {}

    wishes: list[Any] = [call("pay", amount=5), call("quick"), until(written)]
    model = scripted(in_turn(wishes, "done"))
    ended = await through_workers(ai.Agent(model=model, tools=[pay, quick]), react=react)

    assert len(ended.of(RunBlocked)) == 1
    assert ended.output == "done"


async def test_86_a_hook_of_a_tool_that_does_not_name_its_call_blocks_nothing(
    through: Through,
) -> None:
    is_written = asyncio.Event()

    @ai.tool
    async def ask() -> str:
        await is_written.wait()
        return (await ai.hook("ship", payload=Decision)).note

    def react(event: AgentEvent) -> Mapping[str, Any]:
        if isinstance(event, StreamEnd):
            is_written.set()
        return when_asked(YES)(event)

    model = scripted(in_turn([call("ask")], "done"))
    ended = await through(ai.Agent(model=model, tools=[ask]), react=react)

    assert ended.results == [("yes", False)]
    assert order(ended, HookEvent, RunBlocked) == ["opened", "resolved"]


async def test_80_a_busy_sibling_keeps_the_run_from_being_blocked(through: Through) -> None:
    gate = asyncio.Event()

    @ai.tool
    async def slow() -> str:
        await gate.wait()
        return "slow"

    def react(event: AgentEvent) -> Mapping[str, Any]:
        if isinstance(event, HookEvent):
            gate.set()
        return {event.hooks[0]: GRANTED} if isinstance(event, RunBlocked) else {}

    model = scripted(in_turn([call("pay", amount=5), call("slow")], "done"))
    ended = await through(ai.Agent(model=model, tools=[pay, slow]), react=react)

    assert order(ended, HookEvent, RunBlocked, ToolCallResult) == [
        *("opened", "tool.finished", "run.blocked", "resolved", "tool.finished")
    ]
