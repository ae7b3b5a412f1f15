"""Runs and their tools are the same to whoever reads them, in one process as on workers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel

import loops as ai
from loops.events import (
    AgentEvent,
    HookEvent,
    ModelEvent,
    PartialToolCallResult,
    RunBlocked,
    TextDelta,
    ToolEnd,
)
from loops.testing import call, call_with, collect, in_turn, scripted
from tests.agents.runtimes import Through


class Place(BaseModel):
    """An argument with fields of its own."""

    city: str
    days: int = 1


@ai.tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@ai.tool
async def visit(place: Place) -> str:
    """Visit a place."""
    return f"{type(place).__name__} {place.city} {place.days}"


@ai.tool
async def fail_in_group() -> None:
    """Fail as a task group does."""
    raise ExceptionGroup("of one", [KeyError("x")])


async def letters(word: str) -> AsyncIterator[str]:
    for letter in word:
        yield letter


@ai.tool
def spell(word: str) -> AsyncIterator[str]:
    """Spell a word: a plain function that gives something to iterate."""
    return letters(word)


@ai.tool(require_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


TOOLS = [add, visit, fail_in_group, spell, pay]
WRONG = ("InvalidArguments", True)


@pytest.mark.parametrize(
    ("turns", "told"),
    [
        pytest.param([], [], id="1: text alone"),
        pytest.param([[call("add", a=2, b=3)]], [(5, False)], id="2 and 19: a call, then text"),
        pytest.param(
            [[call("add", a=1, b=1), call("add", a=2, b=2)]],
            [(2, False), (4, False)],
            id="3: two calls of one message",
        ),
        pytest.param(
            [[call("add", a=1, b=1)], [call("add", a=2, b=2)]],
            [(2, False), (4, False)],
            id="4: one turn after the other",
        ),
        pytest.param([[call("fail_in_group")]], [("KeyError", True)], id="26: a group of one"),
        pytest.param([[call_with("add", '{"a": 1, "b"')]], [WRONG], id="32: no JSON"),
        pytest.param(
            [[call("visit", place={"city": "Rome", "days": "3"})]],
            [("Place Rome 3", False)],
            id="33: fields of an argument",
        ),
        pytest.param([[call("pay", amount="much")]], [WRONG], id="40: a wrong type"),
        pytest.param([[call_with("pay", '{"amount": 1')]], [WRONG], id="41: cut arguments"),
        pytest.param([[call_with("pay", "{}")]], [WRONG], id="42: no arguments"),
        pytest.param([[call("spell", word="abc")]], [("c", False)], id="45: an iterable"),
    ],
)
async def test_a_run_gives_the_same_wherever_it_runs(
    through: Through, turns: list[Any], told: list[Any]
) -> None:
    model = scripted(in_turn(*turns, "done"))

    ended = await through(ai.Agent(model=model, tools=TOOLS))

    results = [
        (content.partition(":")[0] if is_error else content, is_error)
        for content, is_error in ended.results
    ]
    assert sorted(results) == told
    assert (ended.output, model.asked) == ("done", len(turns) + 1)
    assert "".join(each.text for each in ended.of(TextDelta)) == "done"
    assert ended.roles == ["user", *["assistant", "user"] * len(turns), "assistant"]
    assert [*ended.of(HookEvent), *ended.of(RunBlocked)] == []


async def test_45_what_an_iterable_gives_is_told_piece_by_piece(through: Through) -> None:
    model = scripted(in_turn([call("spell", word="abc")], "done"))

    ended = await through(ai.Agent(model=model, tools=TOOLS))

    kinds = [each.type for each in ended.events if each.type in {"tool.progress", "tool.finished"}]
    assert [each.value for each in ended.of(PartialToolCallResult)] == ["a", "b", "c"]
    assert kinds == ["tool.progress"] * 3 + ["tool.finished"]


class Listening:
    """A model that keeps what it is asked."""

    name = "listening"

    def __init__(self) -> None:
        self.requests: list[ai.ModelRequest] = []

    async def stream(self, request: ai.ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        async for event in scripted("done").stream(request):
            yield event


async def test_15_to_18_a_model_is_told_types_and_what_may_be_left_out(through: Through) -> None:
    @ai.tool
    async def look(
        where: str, count: int, tags: list[str], near: str | None = None, most: int = 5
    ) -> None:
        """Look."""

    model = Listening()
    await through(ai.Agent(model=model, tools=[look]))

    (spec,) = model.requests[0].tools
    told = {name: schema.get("type") for name, schema in spec.schema["properties"].items()}
    assert (told["where"], told["count"], told["most"]) == ("string", "integer", "integer")
    assert spec.schema["properties"]["tags"]["items"] == {"type": "string"}
    assert spec.schema["required"] == ["where", "count", "tags"]


class Writer(ai.Agent):
    """An agent of a class of its own."""


class Reader(ai.Agent):
    """An agent of another class."""


async def test_9_a_tool_can_ask_whose_run_it_is_in(through: Through) -> None:
    @ai.tool
    async def who() -> list[str]:
        with pytest.raises(LookupError, match="not one of the class 'Reader'") as caught:
            ai.current_agent(Reader)
        return [type(ai.current_agent(Writer)).__name__, type(caught.value).__name__]

    ended = await through(Writer(model=scripted(in_turn([call("who")], "done")), tools=[who]))

    assert ended.results == [(["Writer", "LookupError"], False)]
    with pytest.raises(LookupError):
        ai.current_agent()


async def test_20_a_call_is_answered_by_one_message_of_the_tools(through: Through) -> None:
    told: list[Any] = []

    class Once(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            reply = ai.stream(context=context)
            for event in await collect(reply):
                yield event
            async with ai.ToolRunner() as runner:
                (bound,) = context.resolve(reply.tool_calls)
                runner.schedule(bound)
                results = await collect(runner.events())
            for result in results:
                yield result
            message = runner.get_tool_message()
            assert message is not None
            told.extend([bound.id, bound.name, bound.kwargs, message.role, message.tool_results])

    await through(Once(model=scripted([call("add", a=1, b="2")]), tools=TOOLS))

    assert told[:4] == ["call_0", "add", {"a": 1, "b": 2}, "tool"]
    assert [(each.tool_use_id, each.content) for each in told[4]] == [("call_0", "3")]


async def test_24_a_call_whose_task_is_cancelled_has_its_one_result(through: Through) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    @ai.tool
    async def wait() -> None:
        begun.set()
        await gate.wait()

    class Hasty(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            reply = ai.stream(context=context)
            for event in await collect(reply):
                yield event
            async with ai.ToolRunner() as runner:
                task = runner.schedule(context.resolve(reply.tool_calls[0]))
                await begun.wait()
                task.cancel()
                results = await collect(runner.events())
            for result in results:
                yield result
            gate.set()

    ended = await through(Hasty(model=scripted([call("wait")]), tools=[wait]))

    assert ended.results == [("CancelledError: the call was cancelled", True)]


async def test_46_what_an_agent_inside_of_a_tool_says_is_told_as_the_tools(
    through: Through,
) -> None:
    inner = ai.Agent(model=scripted("inside"))

    @ai.tool
    async def ask_the_other(what: str) -> AsyncGenerator[Any]:
        async with inner.run(messages=what) as stream:
            events = await collect(stream)
        for event in [*events, stream.output]:
            yield event

    outer = scripted(in_turn([call("ask_the_other", what="?")], "done"))
    ended = await through(ai.Agent(model=outer, tools=[ask_the_other]))

    (wish,) = ended.of(ToolEnd)
    *parts, last = ended.of(PartialToolCallResult)
    texts = [each.value["data"]["text"] for each in parts if each.value["type"] == "text.delta"]
    assert {each.call for each in [*parts, last]} == {wish.call}
    assert ("".join(texts), last.value) == ("inside", "inside")
    assert ended.results == [("inside", False)]
    assert ended.roles == ["user", "assistant", "user", "assistant"]


async def test_98_a_reply_that_ends_a_history_does_not_keep_a_model_from_being_asked(
    through: Through,
) -> None:
    class Again(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            for event in await collect(ai.stream(context=context)):
                yield event

    model = scripted("again")
    said = [{"type": "text", "text": "hi"}]
    asked: dict[str, Any] = {"role": "user", "content": "go"}
    history = [asked, {"role": "assistant", "content": said}]
    ended = await through(Again(model=model), history)

    assert (ended.output, model.asked) == ("again", 1)
    assert not any(each.replayed for each in ended.events)
