"""Streams of Chat Completions, made by ourselves."""

from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"


def data(told: Any) -> bytes:
    """Return one event of the stream."""
    return b"data: %b\n\n" % (told if isinstance(told, bytes) else orjson.dumps(told))


def chunk(delta: Any = None, reason: Any = None, **others: Any) -> bytes:
    """Return a chunk of one choice."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": reason}
    return data({"id": "c", "object": "chat.completion.chunk", "model": "gpt-x",
                 "choices": [choice], **others})  # fmt: skip


def said(*texts: str) -> bytes:
    """Return chunks of text."""
    return b"".join(chunk({"content": text}) for text in texts)


def calls(*deltas: dict[str, Any]) -> bytes:
    """Return a chunk for each delta of a call."""
    return b"".join(chunk({"tool_calls": [delta]}) for delta in deltas)


def call(index: Any = None, call_id: Any = None, name: Any = None, arguments: Any = None) -> Any:
    """Return a delta of a call, with what is given and nothing else."""
    told: dict[str, Any] = {}
    if index is not None:
        told["index"] = index
    if call_id is not None:
        told["id"] = call_id
    function = {"name": name, "arguments": arguments}
    told["function"] = {key: value for key, value in function.items() if value is not None}
    return told


def usage(prompt: int = 10, completion: int = 5, **others: Any) -> bytes:
    """Return the chunk that tells what the reply has cost."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, **others}
    return data(
        {"object": "chat.completion.chunk", "model": "gpt-x", "choices": [], "usage": counts}
    )


def reply(*parts: bytes, reason: str | None = "stop") -> bytes:
    """Return a whole reply of these parts."""
    first = chunk({"role": "assistant", "content": ""})
    return b"".join([first, *parts, chunk(reason=reason), usage(), DONE])
