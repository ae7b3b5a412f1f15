"""The stream of a reply of Anthropic's Messages, read; pure.

What a provider sends and we do not know is kept: unknown blocks and fields go back word for word;
unknown events are passed over.
"""

from typing import Any

from loops.blocks import Raw
from loops.errors import Incomplete, Unavailable
from loops.messages import Usage
from loops.reply import ModelEvent, StreamStart

from .anthropic_blocks import OpenBlock, begun, change, delta_of, ended, fits, text_of, whole
from .reader import ReplyReader
from .sse import Frame
from .told import Json, fields, whole_number, word

_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}


_STEPS = frozenset({"message_start", "content_block_start", "content_block_stop", "message_delta"})
"""Events that bring a reply on by themselves; a delta does where it is not empty."""

CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Reasons for which a reply may end in the middle of what it had to say."""


class AnthropicReader(ReplyReader):
    """Reads one reply. Blocks are numbered on from `first`, in the order in which they begin."""

    def __init__(self, model: str, *, first: int = 0, secret: str = "") -> None:
        super().__init__(model, secret=secret)
        self._open: dict[int, OpenBlock] = {}
        """Blocks that are being written, by the index that the service gives them."""
        self._usage: dict[str, int] = {}
        self._held: OpenBlock | None = None
        """A call without any argument: whether it was cut is told only by what comes next."""
        self._has_begun = False
        self.next_block = first
        self.content: list[Raw] = []
        """The blocks that are complete, as they go back to the service."""
        self.stop_reason: str | None = None
        self.explanation = ""
        """Why the reply was declined, where the service says it."""

    @property
    def usage(self) -> Usage | None:
        """What the reply has cost; None when the service does not say."""
        if not self._usage:
            return None
        told = {ours: self._usage.get(theirs) for ours, theirs in _USAGE.items()}
        return Usage(**told)

    def _take(self, frame: Frame, events: list[ModelEvent]) -> None:
        name, data = frame
        told = self._json(data)
        if name == b"error":
            raise self._failure(told)
        if self._takes_usual(told, events):
            return
        if not isinstance(told, dict) or not told:
            raise Unavailable(f"the model {self._model!r} sent an event that is no object")
        kind = word(told.get("type"))
        if not kind and "error" in told:
            raise self._failure(told)
        if kind == "content_block_delta":
            self._grow_block(told, events)
        else:
            self.says_more = self.says_more or kind in _STEPS
            self._take_event(kind, told, events)

    def _takes_usual(self, told: Json, events: list[ModelEvent]) -> bool:
        """Take a delta as nearly all are, and say whether it is one; it costs a third less so."""
        if not isinstance(told, dict) or told.get("type") != "content_block_delta":
            return False
        index: Json = told.get("index")
        delta: Json = told.get("delta")
        if not isinstance(index, int) or not isinstance(delta, dict) or index not in self._open:
            return False
        block = self._open[index]
        kind, name, event = block.usual
        text: Json = delta.get(name)
        if delta.get("type") != kind or not isinstance(text, str) or not text:
            return False
        block.pieces.append(text)
        self.says_more = True
        events.append(event(block.number, text))
        return True

    def _take_event(self, kind: str, told: dict[str, Any], events: list[ModelEvent]) -> None:
        match kind:
            case "content_block_start":
                self._begin_block(told, events)
            case "content_block_stop":
                self._end_block(told, events)
            case "message_start":
                self._begin_reply(told, events)
            case "message_delta":
                self._change_reply(told, events)
            case "message_stop":
                self._end_reply(events)
            case "error":
                raise self._failure(told)
            case _:
                return

    @property
    def is_whole(self) -> bool:
        """Whether the reply may end here: only where its end was told."""
        return self.is_over

    def close(self) -> list[ModelEvent]:
        """Return nothing: a reply without its end is none."""
        return []

    def _begin_reply(self, told: dict[str, Any], events: list[ModelEvent]) -> None:
        message = fields(told.get("message"))
        self._count(message.get("usage"))
        self._has_begun = True
        events.append(StreamStart(model=word(message.get("model")) or self._model))

    def _begin_block(self, told: dict[str, Any], events: list[ModelEvent]) -> None:
        raw = dict(fields(told.get("content_block")))
        index, kind = told.get("index"), raw.get("type")
        if not isinstance(index, int) or not isinstance(kind, str) or index in self._open:
            raise self._confused("began a block that is open, or none")
        self._release(events)
        block = self._open[index] = OpenBlock(self.next_block, kind, raw)
        self.next_block += 1
        if (event := begun(block)) is not None:
            events.append(event)
        if kind in {"text", "thinking"} and isinstance(text := raw.get(kind), str):
            self._grow(block, text, events)

    def _grow_block(self, told: dict[str, Any], events: list[ModelEvent]) -> None:
        index: Json = told.get("index")
        delta: Json = told.get("delta")
        block = self._open.get(index) if isinstance(index, int) else None
        if block is None or not isinstance(delta, dict) or not delta:
            raise self._confused("sent a delta for a block that it has not begun")
        text = text_of(block, delta)
        if text is not None:
            self._grow(block, text, events)
            return
        if not fits(block, delta):
            raise self._confused(f"sent a {delta['type']} for a block of the kind {block.kind!r}")
        said = [value for name, value in delta.items() if name != "type" and value]
        self.says_more = self.says_more or bool(said)
        change(block, delta)

    def _grow(self, block: OpenBlock, text: str, events: list[ModelEvent]) -> None:
        block.pieces.append(text)
        delta = delta_of(block)
        if delta is not None and text:
            self.says_more = True
            events.append(delta(block.number, text))

    def _end_block(self, told: dict[str, Any], events: list[ModelEvent]) -> None:
        index = told.get("index")
        if not isinstance(index, int) or index not in self._open:
            raise self._confused("ended a block that it has not begun")
        block = self._open.pop(index)
        if block.kind == "tool_use" and not block.text and not block.raw.get("input"):
            self._held = block
        else:
            events.append(ended(block))
        self.content.append(whole(block))

    def _release(self, events: list[ModelEvent]) -> None:
        """Give the call that was held: it is whole, unless the reply was too long."""
        if self._held is not None:
            if self.stop_reason in CUT:
                self._held.pieces.append("{")
            events.append(ended(self._held))
            self._held = None

    def _change_reply(self, told: dict[str, Any], events: list[ModelEvent]) -> None:
        self._count(told.get("usage"))
        delta = fields(told.get("delta"))
        reason = word(delta.get("stop_reason"))
        self.stop_reason = reason or self.stop_reason
        why = word(fields(delta.get("stop_details")).get("explanation"))
        self.explanation = why or self.explanation
        if reason:
            self._release(events)

    def _end_reply(self, events: list[ModelEvent]) -> None:
        if self._open:
            raise Incomplete(f"the model {self._model!r} ended its reply in the middle of a block")
        if not self._has_begun:
            raise self._confused("ended a reply that it has not begun")
        self._release(events)
        self.is_over = True

    def _count(self, usage: object) -> None:
        # What is told later is the whole so far, and not more of it; what is not told again stays.
        counts = {name: whole_number(fields(usage).get(name)) for name in _USAGE.values()}
        self._usage |= {name: count for name, count in counts.items() if count is not None}

    def _confused(self, what: str) -> Unavailable:
        return Unavailable(f"the model {self._model!r} {what}, which fits no reply")
