"""Requests to Anthropic, as they go out."""

from typing import Any

import pytest

from loops.messages import Message, Messages
from loops.model import ModelRequest, ToolSpec
from loops.providers.anthropic_request import MAX_TOKENS, to_wire

MARK = {"type": "ephemeral"}


def request(*messages: Any, **others: Any) -> ModelRequest:
    return ModelRequest(model="claude-x", messages=tuple(Messages.of(messages)), **others)


def marks(body: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [*body.get("tools", []), *body.get("system", [])]
    for message in body["messages"]:
        for part in message["content"]:
            inner = part.get("content")
            parts += inner if isinstance(inner, list) else []
            parts.append(part)
    return [part for part in parts if "cache_control" in part]


def test_a_request_says_what_is_asked() -> None:
    tool = ToolSpec("look", "Look at a place.", {"type": "object"})

    body = to_wire(request("hi", system="be kind", tools=(tool,)), caches=False)

    assert body == {
        "model": "claude-x",
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "system": [{"type": "text", "text": "be kind"}],
        "tools": [{"name": "look", "description": "Look at a place.",
                   "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }  # fmt: skip


def test_what_the_caller_says_goes_first() -> None:
    params = {"max_tokens": 5, "temperature": 1, "stream": False, "model": "other", "betas": ["x"]}

    body = to_wire(request("hi", max_tokens=7, params=params))

    assert (body["max_tokens"], body["temperature"]) == (5, 1)
    assert (body["stream"], body["model"]) == (True, "claude-x")
    assert "betas" not in body


def test_what_stands_in_an_extra_body_goes_before_everything_else() -> None:
    extra = {"temperature": 0, "system": "mine", "mcp_servers": [{"url": "x"}], "stream": False}

    body = to_wire(request("hi", system="s", params={"temperature": 1, "extra_body": extra}))

    assert {name: body[name] for name in extra} == {**extra, "stream": True}
    assert "extra_body" not in body


def test_tools_of_the_service_stand_beside_ours() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}

    body = to_wire(request("hi", params={"tools": [search]}))

    assert body["tools"] == [{**search, "cache_control": MARK}]
    assert "cache_control" not in search

    ours = (ToolSpec("look", "", {}),)
    both = to_wire(request("hi", tools=ours, params={"tools": [search]}))["tools"]
    assert [tool["name"] for tool in both] == ["look", "web_search"]


def test_a_system_message_of_the_history_stands_in_front() -> None:
    body = to_wire(
        request({"role": "system", "content": "now"}, "hi", system="first"), caches=False
    )

    assert [part["text"] for part in body["system"]] == ["first", "now"]
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_our_own_key_of_a_call_stays_with_us() -> None:
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}, "call": "turn:1.0"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    history = [
        "hi",
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]

    body = to_wire(request(*history), caches=False)

    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    ]
    assert body["messages"][2] == {"role": "user", "content": [result]}


def test_what_stays_the_same_is_marked_at_its_end() -> None:
    tools = (ToolSpec("a", "", {}), ToolSpec("b", "", {}))

    body = to_wire(request("one", "two", system="s", tools=tools))

    assert [part.get("name") or part["text"] for part in marks(body)] == ["b", "s", "two"]


def marked(count: int) -> list[dict[str, Any]]:
    return [{"type": "text", "text": str(at), "cache_control": MARK} for at in range(count)]


@pytest.mark.parametrize(
    ("callers", "left"),
    [(3, ["0", "1", "2", "last"]), (4, ["1", "2", "3", "last"]), (6, ["3", "4", "5", "last"])],
)
def test_of_five_marks_the_oldest_goes(callers: int, left: list[str]) -> None:
    body = to_wire(request({"role": "user", "content": marked(callers)}, "last"))

    assert [part["text"] for part in marks(body)] == left


def test_marks_inside_of_a_result_count_too() -> None:
    said = {"role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}  # fmt: skip
    result = {"type": "tool_result", "tool_use_id": "a", "content": marked(4)}

    body = to_wire(request("hi", said, {"role": "user", "content": [result]}))

    assert [part.get("text", part["type"]) for part in marks(body)] == [
        "1",
        "2",
        "3",
        "tool_result",
    ]


def test_a_mark_for_the_request_as_a_whole_is_one_of_the_four() -> None:
    asked = request({"role": "user", "content": marked(4)}, params={"cache_control": MARK})

    assert [part["text"] for part in marks(to_wire(asked))] == ["1", "2", "3"]


def test_a_mark_that_is_none_takes_no_place() -> None:
    empty = {"type": "text", "text": "a", "cache_control": None}

    body = to_wire(request({"role": "user", "content": [empty, *marked(4)]}), caches=False)

    assert [part["text"] for part in marks(body)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "  ", "cache_control": MARK},
        {"type": "thinking", "thinking": "x", "signature": "s", "cache_control": MARK},
        {"type": "redacted_thinking", "data": "x", "cache_control": MARK},
    ],
)
def test_empty_text_and_thinking_are_never_marked(part: dict[str, Any]) -> None:
    assistant = Message.from_raw({"role": "assistant", "content": [part]})

    body = to_wire(request("hi", assistant), caches=False)

    assert marks(body) == []
    assert "cache_control" in part


def test_what_no_request_may_carry_is_made_fit() -> None:
    thought = {"type": "thinking", "thinking": "x", "signature": ""}
    call = {"type": "tool_use", "id": "functions.f:0", "name": "a b", "input": {}}
    texts = [{"type": "text", "text": " "}, {"type": "text", "text": "1"}]
    result = {"type": "tool_result", "tool_use_id": "functions.f:0", "content": texts}
    said = {"role": "assistant", "content": [thought, call]}

    body = to_wire(request("hi", said, {"role": "user", "content": [result]}), caches=False)

    [told] = body["messages"][1]["content"]
    [answer] = body["messages"][2]["content"]
    assert (told["id"], told["name"]) == ("functions_f_0", "a_b")
    assert answer["tool_use_id"] == "functions_f_0"
    assert answer["content"] == [{"type": "text", "text": "1"}]


def test_no_mark_of_ours_stands_before_one_that_lives_longer() -> None:
    marked = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}

    body = to_wire(request({"role": "user", "content": [marked]}, system="s"))

    assert [part["text"] for part in marks(body)] == ["a"]


def test_the_history_is_not_changed() -> None:
    history = Messages.of(["hi"])
    before = history.raw

    to_wire(ModelRequest(model="m", messages=tuple(history)))

    assert history.raw == before
