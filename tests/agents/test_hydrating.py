"""Messages are made again: from events that do not carry them, and events from messages."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

import loops as ai
from loops.errors import Incomplete, SetupError
from loops.events import AgentEvent, HookEvent, ModelEvent, Retry, StreamEnd, TextDelta
from loops.testing import call, collect, in_turn, scripted, text, thinking
from loops.wire import decode, encode
from tests.agents.runtimes import Through

BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "signed"},
    {"type": "redacted_thinking", "data": "secret"},
    {"type": "text", "text": "well", "citations": [{"cited_text": "so"}]},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "sea"}},
]


@ai.tool
async def look(at: str = "sea") -> str:
    """Look."""
    return f"saw {at}"


def compact(event: AgentEvent) -> AgentEvent:
    """Return the event as a log gives it: without the message that it is part of."""
    kind, data = encode(event)
    return decode(kind, data, turn=event.turn)


async def run(*answers: Any) -> tuple[ai.Messages, list[AgentEvent]]:
    agent = ai.Agent(model=scripted(in_turn(*answers)), tools=[look])
    async with agent.run(messages="go") as stream:
        return stream.messages, [compact(event) async for event in stream]


def hydrated(events: list[AgentEvent], *seed: ai.Message) -> ai.MessageHydrator:
    made = ai.MessageHydrator(seed)
    for event in events:
        made.feed(event)
    return made


async def test_105_106_messages_are_made_again_from_what_a_log_holds() -> None:
    messages, events = await run([thinking("hm"), text("see"), call("look")], "done")
    made = hydrated(events, messages[0])

    assert made.messages.raw == messages.raw
    assert made.ended
    assert made.stop_reason == "end_turn"


async def test_107_to_109_whatever_a_provider_says_is_made_again() -> None:
    message = ai.Message(role="assistant", content=BLOCKS)  # type: ignore[arg-type]
    made = hydrated([compact(event) async for event in ai.Stream.replay_message(message)])

    assert made.message is not None
    assert made.message.raw() == message.raw()


def test_110_before_anything_is_fed_there_is_nothing() -> None:
    made = ai.MessageHydrator()

    assert made.messages == []
    assert made.message is None
    assert not made.ended
    assert made.stop_reason is None


async def test_111_what_was_there_before_stays_as_it_is() -> None:
    before = ai.Messages.of(["hello", {"role": "assistant", "content": "hi"}, "go"])
    messages, events = await run("done")
    made = hydrated(events, *before)

    assert made.messages.raw == [*before.raw, *messages.raw[1:]]


async def test_112_an_event_carries_the_message_that_it_is_part_of() -> None:
    _, events = await run("one two")
    made = ai.MessageHydrator()
    told = [made.feed(event) for event in events]
    texts = [event.message.text for event in told if isinstance(event, TextDelta) and event.message]

    assert texts == ["one ", "one two"]
    hook = HookEvent("ship", "opened")
    assert made.feed(hook) == hook


async def test_113_114_a_reply_that_is_asked_again_leaves_nothing_behind() -> None:
    messages, events = await run([text("see"), call("look")], "done")
    cut = [event for event in events if event.turn == 1 or not isinstance(event, StreamEnd)]
    made = hydrated([*cut, Retry(after=1), *[each for each in events if each.turn == 2]])

    assert made.messages.raw == messages.raw[1:]


def test_115_where_nothing_was_said_nothing_is_forgotten() -> None:
    made = ai.MessageHydrator()
    made.feed(Retry())

    assert made.messages == []


async def test_100_a_stored_reply_is_told_again_whole() -> None:
    message = ai.Message(role="assistant", content=BLOCKS)  # type: ignore[arg-type]
    stream = ai.Stream.replay_message(message)
    events = await collect(stream)

    assert stream.message.raw() == message.raw()
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("turn.started", "turn.finished")
    assert {"text.started", "text.delta", "text.finished", "call.finished"} <= set(kinds)
    assert not any(event.replayed for event in events)
    assert [one.name for one in stream.tool_calls] == ["look"]


async def test_100_a_loop_may_tell_a_stored_reply_anywhere(through: Through) -> None:
    stored = ai.Message(role="assistant", content=BLOCKS)  # type: ignore[arg-type]

    class Teller(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncGenerator[AgentEvent]:
            del context
            async for event in ai.Stream.replay_message(stored):
                yield event

    ended = await through(Teller())
    made = hydrated([each for each in ended.events if isinstance(each, ModelEvent)])

    assert [message.raw() for message in made.messages] == [stored.raw()]


class Dying:
    """A model whose reply does not come to its end."""

    name = "dying"

    async def stream(self, request: ai.ModelRequest) -> Any:
        async for event in scripted("half").stream(request):
            if not isinstance(event, StreamEnd):
                yield event


async def test_103_a_reply_can_be_asked_for_whole() -> None:
    message = await ai.generate(scripted("well"), [ai.Message(role="user", content="hi")])  # type: ignore[arg-type]
    assert message.text == "well"

    with pytest.raises(Incomplete):
        await ai.generate(Dying(), ["hi"])


def test_104_a_context_can_be_stored() -> None:
    context = ai.Context(
        messages=ai.Messages.of(["hi", {"role": "assistant", "content": "well"}]),
        model="acme/x",
        system="be kind",
        max_tokens=100,
        metadata={"who": "ann"},
        tools=[look],
        output_type=int,
    )
    restored = ai.Context.from_json(context.to_json(), tools=[look])

    assert restored == replace(context, output_type=None)
    with pytest.raises(SetupError, match="name it to store"):
        ai.Context(model=scripted("hi")).to_json()
