"""A request to Anthropic's Messages; pure."""

import re
from collections.abc import Iterator
from typing import Any

from loops.blocks import Block, Raw, ThinkingBlock
from loops.model import ModelRequest, ToolSpec

from .asked import added, added_tools, refuse_empty
from .marks import MOST, mark
from .thinking import anthropic, wish_of
from .told import fields, is_blank

MAX_TOKENS = 16_384
"""How long a reply may be when nobody says; the service wants to be told."""


def to_wire(request: ModelRequest, *, caches: bool = True) -> Raw:
    """Return the body of the request; what `params` says goes before all that we say.

    `caches` marks the end of what stays the same from turn to turn, so that it is read once.

    Raises:
        InvalidRequest: When there is nothing to answer.
    """
    params = request.params
    messages = _messages(request)
    refuse_empty(request, messages)
    body: Raw = {
        "system": list(_system(request)),
        "tools": [_tool(tool) for tool in request.tools] + added_tools(params),
        "messages": messages,
    }
    # A mark for the request as a whole is one of the four.
    mark(body, adds=caches, most=MOST - ("cache_control" in params))
    told = {name: value for name, value in body.items() if value}
    wish = wish_of(params)
    thinking = {} if wish is None else anthropic(wish, request.model)
    limits = {"model": request.model, "max_tokens": _limit(request, thinking)}
    ours = _OURS if wish is None else _OURS | {"thinking"}
    return {**limits, **thinking, **told, **added(params, ours), "stream": True}


_OURS = frozenset({"tools", "betas", "max_tokens", "model", "messages", "stream"})
"""What of `params` is no field of the body, or not theirs to say."""


def _limit(request: ModelRequest, thinking: Raw) -> int:
    """Return how long the reply may be: what is thought counts, and must leave room for more."""
    limit: int | None = request.params.get("max_tokens", request.max_tokens)
    budget: int = fields(thinking.get("thinking")).get("budget_tokens", 0)
    if limit is None:
        return budget + MAX_TOKENS
    return limit if limit > budget else budget + limit


def _system(request: ModelRequest) -> Iterator[Raw]:
    # The service takes no such role: what stands in the history belongs to its front.
    said = [message.text for message in request.messages if message.role == "system"]
    for text in (request.system, *said):
        if text.strip():
            yield {"type": "text", "text": text}


def _tool(tool: ToolSpec) -> Raw:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}


def _messages(request: ModelRequest) -> list[Raw]:
    """Return the messages, each role's in one: all results of a turn stand in one message."""
    told: list[Raw] = []
    for message in request.messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        parts = [_out(each.raw()) for each in message.content if not _is_foreign(each)]
        content = [part for part in parts if not is_blank(part)]
        if told and told[-1]["role"] == role:
            told[-1]["content"] += content
        elif content:
            told.append({"role": role, "content": content})
    return told


def _is_foreign(block: Block) -> bool:
    """Whether the block is thinking that the service has not signed: it takes no other."""
    return isinstance(block, ThinkingBlock) and not block.signature


def _out(block: Raw) -> Raw:
    """Return the block as the service takes it: our own key of a call is not its business."""
    match block.get("type"):
        case "tool_use":
            kept = {name: value for name, value in block.items() if name != "call"}
            name = _NO_NAME.sub("_", str(block["name"])) or "unknown"
            return {**kept, "id": _NO_NAME.sub("_", str(block["id"])), "name": name}
        case "tool_result":
            call = _NO_NAME.sub("_", str(block["tool_use_id"]))
            kept = {name: value for name, value in block.items() if name not in _OUR_OWN}
            return {**kept, "tool_use_id": call, "content": _content(block.get("content"))}
        case _:
            return block


_OUR_OWN = frozenset({"deferred", "result"})
"""What a result carries for us alone."""

_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def _content(content: Any) -> Any:
    """Return a result's content without empty text, which the service refuses."""
    if isinstance(content, str | None):
        return content
    return [part for part in content if not is_blank(part)]
