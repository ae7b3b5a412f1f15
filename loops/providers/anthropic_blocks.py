"""The blocks of Anthropic's replies: the events that tell them, and what goes back; pure.

Blocks that we do not know are kept word for word, and grow as their deltas say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from loops.blocks import Raw
from loops.reply import (
    BuiltinToolDelta,
    BuiltinToolEnd,
    BuiltinToolResult,
    BuiltinToolStart,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)

from .told import fields, word


@dataclass(slots=True)
class OpenBlock:
    """A block that is being written."""

    number: int
    kind: str
    raw: Raw
    pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """What has grown so far."""
        return "".join(self.pieces)


def begun(block: OpenBlock) -> ModelEvent | None:
    """Return the event with which the block begins; None for one that is told when it is whole."""
    number, raw = block.number, block.raw
    match block.kind:
        case "text":
            return TextStart(number)
        case "thinking":
            return ReasoningStart(number)
        case "redacted_thinking":
            return ReasoningStart(number, redacted=word(raw.get("data")))
        case "tool_use":
            return ToolStart(number, word(raw.get("id")), word(raw.get("name")))
        case _ if _is_builtin(block):
            return BuiltinToolStart(number, word(raw.get("id")), word(raw.get("name")))
        case _:
            return None


def ended(block: OpenBlock) -> ModelEvent:
    """Return the event with which the block ends."""
    number, raw = block.number, block.raw
    call = (number, word(raw.get("id")), word(raw.get("name")))
    match block.kind:
        case "text":
            return TextEnd(number, citations=_citations(raw.get("citations")))
        case "thinking" | "redacted_thinking":
            return ReasoningEnd(number, signature=word(raw.get("signature")) or None)
        case "tool_use":
            return ToolEnd(*call, _arguments(block))
        case _ if _is_builtin(block):
            kept = {name: value for name, value in raw.items() if name != "input"}
            return BuiltinToolEnd(*call, _arguments(block), raw=kept)
        case kind:
            name = word(raw.get("name")) or kind.removesuffix("_tool_result")
            return BuiltinToolResult(number, word(raw.get("tool_use_id")), name, raw)


def whole(block: OpenBlock) -> Raw:
    """Return the block as it goes back to the service."""
    match block.kind:
        case "text" | "thinking":
            return {**block.raw, block.kind: block.text}
        case kind if kind.endswith("tool_use"):
            return {**block.raw, "input": _input(block)}
        case _:
            return block.raw


def _citations(told: object) -> list[Raw] | None:
    all_of_them = cast("list[object]", told) if isinstance(told, list) else []
    return [told for each in all_of_them if (told := fields(each))] or None


def _is_builtin(block: OpenBlock) -> bool:
    """Whether the block is a call that the service performs itself, whatever its family."""
    return block.kind.endswith("tool_use") and block.kind != "tool_use"


def _arguments(block: OpenBlock) -> str:
    """Return the arguments as written; a call without a delta has those that it began with."""
    if block.text:
        return block.text
    try:
        return orjson.dumps(block.raw.get("input") or {}).decode()
    except TypeError:
        # It is nested deeper than anybody reads: no call that could be carried out.
        return "{"


def _input(block: OpenBlock) -> object:
    try:
        return orjson.loads(_arguments(block))
    except orjson.JSONDecodeError:
        return {}


def merge(block: OpenBlock, delta: Mapping[str, Any]) -> None:
    """Let a block of a kind that we do not know grow as its delta says; text grows longer."""
    if block.kind in DELTAS or block.kind == "redacted_thinking":
        return
    for name, value in delta.items():
        if name == "type":
            continue
        before: object = block.raw.get(name)
        grows = isinstance(before, str) and isinstance(value, str)
        block.raw[name] = f"{before}{value}" if grows else value


DELTAS: dict[str, Callable[[int, str], ModelEvent]] = {
    "text": TextDelta,
    "thinking": ReasoningDelta,
    "tool_use": ToolDelta,
    "server_tool_use": BuiltinToolDelta,
    "mcp_tool_use": BuiltinToolDelta,
}
