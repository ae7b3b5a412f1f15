"""Streams of Anthropic's Messages, made by ourselves."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

Told = dict[str, Any]


def event(kind: str, **told: Any) -> bytes:
    """Return one event of the stream."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **told}))


def started(model: str = "claude-x", **usage: int) -> bytes:
    """Return the beginning of a reply."""
    counts = {"input_tokens": 10, "output_tokens": 1, **usage}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model,
               "content": [], "stop_reason": None, "usage": counts}  # fmt: skip
    return event("message_start", message=message)


def block(index: int, begun: Mapping[str, Any], *deltas: Mapping[str, Any]) -> bytes:
    """Return a block, whole."""
    return b"".join(
        [
            event("content_block_start", index=index, content_block=begun),
            *(event("content_block_delta", index=index, delta=each) for each in deltas),
            event("content_block_stop", index=index),
        ]
    )


def said(index: int, *texts: str) -> bytes:
    """Return a block of text."""
    deltas = [{"type": "text_delta", "text": each} for each in texts]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thought(index: int, *texts: str, signature: str = "sig") -> bytes:
    """Return a block of thinking."""
    deltas: list[Told] = [{"type": "thinking_delta", "thinking": each} for each in texts]
    end: Told = {"type": "signature_delta", "signature": signature}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, end)


def called(index: int, name: str, *pieces: str, call_id: str = "toolu_1") -> bytes:
    """Return a block that calls a tool."""
    deltas = [{"type": "input_json_delta", "partial_json": each} for each in pieces]
    return block(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, *deltas)


def ended(stop_reason: str | None = "end_turn", **usage: int) -> bytes:
    """Return the end of a reply."""
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    counts = {"output_tokens": 20, **usage}
    return event("message_delta", delta=delta, usage=counts) + event("message_stop")


def failed(kind: str, text: str = "no") -> bytes:
    """Return an error that comes when the status was sent."""
    return event("error", error={"type": kind, "message": text})


def reply(*parts: bytes, stop_reason: str = "end_turn") -> bytes:
    """Return a whole reply of these parts."""
    return b"".join([started(), *parts, ended(stop_reason)])


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """Return the bytes in pieces that end at these places, each taken modulo the length."""
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
