"""Answers of callbacks, and not of models, as bodies of the caller's protocol; pure."""

from collections.abc import Mapping
from typing import Any, cast

import orjson

from loops.blocks import Raw

from .answer import Answer
from .bodies import chat_of_message, message_of_chat
from .call import Call
from .folds import unfolded
from .json_rows import body_row
from .planning import fields_of
from .rounds import Surface
from .rows import Row
from .usages import is_usage_wanted


def rows_of(call: Call, body: Raw) -> list[Row]:
    """Return the frames of a body, as the caller wants them: of a stream, or whole."""
    if not call.asked.streams:
        return [body_row(body)]
    return unfolded(call.surface, body, tells_usage=is_usage_wanted(call.asked.body))


def given_body(call: Call, value: Any) -> Raw:
    """Return the body of an answer that a callback gives: a body of any protocol, or a text."""
    if isinstance(value, str):
        return text_body(call, value)
    told = value.model_dump() if isinstance(value, Answer) else fields_of(value)
    if told is None:
        return text_body(call, orjson.dumps(value).decode())
    is_chat = "choices" in told
    if call.surface is Surface.MESSAGES and is_chat:
        return _named(call, message_of_chat(told))
    if call.surface is Surface.CHAT and not is_chat:
        return _named(call, chat_of_message(_whole(call, told)))
    return _named(call, told if is_chat else _whole(call, told))


def text_body(call: Call, text: str) -> Raw:
    """Return the body of an answer that is a text."""
    body = _whole(call, {"content": [{"type": "text", "text": text}]})
    if call.surface is Surface.MESSAGES:
        return _named(call, body)
    identity = f"chatcmpl-{call.id.removeprefix('run_')}"
    return _named(call, {**chat_of_message(body), "id": identity})


def _whole(call: Call, told: Mapping[str, Any]) -> Raw:
    """Return a message with what each message has."""
    content: object = told.get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "id": f"msg_{call.id.removeprefix('run_')}",
        "type": "message",
        "role": "assistant",
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
        **told,
        "content": cast("list[Any]", blocks),
    }


def _named(call: Call, body: Raw) -> Raw:
    """Return the body under the name by which the caller asked for the model."""
    return {**body, "model": call.asked.model}
