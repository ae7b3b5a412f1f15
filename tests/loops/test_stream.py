import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from loops.context import Context
from loops.errors import LoopFailed, RunLeft, SetupError
from loops.events import ModelEvent, StreamEnd, StreamStart, TextDelta, ToolEnd
from loops.local import LocalRuntime
from loops.messages import Messages
from loops.model import ModelPort, ModelRequest
from loops.providers.scripted import Answer, call, call_with, scripted, text, until
from loops.runtime import OpenTurn, Scope, scoped
from loops.stream import stream
from loops.tasks import Owner
from loops.testing import collect
from loops.tools import tool


class Watched(LocalRuntime):
    """A runtime that tells what a stream asks of it."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.requests: list[ModelRequest] = []

    async def open_turn(self, request: ModelRequest, port: ModelPort) -> OpenTurn:
        self.log.append("open")
        self.requests.append(request)
        return WatchedTurn(await super().open_turn(request, port), self.log)


class WatchedTurn:
    def __init__(self, turn: OpenTurn, log: list[str]) -> None:
        self.turn = turn
        self.log = log
        self.key = turn.key
        self.number = turn.number

    async def events(self) -> AsyncIterator[ModelEvent]:
        async for event in self.turn.events():
            yield event
        self.log.append("asked past the end")

    async def leave(self) -> None:
        self.log.append("leave")


def context(answer: Answer, **fields: Any) -> tuple[Context, Watched]:
    runtime = Watched()
    made = Context(messages=Messages.of("hi"), model=scripted(answer), runtime=runtime, **fields)
    return made, runtime


async def test_nothing_is_asked_before_the_first_event_is() -> None:
    asked, runtime = context("hello")

    async with stream(context=asked) as reply:
        assert (runtime.log, reply.key, asked.turns) == ([], "", 0)
        assert await anext(reply) == StreamStart("scripted", turn=1)
        assert (runtime.log, reply.key, asked.turns) == (["open"], "turn:1", 1)


async def test_a_reply_that_is_read_to_its_end_is_not_left() -> None:
    asked, runtime = context("hello")

    async with stream(context=asked) as reply:
        await collect(reply)

    assert runtime.log == ["open", "asked past the end"]
    assert reply.text == "hello"
    assert reply.stop_reason == "end_turn"
    assert reply.usage is not None


async def test_leaving_early_makes_the_turn_of_what_was_seen() -> None:
    asked, runtime = context("hello")

    async with stream(context=asked) as reply:
        async for event in reply:
            if isinstance(event, TextDelta):
                break

    assert runtime.log == ["open", "leave"]
    assert reply.message.text == "hell"
    assert await collect(reply) == []


async def test_a_stream_that_was_never_read_has_nothing_to_leave() -> None:
    asked, runtime = context("hello")

    async with stream(context=asked):
        pass

    assert runtime.log == []


async def test_each_event_carries_the_message_up_to_it() -> None:
    asked, _ = context([text("so"), call("look", where="here")])

    async with stream(context=asked) as reply:
        events = await collect(reply)
    lengths = [len(event.message.content) for event in events if event.message is not None]

    assert len(lengths) == len(events)
    assert lengths == sorted(lengths)
    assert events[-1].message == reply.message


async def test_the_calls_of_a_reply_can_be_resolved() -> None:
    asked, _ = context([call("look", where="here"), call("nope")], tools=[tool(look)])

    async with stream(context=asked) as reply:
        events = await collect(reply)

    assert reply.tool_calls == [e.tool_call for e in events if isinstance(e, ToolEnd)]
    assert [each.tool is None for each in asked.resolve(reply.tool_calls)] == [False, True]


async def look(where: str) -> str:
    return where


async def test_a_provider_s_error_leaves_what_came_before_to_be_seen() -> None:
    class Dying:
        name = "dying"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            yield StreamStart("dying")
            yield TextDelta(0, "half")
            raise ConnectionError("gone")

    runtime = Watched()
    asked = Context(messages=Messages.of("hi"), model=Dying(), runtime=runtime)

    with pytest.raises(LoopFailed, match="'dying' raised ConnectionError: gone"):
        async with stream(context=asked) as reply:
            await collect(reply)

    assert reply.text == "half"
    assert runtime.log == ["open"]


async def test_a_pass_that_lost_its_run_stops_the_stream() -> None:
    class Left(LocalRuntime):
        async def open_turn(self, request: ModelRequest, port: ModelPort) -> OpenTurn:
            raise RunLeft

    asked = Context(messages=Messages.of("hi"), model=scripted("x"), runtime=Left())

    with pytest.raises(RunLeft):
        async with stream(context=asked) as reply:
            await collect(reply)


async def test_a_reader_in_another_task_is_sent_away_when_the_block_ends() -> None:
    asked, runtime = context([text("a"), until(asyncio.Event())])
    owner, seen = Owner(), list[str]()

    async with stream(context=asked) as reply:

        async def read() -> str:
            async for event in reply:
                seen.append(event.type)
            return "at the end"

        reader = owner.start(read(), name="reader")
        await asyncio.sleep(0)

    assert await reader == "at the end"
    assert seen[-1] == "text.finished"
    assert runtime.log == ["open", "leave"]


async def test_a_cancelled_reader_leaves_a_turn_that_can_be_left() -> None:
    asked, runtime = context([text("a"), until(asyncio.Event())])
    owner = Owner()

    async with stream(context=asked) as reply:
        reader = owner.start(collect(reply), name="reader")
        await asyncio.sleep(0)
        await owner.close()

    assert reader.cancelled()
    assert runtime.log == ["open", "leave"]


async def test_a_model_can_be_asked_beside_the_run() -> None:
    runtime = Watched()
    with scoped(Scope(runtime, Context())):
        side = stream(
            scripted("yes"), ["sure?"], system="short", tools=[tool(look)], params={"t": 0}
        )
        async with side as reply:
            await collect(reply)

    assert reply.output == "yes"
    assert runtime.requests[0].system == "short"
    assert runtime.requests[0].params == {"t": 0}
    assert [spec.name for spec in runtime.requests[0].tools] == ["look"]


async def test_parameters_given_to_the_stream_go_before_those_of_the_run() -> None:
    asked, runtime = context("x", params={"t": 0})

    async with stream(context=asked, params={"t": 1}) as reply:
        await collect(reply)

    assert runtime.requests[0].params == {"t": 1}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"context": Context(), "model": "acme/x"}, "not both"),
        ({"context": Context(), "messages": []}, "not both"),
        ({"context": Context(), "tools": []}, "not both"),
        ({"model": "acme/x"}, "needs either"),
        ({}, "needs either"),
    ],
)
def test_a_stream_is_of_a_context_or_of_a_model(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        stream(**arguments)


class Verdict(BaseModel):
    is_good: bool


async def test_the_text_is_read_as_the_output_type() -> None:
    asked, _ = context('{"is_good": true}', output_type=Verdict)
    other, _ = context("well")

    async with stream(context=asked) as reply, stream(context=other, output_type=Verdict) as wrong:
        await collect(reply)
        await collect(wrong)

    assert reply.output == Verdict(is_good=True)
    with pytest.raises(ValidationError):
        _ = wrong.output


async def test_a_message_with_calls_is_no_output() -> None:
    asked, _ = context([call_with("look", "{")])

    async with stream(context=asked) as reply:
        events = await collect(reply)

    assert isinstance(events[-1], StreamEnd)
    with pytest.raises(ValueError, match="calls tools"):
        _ = reply.output


def test_an_option_that_does_not_exist_is_refused() -> None:
    options: Any = {"temperature": 1}

    with pytest.raises(SetupError, match=r"stream\(\) has no option 'temperature'; it has max_"):
        stream(scripted("hi"), ["hi"], **options)
