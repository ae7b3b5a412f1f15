import asyncio
from datetime import timedelta
from typing import Any

import pytest

from loops.blocks import ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock
from loops.errors import ProviderError, SetupError
from loops.events import ModelEvent, StreamEnd, StreamStart, TextDelta, ToolDelta, ToolEnd
from loops.fold import fold
from loops.messages import Message, Messages
from loops.model import ModelRequest
from loops.providers.scripted import (
    Answer,
    call,
    call_with,
    in_turn,
    scripted,
    text,
    thinking,
    until,
)
from loops.tasks import Owner
from loops.testing import collect


async def answer(reply: Any, history: list[Any] | None = None, **options: Any) -> list[ModelEvent]:
    request = ModelRequest("scripted", tuple(Messages.of(history or ["hi"])))
    return await collect(scripted(reply, **options).stream(request))


async def test_a_reply_comes_in_deltas_of_the_size_that_is_set() -> None:
    events = await answer("hello", delta=2)

    assert [e.text for e in events if isinstance(e, TextDelta)] == ["he", "ll", "o"]
    assert events[0] == StreamStart("scripted")
    assert isinstance(events[-1], StreamEnd)


async def test_a_reply_has_blocks_of_all_kinds() -> None:
    events = await answer([thinking("hm"), "so", text("and"), call("add", a=1)])

    blocks = fold(events).content
    assert [block.type for block in blocks] == ["thinking", "text", "text", "tool_use"]
    assert blocks[0] == ThinkingBlock(thinking="hm", signature="signed")
    assert isinstance(events[-1], StreamEnd)
    assert events[-1].stop_reason == "tool_use"


async def test_calls_are_numbered_in_each_reply() -> None:
    events = await answer([call("a"), "x", call("b"), call_with("c", "{", call_id="own")])

    assert [e.id for e in events if isinstance(e, ToolEnd)] == ["call_0", "call_1", "own"]
    assert "".join(e.text for e in events if isinstance(e, ToolDelta) and e.block == 3) == "{"


async def test_a_whole_message_may_be_the_reply() -> None:
    message = Message(
        role="assistant",
        content=[
            TextBlock(text="so"),
            ThinkingBlock(thinking="hm", signature="s"),
            ToolUseBlock(id="a", name="add", input={"x": 1}),
        ],
    )

    events = await answer(message)

    assert fold(events).content == message.content


async def test_a_message_with_other_blocks_is_refused() -> None:
    with pytest.raises(SetupError, match="text, thinking and calls"):
        await answer(Message(role="assistant", content=[ImageBlock(source={})]))


async def test_the_script_gets_the_history_and_nothing_else() -> None:
    async def reply(history: list[dict[str, Any]]) -> Answer:
        return f"you said {history[-1]['content']}"

    assert fold(await answer(reply)).text == "you said hi"


async def test_answers_come_in_turn_also_to_a_run_that_is_resumed() -> None:
    script = in_turn("one", "two")
    said = {"role": "assistant", "content": "one"}

    assert fold(await answer(script)).text == "one"
    assert fold(await answer(script, ["hi", said, "go on"])).text == "two"
    assert fold(await answer(script)).text == "one"
    with pytest.raises(SetupError, match="2 answers, and answer 3 is asked"):
        await answer(script, [said, said, "go on"])


async def test_a_script_may_fail_as_a_provider_does() -> None:
    with pytest.raises(ProviderError, match="busy"):
        await answer(ProviderError("busy"))


async def test_a_reply_waits_where_it_is_told() -> None:
    gate, owner = asyncio.Event(), Owner()
    task = owner.start(answer([until(gate), "hi"]), name="answer")
    await asyncio.sleep(0)

    assert not task.done()
    gate.set()
    assert fold(await task).text == "hi"


async def test_a_reply_keeps_its_pace() -> None:
    clock = asyncio.get_running_loop().time
    begun = clock()

    await answer("hello", pace=timedelta(milliseconds=2), delta=1)

    assert clock() - begun >= 0.01


async def test_usage_is_counted_from_the_text() -> None:
    one, two = await answer("x" * 40), await answer("x" * 40)

    assert isinstance(one[-1], StreamEnd)
    assert one[-1] == two[-1]
    assert one[-1].usage is not None
    assert one[-1].usage.output_tokens == 10


async def test_requests_are_counted() -> None:
    model = scripted("hi", name="m")
    for _ in range(2):
        await collect(model.stream(ModelRequest("m", ())))

    assert (model.asked, model.name) == (2, "m")
