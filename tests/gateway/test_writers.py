from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from loops.gateway.chat_fold import fold_chat
from loops.gateway.chat_writer import ChatWriter
from loops.gateway.failing import Failure
from loops.gateway.message_fold import fold_message
from loops.gateway.message_writer import MessageWriter
from loops.gateway.rendering import error_rows, ping, sse
from loops.gateway.rounds import Surface
from loops.gateway.rows import Row
from loops.messages import Usage
from loops.providers.sse import SseParser
from loops.reply import (
    BuiltinToolDelta,
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

USAGE = Usage(input_tokens=7, output_tokens=3, cache_read_tokens=2)

REPLY: list[ModelEvent] = [
    StreamStart(model="inner"),
    ReasoningStart(0),
    ReasoningDelta(0, "hm"),
    ReasoningEnd(0, signature="s=="),
    TextStart(1),
    TextDelta(1, "Hel"),
    TextDelta(1, "lo"),
    TextEnd(1, citations=[{"url": "u"}]),
    ToolStart(2, "t1", "search"),
    ToolDelta(2, '{"q":'),
    ToolDelta(2, "1}"),
    ToolEnd(2, "t1", "search", '{"q":1}'),
    StreamEnd(stop_reason="tool_use", usage=USAGE),
]


def message(events: Iterable[ModelEvent]) -> list[Row]:
    writer = MessageWriter(id="msg_1", model="outer")
    return [row for event in events for row in writer.feed(event)]


def chat(events: Iterable[ModelEvent], *, tells_usage: bool = False) -> list[Row]:
    writer = ChatWriter(id="c1", model="outer", created=5, tells_usage=tells_usage)
    return [row for event in events for row in writer.feed(event)]


def indexes(rows: list[Row]) -> list[int]:
    told = [orjson.loads(data) for _, data in rows]
    return [each["index"] for each in told if "index" in each]


def test_a_reply_becomes_a_message() -> None:
    body = fold_message(message(REPLY))

    assert body["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s=="},
        {"type": "text", "text": "Hello", "citations": [{"url": "u"}]},
        {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": 1}},
    ]
    assert (body["id"], body["model"], body["stop_reason"]) == ("msg_1", "outer", "tool_use")
    assert body["usage"] == {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 2}


def test_each_event_is_written_when_it_comes() -> None:
    writer = MessageWriter(id="msg_1", model="m")

    names = [[name for name, _ in writer.feed(event)] for event in REPLY[:8]]

    start, delta, stop = (f"content_block_{each}" for each in ("start", "delta", "stop"))
    assert names[0] == ["message_start"]
    assert names[1:4] == [[start], [delta], [delta, stop]]
    assert names[4:] == [[start], [delta], [delta], [delta, stop]]


def test_blocks_that_grow_side_by_side_are_written_one_after_the_other() -> None:
    rows = message(
        [
            StreamStart(),
            ToolStart(0, "a", "f"),
            ToolStart(1, "b", "g"),
            ToolDelta(1, '{"b":1}'),
            ToolDelta(0, '{"a":1}'),
            ToolEnd(0, "a", "f", '{"a":1}'),
            ToolEnd(1, "b", "g", '{"b":1}'),
            StreamEnd(),
        ]
    )

    assert indexes(rows) == [0, 0, 0, 1, 1, 1]
    body = fold_message(rows)
    assert [each["input"] for each in body["content"]] == [{"a": 1}, {"b": 1}]
    assert body["stop_reason"] == "tool_use"


def test_text_without_a_beginning_is_a_block_all_the_same() -> None:
    rows = message([ReasoningDelta(0, "hm"), TextDelta(0, "a"), TextDelta(0, "b"), StreamEnd()])

    content = fold_message(rows)["content"]
    assert [each["type"] for each in content] == ["thinking", "text"]
    assert content[1]["text"] == "ab"
    assert indexes(rows) == [0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "wanted"), [("", {}), ('{"q": 1}', {"q": 1}), ("{", {"_raw": "{"})]
)
def test_arguments_that_come_whole_are_written_whole(arguments: str, wanted: object) -> None:
    events = [StreamStart(), ToolStart(0, "", ""), ToolEnd(0, "", "f", arguments), StreamEnd()]

    [block] = fold_message(message(events))["content"]
    [call] = fold_chat(chat(events))["choices"][0]["message"]["tool_calls"]

    assert (block["name"], block["input"]) == ("f", wanted)
    assert call["function"] == {"name": "f", "arguments": arguments or "{}"}
    assert (bool(block["id"]), bool(call["id"])) == (True, True)


def test_what_a_provider_does_by_itself_is_told_in_its_own_words() -> None:
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    raw = {"type": "server_tool_use", "caller": "x"}

    rows = message(
        [
            StreamStart(),
            BuiltinToolStart(0, "s1", "web_search"),
            BuiltinToolDelta(0, "{}"),
            BuiltinToolEnd(0, "s1", "web_search", '{"q": 1}', raw=raw),
            BuiltinToolResult(1, "s1", "web_search", found),
            BuiltinToolResult(2, "s1", "other", [1]),
            StreamEnd(),
        ]
    )

    call, result, other = fold_message(rows)["content"]
    assert call == {**raw, "id": "s1", "name": "web_search", "input": {"q": 1}}
    assert (result, other["type"]) == (found, "other_tool_result")


def test_what_is_no_text_is_a_block_that_comes_whole() -> None:
    hidden, picture = ReasoningStart(0, redacted="xx"), File(1, "image/png", "aGk=")

    rows = message([StreamStart(), hidden, ReasoningEnd(0), picture, StreamEnd()])

    first, second = fold_message(rows)["content"]
    assert first == {"type": "redacted_thinking", "data": "xx"}
    assert second["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert indexes(rows) == [0, 0, 1, 1]


def test_a_reply_becomes_a_chat_completion() -> None:
    body = fold_chat(chat(REPLY, tells_usage=True))

    [choice] = body["choices"]
    [call] = choice["message"]["tool_calls"]
    assert choice["message"]["content"] == "Hello"
    assert choice["message"]["reasoning_content"] == "hm"
    assert (call["id"], call["function"]["arguments"]) == ("t1", '{"q":1}')
    assert (choice["finish_reason"], body["created"], body["model"]) == ("tool_calls", 5, "outer")
    assert body["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 2},
    }


def test_what_it_costs_is_told_to_those_who_ask() -> None:
    assert "usage" not in fold_chat(chat(REPLY))
    assert chat(REPLY)[-1] == ("", "[DONE]")


@pytest.mark.parametrize(
    ("reason", "message_reason", "chat_reason"),
    [
        ("end_turn", "end_turn", "stop"),
        (None, "end_turn", "stop"),
        ("stop_sequence", "stop_sequence", "stop"),
        ("max_tokens", "max_tokens", "length"),
        ("cut", "max_tokens", "length"),
        ("tool_use", "tool_use", "tool_calls"),
        ("refusal", "refusal", "content_filter"),
        ("weather", "weather", "stop"),
    ],
)
def test_each_protocol_has_words_of_its_own_for_the_end(
    reason: str | None, message_reason: str, chat_reason: str
) -> None:
    events = [StreamStart(), StreamEnd(stop_reason=reason)]

    assert fold_message(message(events))["stop_reason"] == message_reason
    assert fold_chat(chat(events))["choices"][0]["finish_reason"] == chat_reason


def test_rows_are_written_as_events_of_a_stream() -> None:
    rows: list[Row] = [("ping", '{"a":1}'), ("", "[DONE]"), ("odd", "one\ntwo\r\n\u2028three")]

    assert sse(rows[:2]) == b'event: ping\ndata: {"a":1}\n\ndata: [DONE]\n\n'
    parser = SseParser()
    read = [(name.decode(), data.decode()) for name, data in parser.feed(sse(rows))]
    assert read == [*rows[:2], ("odd", "one\ntwo\n\u2028three")]


def test_a_sign_of_life_is_no_part_of_the_answer() -> None:
    assert ping(Surface.MESSAGES) == b'event: ping\ndata: {"type": "ping"}\n\n'
    assert SseParser().feed(ping(Surface.CHAT) + sse([("", "x")])) == [(b"", b"x")]


def test_a_failure_ends_a_stream_in_its_protocols_words() -> None:
    failure = Failure(529, "too many", code="provider_overloaded")

    [(name, data)] = error_rows(Surface.MESSAGES, failure)
    [(_, chunk), done] = error_rows(Surface.CHAT, failure)

    told: Any = orjson.loads(data)
    assert (name, told["error"]["type"]) == ("error", "overloaded_error")
    assert orjson.loads(chunk)["error"]["message"] == "too many"
    assert done == ("", "[DONE]")
