from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.blocks import OpaqueBlock, RedactedThinkingBlock, ThinkingBlock, ToolUseBlock
from loops.events import (
    BuiltinToolEnd,
    BuiltinToolResult,
    BuiltinToolStart,
    File,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)
from loops.fold import UNPARSED, Fold, fold
from loops.messages import Usage

CALL = [
    ToolStart(1, "a", "add"),
    ToolDelta(1, '{"a"'),
    ToolDelta(1, ":1}"),
    ToolEnd(1, "a", "add", '{"a":1}', "turn:1.1"),
]


def test_text_grows_by_its_deltas() -> None:
    assert fold([TextStart(0), TextDelta(0, "a"), TextDelta(0, "b"), TextEnd(0)]).text == "ab"


def test_a_delta_begins_its_block_where_nothing_else_did() -> None:
    assert fold([TextDelta(0, "a")]).text == "a"


def test_blocks_stand_in_the_order_in_which_they_began() -> None:
    events = [ReasoningStart(0), TextStart(1), TextDelta(1, "x"), ReasoningDelta(0, "hm")]

    assert [block.type for block in fold(events).content] == ["thinking", "text"]


@pytest.mark.parametrize("seen", range(len(CALL)))
def test_a_call_that_is_half_written_does_not_exist(seen: int) -> None:
    assert fold(CALL[:seen]).tool_calls == []


def test_a_closed_call_stands_in_the_message_with_our_key() -> None:
    assert fold(CALL).tool_calls == [
        ToolUseBlock(id="a", name="add", input={"a": 1}, call="turn:1.1")
    ]


def test_arguments_that_are_no_object_leave_the_history_valid() -> None:
    (call,) = fold([ToolEnd(0, "a", "add", '{"a":')]).tool_calls

    assert call.input == {UNPARSED: '{"a":'}


def test_a_call_without_an_id_gets_our_key() -> None:
    (call,) = fold([ToolEnd(0, "", "add", "{}", "turn:1.0")]).tool_calls

    assert call.id == "turn:1.0"


def test_thinking_keeps_its_signature() -> None:
    events = [ReasoningStart(0), ReasoningDelta(0, "hm"), ReasoningEnd(0, "s")]

    assert fold(events).content == [ThinkingBlock(thinking="hm", signature="s")]


def test_what_else_a_provider_says_of_a_block_stays_with_it() -> None:
    extra = {"mood": "good", "type": "other", "text": "other", "name": "other"}
    events = [
        TextStart(0), TextDelta(0, "a"), TextEnd(0, extra=extra),
        ReasoningStart(1), ReasoningDelta(1, "hm"), ReasoningEnd(1, "s", extra={"mood": "bad"}),
        ToolEnd(2, "a", "t", "{}", extra={"mood": "new", "name": "other"}),
    ]  # fmt: skip

    content = [decoded.raw() for decoded in fold(events).content]

    assert [block["mood"] for block in content] == ["good", "bad", "new"]
    assert (content[0]["text"], content[1]["signature"], content[2]["name"]) == ("a", "s", "t")


def test_thinking_that_only_the_provider_reads_is_kept() -> None:
    events = [ReasoningStart(0, redacted="xyz"), ReasoningEnd(0)]

    assert fold(events).content == [RedactedThinkingBlock(data="xyz")]


def test_calls_that_the_provider_performs_are_kept_word_for_word() -> None:
    block = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "x"}]}
    events = [
        BuiltinToolStart(0, "s", "web_search"),
        BuiltinToolEnd(0, "s", "web_search", '{"query":"x"}'),
        BuiltinToolResult(1, "s", "web_search", block),
    ]

    asked, answered = fold(events).content

    assert asked.raw()["input"] == {"query": "x"}
    assert isinstance(answered, OpaqueBlock)
    assert answered.raw() == block


def test_a_plain_answer_of_the_provider_gets_a_block_around_it() -> None:
    (block,) = fold([BuiltinToolResult(0, "s", "code", {"out": "3"})]).content

    assert block.raw() == {
        "type": "code_tool_result",
        "tool_use_id": "s",
        "content": {"out": "3"},
    }


@pytest.mark.parametrize(
    ("media_type", "data", "kind", "source"),
    [
        ("image/png", "eA==", "image", "base64"),
        ("application/pdf", "https://x/y.pdf", "document", "url"),
    ],
)
def test_files_become_blocks(media_type: str, data: str, kind: str, source: str) -> None:
    (block,) = fold([File(0, media_type, data)]).content

    assert block.type == kind
    assert block.raw()["source"]["type"] == source


def test_a_call_of_the_provider_that_is_half_written_does_not_exist() -> None:
    assert fold([BuiltinToolStart(0, "s", "web_search")]).content == []


def test_empty_text_is_no_block() -> None:
    assert fold([TextStart(0), TextDelta(0, ""), TextEnd(0)]).content == []


def test_the_end_tells_usage_and_reason() -> None:
    growing = Fold()
    for event in [StreamStart("m"), TextDelta(0, "x"), StreamEnd("end_turn", Usage(cost=1.0))]:
        growing.feed(event)

    assert (growing.stop_reason, growing.usage) == ("end_turn", Usage(cost=1.0))
    assert growing.message().usage == Usage(cost=1.0)
    assert growing.is_complete


def test_a_snapshot_shows_its_moment_for_ever() -> None:
    growing = Fold()
    growing.feed(TextDelta(0, "a"))
    early = growing.snapshot()
    growing.feed(TextDelta(0, "b"))

    assert (early().text, growing.message().text) == ("a", "ab")


def block_events(number: int, kind: str, pieces: list[str]) -> list[ModelEvent]:
    if kind == "text":
        return [TextStart(number), *(TextDelta(number, each) for each in pieces), TextEnd(number)]
    if kind == "reasoning":
        deltas = [ReasoningDelta(number, each) for each in pieces]
        return [ReasoningStart(number), *deltas, ReasoningEnd(number)]
    arguments = '{"x":"' + "".join(pieces) + '"}'
    return [ToolStart(number, str(number), "t"), ToolEnd(number, str(number), "t", arguments)]


REPLIES = st.lists(
    st.tuples(
        st.sampled_from(["text", "reasoning", "call"]),
        st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4),
    ),
    max_size=5,
).map(
    lambda blocks: [
        event
        for number, (kind, pieces) in enumerate(blocks)
        for event in block_events(number, kind, pieces)
    ]
)


@given(REPLIES, st.data())
def test_a_fold_of_closed_blocks_holds_nothing_that_may_still_grow(
    events: list[Any], data: st.DataObject
) -> None:
    prefix = events[: data.draw(st.integers(0, len(events)))]
    closed = {
        event.block for event in prefix if isinstance(event, (TextEnd, ReasoningEnd, ToolEnd))
    }

    message = fold(prefix, closed_only=True)

    assert message.content == fold([e for e in events if e.block in closed]).content


@given(REPLIES, st.data())
def test_folding_on_from_a_prefix_is_folding_it_all(events: list[Any], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events)))
    growing = Fold()
    for event in events[:cut]:
        growing.feed(event)
    growing.message()
    for event in events[cut:]:
        growing.feed(event)

    assert growing.message() == fold(events)
