"""The pure fold of a reply's events into a message that grows.

Feeding an event costs the same however long the message is; text is joined when it is asked for.
A call exists only when its block is closed: what is half written is never called.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import orjson

from .blocks import (
    Block,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from .errors import InvalidArguments
from .jsonable import clean_text, cut_text, jsonable
from .messages import Message, Usage, parse_arguments
from .reply import (
    BuiltinToolDelta,
    BuiltinToolEnd,
    BuiltinToolResult,
    BuiltinToolStart,
    Delta,
    Event,
    File,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)

UNPARSED = "_unparsed_arguments"
"""Where a call's input keeps arguments that are no JSON object, so that the history stays valid."""

_KINDS: dict[type[Event], str] = {
    TextStart: "text",
    TextDelta: "text",
    TextEnd: "text",
    ReasoningStart: "reasoning",
    ReasoningDelta: "reasoning",
    ReasoningEnd: "reasoning",
    ToolStart: "call",
    ToolDelta: "call",
    ToolEnd: "call",
    BuiltinToolStart: "builtin",
    BuiltinToolDelta: "builtin",
    BuiltinToolEnd: "builtin",
    BuiltinToolResult: "builtin_result",
    File: "file",
}

_CLOSING = (TextEnd, ReasoningEnd, ToolEnd, BuiltinToolEnd, BuiltinToolResult, File)


@dataclass(slots=True)
class _Part:
    pieces: list[str] = field(default_factory=list[str])
    start: Event | None = None
    end: Event | None = None

    @property
    def text(self) -> str:
        return clean_text("".join(self.pieces))


class Fold:
    """A message that grows by events; those that are no part of a reply are passed over."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._parts: dict[tuple[str, int], _Part] = {}
        self._built: tuple[int, Message] | None = None
        self.id = ""
        """The id of the message, where it has one."""
        self.usage: Usage | None = None
        self.stop_reason: str | None = None
        self.is_complete = False

    def feed(self, event: Event) -> None:
        """Let the message grow by the event."""
        self._events.append(event)
        kind = _KINDS.get(type(event))
        if kind is not None:
            self._grow(kind, event)
        elif isinstance(event, StreamEnd):
            self.usage = event.usage
            self.stop_reason = event.stop_reason
            self.is_complete = True

    def _grow(self, kind: str, event: Event) -> None:
        key = (kind, cast("TextDelta", event).block)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = _Part()
        if isinstance(event, Delta):
            part.pieces.append(event.text)
        elif isinstance(event, _CLOSING):
            part.end = event
        else:
            part.start = event

    def message(self, *, closed_only: bool = False) -> Message:
        """Return the message so far; with `closed_only` without what is still being written."""
        built = self._built
        if built is not None and built[0] == len(self._events) and not closed_only:
            return built[1]
        parts = [
            _BUILDERS[kind](part)
            for (kind, _), part in self._parts.items()
            if part.end is not None or not closed_only
        ]
        content = [block for block in parts if block is not None]
        message = Message(role="assistant", content=content, usage=self.usage, id=self.id)
        if not closed_only:
            self._built = (len(self._events), message)
        return message

    def snapshot(self) -> Callable[[], Message]:
        """Return what gives the message of this moment, whenever it is called."""
        return partial(self._at, len(self._events))

    def _at(self, count: int) -> Message:
        if count == len(self._events):
            return self.message()
        return fold(self._events[:count])


def fold(events: Iterable[Event], *, closed_only: bool = False) -> Message:
    """Return the message that the events of one reply make."""
    whole = Fold()
    for event in events:
        whole.feed(event)
    return whole.message(closed_only=closed_only)


def _text(part: _Part) -> Block | None:
    if not any(part.pieces):
        return None
    cited = part.end.citations if isinstance(part.end, TextEnd) else None
    told = {"text": part.text, "citations": cited} if cited else {"text": part.text}
    return TextBlock.model_validate(_extra(part) | told)


def _reasoning(part: _Part) -> Block:
    start, end = part.start, part.end
    if isinstance(start, ReasoningStart) and start.redacted is not None:
        return RedactedThinkingBlock.model_validate(_extra(part) | {"data": start.redacted})
    signature = end.signature if isinstance(end, ReasoningEnd) else None
    told = {"thinking": part.text, "signature": signature or ""}
    return ThinkingBlock.model_validate(_extra(part) | told)


def _call(part: _Part) -> Block | None:
    end = part.end
    if not isinstance(end, ToolEnd):
        return None
    given = _input(end.name, end.arguments)
    told = {"id": end.id or end.call, "name": end.name, "input": given, "call": end.call}
    return ToolUseBlock.model_validate(_extra(part) | told)


def _extra(part: _Part) -> dict[str, Any]:
    """Return what the provider says of the block and we do not know."""
    end = part.end
    told = end.extra if isinstance(end, TextEnd | ReasoningEnd | ToolEnd) else None
    return {name: value for name, value in (told or {}).items() if name != "type"}


def _builtin(part: _Part) -> Block | None:
    end = part.end
    if not isinstance(end, BuiltinToolEnd):
        return None
    given = _input(end.name, end.arguments)
    block = {"type": "server_tool_use", **(end.raw or {}), "id": end.id, "name": end.name}
    return _opaque({**block, "input": given})


def _builtin_result(part: _Part) -> Block | None:
    end = part.end
    if not isinstance(end, BuiltinToolResult):
        return None
    content: object = end.content
    if isinstance(content, dict) and "type" in content:
        return _opaque(cast("dict[str, Any]", content))
    kind = f"{end.name}_tool_result"
    return _opaque({"type": kind, "tool_use_id": end.id, "content": content})


def _file(part: _Part) -> Block | None:
    end = part.end
    if not isinstance(end, File):
        return None
    source: dict[str, Any] = {"type": "base64", "media_type": end.media_type, "data": end.data}
    if end.data.startswith(("http://", "https://")):
        source = {"type": "url", "url": end.data}
    is_image = end.media_type.startswith("image/")
    return ImageBlock(source=source) if is_image else DocumentBlock(source=source)


def _input(name: str, arguments: str) -> dict[str, Any]:
    try:
        return parse_arguments(name, arguments)
    except InvalidArguments:
        return {UNPARSED: cut_text(clean_text(arguments), 4096)}


def written(block: ToolUseBlock) -> str:
    """Return the arguments of a call as they were written, also those that are no object."""
    if set(block.input) == {UNPARSED}:
        return str(block.input[UNPARSED])
    return orjson.dumps(jsonable(block.input)).decode()


def _opaque(raw: dict[str, Any]) -> OpaqueBlock:
    return OpaqueBlock.model_validate(raw)


_BUILDERS: dict[str, Callable[[_Part], Block | None]] = {
    "text": _text,
    "reasoning": _reasoning,
    "call": _call,
    "builtin": _builtin,
    "builtin_result": _builtin_result,
    "file": _file,
}
