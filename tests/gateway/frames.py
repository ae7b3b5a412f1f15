"""Rows of both protocols, as services send them."""

from typing import Any

import orjson

from loops.gateway.rows import Row

START: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 1, "service_tier": "standard"},
}


def event(kind: str, **fields: Any) -> Row:
    return kind, orjson.dumps({"type": kind, **fields}).decode()


def block(index: int, started: dict[str, Any], *deltas: dict[str, Any]) -> list[Row]:
    return [
        event("content_block_start", index=index, content_block=started),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def streamed(*blocks: list[Row], **last: Any) -> list[Row]:
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        event("message_start", message=START),
        *(row for rows in blocks for row in rows),
        event("message_delta", **{"delta": delta, "usage": {"output_tokens": 9}} | last),
        event("message_stop"),
    ]


def text(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "text_delta", "text": piece} for piece in pieces]


def chunk(*choices: dict[str, Any], **fields: Any) -> Row:
    told = {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m"}
    return "", orjson.dumps({**told, "choices": choices, **fields}).decode()


def choice(delta: dict[str, Any], *, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": None, **fields}


DONE: Row = ("", "[DONE]")


def call(index: int, name: str, *, key: str = "", **arguments: Any) -> list[Row]:
    """A block that is a call."""
    started = {"type": "tool_use", "id": key or f"t_{name}", "name": name, "input": {}}
    written = {"type": "input_json_delta", "partial_json": orjson.dumps(arguments).decode()}
    return block(index, started, written)


def says(index: int, *pieces: str) -> list[Row]:
    """A block of text."""
    return block(index, {"type": "text", "text": ""}, *text(*pieces))


def thinks(index: int, thought: str) -> list[Row]:
    """A block of thinking."""
    delta = {"type": "thinking_delta", "thinking": thought}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, delta)


def asking(*blocks: list[Row], output: int = 9) -> list[Row]:
    """A message that ends with calls."""
    delta = {"stop_reason": "tool_use", "stop_sequence": None}
    return streamed(*blocks, delta=delta, usage={"output_tokens": output})


def chat_call(index: int, name: str, arguments: str = "{}") -> dict[str, Any]:
    """A delta that is a whole call of a chat completion."""
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"c_{name}", "type": "function", "function": function}


def chatted(
    *said: str, calls: list[dict[str, Any]] | None = None, name: str = "c1", tokens: int = 0
) -> list[Row]:
    """A streamed chat completion; with `tokens` it ends with what it cost."""
    rows = [chunk(choice({"role": "assistant", "content": ""}), id=name)]
    rows += [chunk(choice({"content": each}), id=name) for each in said]
    rows += [chunk(choice({"tool_calls": [each]}), id=name) for each in calls or []]
    rows.append(chunk(choice({}, finish_reason="tool_calls" if calls else "stop"), id=name))
    if tokens:
        rows.append(chunk(id=name, usage={"prompt_tokens": 1, "completion_tokens": tokens}))
    return [*rows, DONE]
