"""Requests of one protocol in the words of the other."""

from typing import Any

import orjson
import pytest

from loops.errors import InvalidRequest
from loops.gateway.rounds import Surface
from loops.gateway.translating import (
    cleaned_body,
    in_shape_of,
    model_request,
    with_thinking,
    without_forced_choice,
)
from loops.providers.anthropic_request import to_wire as to_anthropic
from loops.providers.openai_request import to_wire as to_openai
from loops.providers.vendors import VENDORS

Raw = dict[str, Any]

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
CHAT, MESSAGES = Surface.CHAT, Surface.MESSAGES
OPENAI = VENDORS["openai"].dialect

USE = {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "x"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}
CALL = {"id": "t1", "type": "function", "function": {"name": "search", "arguments": '{"q":"x"}'}}

MESSAGES_HISTORY = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "text", "text": "I look"}, USE]},
    {"role": "user", "content": [RESULT, {"type": "text", "text": "go on"}]},
]
CHAT_HISTORY = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "I look", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "t1", "content": "found"},
    {"role": "user", "content": "go on"},
]


def to_chat(**body: Any) -> Raw:
    told = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **body}
    return to_openai(model_request(MESSAGES, told, CHAT), OPENAI)


def to_messages(*, model: str = "claude-3-5-x", **body: Any) -> Raw:
    told = {"model": model, "messages": [{"role": "user", "content": "hi"}], **body}
    return to_anthropic(model_request(CHAT, told, MESSAGES), caches=False)


def same(one: Any, other: Any) -> bool:
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        other, option=orjson.OPT_SORT_KEYS
    )


def test_a_conversation_of_messages_is_one_of_chat_completions():
    sent = to_chat(system=[{"type": "text", "text": "be kind"}], messages=MESSAGES_HISTORY)

    assert same(sent["messages"], [{"role": "developer", "content": "be kind"}, *CHAT_HISTORY])


def test_a_conversation_of_chat_completions_is_one_of_messages():
    system = {"role": "system", "content": "be kind"}

    sent = to_messages(messages=[system, *CHAT_HISTORY])

    assert sent["system"] == [{"type": "text", "text": "be kind"}]
    text = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert same(sent["messages"], [text, *MESSAGES_HISTORY[1:]])


def test_tools_and_limits_are_told_in_the_other_protocols_words():
    tool = {"name": "search", "description": "looks", "input_schema": SCHEMA}
    function = {"name": "search", "description": "looks", "parameters": SCHEMA}

    chat = to_chat(tools=[tool], max_tokens=7)
    messages = to_messages(tools=[{"type": "function", "function": function}], max_tokens=7)

    assert chat["tools"] == [{"type": "function", "function": function}]
    assert chat["max_completion_tokens"] == 7
    assert messages["tools"] == [tool]
    assert messages["max_tokens"] == 7


TOOL = {"name": "f", "input_schema": SCHEMA}


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
        ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        ({"tool_choice": {"type": "tool", "name": "f"}},
         {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
         {"tool_choice": "auto", "parallel_tool_calls": False}),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 5000}}, {"reasoning_effort": "medium"}),
        ({"thinking": {"type": "disabled"}}, {}),
        ({"output_config": {"effort": "max"}}, {"reasoning_effort": "high"}),
        ({"top_k": 3, "service_tier": "auto", "container": "c"}, {}),
        ({"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
         {"response_format": {"type": "json_schema", "json_schema": {
             "name": "reply", "schema": SCHEMA, "strict": True}}}),
    ],
)  # fmt: skip
def test_wishes_of_messages_are_said_in_chat_completions(body: Raw, sent: Raw):
    plain = to_chat(tools=[TOOL])

    told = to_chat(tools=[TOOL], **body)

    assert {name: value for name, value in told.items() if plain.get(name) != value} == sent


FUNCTION = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"temperature": 1.5, "top_p": 0.9}, {"temperature": 1, "top_p": 0.9}),
        ({"stop": "a"}, {"stop_sequences": ["a"]}),
        ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
        ({"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
        ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"tool_choice": {"type": "none"}}),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}},
         {"tool_choice": {"type": "tool", "name": "f"}}),
        ({"parallel_tool_calls": False},
         {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        ({"max_completion_tokens": 9}, {"max_tokens": 9}),
        ({"user": "u", "metadata": {"a": "b"}}, {"metadata": {"user_id": "u"}}),
        ({"reasoning_effort": "low", "temperature": 0.1, "max_tokens": 9},
         {"thinking": {"type": "enabled", "budget_tokens": 4096}, "max_tokens": 4105}),
        ({"reasoning_effort": "high", "tool_choice": "required"},
         {"tool_choice": {"type": "any"}}),
        ({"reasoning_effort": "none"}, {}),
        ({"seed": 1, "logprobs": True, "frequency_penalty": 1, "n": 1}, {}),
        ({"response_format": {"type": "json_object"}}, {}),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
         {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    ],
)  # fmt: skip
def test_wishes_of_chat_completions_are_said_in_messages(body: Raw, sent: Raw):
    plain = to_messages(tools=[FUNCTION])

    told = to_messages(tools=[FUNCTION], **body)

    assert {name: value for name, value in told.items() if plain.get(name) != value} == sent


def test_a_choice_among_no_tools_is_not_told():
    assert "tool_choice" not in to_chat(tool_choice={"type": "auto"})
    assert "tool_choice" not in to_messages(parallel_tool_calls=False)


def test_a_model_that_has_not_thought_before_its_calls_does_not_think_after_them():
    told = to_messages(messages=CHAT_HISTORY, reasoning_effort="high")

    assert "thinking" not in told


def test_pictures_and_files_go_over_both_ways():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    far = {"type": "image_url", "image_url": {"url": "https://h/p.png"}}
    file = {"type": "file", "file": {"file_data": "data:application/pdf;base64,BBBB"}}
    asked = [{"role": "user", "content": [picture, far, file]}]

    blocks = to_messages(messages=asked)["messages"][0]["content"]
    back = to_chat(messages=[{"role": "user", "content": blocks}])["messages"]

    assert [block["source"]["type"] for block in blocks] == ["base64", "url", "base64"]
    assert blocks[0]["source"] == {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert back[0]["content"][:2] == [picture, far]
    assert back[0]["content"][2]["file"]["file_data"] == "data:application/pdf;base64,BBBB"


@pytest.mark.parametrize(
    ("surface", "body", "words"),
    [
        (MESSAGES, {"tools": [{"type": "web_search_1", "name": "search"}]}, "search"),
        (CHAT, {"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "custom"),
        (CHAT, {"n": 2}, "one answer"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "audio"),
        (MESSAGES, {"messages": "hi"}, "messages"),
        (MESSAGES, {"messages": [{"role": "nobody", "content": "hi"}]}, "messages.0"),
        (MESSAGES, {"messages": [{"content": "hi"}]}, "messages.0"),
        (MESSAGES, {"messages": [7]}, "messages.0"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_otherwise_is_refused(surface: Surface, body: Raw, words: str):
    told = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **body}

    with pytest.raises(InvalidRequest, match=words) as refused:
        model_request(surface, told)

    assert (refused.value.status, refused.value.retryable) == (400, False)


def test_arguments_that_are_no_object_are_told_again_as_text():
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{broken"}}

    request = model_request(CHAT, {"messages": [{"role": "assistant", "tool_calls": [call]}]})

    assert request.messages[0].tool_calls[0].input == {"_raw": "{broken"}


def test_functions_of_the_first_days_are_understood():
    called = {"role": "assistant", "content": None,
              "function_call": {"name": "f", "arguments": "{}"}}  # fmt: skip
    answer = {"role": "function", "name": "f", "content": "done"}
    body = {"functions": [{"name": "f"}], "messages": [called, answer]}

    request = model_request(CHAT, body)

    assert request.tools[0].name == "f"
    assert request.messages[1].tool_results[0].tool_use_id == request.messages[0].tool_calls[0].id


# -- follow-ups


def test_a_follow_up_of_messages_fits_a_chat():
    told = [CHAT_HISTORY[0], *MESSAGES_HISTORY[1:]]

    shaped = in_shape_of(CHAT, told)

    assert same(shaped, CHAT_HISTORY)
    assert shaped[0] is told[0]


def test_a_follow_up_of_chat_fits_messages():
    told = [MESSAGES_HISTORY[0], *CHAT_HISTORY[1:3], MESSAGES_HISTORY[2]]

    shaped = in_shape_of(MESSAGES, told)

    assert same(shaped[1], MESSAGES_HISTORY[1])
    assert shaped[2] == {"role": "user", "content": [RESULT]}
    assert shaped[0] is told[0]
    assert shaped[3] is told[3]


def test_several_results_of_chat_stand_in_one_message():
    results = [{"role": "tool", "tool_call_id": each, "content": each} for each in ("a", "b")]

    shaped = in_shape_of(MESSAGES, results)

    assert [block["tool_use_id"] for block in shaped[0]["content"]] == ["a", "b"]
    assert len(shaped) == 1


def test_calls_that_are_told_in_both_shapes_are_made_once():
    both = {"role": "assistant", "content": [USE], "tool_calls": [CALL]}

    for surface in Surface:
        shaped = in_shape_of(surface, [both])

        assert len(shaped) == 1
        calls = shaped[0].get("tool_calls") or shaped[0]["content"]
        assert [call["id"] for call in calls] == ["t1"]


@pytest.mark.parametrize(
    ("surface", "messages"), [(MESSAGES, MESSAGES_HISTORY), (CHAT, CHAT_HISTORY)]
)
def test_what_is_right_stays_the_same_object(surface: Surface, messages: list[Raw]):
    shaped = in_shape_of(surface, messages)

    assert all(one is other for one, other in zip(shaped, messages, strict=True))


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}
REPLY = {"content": [THINKING, {"type": "text", "text": "I look"}, USE]}


def test_thinking_is_put_back_before_the_calls_that_follow_it():
    follow_up = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [USE]},
                 {"role": "user", "content": [RESULT]}]  # fmt: skip

    told = with_thinking(follow_up, REPLY)

    assert told[1] == {"role": "assistant", "content": [THINKING, USE]}
    assert (told[0], told[2]) == (follow_up[0], follow_up[2])
    assert follow_up[1]["content"] == [USE]


@pytest.mark.parametrize(
    "content",
    [[THINKING, USE], [{**USE, "id": "other"}], "only text"],
    ids=["it has some", "other calls", "no calls"],
)
def test_thinking_is_put_nowhere_else(content: Any):
    follow_up = [{"role": "assistant", "content": content}]

    assert with_thinking(follow_up, REPLY)[0] is follow_up[0]


def test_what_a_chats_model_thought_stands_beside_its_calls():
    reply = {"choices": [{"message": {"reasoning_content": "hm", "tool_calls": [CALL]}}]}
    follow_up = [{"role": "assistant", "content": None, "tool_calls": [CALL]}]

    assert with_thinking(follow_up, reply)[0]["reasoning_content"] == "hm"


@pytest.mark.parametrize(
    ("surface", "choice", "left"),
    [
        (MESSAGES, {"type": "any"}, {"type": "auto"}),
        (MESSAGES, {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
         {"type": "auto", "disable_parallel_tool_use": True}),
        (CHAT, "required", "auto"),
        (CHAT, {"type": "function", "function": {"name": "f"}}, "auto"),
        (CHAT, {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}},
         {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}),
    ],
)  # fmt: skip
def test_a_tool_that_was_answered_is_not_forced_again(surface: Surface, choice: Any, left: Any):
    body = {"model": "m", "tool_choice": choice}

    assert without_forced_choice(surface, body) == {"model": "m", "tool_choice": left}
    assert body["tool_choice"] == choice


@pytest.mark.parametrize(
    ("surface", "body"),
    [
        (MESSAGES, {"model": "m"}),
        (MESSAGES, {"tool_choice": {"type": "auto"}}),
        (MESSAGES, {"tool_choice": {"type": "none"}}),
        (CHAT, {"tool_choice": "auto"}),
        (CHAT, {"tool_choice": "none"}),
        (CHAT, {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}}),
    ],
)
def test_a_body_that_forces_nothing_is_itself(surface: Surface, body: Raw):
    assert without_forced_choice(surface, body) is body


def test_what_is_not_the_callers_to_say_is_taken_out():
    theirs = {"model": "m", "metadata": {"api_key": "x"}, "novel_field": 1, "temperature": 0}
    names = ("api_base", "base_url", "api_key", "extra_headers", "extra_body", "proxies",
             "organization", "custom_llm_provider", "max_agentic_loops", "litellm_metadata",
             "_agentic_loop_depth", "mock_response")  # fmt: skip

    assert cleaned_body(theirs | dict.fromkeys(names, "x")) == theirs
