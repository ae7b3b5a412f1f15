"""Chat Completions, read: what servers out there send, in any pieces."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import ProviderError
from loops.fold import fold
from loops.messages import Usage
from loops.providers.openai_wire import OpenAIReader
from loops.reply import ModelEvent, StreamEnd, StreamStart, TextDelta, ToolEnd, ToolStart
from tests.loops.providers import openai_wires as wires
from tests.loops.providers.anthropic_wires import cut
from tests.loops.providers.anything import JSON
from tests.loops.providers.openai_wires import call

PLACES = st.lists(st.integers(0, 100_000), max_size=30)

RICH = wires.reply(
    wires.chunk({"reasoning_content": "let me see… "}),
    wires.said("I ", "löok 😀\u2028"),
    wires.calls(
        call(0, "a", "look", '{"pla'),
        call(1, "b", "look", ""),
        call(0, None, None, 'ce":1}'),
        call(1, None, None, '{"place":2}'),
    ),
    reason="tool_calls",
)


def read(*chunks: bytes) -> tuple[list[ModelEvent], OpenAIReader]:
    reader = OpenAIReader("openai/x")
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.close(), reader


def end(*chunks: bytes) -> StreamEnd:
    event = read(*chunks)[0][-1]
    assert isinstance(event, StreamEnd)
    return event


@given(places=PLACES)
def test_the_same_bytes_in_any_pieces_are_the_same_events(places: list[int]) -> None:
    assert read(*cut(RICH, places))[0] == read(RICH)[0]


@given(length=st.integers(0, len(RICH) - 1))
def test_a_reply_that_breaks_off_before_its_reason_is_not_over_and_has_no_call(length: int) -> None:
    events, reader = read(RICH[:length])
    told_reason = b'"finish_reason":"tool_calls"' in RICH[:length].rpartition(b"\n\n")[0]

    assert reader.is_over is told_reason
    assert any(isinstance(each, ToolEnd) for each in events) is told_reason


def test_a_reply_is_its_blocks_in_order() -> None:
    events, _ = read(RICH)

    assert events[0] == StreamStart(model="gpt-x")
    assert [block.type for block in fold(events).content] == ["thinking", "text", *["tool_use"] * 2]
    assert [each.input for each in fold(events).tool_calls] == [{"place": 1}, {"place": 2}]
    assert end(RICH) == StreamEnd(
        stop_reason="tool_use", usage=Usage(input_tokens=10, output_tokens=5)
    )


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        (["\\ud83d", "\\ude00"], ["😀"]),
        (["a\\ud83d", "\\ude00b"], ["a", "😀b"]),
        (["\\ud83d\\ude00\\ud83d", "\\ude00"], ["😀", "😀"]),
        (["a\\ud83d", "b"], ["a", "\ufffdb"]),
        (["a\\ud83d"], ["a", "\ufffd"]),
        (["\\ude00"], ["\ufffd"]),
    ],
    ids=["two halves", "within text", "after a whole one", "never met", "at the end", "the second"],
)
def test_halves_of_a_character_are_put_together(pieces: list[str], told: list[str]) -> None:
    chunks = [b'{"choices":[{"delta":{"content":"%b"}}]}' % each.encode() for each in pieces]

    events, _ = read(wires.reply(*map(wires.data, chunks)))

    assert [each.text for each in events if isinstance(each, TextDelta)] == told
    assert fold(events).text == "".join(told)


def test_halves_of_different_blocks_stay_apart() -> None:
    first = wires.chunk({"reasoning": "x"}).replace(b'"x"', b'"\\ud83d"')
    second = wires.chunk({"content": "x"}).replace(b'"x"', b'"\\ude00"')

    message = fold(read(wires.reply(first, second))[0])

    assert [block.raw().get("thinking", message.text) for block in message.content] == [
        "\ufffd"
    ] * 2


FUNCTIONS = st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON})
CALLS = st.fixed_dictionaries(
    {}, optional={"index": st.integers(0, 1) | JSON, "id": JSON, "function": FUNCTIONS | JSON}
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON,
        "reasoning": JSON,
        "tool_calls": st.lists(CALLS | JSON, max_size=2) | JSON,
        "function_call": FUNCTIONS | JSON,
        "refusal": JSON,
    },
)
CHOICES = st.fixed_dictionaries(
    {}, optional={"index": JSON, "delta": DELTAS, "finish_reason": JSON}
)
CHUNKS = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(CHOICES, max_size=2) | JSON, "usage": JSON, "model": JSON}
)


@given(told=st.lists(CHUNKS | JSON, max_size=8))
def test_whatever_a_service_sends_is_a_reply_or_a_failure_of_its_own(told: list[Any]) -> None:
    reader = OpenAIReader("openai/x")

    with suppress(ProviderError):
        for each in told:
            fold(reader.feed(wires.data(each)))
        list(reader.feed(wires.DONE))


def test_a_call_is_shown_when_it_begins() -> None:
    events, _ = read(wires.calls(call(0, "a", "look")))

    assert ToolStart(0, "a", "look") in events
