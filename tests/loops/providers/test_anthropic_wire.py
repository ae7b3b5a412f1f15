"""Anthropic's streams, read: any pieces, any order of blocks, whatever stands in them."""

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import Incomplete, ProviderError, RateLimited, Unavailable
from loops.fold import fold
from loops.messages import Message
from loops.providers.anthropic_wire import AnthropicReader
from loops.reply import (
    BuiltinToolEnd,
    ModelEvent,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)
from tests.loops.providers import anthropic_wires as wires
from tests.loops.providers.anything import JSON

PLACES = st.lists(st.integers(0, 100_000), max_size=30)

RICH = wires.reply(
    wires.thought(0, "let me ", "see… \u2028"),
    wires.said(1, "I ", "löok ", "😀"),
    wires.called(2, "look", '{"pla', 'ce": "h', 'ere"}'),
    wires.event("ping"),
    wires.called(3, "look", '{"place":"there"}', call_id="toolu_2"),
    stop_reason="tool_use",
)


def read(*chunks: bytes) -> tuple[list[ModelEvent], AnthropicReader]:
    reader = AnthropicReader("anthropic/x")
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events, reader


def message(*chunks: bytes) -> Message:
    return fold(read(*chunks)[0])


def blocks(*parts: bytes) -> list[dict[str, Any]]:
    return [each.raw() for each in message(wires.reply(*parts)).content]


@given(places=PLACES)
def test_the_same_bytes_in_any_pieces_are_the_same_events(places: list[int]) -> None:
    events, reader = read(*wires.cut(RICH, places))

    assert reader.is_over
    assert events == read(RICH)[0]


@given(length=st.integers(0, len(RICH) - 1))
def test_a_reply_that_breaks_off_is_not_over_and_has_no_call_with_an_open_block(
    length: int,
) -> None:
    events, reader = read(RICH[:length])
    begun = {each.block for each in events if isinstance(each, ToolStart)}
    whole = {each.block: each.arguments for each in events if isinstance(each, ToolEnd)}

    assert not reader.is_over
    assert set(whole) <= begun
    assert all(arguments.endswith("}") for arguments in whole.values())


def test_a_reply_is_its_blocks_in_order() -> None:
    events, reader = read(wires.reply(wires.said(0, "a", "b"), wires.called(1, "f", '{"x":1}')))

    assert events[1:] == [
        TextStart(0),
        TextDelta(0, "a"),
        TextDelta(0, "b"),
        TextEnd(0),
        ToolStart(1, "toolu_1", "f"),
        ToolDelta(1, '{"x":1}'),
        ToolEnd(1, "toolu_1", "f", '{"x":1}'),
    ]
    assert reader.stop_reason == "end_turn"


def test_an_error_is_one_by_its_events_name_alone() -> None:
    with pytest.raises(RateLimited):
        read(wires.started(), b'event: error\ndata: {"error":{"type":"rate_limit_error"}}\n\n')


def test_an_end_without_a_beginning_is_a_fault() -> None:
    with pytest.raises(Unavailable):
        read(wires.event("message_stop"))


def test_a_call_may_begin_with_its_arguments() -> None:
    whole = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}

    assert blocks(wires.block(0, whole))[0]["input"] == {"x": 1}


def test_thinking_keeps_its_signature() -> None:
    events, _ = read(wires.reply(wires.thought(0, "hm", signature="abc")))

    assert ReasoningEnd(0, "abc") in events
    assert blocks(wires.thought(0, "hm", signature="abc")) == [
        {"type": "thinking", "thinking": "hm", "signature": "abc"}
    ]


def test_redacted_thinking_comes_back_unchanged() -> None:
    redacted = {"type": "redacted_thinking", "data": "EncryptedX"}

    assert (
        ReasoningStart(0, redacted="EncryptedX") in read(wires.reply(wires.block(0, redacted)))[0]
    )
    assert blocks(wires.block(0, redacted)) == [redacted]


def test_what_a_text_rests_on_stays_with_it() -> None:
    citation = {"type": "char_location", "cited_text": "x", "document_index": 0}
    deltas = [
        {"type": "text_delta", "text": "so"},
        {"type": "citations_delta", "citation": citation},
    ]

    assert blocks(wires.block(0, {"type": "text", "text": ""}, *deltas)) == [
        {"type": "text", "text": "so", "citations": [citation]}
    ]


@pytest.mark.parametrize(
    "begun",
    [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
        {"type": "mcp_tool_use", "id": "mcp_1", "name": "find", "server_name": "s", "input": {}},
    ],
    ids=lambda each: each["type"],
)
def test_a_call_that_the_service_performs_is_kept_whole(begun: dict[str, Any]) -> None:
    delta = {"type": "input_json_delta", "partial_json": '{"query":"x"}'}

    events, reader = read(wires.reply(wires.block(0, begun, delta)))

    assert [type(each) for each in events[-1:]] == [BuiltinToolEnd]
    assert fold(events).content[0].raw() == {**begun, "input": {"query": "x"}}
    assert reader.content == [{**begun, "input": {"query": "x"}}]


@pytest.mark.parametrize(
    "whole",
    [
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "x"}]},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "of_next_year", "anything": {"at": ["all"]}},
    ],
    ids=lambda each: each["type"],
)
def test_a_block_that_is_not_known_is_kept_word_for_word(whole: dict[str, Any]) -> None:
    assert blocks(wires.block(0, whole)) == [whole]


def test_signs_of_life_say_nothing() -> None:
    reader = AnthropicReader("anthropic/x")

    list(reader.feed(wires.started()))
    assert reader.says_more
    list(reader.feed(wires.event("ping")))
    assert not reader.says_more


@pytest.mark.parametrize(
    "broken",
    [
        b"data: {half\n\n",
        b"data: [1]\n\n",
        b"data: <html>\n\n",
        wires.event("content_block_start", index=None, content_block={"type": "text"}),
        wires.event("content_block_start", index=0, content_block={}),
    ],
)
def test_what_fits_no_reply_is_a_fault_of_the_service(broken: bytes) -> None:
    with pytest.raises(Unavailable):
        read(wires.started(), broken)


def test_a_reply_that_ends_in_the_middle_of_a_block_is_incomplete() -> None:
    begun = wires.event("content_block_start", index=0, content_block={"type": "text", "text": "a"})

    with pytest.raises(Incomplete):
        read(wires.started(), begun, wires.ended())


KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop",
     "message_delta", "message_stop", "error", "ping", "new", None, ["a"], {"a": 1}, 7]
)  # fmt: skip
BLOCKS = st.sampled_from(
    ["text", "thinking", "redacted_thinking", "tool_use", "mcp_tool_use", "x", ["a"], {"a": 1}]
)
DELTAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text_delta", "input_json_delta", "citations_delta", "x", ["a"]])},
    optional={"text": JSON, "partial_json": JSON, "citation": JSON, "anything": JSON},
)
BEGUN = st.fixed_dictionaries(
    {"type": BLOCKS},
    optional={"text": JSON, "thinking": JSON, "input": JSON, "id": JSON, "name": JSON},
)
EVENTS = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "index": st.integers(0, 1) | JSON,
        "message": JSON,
        "content_block": BEGUN | JSON,
        "delta": DELTAS | JSON,
        "usage": JSON,
        "error": JSON,
    },
)


@given(told=st.lists(EVENTS, max_size=8))
def test_whatever_a_service_sends_is_a_reply_or_a_failure_of_its_own(
    told: list[dict[str, Any]],
) -> None:
    reader = AnthropicReader("anthropic/x")

    with suppress(ProviderError):
        for each in told:
            fold(reader.feed(b"data: %b\n\n" % orjson.dumps(each)))


def test_nothing_counts_after_the_end() -> None:
    events, _ = read(wires.reply(wires.said(0, "a")), wires.said(1, "b"))

    assert fold(events).text == "a"
