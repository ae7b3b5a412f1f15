from dataclasses import replace
from typing import Any

import pytest

from loops.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from loops.errors import InvalidArguments
from loops.messages import (
    Message,
    Messages,
    ToolCall,
    ToolResult,
    Usage,
    as_message,
    result_block,
    tool_message,
)


def call(arguments: str) -> ToolCall:
    return ToolCall(id="a", key="turn:1.0", name="add", arguments=arguments)


def result(content: object, *, is_error: bool = False) -> ToolResult:
    return ToolResult("turn:1.0", "a", "add", content, is_error=is_error)


def test_a_string_is_one_block_of_text() -> None:
    message = Message.model_validate({"role": "user", "content": "hi"})

    assert message.content == [TextBlock(text="hi")]
    assert message.text == "hi"


@pytest.mark.parametrize(
    "raw",
    [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "be kind"},
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "hi", "citations": []}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "3"}]},
        {"role": "assistant", "content": []},
    ],
)
def test_a_plain_dict_comes_back_as_it_was(raw: dict[str, Any]) -> None:
    assert Message.from_raw(raw).raw() == raw


def test_a_user_message_of_results_only_is_one_of_the_tools() -> None:
    block = {"type": "tool_result", "tool_use_id": "a", "content": "3"}
    text = {"type": "text", "text": "and?"}

    assert Message.from_raw({"role": "user", "content": [block]}).role == "tool"
    assert Message.from_raw({"role": "user", "content": [block, text]}).role == "user"


def test_a_message_is_also_read_like_its_plain_dict() -> None:
    message = as_message("hi")

    assert (message["role"], message["content"]) == ("user", "hi")
    assert message.get("content", "") == "hi"
    assert message.get("nothing", "there") == "there"
    assert "content" in message


def test_fields_of_a_newer_writer_are_passed_over() -> None:
    message = Message.model_validate({"role": "user", "content": "hi", "colour": "red"})

    assert message == as_message("hi")


def test_a_message_lists_its_calls_and_results() -> None:
    asked = Message(role="assistant", content=[ToolUseBlock(id="a", name="add")])
    answered = Message(role="tool", content=[ToolResultBlock(tool_use_id="a")])

    assert [each.name for each in asked.tool_calls] == ["add"]
    assert [each.tool_use_id for each in answered.tool_results] == ["a"]


def test_a_history_is_made_of_anything_that_is_a_message() -> None:
    history = Messages.of(["hi", {"role": "assistant", "content": "ho"}, as_message("again")])

    assert [message.role for message in history] == ["user", "assistant", "user"]
    assert history.raw[-1] == {"role": "user", "content": "again"}
    assert Messages.of("hi") == Messages.of(["hi"])


def test_arguments_are_parsed() -> None:
    assert call('{"a": 1}').parsed() == {"a": 1}


def test_broken_arguments_say_what_is_wrong_and_how_to_mend_it() -> None:
    with pytest.raises(InvalidArguments, match=r"'add' are not valid: Expecting .* send one JSON"):
        call('{"a": 1').parsed()


def test_a_call_survives_its_json_and_a_newer_writers_fields() -> None:
    made = ToolCall("a", "turn:1.0", "add", '{"a": "\ud83d"', turn="turn:1", block=2, number=3)
    newer = made.encode()[:-1] + b',"later":true}'

    assert ToolCall.decode(newer) == replace(made, arguments='{"a": "\ufffd"')
    assert ToolCall.decode(b'{"id":"a","key":"k","name":"add","arguments":""}').block == 0


def test_a_result_survives_its_json() -> None:
    kept = result({"a": [1, None]}, is_error=True)

    assert ToolResult.decode(kept.encode()) == kept


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("text", "text"),
        ({"a": 1}, '{"a":1}'),
        (None, "null"),
        ([], "[]"),
        ([1], "[1]"),
        ([{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}]),
        ([{"type": "order", "id": 1}], '[{"type":"order","id":1}]'),
    ],
)
def test_a_model_is_told_text_or_blocks(content: object, told: object) -> None:
    assert result_block(result(content)).content == told


def test_results_make_one_message_and_none_make_none() -> None:
    message = tool_message([result("3"), result("no", is_error=True)])

    assert message is not None
    assert [block.is_error for block in message.tool_results] == [False, True]
    assert tool_message([]) is None


def test_a_call_without_an_id_is_answered_by_our_key() -> None:
    assert result_block(ToolResult("turn:1.0", "", "add", "3")).tool_use_id == "turn:1.0"


def test_unknown_usage_stays_unknown_and_known_usage_is_added() -> None:
    total = Usage(input_tokens=10) + Usage(input_tokens=20, output_tokens=3, cost=0.5)

    assert total == Usage(input_tokens=30, output_tokens=3, cost=0.5)
    assert (Usage() + Usage()).input_tokens is None
