from typing import Any

import pytest

from loops.kit import LLM, events, to_ui
from loops.kit.shown import CallBlock, Reading, Shown, Text
from loops.kit.turn import Turn
from loops.messages import Usage
from loops.providers.scripted import call, in_turn, scripted, text, thinking
from loops.reply import (
    BuiltinToolEnd,
    BuiltinToolResult,
    BuiltinToolStart,
    Event,
    File,
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
from tests.kit.loop_talks import asking, of
from tests.kit.weather import WEATHER, weather


def read(*told: Event, offered: frozenset[str] = frozenset()) -> tuple[list[Any], Turn]:
    """Return what a reader is shown of a reply, and the turn that it is."""
    reading = Reading(offered)
    shown = [each for event in told for each in reading.take(event)]
    assert reading.has_ended
    return shown, reading.turn()


USAGE = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4)


def test_a_reply_is_shown_piece_by_piece_and_is_a_turn_in_the_end() -> None:
    shown, turn = read(
        StreamStart(),
        ReasoningStart(0),
        ReasoningDelta(0, "Hm."),
        ReasoningEnd(0, "signed"),
        TextStart(1),
        TextDelta(1, "Let me "),
        TextDelta(1, "see."),
        TextEnd(1),
        StreamEnd(stop_reason="end_turn", usage=USAGE),
    )

    assert shown == [{"type": "thinking", "thinking": "Hm."}, "Let me ", "see."]
    assert turn.content == [
        {"type": "thinking", "thinking": "Hm.", "signature": "signed"},
        {"type": "text", "text": "Let me see."},
    ]
    assert (turn.stop_reason, turn.input, turn.output) == ("end_turn", 1, 2)
    assert (turn.cached, turn.cache_create, turn.read) == (3, 4, 8)


def test_a_call_is_announced_by_its_name_and_then_written() -> None:
    shown, turn = read(
        StreamStart(),
        ToolStart(0, "c1", "weather"),
        ToolDelta(0, '{"city":'),
        ToolDelta(0, '"Rome"}'),
        ToolEnd(0, "c1", "weather", '{"city":"Rome"}'),
        StreamEnd(stop_reason="tool_use"),
        offered=frozenset({"weather"}),
    )

    assert shown == [
        {"type": "step", "step": "", "tool_name": "weather", "id": "c1"},
        {"type": "step_arg", "id": "c1", "delta": '{"city":'},
        {"type": "step_arg", "id": "c1", "delta": '"Rome"}'},
    ]
    [block] = turn.calls
    assert isinstance(block, CallBlock)
    assert (block["name"], block["input"]) == ("weather", {"city": "Rome"})
    assert (block.offered, block.is_announced) == ({"weather"}, True)


def test_what_is_shown_knows_where_it_comes_from() -> None:
    shown, _ = read(
        StreamStart(turn=3),
        TextStart(0, turn=3),
        TextDelta(0, "Yes.", turn=3),
        TextEnd(0, turn=3),
        ToolStart(1, "c1", "weather", turn=3),
        ToolEnd(1, "c1", "weather", "{}", turn=3),
        StreamEnd(turn=3),
    )

    said, step = shown
    assert isinstance(said, Text)
    assert (said, said.turn, said.block) == ("Yes.", 3, 0)
    assert isinstance(step, Shown)
    assert step.turn == 3


PAGES = [
    {"type": "web_search_result", "title": "Loops", "url": "https://example.org/loops"},
    {"type": "web_search_result", "title": "No address"},
    "junk",
]


def searched(content: Any) -> list[Any]:
    """Return what is shown of a search that the model's own service has made."""
    shown, _ = read(
        StreamStart(),
        BuiltinToolStart(0, "s1", "web_search"),
        BuiltinToolEnd(0, "s1", "web_search", '{"query": "loops"}'),
        BuiltinToolResult(1, "s1", "web_search", content),
        StreamEnd(),
    )
    return shown


def test_a_search_of_the_service_is_a_step_by_its_name_and_its_sources() -> None:
    shown = searched({"type": "web_search_tool_result", "content": PAGES})

    assert shown == [
        {"type": "step", "step": "loops", "tool_name": "web_search", "id": "s1"},
        {
            "type": "sources",
            "sources": [{"title": "Loops", "url": "https://example.org/loops", "snippet": ""}],
            "id": "s1",
        },
    ]


@pytest.mark.parametrize(
    "content",
    [
        {"type": "web_search_tool_result", "content": {"error_code": "max_uses_exceeded"}},
        {"type": "web_search_tool_result", "content": []},
        {"type": "code_execution_tool_result"},
        None,
        "junk",
    ],
)
def test_what_is_no_list_of_pages_has_no_sources(content: Any) -> None:
    assert of(searched(content), "sources") == []


def test_files_of_a_model_are_shown_by_their_address() -> None:
    shown, _ = read(
        StreamStart(),
        File(0, "image/png", "aGk="),
        File(1, "image/png", "https://example.org/a.png"),
        File(2, "text/csv", "YSxi", "a.csv"),
        StreamEnd(),
    )

    assert shown == [
        {"type": "image", "src": "data:image/png;base64,aGk="},
        {"type": "image", "src": "https://example.org/a.png"},
        {"type": "file", "src": "data:text/csv;base64,YSxi", "name": "a.csv"},
    ]


def test_a_reply_that_is_shown_again_says_so() -> None:
    _, turn = read(StreamStart(), StreamEnd(replayed=True))

    assert turn.replayed


async def test_a_round_of_a_loop_is_shown_in_its_order() -> None:
    replies = in_turn([thinking("hm"), text("Let me see."), call("weather", city="Rome")], "Sunny.")
    llm = LLM().model(scripted(replies, delta=100)).tools([WEATHER])

    shown = [e async for e in llm.on("weather", weather, label="Look").run(context=asking())]

    assert shown == [
        {"type": "thinking", "thinking": "hm"},
        "Let me see.",
        {"type": "step", "step": "", "tool_name": "weather", "id": "call_0"},
        {"type": "step_arg", "id": "call_0", "delta": '{"city":"Rome"}'},
        {"type": "step", "step": "Look", "id": "call_0"},
        "sunny in Rome",
        "Sunny.",
    ]


def test_events_have_their_shapes() -> None:
    assert events.text("a") == "a"
    assert events.thinking("a") == {"type": "thinking", "thinking": "a"}
    assert events.step("a") == {"type": "step", "step": "a"}
    assert events.step("a", tool="t", id="1") == {
        "type": "step",
        "step": "a",
        "tool_name": "t",
        "id": "1",
    }
    assert events.tool_args("1", "{") == {"type": "step_arg", "id": "1", "delta": "{"}
    assert events.callout("a") == {"type": "callout", "callout": "a", "style": "info"}
    assert events.tool_call("t", {"a": 1}) == {"type": "tool_call", "tool": "t", "args": {"a": 1}}
    assert events.reset("a") == {"type": "reset", "reason": "a"}


@pytest.mark.parametrize("event", ["text", {"type": "ui"}, None, object()])
def test_a_reader_gets_the_very_event(event: object) -> None:
    assert to_ui(event) is event
    assert events.to_ui(event) is event
