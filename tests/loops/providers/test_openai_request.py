"""Requests to Chat Completions, as they go out."""

from typing import Any

import pytest

from loops.messages import Messages
from loops.model import ModelRequest, ToolSpec
from loops.providers.openai_request import to_wire
from loops.providers.vendors import VENDORS, Dialect

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
    told = body("hi", system="s", max_tokens=9, dialect=VENDORS["openai"].dialect)

    assert told["messages"][0]["role"] == "developer"
    assert told["max_completion_tokens"] == 9
    assert "max_tokens" not in told


def test_what_the_caller_says_goes_first() -> None:
    told = body("hi", params={"temperature": 1, "stream": False, "model": "other"})

    assert (told["temperature"], told["stream"], told["model"]) == (1, True, "gpt-x")


def test_what_stands_in_an_extra_body_goes_before_everything_else() -> None:
    extra = {"temperature": 0, "provider": {"order": ["x"]}, "stream": False}

    told = body("hi", params={"temperature": 1, "seed": 7, "extra_body": extra})

    assert (told["temperature"], told["provider"], told["seed"]) == (0, {"order": ["x"]}, 7)
    assert (told["stream"], "extra_body" in told) == (True, False)


def test_tools_of_the_service_stand_beside_ours() -> None:
    search = {"type": "web_search", "web_search": {"enable": True}}
    ours = (ToolSpec("look", "", {}),)

    told = body("hi", tools=ours, params={"tools": [search]})["tools"]

    assert [tool["type"] for tool in told] == ["function", "web_search"]
    assert body("hi", params={"tools": [search]})["tools"] == [search]
    assert body("hi", tools=ours, params={"tools": None})["tools"] == told[:1]


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


ADDRESS = "https://acme.test/a"
PDF = {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}
INLINE = "data:application/pdf;base64,QQ=="


@pytest.mark.parametrize(
    ("kind", "source", "told"),
    [
        ("image", PICTURE["source"],
         {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}),
        ("image", {"type": "url", "url": ADDRESS},
         {"type": "image_url", "image_url": {"url": ADDRESS}}),
        ("image", {"type": "file", "file_id": "f_1"},
         {"type": "file", "file": {"file_id": "f_1"}}),
        ("document", PDF,
         {"type": "file", "file": {"filename": "document.pdf", "file_data": INLINE}}),
        ("document", {"type": "file", "file_id": "f_1"},
         {"type": "file", "file": {"file_id": "f_1"}}),
        ("document", {"type": "text", "data": "plain"}, {"type": "text", "text": "plain"}),
        ("document", {"type": "content", "content": [{"type": "text", "text": "inner"}]},
         {"type": "text", "text": "inner"}),
        ("document", {"type": "content", "content": "inner"}, {"type": "text", "text": "inner"}),
        ("document", {"type": "url", "url": ADDRESS},
         {"type": "text", "text": f"[a document is at {ADDRESS}]"}),
    ],
    ids=["picture inline", "picture by address", "picture by file", "document inline",
         "document by file", "document of text", "document of blocks", "document of a string",
         "document by address"],
)  # fmt: skip
def test_pictures_and_documents_are_parts(kind: str, source: Any, told: Any) -> None:
    content = [{"type": "text", "text": "see"}, {"type": kind, "source": source}]

    [message] = body({"role": "user", "content": content})["messages"]

    assert message["content"] == [{"type": "text", "text": "see"}, told]


def test_a_document_keeps_its_title() -> None:
    address = {"type": "url", "url": ADDRESS}
    content = [{"type": "document", "source": PDF, "title": "plan"},
               {"type": "document", "source": address, "title": "map"}]  # fmt: skip

    [message] = body({"role": "user", "content": content})["messages"]

    assert message["content"][0]["file"]["filename"] == "plan"
    assert message["content"][1]["text"] == f"[the document 'map' is at {ADDRESS}]"


def test_an_address_of_a_document_is_told_to_who_fetches_it() -> None:
    content = [{"type": "document", "source": {"type": "url", "url": ADDRESS}}]

    [message] = body({"role": "user", "content": content}, dialect=VENDORS["openrouter"].dialect)[
        "messages"
    ]

    assert message["content"] == [
        {"type": "file", "file": {"filename": "document", "file_data": ADDRESS}}
    ]


def test_what_a_search_found_is_told_in_words() -> None:
    found = {"type": "search_result", "title": "Maps", "source": ADDRESS,
             "content": [{"type": "text", "text": "here"}]}  # fmt: skip

    told = body("hi", CALLS, results([found], "two"), {"role": "user", "content": [found]})

    assert told["messages"][2]["content"] == f"Maps – {ADDRESS}\nhere"
    assert told["messages"][-1]["content"] == f"Maps – {ADDRESS}\nhere"


@pytest.mark.parametrize("broken", [{"type": "text"}, {"type": "image"}, {"type": "document"}, {}])
def test_a_result_that_is_made_wrongly_breaks_nothing(broken: dict[str, Any]) -> None:
    told = body("hi", CALLS, results([broken, {"type": "text", "text": "one"}], "two"))

    assert told["messages"][2]["content"].startswith("one")


@pytest.mark.parametrize(
    ("vendor", "name"), [("deepseek", "reasoning_content"), ("openrouter", "reasoning")]
)
def test_what_the_model_thought_is_told_to_who_wants_it(vendor: str, name: str) -> None:
    assert body("hi", CALLS, dialect=VENDORS[vendor].dialect)["messages"][1][name] == "hm"


def test_what_the_model_thought_is_told_to_nobody_else() -> None:
    assert set(body("hi", CALLS)["messages"][1]) == {"role", "content", "tool_calls"}


def test_a_message_that_says_nothing_is_left_out() -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}

    assert len(body("hi", thought, "still there?")["messages"]) == 2
