from typing import Any

import pytest

from loops.gateway.bodies import (
    CallIn,
    calls_in,
    chat_of_message,
    message_of_chat,
    without_calls,
)
from loops.gateway.rounds import Surface
from loops.gateway.usages import summed

MESSAGES, CHAT = Surface.MESSAGES, Surface.CHAT

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"q": 1}},
        {"type": "server_tool_use", "id": "t2", "name": "g", "input": {}},
        {"type": "tool_use", "id": "t3", "name": "h", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3},
}


def completion(calls: list[dict[str, Any]] | None, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, **message}
    if calls is not None:
        said["tool_calls"] = calls
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}


def function(key: str, arguments: str) -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": "f", "arguments": arguments}}


def test_the_calls_of_a_message_are_those_that_its_caller_answers() -> None:
    assert calls_in(MESSAGES, MESSAGE) == [CallIn(2, "t1", "f", {"q": 1}), CallIn(4, "t3", "h", {})]


def test_the_calls_of_a_chat_completion_are_those_of_functions() -> None:
    custom = {"id": "x", "type": "custom", "custom": {"name": "f", "input": "a"}}
    calls = [function("a", '{"q":1}'), custom, function("b", "{"), function("c", "")]

    found = calls_in(CHAT, completion(calls))

    assert [each.place for each in found] == [0, 2, 3]
    assert [each.arguments for each in found] == [{"q": 1}, {"_raw": "{"}, {}]


@pytest.mark.parametrize("body", [{}, {"content": "a", "choices": [{}]}, {"choices": None}])
def test_a_body_that_is_none_has_no_calls(body: dict[str, Any]) -> None:
    assert (calls_in(MESSAGES, body), calls_in(CHAT, body)) == ([], [])


def test_a_call_is_the_same_however_it_is_written() -> None:
    one, other = (
        CallIn(0, "a", "f", {"a": 1, "b": 2}),
        CallIn(1, "b", "f", {"b": 2, "a": 1}),
    )

    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != CallIn(0, "a", "f", {"a": 1}).fingerprint


@pytest.mark.parametrize(
    ("places", "left", "reason"),
    [({2}, 4, "tool_use"), ({2, 4}, 3, "end_turn"), (set[int](), 5, "tool_use")],
)
def test_a_message_without_calls_says_why_it_ends(places: set[int], left: int, reason: str) -> None:
    body = without_calls(MESSAGES, MESSAGE, places)

    assert (len(body["content"]), body["stop_reason"]) == (left, reason)
    assert len(MESSAGE["content"]) == 5


def test_a_message_that_was_too_long_stays_so_without_its_calls() -> None:
    body = without_calls(MESSAGES, {**MESSAGE, "stop_reason": "max_tokens"}, {2, 4})

    assert body["stop_reason"] == "max_tokens"


@pytest.mark.parametrize(("places", "left"), [({0}, 1), ({0, 1}, 0)])
def test_a_chat_completion_without_calls_says_why_it_ends(places: set[int], left: int) -> None:
    whole = completion([function("a", "{}"), function("b", "{}")])

    [choice] = without_calls(CHAT, whole, places)["choices"]

    assert len(choice["message"].get("tool_calls", [])) == left
    assert ("tool_calls" in choice["message"]) is (left > 0)
    assert choice["finish_reason"] == ("tool_calls" if left else "stop")
    assert len(whole["choices"][0]["message"]["tool_calls"]) == 2


def test_a_message_is_told_as_a_chat_completion() -> None:
    body = chat_of_message(MESSAGE)

    [choice] = body["choices"]
    assert choice["message"]["content"] == "a"
    assert choice["message"]["reasoning_content"] == "hm"
    assert choice["message"]["tool_calls"][0] == function("t1", '{"q":1}')
    assert choice["finish_reason"] == "tool_calls"
    assert body["usage"]["prompt_tokens"] == 7
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}


def test_a_chat_completion_is_told_as_a_message() -> None:
    whole = completion([function("a", '{"q":1}')], content="a", reasoning_content="hm")
    cached = {"cached_tokens": 2}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": cached}

    body = message_of_chat({**whole, "usage": usage})

    assert body["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"q": 1}},
    ]
    assert (body["stop_reason"], body["type"]) == ("tool_use", "message")
    assert body["usage"] == MESSAGE["usage"]


def test_broken_arguments_are_the_same_on_both_sides() -> None:
    broken = message_of_chat(completion([function("a", '{"q')]))

    [call] = chat_of_message(broken)["choices"][0]["message"]["tool_calls"]

    assert call["function"]["arguments"] == '{"q'


def test_a_refusal_is_text_of_a_message() -> None:
    whole = completion(None, refusal="no")
    whole["choices"][0]["finish_reason"] = "content_filter"

    body = message_of_chat(whole)

    assert body["content"] == [{"type": "text", "text": "no"}]
    assert body["stop_reason"] == "refusal"


def test_usage_is_summed_number_by_number() -> None:
    first = {"a": 1, "deep": {"n": 1.5, "only": 1}, "tier": "x", "none": None, "is": True}
    second = {"a": 2, "deep": {"n": 1}, "tier": "y", "none": 4, "is": False, "list": [1]}

    assert summed([first, second, {"list": [2]}]) == {
        "a": 3,
        "deep": {"n": 2.5, "only": 1},
        "tier": "y",
        "none": 4,
        "is": False,
        "list": [1, 2],
    }
