"""A reply of any model, written as the stream of a message; pure.

In the protocol one block ends before the next one begins, which not all models keep to: what
belongs to a later block waits for its turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from loops.blocks import Raw
from loops.providers.told import fields, word
from loops.reply import (
    BuiltinToolEnd,
    BuiltinToolResult,
    File,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolDelta,
    ToolEnd,
    ToolStart,
)

from .json_rows import row_of
from .message_fold import frames_of, input_of
from .reasons import message_reason
from .rows import Row
from .usages import message_usage

_Text = TextStart | TextDelta | TextEnd
_Reasoning = ReasoningStart | ReasoningDelta | ReasoningEnd
_Call = ToolStart | ToolDelta | ToolEnd
_Whole = BuiltinToolEnd | BuiltinToolResult | File
_OfBlock = _Text | _Reasoning | _Call | _Whole


@dataclass(slots=True)
class _Block:
    """A block that was not written to its end."""

    frames: list[Raw] = field(default_factory=list[Raw])
    """What waits."""
    is_begun: bool = False
    is_over: bool = False
    has_text: bool = False
    is_implied: bool = False
    """Whether nobody will say when it ends: it was begun by its text."""

    def begin(self, block: Raw) -> None:
        self.frames.append({"type": "content_block_start", "index": 0, "content_block": block})
        self.is_begun = True

    def grow(self, kind: str, name: str, value: object) -> None:
        delta = {"type": kind, name: value}
        self.frames.append({"type": "content_block_delta", "index": 0, "delta": delta})

    def end(self) -> None:
        if self.is_begun:
            self.frames.append({"type": "content_block_stop", "index": 0})
        self.is_over = True


class MessageWriter:
    """Writes one reply.

    Args:
        id: The id of the message.
        model: The model's name, as its caller knows it.
    """

    def __init__(self, *, id: str, model: str) -> None:  # noqa: A002 - as the protocol calls it
        self._id = id
        self._model = model
        self._blocks: dict[tuple[str, int], _Block] = {}
        self._index = 0
        self._has_begun = False
        self._has_calls = False
        self._takes: dict[type, Callable[[Any], None]] = {
            **dict.fromkeys(_Text.__args__, self._take_text),
            **dict.fromkeys(_Reasoning.__args__, self._take_reasoning),
            **dict.fromkeys(_Call.__args__, self._take_call),
            BuiltinToolEnd: self._take_builtin,
            BuiltinToolResult: self._take_result,
            File: self._take_file,
        }

    def feed(self, event: ModelEvent) -> list[Row]:
        """Return the rows that the event brings; a reply that does not say so begins by itself."""
        if isinstance(event, StreamStart):
            return self._begin()
        if isinstance(event, StreamEnd):
            return [*self._begin(), *self._end(event)]
        take = self._takes.get(type(event))
        if take is None:
            return []
        take(event)
        return [*self._begin(), *self._ready()]

    def _begin(self) -> list[Row]:
        if self._has_begun:
            return []
        self._has_begun = True
        message: Raw = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return [row_of("message_start", {"type": "message_start", "message": message})]

    def _end(self, event: StreamEnd) -> list[Row]:
        for block in self._blocks.values():
            if not block.is_over:
                block.end()
        rows = self._ready()
        reason = message_reason(event.stop_reason, has_calls=self._has_calls)
        delta = {"stop_reason": reason, "stop_sequence": None}
        usage = message_usage(event.usage)
        last = {"type": "message_delta", "delta": delta, "usage": usage}
        stop = {"type": "message_stop"}
        return [*rows, row_of("message_delta", last), row_of("message_stop", stop)]

    def _ready(self) -> list[Row]:
        """Return what can be written: all of the first block, and of those behind it in turn."""
        rows: list[Row] = []
        for key, block in list(self._blocks.items()):
            frames, block.frames = block.frames, []
            rows += [row_of(told["type"], {**told, "index": self._index}) for told in frames]
            if not block.is_over:
                break
            self._index += block.is_begun
            del self._blocks[key]
        return rows

    def _block(self, kind: str, event: _OfBlock, *, is_implied: bool = False) -> _Block:
        key = kind, event.block
        if key not in self._blocks:
            for block in self._blocks.values():
                if block.is_implied and not block.is_over:
                    block.end()
            self._blocks[key] = _Block(is_implied=is_implied)
        return self._blocks[key]

    def _take_text(self, event: _Text) -> None:
        block = self._block("text", event, is_implied=isinstance(event, TextDelta))
        if not block.is_begun:
            block.begin({"type": "text", "text": ""})
        if isinstance(event, TextDelta) and event.text:
            block.grow("text_delta", "text", event.text)
        elif isinstance(event, TextEnd):
            for citation in event.citations or []:
                block.grow("citations_delta", "citation", citation)
            block.end()

    def _take_reasoning(self, event: _Reasoning) -> None:
        block = self._block("reasoning", event, is_implied=isinstance(event, ReasoningDelta))
        redacted = event.redacted if isinstance(event, ReasoningStart) else None
        if not block.is_begun:
            hidden = {"type": "redacted_thinking", "data": redacted}
            shown = {"type": "thinking", "thinking": "", "signature": ""}
            block.begin(shown if redacted is None else hidden)
        if isinstance(event, ReasoningDelta) and event.text:
            block.grow("thinking_delta", "thinking", event.text)
        elif isinstance(event, ReasoningEnd):
            if event.signature:
                block.grow("signature_delta", "signature", event.signature)
            block.end()

    def _take_call(self, event: _Call) -> None:
        block = self._block("call", event)
        if isinstance(event, ToolDelta):
            self._write_arguments(block, event.text)
            return
        # A call whose name comes late is written when it ends.
        if not block.is_begun and event.name:
            identity = event.id or event.call or f"toolu_{self._id}_{event.block}"
            block.begin({"type": "tool_use", "id": identity, "name": event.name, "input": {}})
            self._has_calls = True
        if isinstance(event, ToolEnd):
            self._write_arguments(block, "" if block.has_text else event.arguments or "{}")
            block.end()

    def _write_arguments(self, block: _Block, text: str) -> None:
        if block.is_begun and text:
            block.has_text = True
            block.grow("input_json_delta", "partial_json", text)

    def _take_builtin(self, event: BuiltinToolEnd) -> None:
        # Only its end tells of which family it is.
        raw = {"type": "server_tool_use", **(event.raw or {})}
        told = {"id": event.id, "name": event.name, "input": input_of(event.arguments)}
        self._whole("builtin", event, {**raw, **told})

    def _take_result(self, event: BuiltinToolResult) -> None:
        told = fields(event.content)
        kind = f"{event.name}_tool_result"
        other: Raw = {"type": kind, "tool_use_id": event.id, "content": event.content}
        self._whole("result", event, told if word(told.get("type")) else other)

    def _take_file(self, event: File) -> None:
        kind = "image" if event.media_type.startswith("image/") else "document"
        is_address = event.data.startswith(("http://", "https://"))
        inline = {"type": "base64", "media_type": event.media_type, "data": event.data}
        source = {"type": "url", "url": event.data} if is_address else inline
        self._whole("file", event, {"type": kind, "source": source})

    def _whole(self, kind: str, event: _Whole, told: Raw) -> None:
        block = self._block(kind, event)
        block.frames += frames_of(told)
        block.is_begun = block.is_over = True
