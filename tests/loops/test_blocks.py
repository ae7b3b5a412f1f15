from typing import Any

import pytest
from pydantic import TypeAdapter

from loops.blocks import (
    Block,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

ADAPTER: TypeAdapter[Block] = TypeAdapter(Block)

RAW_BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "hi"},
    {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "tool_use", "id": "a", "name": "add", "input": {"a": 1}},
    {"type": "tool_result", "tool_use_id": "a", "content": "3"},
    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "3"}]},
    {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True},
    {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
    {"type": "document", "source": {"type": "base64", "data": "eA=="}, "title": None},
    {"type": "server_tool_use", "id": "b", "name": "web_search", "input": {"query": None}},
    {"odd": [1, {"deep": None}]},
]


@pytest.mark.parametrize("raw", RAW_BLOCKS, ids=lambda raw: raw.get("type", "none"))
def test_a_block_comes_back_as_it_was(raw: dict[str, Any]) -> None:
    assert ADAPTER.validate_python(raw).raw() == raw


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({"type": "text", "text": "hi"}, TextBlock),
        ({"type": "thinking", "thinking": "hm"}, ThinkingBlock),
        ({"type": "tool_use", "id": "a", "name": "b", "input": {}}, ToolUseBlock),
        ({"type": "tool_result", "tool_use_id": "a"}, ToolResultBlock),
        ({"type": "image", "source": {}}, ImageBlock),
        ({"type": "something_new", "x": 1}, OpaqueBlock),
    ],
)
def test_the_type_says_what_a_block_is(raw: dict[str, Any], kind: type) -> None:
    assert type(ADAPTER.validate_python(raw)) is kind


def test_our_key_of_a_call_is_shown_only_where_there_is_one() -> None:
    call = ToolUseBlock(id="a", name="add")

    assert "call" not in call.raw()
    assert call.model_copy(update={"call": "turn:1.0"}).raw()["call"] == "turn:1.0"
