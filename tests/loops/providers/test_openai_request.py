"""Requests to Chat Completions, as they go out."""

from typing import Any

import pytest

from loops.messages import Messages
from loops.model import ModelRequest, ToolSpec
from loops.providers.openai_request import DIALECTS, Dialect, to_wire

PLAIN = Dialect()
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}


def body(*messages: Any, dialect: Dialect = PLAIN, **others: Any) -> dict[str, Any]:
    asked = ModelRequest(model="gpt-x", messages=tuple(Messages.of(messages)), **others)
    return to_wire(asked, dialect)


def test_a_request_says_what_is_asked() -> None:
    tool = ToolSpec("look", "Look at a place.", {"type": "object"})

    assert body("hi", system="be kind", tools=(tool,), max_tokens=9) == {
        "model": "gpt-x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hi"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Look at a place.",
                    "parameters": {"type": "object"},
                },
            }
        ],
    }


def test_services_differ_in_their_words() -> None:
    told = body("hi", system="s", max_tokens=9, dialect=DIALECTS["openai"])

    assert told["messages"][0]["role"] == "developer"
    assert told["max_completion_tokens"] == 9
    assert "max_tokens" not in told


def test_what_the_caller_says_goes_first() -> None:
    told = body("hi", params={"temperature": 1, "stream": False, "model": "other"})

    assert (told["temperature"], told["stream"], told["model"]) == (1, True, "gpt-x")


CALLS = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {}},
    ],
}


def results(*contents: Any, is_error: bool = False) -> dict[str, Any]:
    blocks = [
        {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
        for call, content in zip("ab", contents, strict=False)
    ]
    return {"role": "user", "content": blocks}


def test_calls_and_results_are_messages_of_their_own() -> None:
    told = body("hi", CALLS, results("one", "two"))["messages"]

    assert told[1] == {
        "role": "assistant",
        "content": "I look",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    assert told[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]


def test_a_failure_is_told_as_one() -> None:
    told = body("hi", CALLS, results("broke", is_error=True))["messages"]

    assert told[2]["content"] == "[error] broke"


def test_pictures_of_results_follow_all_results() -> None:
    told = body("hi", CALLS, results([{"type": "text", "text": "see"}, PICTURE], "two"))["messages"]

    assert [message["role"] for message in told[2:]] == ["tool", "tool", "user"]
    assert told[2]["content"].startswith("see\n")
    assert told[4]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}
    ]


def test_pictures_and_documents_are_parts() -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}
    content = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "url", "url": "https://acme.test/a.png"}},
        {"type": "document", "source": pdf},
        {"type": "document", "source": {"type": "text", "data": "plain"}},
    ]

    [told] = body({"role": "user", "content": content})["messages"]

    assert [part["type"] for part in told["content"]] == [
        "text", "image_url", "file", "text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("vendor", "name"), [("deepseek", "reasoning_content"), ("openrouter", "reasoning")]
)
def test_what_the_model_thought_is_told_to_who_wants_it(vendor: str, name: str) -> None:
    assert body("hi", CALLS, dialect=DIALECTS[vendor])["messages"][1][name] == "hm"


def test_what_the_model_thought_is_told_to_nobody_else() -> None:
    assert set(body("hi", CALLS)["messages"][1]) == {"role", "content", "tool_calls"}


def test_a_message_that_says_nothing_is_left_out() -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}

    assert len(body("hi", thought, "still there?")["messages"]) == 2
