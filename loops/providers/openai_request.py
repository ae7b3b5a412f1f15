"""A request to a Chat Completions service; pure.

The protocol has one message for each result, and it takes no picture in one: a result's pictures
follow in the user's next message. What a model thought is told again only to services that want it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from loops.blocks import (
    Block,
    DocumentBlock,
    ImageBlock,
    Raw,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from loops.messages import Message
from loops.model import ModelRequest


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a service differs from others of its protocol."""

    system_role: str = "system"
    limit_name: str = "max_tokens"
    reasoning_name: str | None = None
    """Under which name the service wants to be told again what its model thought."""


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect("developer", "max_completion_tokens"),
    "azure": Dialect("developer", "max_completion_tokens"),
    "groq": Dialect(limit_name="max_completion_tokens"),
    "deepseek": Dialect(reasoning_name="reasoning_content"),
    "moonshot": Dialect(reasoning_name="reasoning_content"),
    "zai": Dialect(reasoning_name="reasoning_content"),
    "openrouter": Dialect(reasoning_name="reasoning"),
}


def to_wire(request: ModelRequest, dialect: Dialect, *, tells_usage: bool = True) -> Raw:
    """Return the body of the request; what `params` says goes before all that we say."""
    body: Raw = {"model": request.model, "messages": list(_messages(request, dialect))}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.schema),
                },
            }
            for tool in request.tools
        ]
    if request.max_tokens is not None:
        body[dialect.limit_name] = request.max_tokens
    if tells_usage:
        body["stream_options"] = {"include_usage": True}
    others = {name: value for name, value in request.params.items() if name not in _OURS}
    return {**body, **others, "stream": True}


_OURS = frozenset({"model", "messages", "stream"})


def _messages(request: ModelRequest, dialect: Dialect) -> Iterator[Raw]:
    if request.system.strip():
        yield {"role": dialect.system_role, "content": request.system}
    for message in request.messages:
        match message.role:
            case "system":
                yield {"role": dialect.system_role, "content": message.text}
            case "assistant":
                yield from _assistant(message, dialect)
            case _:
                yield from _user(message)


def _assistant(message: Message, dialect: Dialect) -> Iterator[Raw]:
    told: Raw = {"role": "assistant", "content": message.text or None}
    if calls := [_call(block) for block in message.tool_calls]:
        told["tool_calls"] = calls
    thought = "".join(b.thinking for b in message.content if isinstance(b, ThinkingBlock))
    if thought and dialect.reasoning_name:
        told[dialect.reasoning_name] = thought
    if calls or told["content"]:
        yield told


def _call(block: ToolUseBlock) -> Raw:
    arguments = orjson.dumps(block.input).decode()
    return {
        "id": block.id,
        "type": "function",
        "function": {"name": block.name, "arguments": arguments},
    }


def _user(message: Message) -> Iterator[Raw]:
    hoisted: list[Raw] = []
    for result in message.tool_results:
        text, others = _result(result)
        hoisted += others
        yield {"role": "tool", "tool_call_id": result.tool_use_id, "content": text}
    parts = hoisted + list(_parts(message.content))
    if [part["type"] for part in parts] == ["text"]:
        yield {"role": "user", "content": parts[0]["text"]}
    elif parts:
        yield {"role": "user", "content": parts}


def _result(result: ToolResultBlock) -> tuple[str, list[Raw]]:
    """Return a result's text, and what of it only a user's message can carry."""
    blocks = result.content if isinstance(result.content, list) else []
    texts = [result.content] if isinstance(result.content, str) else []
    texts += [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
    others = [block for block in blocks if block.get("type") in {"image", "document"}]
    parts = list(_parts(Message.from_raw({"role": "user", "content": others}).content))
    if parts:
        texts.append("[what belongs to this result follows]")
    text = "\n".join(texts)
    # The protocol has no mark for a failure.
    return (f"[error] {text}" if result.is_error else text), parts


def _parts(blocks: Iterable[Block]) -> Iterator[Raw]:
    for block in blocks:
        match block:
            case TextBlock() if block.text.strip():
                yield {"type": "text", "text": block.text}
            case ImageBlock():
                yield {"type": "image_url", "image_url": {"url": _address(block.source)}}
            case DocumentBlock():
                yield _document(block.source)
            case _:
                continue


def _document(source: Mapping[str, Any]) -> Raw:
    if source.get("type") == "text":
        return {"type": "text", "text": str(source.get("data", ""))}
    return {"type": "file", "file": {"filename": "document", "file_data": _address(source)}}


def _address(source: Mapping[str, Any]) -> str:
    if source.get("type") == "url":
        return str(source.get("url", ""))
    return f"data:{source.get('media_type', '')};base64,{source.get('data', '')}"
