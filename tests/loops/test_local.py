import asyncio

import pytest

from loops.context import Context
from loops.errors import DuplicateName, Incomplete, Overloaded
from loops.events import PartialToolCallResult, StreamEnd, ToolEnd
from loops.local import LocalRuntime
from loops.messages import Messages, ToolCall, as_message
from loops.model import ModelRequest
from loops.providers.scripted import call, in_turn, scripted
from loops.runtime import partial_sink
from loops.tasks import Owner
from loops.testing import collect
from loops.tool_context import ToolContext
from loops.tools import tool

CALL = ToolCall("a", "turn:1.0", "look", '{"where": "here"}', turn="turn:1", number=1)


def request(*messages: str) -> ModelRequest:
    return ModelRequest("scripted", tuple(as_message(each) for each in messages))


@tool
async def look(where: str, context: ToolContext) -> str:
    context.progress("looking")
    return f"{context.user} looks {where} for {context.call.key}"


async def test_a_turn_is_numbered_and_keyed() -> None:
    runtime = LocalRuntime()

    await runtime.open_turn(request("hi"), scripted("a"))
    turn = await runtime.open_turn(request("hi"), scripted([call("look", where="there")]))
    events = await collect(turn.events())

    assert (turn.key, turn.number) == ("turn:2", 2)
    assert {event.turn for event in events} == {2}
    assert [e.tool_call.key for e in events if isinstance(e, ToolEnd)] == ["turn:2.0"]


async def test_the_model_sees_a_history_that_keeps_the_pairing_law() -> None:
    seen: list[list[object]] = []
    history = Messages.of(
        ["hi", {"role": "assistant", "content": [call_block()]}, as_message("still there?")]
    )

    def reply(raw: list[dict[str, object]]) -> str:
        seen.append([each["role"] for each in raw])
        return "yes"

    port = scripted(reply)
    turn = await LocalRuntime().open_turn(ModelRequest("m", tuple(history)), port)
    await collect(turn.events())

    assert seen == [["user", "assistant", "user", "user"]]


def call_block() -> dict[str, object]:
    return {"type": "tool_use", "id": "a", "name": "look", "input": {}}


async def test_a_tool_knows_the_run_and_its_call() -> None:
    runtime = LocalRuntime(Context(user="Ada", run="run_1").tool_context())

    result = await runtime.call(CALL, look)

    assert result.content == "Ada looks here for turn:1.0"


async def test_overrides_replace_arguments() -> None:
    result = await LocalRuntime().call(CALL, look, {"where": "there"})

    assert "there" in result.content


async def test_a_call_of_no_tool_is_an_error_result() -> None:
    result = await LocalRuntime().call(CALL, None)

    assert result.is_error
    assert "no tool named 'look'" in result.content


async def test_progress_goes_to_whoever_wants_it() -> None:
    told: list[PartialToolCallResult] = []
    token = partial_sink.set(told.append)
    try:
        await LocalRuntime().call(CALL, look)
    finally:
        partial_sink.reset(token)

    assert told == [PartialToolCallResult("turn:1.0", "looking", "look", turn=1)]


async def test_a_step_gives_what_its_function_gives() -> None:
    async def count() -> int:
        return 3

    runtime = LocalRuntime()

    assert [await runtime.step("count", count) for _ in range(2)] == [3, 3]


async def test_two_steps_of_one_name_at_one_time_are_refused() -> None:
    runtime, owner = LocalRuntime(), Owner()
    owner.start(runtime.step("wait", asyncio.Event().wait), name="first")
    await asyncio.sleep(0)

    with pytest.raises(DuplicateName, match="'wait' is being taken already"):
        await runtime.step("wait", asyncio.Event().wait)

    await owner.close()


async def test_the_last_turn_is_there_also_when_it_broke() -> None:
    runtime = LocalRuntime()
    turn = await runtime.open_turn(
        request("hi"), scripted(["so", call("look", where="here"), call("look", where="x")])
    )
    async for event in turn.events():
        if isinstance(event, ToolEnd):
            await runtime.call(event.tool_call, look)
            break

    reply, results = runtime.last_turn
    assert [block.type for block in reply.content] == ["text", "tool_use"]
    assert len(results.tool_results) == 1
    assert LocalRuntime().last_turn == []


async def test_a_result_of_an_earlier_turn_is_no_part_of_the_last() -> None:
    runtime = LocalRuntime()
    await runtime.open_turn(request("hi"), scripted("a"))
    await runtime.open_turn(request("hi"), scripted("a"))

    await runtime.call(CALL, look)

    assert runtime.last_turn == []


async def test_usage_is_added_over_turns() -> None:
    runtime = LocalRuntime()
    for _ in range(2):
        turn = await runtime.open_turn(request("hi"), scripted("four"))
        events = await collect(turn.events())
    end = events[-1]

    assert isinstance(end, StreamEnd)
    assert end.usage is not None
    assert runtime.tally.usage == end.usage + end.usage
    assert LocalRuntime().tally.usage is None


async def test_a_reply_that_breaks_off_is_incomplete() -> None:
    class Dead:
        name = "dead"

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # yields nothing
            return
            yield

    turn = await LocalRuntime().open_turn(request("hi"), Dead())

    with pytest.raises(Incomplete):
        await collect(turn.events())


async def test_a_provider_s_error_is_raised_as_it_is() -> None:
    error = Overloaded("no room")
    turn = await LocalRuntime().open_turn(request("hi"), scripted(in_turn(error)))

    with pytest.raises(Overloaded, match="no room"):
        await collect(turn.events())
    await turn.leave()
