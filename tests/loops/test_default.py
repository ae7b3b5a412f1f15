import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loops.agent import Agent
from loops.errors import TurnLimitExceeded
from loops.events import (
    AgentEvent,
    PartialToolCallResult,
    StreamEnd,
    TextDelta,
    ToolCallResult,
    ToolDelta,
    ToolEnd,
)
from loops.messages import Messages
from loops.providers.scripted import call, call_with, in_turn, scripted, text, until
from loops.testing import collect
from loops.tools import tool


@tool
async def double(number: int) -> int:
    return 2 * number


@tool
async def join(one: str, two: str) -> str:
    return one + two


async def run(agent: Agent, said: str = "hi") -> tuple[list[AgentEvent], Messages]:
    async with agent.run(messages=said) as stream:
        events = await collect(stream)
    return events, stream.messages


def results(events: list[AgentEvent]) -> list[Any]:
    return [event.content for event in events if isinstance(event, ToolCallResult)]


async def test_text_alone_is_one_turn() -> None:
    model = scripted("Hello!")

    events, messages = await run(Agent(model=model))

    assert model.asked == 1
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello!"
    assert messages.raw == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]},
    ]


async def test_a_call_is_answered_and_the_model_asked_again() -> None:
    model = scripted(in_turn([call("double", number=5)], "ten"))

    events, messages = await run(Agent(model=model, tools=[double]))

    assert model.asked == 2
    assert results(events) == [10]
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]


async def test_each_turn_sees_the_results_of_the_one_before() -> None:
    script = in_turn([call("join", one="a", two="b")], [call("double", number=3)], "done")

    events, messages = await run(Agent(model=scripted(script), tools=[join, double]))

    assert results(events) == ["ab", 6]
    assert messages[-1].text == "done"


async def test_calls_of_one_message_run_side_by_side() -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        await both.wait()
        return "met"

    events, _ = await run(Agent(model=scripted(in_turn([call("meet")] * 2, "ok")), tools=[meet]))

    assert results(events) == ["met", "met"]


async def test_a_tool_starts_while_the_model_still_writes() -> None:
    started = asyncio.Event()

    @tool
    async def look() -> str:
        started.set()
        return "seen"

    script = in_turn([call("look"), until(started), text("and more")], "ok")
    events, _ = await run(Agent(model=scripted(script), tools=[look]))

    first_text = next(e for e in events if isinstance(e, TextDelta))
    assert events.index(first_text) > next(
        number for number, event in enumerate(events) if isinstance(event, ToolEnd)
    )
    assert results(events) == ["seen"]


async def test_a_result_may_come_amid_a_later_call() -> None:
    done = asyncio.Event()

    async def look() -> AsyncIterator[str]:
        yield "seen"
        done.set()

    script = in_turn([call("look"), until(done), call("double", number=1)], "ok")
    events, _ = await run(Agent(model=scripted(script), tools=[look, double]))

    kinds = [type(event) for event in events]
    assert kinds.index(ToolCallResult) < len(kinds) - 1 - kinds[::-1].index(ToolDelta)


async def test_partial_results_come_before_their_result_also_with_a_slow_reader() -> None:
    async def count() -> AsyncIterator[int]:
        for number in range(5):
            yield number

    agent = Agent(model=scripted(in_turn([call("count")], "ok")), tools=[count])
    kinds: list[type] = []
    async with agent.run(messages="hi") as stream:
        async for event in stream:
            await asyncio.sleep(0)
            kinds.append(type(event))

    calls = [kind for kind in kinds if kind in {PartialToolCallResult, ToolCallResult}]
    assert calls == [PartialToolCallResult] * 5 + [ToolCallResult]


async def test_a_tool_that_raises_does_not_stop_the_run() -> None:
    @tool
    async def fail() -> None:
        raise ValueError("boom")

    events, messages = await run(Agent(model=scripted(in_turn([call("fail")], "ok")), tools=[fail]))

    assert results(events) == ["ValueError: boom"]
    (error,) = [each.exception for each in events if isinstance(each, ToolCallResult)]
    assert isinstance(error, ValueError)
    assert messages[2].tool_results[0].is_error
    assert messages[-1].text == "ok"


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (call("nope"), "UnknownTool: there is no tool named 'nope'"),
        (call("double", number="many"), "number: Input should be a valid integer"),
        (call_with("double", '{"number": '), "are not valid: Expecting value"),
    ],
)
async def test_a_wish_that_cannot_be_fulfilled_is_told_to_the_model(wish: Any, told: str) -> None:
    events, messages = await run(Agent(model=scripted(in_turn([wish], "ok")), tools=[double]))

    assert told in results(events)[0]
    assert messages[-1].text == "ok"


async def test_a_model_that_never_stops_calling_is_stopped() -> None:
    model = scripted([call("double", number=1)])
    stream = Agent(model=model, tools=[double], max_turns=3).run(messages="hi")

    with pytest.raises(TurnLimitExceeded):
        await collect(stream)

    assert model.asked == 3
    await stream.aclose()


async def test_ids_that_a_provider_repeats_do_not_mix_up_calls() -> None:
    twice = [call_with("double", f'{{"number": {n}}}', call_id="same") for n in (1, 2)]

    events, _ = await run(Agent(model=scripted(in_turn(twice, "ok")), tools=[double]))

    told = {e.call: e.content for e in events if isinstance(e, ToolCallResult)}
    assert told == {"turn:1.0": 2, "turn:1.1": 4}


async def test_a_turn_ends_before_the_next_begins() -> None:
    script = in_turn([call("double", number=1)], "ok")

    events, _ = await run(Agent(model=scripted(script), tools=[double]))

    turns = [event.turn for event in events]
    assert turns == sorted(turns, key=lambda turn: turn or 0)
    assert [e.stop_reason for e in events if isinstance(e, StreamEnd)] == ["tool_use", "end_turn"]


async def test_a_run_without_anything_to_answer_asks_nothing() -> None:
    model = scripted("x")

    async with Agent(model=model).run(messages=[]) as stream:
        assert await collect(stream) == []

    assert model.asked == 0
