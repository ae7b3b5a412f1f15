"""A reply of any model, written as the stream of a chat completion; pure.

The protocol has no form for citations, for files, and for what a provider has done by itself.
"""

from loops.blocks import Raw
from loops.reply import (
    ModelEvent,
    ReasoningDelta,
    StreamEnd,
    StreamStart,
    TextDelta,
    ToolDelta,
    ToolEnd,
    ToolStart,
)

from .chat_fold import CHUNK
from .json_rows import DONE, row_of
from .reasons import chat_reason
from .rows import Row
from .usages import chat_usage


class ChatWriter:
    """Writes one reply.

    Args:
        id: The id of the completion.
        model: The model's name, as its caller knows it.
        created: When it was made, in seconds since 1970.
        tells_usage: Whether the caller has asked for what it costs.
    """

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - as the protocol calls it
        model: str,
        created: int = 0,
        tells_usage: bool = False,
    ) -> None:
        self._id = id
        self._base: Raw = {"id": id, "object": CHUNK, "created": created, "model": model}
        self._tells_usage = tells_usage
        self._has_begun = False
        self._calls: dict[int, int] = {}
        """The index of each call, by its block."""
        self._written: set[int] = set()
        """The blocks of calls whose arguments were written, as far as they came."""

    def feed(self, event: ModelEvent) -> list[Row]:
        """Return the rows that the event brings; a reply that does not say so begins by itself."""
        match event:
            case StreamStart():
                return self._begin()
            case StreamEnd():
                return [*self._begin(), *self._end(event)]
            case TextDelta() | ReasoningDelta() if event.text:
                name = "content" if isinstance(event, TextDelta) else "reasoning_content"
                return self._said({name: event.text})
            case ToolStart() | ToolDelta() | ToolEnd():
                return self._call(event)
            case _:
                return []

    def _begin(self) -> list[Row]:
        if self._has_begun:
            return []
        self._has_begun = True
        return [self._chunk({"role": "assistant", "content": ""})]

    def _said(self, delta: Raw) -> list[Row]:
        return [*self._begin(), self._chunk(delta)]

    def _call(self, event: ToolStart | ToolDelta | ToolEnd) -> list[Row]:
        if isinstance(event, ToolDelta):
            return self._arguments(event.block, event.text)
        # A call whose name comes late is written when it ends.
        is_new = bool(event.name) and event.block not in self._calls
        rows = self._begun(event) if is_new else []
        if isinstance(event, ToolEnd) and event.block not in self._written:
            rows += self._arguments(event.block, event.arguments or "{}")
        return rows

    def _begun(self, event: ToolStart | ToolEnd) -> list[Row]:
        index = self._calls[event.block] = len(self._calls)
        identity = event.id or event.call or f"call_{self._id}_{event.block}"
        function = {"name": event.name, "arguments": ""}
        call = {"index": index, "id": identity, "type": "function", "function": function}
        return self._said({"tool_calls": [call]})

    def _arguments(self, block: int, text: str) -> list[Row]:
        if not text or block not in self._calls:
            return []
        self._written.add(block)
        call = {"index": self._calls[block], "function": {"arguments": text}}
        return self._said({"tool_calls": [call]})

    def _end(self, event: StreamEnd) -> list[Row]:
        reason = chat_reason(event.stop_reason, has_calls=bool(self._calls))
        rows = [self._chunk({}, reason)]
        if self._tells_usage:
            told: Raw = {**self._base, "choices": [], "usage": chat_usage(event.usage)}
            rows.append(row_of("", told))
        return [*rows, DONE]

    def _chunk(self, delta: Raw, reason: str | None = None) -> Row:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return row_of("", {**self._base, "choices": [choice]})
