"""A request to Anthropic's Messages; pure."""

import re
from typing import Any

from loops.blocks import Block, Raw, ThinkingBlock
from loops.model import ModelRequest

from .marks import mark
from .told import is_blank

MAX_TOKENS = 16_384
"""How long a reply may be when nobody says; the service wants to be told."""


def to_wire(request: ModelRequest, *, caches: bool = True) -> Raw:
    """Return the body of the request; what `params` says goes before all that we say.

    `caches` marks the end of what stays the same from turn to turn, so that it is read once.
    """
    system = [{"type": "text", "text": request.system}] if request.system.strip() else []
    messages: list[Raw] = []
    for message in request.messages:
        if message.role == "system":
            # The service takes no such role: what stands in the history belongs to its front.
            system += [{"type": "text", "text": message.text}] if message.text.strip() else []
        else:
            role = "assistant" if message.role == "assistant" else "user"
            messages.append(
                {
                    "role": role,
                    "content": [
                        _out(each.raw()) for each in message.content if not _is_foreign(each)
                    ],
                }
            )
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
        for tool in request.tools
    ]
    # Copies, for what is marked must not be the caller's own.
    extra: list[Raw] = request.params.get("tools") or []
    tools += [dict(each) for each in extra]
    body: Raw = {"system": system, "tools": tools, "messages": messages}
    mark(body, adds=caches)
    told = {name: value for name, value in body.items() if value or name == "messages"}
    limits = {"model": request.model, "max_tokens": request.max_tokens or MAX_TOKENS}
    others = {name: value for name, value in request.params.items() if name not in _OURS}
    return {**limits, **told, **others, "stream": True}


_OURS = frozenset({"tools", "betas", "model", "messages", "stream"})
"""What of `params` is no field of the body, or not theirs to say."""


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
            return {**block, "tool_use_id": call, "content": _content(block.get("content"))}
        case _:
            return block


_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def _content(content: Any) -> Any:
    """Return a result's content without empty text, which the service refuses."""
    if isinstance(content, str | None):
        return content
    return [part for part in content if not is_blank(part)]
