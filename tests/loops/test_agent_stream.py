import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from loops.agent import Agent
from loops.agent_stream import AgentStream
from loops.context import Context
from loops.errors import BadYield, LoopFailed
from loops.events import AgentEvent, Custom, StreamStart, TextDelta, ToolCallResult, ToolEnd
from loops.messages import Messages
from loops.model import ModelRequest
from loops.providers.scripted import Piece, call, scripted, until
from loops.testing import collect
from loops.tool_runner import ToolRunner
from loops.tools import tool

Ticks = Callable[[], Awaitable[None]]


@tool
async def double(number: int) -> int:
    return 2 * number


class Counting(Agent):
    """A loop that says how far it has come."""

    produced = 0

    async def loop(self, context: Context) -> AsyncGenerator[AgentEvent]:
        for number in range(10):
            self.produced += 1
            yield Custom("count", number)


async def test_a_loop_runs_on_by_itself(ticks: Ticks) -> None:
    agent = Counting()
    async with agent.run() as stream:
        first = await anext(stream)
        await ticks()
        produced = agent.produced
        rest = await collect(stream)

    assert produced == 10
    assert [event.value for event in [first, *rest] if isinstance(event, Custom)] == list(range(10))


@pytest.mark.parametrize("size", [0, 2])
async def test_a_loop_is_ahead_of_its_reader_by_its_buffer(size: int, ticks: Ticks) -> None:
    agent = type("Bounded", (Counting,), {"LOOP_BUFFER": size})()
    async with agent.run() as stream:
        for number in range(1, 4):
            await anext(stream)
            await ticks()
            assert agent.produced == number + size


async def test_nothing_runs_before_the_first_event_is_asked_for(ticks: Ticks) -> None:
    model = scripted("hi")
    async with Agent(model=model).run(messages="hi"):
        await ticks()

    assert model.asked == 0


class Failing(Agent):
    """A loop that yields one event and raises."""

    error: BaseException = ValueError("boom")

    async def loop(self, context: Context) -> AsyncGenerator[AgentEvent]:
        yield Custom("first")
        raise self.error


@pytest.mark.parametrize("size", [0, 1, None])
async def test_an_error_of_the_loop_comes_bare_after_its_events(size: int | None) -> None:
    agent = type("Bounded", (Failing,), {"LOOP_BUFFER": size})()
    async with agent.run() as stream:
        assert await anext(stream) == Custom("first")
        with pytest.raises(ValueError, match="boom"):
            await anext(stream)


async def test_a_loop_that_says_it_was_cancelled_does_not_hang_its_reader() -> None:
    agent = type("Odd", (Failing,), {"error": asyncio.CancelledError()})()

    with pytest.raises(LoopFailed, match="nobody cancelled"):
        await collect(agent.run())


@pytest.mark.parametrize("size", [0, None])
async def test_a_scheduled_function_that_raises_while_the_reader_is_busy_does_not_hang(
    size: int | None, ticks: Ticks
) -> None:
    async def fail() -> Any:
        raise ValueError("boom")

    class Scheduling(Agent):
        LOOP_BUFFER = size

        async def loop(self, context: Context) -> AsyncGenerator[AgentEvent]:
            async with ToolRunner() as runner:
                runner.schedule(fail)
                yield Custom("busy")  # noqa: ASYNC119 - the run closes its loop
                async for event in runner.events():
                    yield event  # noqa: ASYNC119 - the run closes its loop

    async with Scheduling().run() as stream:
        await anext(stream)
        await ticks()
        with pytest.raises(ValueError, match="boom"):
            await anext(stream)


async def test_a_value_that_is_no_event_stops_the_run() -> None:
    async def loop(context: Context) -> AsyncGenerator[object]:
        yield 3

    with pytest.raises(BadYield, match="it yielded 3"):
        await collect(AgentStream(loop, Context()))


async def test_strings_and_dicts_become_events() -> None:
    async def loop(context: Context) -> AsyncGenerator[object]:
        yield "hi"
        yield {"type": "callout", "callout": "careful"}

    events = await collect(AgentStream(loop, Context()))

    assert events == [
        TextDelta(0, "hi"),
        Custom("callout", {"type": "callout", "callout": "careful"}),
    ]


async def test_a_stray_turn_of_the_kit_is_passed_over() -> None:
    class Turn:
        content: list[Any] = []  # noqa: RUF012 - a value as a provider makes it
        stop_reason, input, output = "end_turn", 1, 1

    async def loop(context: Context) -> AsyncGenerator[object]:
        yield Turn()
        yield "hi"

    assert await collect(AgentStream(loop, Context())) == [TextDelta(0, "hi")]


class Dying:
    """A model that dies after its call was answered."""

    name = "dying"

    def __init__(self, answered: asyncio.Event) -> None:
        self.answered = answered

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any]:
        yield StreamStart("dying")
        yield TextDelta(0, "so far")
        yield ToolEnd(1, "a", "double", '{"number": 4}')
        await self.answered.wait()
        raise ConnectionError("gone")


async def test_a_failed_turn_can_be_looked_at() -> None:
    answered = asyncio.Event()
    stream = Agent(model=Dying(answered), tools=[double]).run(messages="hi")

    async def read() -> None:
        async for event in stream:
            if isinstance(event, ToolCallResult):
                answered.set()

    with pytest.raises(LoopFailed, match="'dying' raised ConnectionError: gone"):
        await read()

    asked, told = stream.last_turn
    assert [call.name for call in asked.tool_calls] == ["double"]
    assert told.tool_results[0].content == "8"
    assert stream.messages == Messages.of("hi")


async def test_leaving_early_cancels_the_tools() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    agent = Agent(model=scripted([call("wait"), until(asyncio.Event())]), tools=[wait])
    async with agent.run(messages="hi") as stream:
        await anext(stream)
        await begun.wait()

    assert ended.is_set()
    assert await collect(stream) == []


@pytest.mark.parametrize("size", [0, None])
@pytest.mark.parametrize("pieces", [["hi"], [until(asyncio.Event())], [call("double", number=1)]])
async def test_leaving_early_is_no_error(size: int | None, pieces: list[Piece]) -> None:
    agent_type = type("Bounded", (Agent,), {"LOOP_BUFFER": size})
    agent = agent_type(model=scripted(pieces), tools=[double])

    async with agent.run(messages="hi") as stream:
        async for _ in stream:
            break

    assert await collect(stream) == []


async def test_an_error_of_the_reader_is_the_reader_s() -> None:
    stream = Agent(model=scripted("hi")).run(messages="hi")

    async def read() -> None:
        async with stream:
            await anext(stream)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await read()


@pytest.mark.parametrize("size", [0, None])
async def test_a_reader_that_gives_up_waiting_does_not_kill_the_run(size: int | None) -> None:
    go = asyncio.Event()
    agent_type = type("Bounded", (Agent,), {"LOOP_BUFFER": size})

    async with agent_type(model=scripted([until(go), "hi"])).run(messages="hi") as stream:
        await anext(stream)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(stream)
        go.set()
        rest = await collect(stream)

    assert "".join(event.text for event in rest if isinstance(event, TextDelta)) == "hi"
