"""What is said to a run of this process while it goes on."""

from typing import Any

import pytest

import loops as ai
from loops.events import RunSteered, StreamEnd, ToolCallResult
from loops.testing import call, scripted

pytestmark = pytest.mark.timeout(10)


@ai.tool
async def look() -> str:
    """Look."""
    return "seen"


def heard(history: list[dict[str, Any]]) -> Any:
    people = [each["content"] for each in history if isinstance(each["content"], str)]
    return [call("look")] if len(history) == 1 else f"heard {', '.join(people)}"


async def run(kind: type, *, times: int = 1) -> ai.AgentStream:
    """Say something at each of the first events of a kind."""
    said = 0
    async with ai.Agent(model=scripted(heard), tools=[look]).run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, kind) and said < times:
                said += 1
                stream.steer(f"hurry {said}")
            if isinstance(event, RunSteered):
                assert event.messages == 1
    return stream


async def test_what_is_said_meanwhile_is_heard_at_the_next_turn() -> None:
    stream = await run(ToolCallResult)

    assert stream.output == "heard go, hurry 1"
    assert [message.role for message in stream.messages] == [
        *("user", "assistant", "tool", "user", "assistant")
    ]


async def test_a_run_that_would_end_takes_another_turn() -> None:
    stream = await run(StreamEnd, times=2)

    assert stream.output == "heard go, hurry 1, hurry 2"


async def test_what_a_loop_does_not_take_in_stands_in_the_history() -> None:
    class Deaf(ai.Agent):
        async def loop(self, context: ai.Context) -> Any:
            stream = ai.stream(context=context)
            async for event in stream:
                yield event
            context.add(stream.message)

    async with Deaf(model=scripted("well")).run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, StreamEnd):
                stream.steer("hurry")

    assert [message.text for message in stream.messages] == ["go", "well", "hurry"]
    assert stream.output == "well"


async def test_a_loop_that_asks_otherwise_does_not_go_on_for_ever() -> None:
    class Other(ai.Agent):
        async def loop(self, context: ai.Context) -> Any:
            while context.keep_running():
                message = await ai.generate(scripted("well"), context.messages)
                context.add(message)
                yield ai.events.Custom("said", message.text)

    async with Other().run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, ai.events.Custom):
                stream.steer("hurry")

    assert [message.text for message in stream.messages][-1] == "hurry"


async def test_at_its_last_turn_a_run_ends_as_it_would_have() -> None:
    agent = ai.Agent(model=scripted("well"), max_turns=1)
    async with agent.run(messages="go") as stream:
        async for event in stream:
            if isinstance(event, StreamEnd):
                stream.steer("hurry")

    assert stream.output == "well"
    assert [message.text for message in stream.messages] == ["go", "well", "hurry"]


async def test_what_is_said_after_the_end_stands_in_the_history() -> None:
    async with ai.Agent(model=scripted("well")).run(messages="go") as stream:
        async for _ in stream:
            pass
        stream.steer("hurry")

    assert [message.text for message in stream.messages] == ["go", "well", "hurry"]
