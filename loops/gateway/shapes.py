"""Messages and tools of either protocol, in the one shape that models are asked in; pure.

Whoever writes a follow-up may do so in the shape that he knows, or mix the two.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pydantic import ValidationError

from loops.blocks import Raw
from loops.errors import InvalidRequest
from loops.messages import Message
from loops.model import ToolSpec
from loops.providers.told import fields, listed, word

from .message_fold import input_of
from .parts import blocks_of_parts


def canonical(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Return messages of either shape in the one that models are asked in.

    Results that follow each other stand in one message.

    Raises:
        InvalidRequest: When a message has no shape of either protocol.
    """
    found: list[Message] = []
    for place, raw in enumerate(messages):
        try:
            message = Message.from_raw(_plain(raw))
        except (ValidationError, ValueError, KeyError) as error:
            raise InvalidRequest(
                f"messages.{place}: it is no message of either protocol", status=400
            ) from error
        if message.role == "tool" and found and found[-1].role == "tool":
            both = [*found[-1].content, *message.content]
            found[-1] = found[-1].model_copy(update={"content": both})
        else:
            found.append(message)
    return found


def _plain(raw: Mapping[str, Any]) -> Raw:
    """Return the message as a plain dict in Anthropic's shape."""
    role, content = raw["role"], raw.get("content")
    match role:
        case "tool" | "function":
            call_id = raw.get("tool_call_id") or _legacy_id(raw)
            return {"role": "user", "content": [_result(call_id, content)]}
        case "assistant":
            return {"role": "assistant", "content": list(_said(raw))}
        case "developer" | "system":
            return {"role": "system", "content": blocks_of_parts(content)}
        case _:
            return {"role": role, "content": blocks_of_parts(content)}


def _result(call_id: object, content: object) -> Raw:
    told = content if isinstance(content, str) else blocks_of_parts(content)
    return {"type": "tool_result", "tool_use_id": word(call_id), "content": told}


def _said(raw: Mapping[str, Any]) -> Iterator[Raw]:
    """Yield the blocks of what a model said: its thinking, its text, its calls, each once."""
    blocks = blocks_of_parts(raw.get("content"))
    if not any(block.get("type") in THOUGHTS for block in blocks):
        yield from map(fields, listed(raw.get("thinking_blocks")))
    yield from blocks
    seen = {block.get("id") for block in blocks if block.get("type") == "tool_use"}
    for call in calls_beside(raw):
        if call["id"] not in seen:
            yield call


THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Blocks of what a model thought."""


def calls_beside(message: Mapping[str, Any]) -> Iterator[Raw]:
    """Yield the calls that stand beside a message's content, as blocks."""
    for call in map(fields, listed(message.get("tool_calls"))):
        called = fields(call.get("function"))
        yield _call(word(call.get("id")), called)
    if called := fields(message.get("function_call")):
        yield _call(_legacy_id(called), called)


def _call(call_id: str, called: Mapping[str, Any]) -> Raw:
    name = word(called.get("name"))
    return {"type": "tool_use", "id": call_id, "name": name, "input": _input(called)}


def _input(called: Mapping[str, Any]) -> Raw:
    written = called.get("arguments")
    # What the model may see again as it wrote it stands in the one place that takes any text.
    return cast("Raw", written) if isinstance(written, dict) else input_of(word(written))


def _legacy_id(named: Mapping[str, Any]) -> str:
    """Return the id of a call from before calls had one: there was one in a message."""
    return f"call_{word(named.get('name'))}"


def tool_spec(tool: Mapping[str, Any]) -> ToolSpec:
    """Return a tool of either shape as models are told it.

    Raises:
        InvalidRequest: When it is a tool of a provider's own, which no other one knows.
    """
    function = fields(tool.get("function"))
    if function:
        return _spec(function, "parameters")
    if "input_schema" in tool and tool.get("type", "custom") in {"custom", None}:
        return _spec(tool, "input_schema")
    if tool.get("type") == "function":
        return _spec(tool, "parameters")
    named = word(tool.get("name")) or word(tool.get("type"))
    raise InvalidRequest(
        f"the tool {named!r} is its provider's own, and the model that is asked has another one; "
        "leave it out, or ask a model that knows it",
        status=400,
    )


def _spec(told: Mapping[str, Any], name: str) -> ToolSpec:
    schema = fields(told.get(name)) or {"type": "object", "properties": {}}
    return ToolSpec(word(told.get("name")), word(told.get("description")), schema)
