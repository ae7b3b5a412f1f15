"""The stream of a Chat Completions reply, read; pure.

The protocol has no blocks: text and thinking end where something else begins, and calls end with
the reply, since servers may write them by turns. A reply is whole when a reason for its end was
told, or its end was: `[DONE]`.
"""

from collections.abc import Mapping
from typing import Any, cast

from loops.errors import Refused, Unavailable
from loops.jsonable import cut_text
from loops.messages import Usage
from loops.reply import (
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

from .openai_calls import Calls
from .reader import ReplyReader
from .sse import Frame
from .told import fields, whole_number, word

_DONE = b"[DONE]"

_FAULTS = frozenset({"error", "abort", "insufficient_system_resource"})
"""Reasons that are failures of the service."""

_REASONING = ("reasoning_content", "reasoning", "thinking")
"""The names under which servers send what a model thinks."""


class OpenAIReader(ReplyReader):
    """Reads one reply."""

    def __init__(self, model: str, *, secret: str = "") -> None:
        super().__init__(model, secret=secret)
        self._calls = Calls()
        self._growing: tuple[str, int] | None = None
        """The kind and number of the block that grows, unless it is a call."""
        self._blocks = 0
        self._has_begun = False
        self._reason: str | None = None
        self._refusal: list[str] = []
        self._counts: dict[str, int] = {}

    @property
    def usage(self) -> Usage | None:
        """What the reply has cost; None when the service does not say."""
        if not self._counts:
            return None
        asked, read = self._counts.get("asked"), self._counts.get("read")
        if asked is not None and read is not None:
            # What was read from a cache is counted for itself, as elsewhere.
            read = min(asked, read)
            asked -= read
        written = self._counts.get("written")
        return Usage(input_tokens=asked, output_tokens=written, cache_read_tokens=read)

    @property
    def is_whole(self) -> bool:
        """Whether nothing that matters is missing, though more may come: what it has cost."""
        return self._reason is not None

    def close(self) -> list[ModelEvent]:
        """Return what ends the reply when the connection does, if it is whole."""
        return self._end() if self.is_whole and not self.is_over else []

    def _take(self, frame: Frame, events: list[ModelEvent]) -> None:
        before = len(events)
        if frame[1].strip() == _DONE:
            events += self._end()
        else:
            self._take_chunk(self._chunk(frame), events)
        # A chunk that says nothing is a sign of life.
        self.says_more = self.says_more or len(events) > before

    def _chunk(self, frame: Frame) -> dict[str, Any]:
        name, data = frame
        told = self._json(data)
        chunk = _object(told)
        is_error = chunk is not None and (chunk.get("error") or chunk.get("object") == "error")
        if chunk is None or is_error or name == b"error":
            raise self._failure(told)
        return chunk

    def _take_chunk(self, chunk: Mapping[str, Any], events: list[ModelEvent]) -> None:
        if not self._has_begun and "choices" in chunk:
            self._has_begun = True
            events.append(StreamStart(model=word(chunk.get("model")) or self._model))
        if usage := chunk.get("usage"):
            self._count(fields(usage))
        choice = _first(chunk.get("choices"))
        if choice is None:
            return
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._grow(cast("dict[str, Any]", delta), events)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = reason

    def _grow(self, delta: dict[str, Any], events: list[ModelEvent]) -> None:
        for name in _REASONING:
            if isinstance(text := delta.get(name), str) and text:
                self._say("reasoning", text, events)
                break
        for kind, text in _parts(delta.get("content")):
            self._say(kind, text, events)
        if text := word(delta.get("refusal")):
            self._refusal.append(text)
            self.says_more = True
        calls = delta.get("tool_calls")
        for call in cast("list[object]", calls) if isinstance(calls, list) else []:
            if isinstance(call, dict):
                self._call(cast("dict[str, Any]", call), events)
        if isinstance(legacy := delta.get("function_call"), dict):
            self._call({"index": 0, "function": legacy}, events)

    def _say(self, kind: str, text: str, events: list[ModelEvent]) -> None:
        if self._growing is None or self._growing[0] != kind:
            self._end_text(events)
            self._growing = kind, self._next_block()
            number = self._growing[1]
            events.append(TextStart(number) if kind == "text" else ReasoningStart(number))
        number = self._growing[1]
        is_text = kind == "text"
        events.append(TextDelta(number, text) if is_text else ReasoningDelta(number, text))

    def _call(self, delta: dict[str, Any], events: list[ModelEvent]) -> None:
        self._end_text(events)
        call, is_new, text = self._calls.take(delta, self._blocks)
        if is_new:
            self._blocks += 1
            events.append(ToolStart(call.block, call.id, call.name))
        if text:
            events.append(ToolDelta(call.block, text))

    def _end_text(self, events: list[ModelEvent]) -> None:
        if self._growing is not None:
            kind, number = self._growing
            events.append(TextEnd(number) if kind == "text" else ReasoningEnd(number))
            self._growing = None

    def _next_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _end(self) -> list[ModelEvent]:
        self.is_over = True
        if not self._has_begun:
            raise Unavailable(f"the model {self._model!r} ended its reply before it began")
        if self._refusal or self._reason == "content_filter":
            said = cut_text("".join(self._refusal), 200)
            raise Refused(f"the model {self._model!r} declined to answer{said and ': ' + said}")
        if self._reason in _FAULTS:
            raise Unavailable(f"the model {self._model!r} broke its reply off: {self._reason}")
        if self._reason == "length":
            self._calls.cut()
        events: list[ModelEvent] = []
        self._end_text(events)
        events += [ToolEnd(call.block, call.id, call.name, call.arguments) for call in self._calls]
        return [*events, StreamEnd(stop_reason=self._stop_reason(), usage=self.usage)]

    def _stop_reason(self) -> str:
        """Return why the reply ended, in Anthropic's words; its calls say more than its reason."""
        match self._reason:
            case "length":
                return "max_tokens"
            case None | "stop" | "tool_calls" | "function_call" | "end_turn":
                return "tool_use" if self._calls else "end_turn"
            case reason:
                return reason

    def _count(self, told: Mapping[str, Any]) -> None:
        read = whole_number(fields(told.get("prompt_tokens_details")).get("cached_tokens"))
        counts = {
            "asked": whole_number(told.get("prompt_tokens")),
            "written": whole_number(told.get("completion_tokens")),
            "read": whole_number(told.get("cached_tokens")) if read is None else read,
        }
        # What is told later is the whole so far; what is not told again stays.
        self._counts |= {name: count for name, count in counts.items() if count is not None}


def _first(choices: object) -> dict[str, Any] | None:
    """Return the first choice: whoever asks for several gets one."""
    if not isinstance(choices, list):
        return None
    for choice in cast("list[object]", choices):
        if isinstance(choice, dict):
            told = cast("dict[str, Any]", choice)
            if not told.get("index"):
                return told
    return None


def _parts(content: object) -> list[tuple[str, str]]:
    """Return kind and text of what a delta says: a string, or a list of parts."""
    if isinstance(content, str):
        return [("text", content)] if content else []
    found: list[tuple[str, str]] = []
    for part in cast("list[object]", content) if isinstance(content, list) else []:
        match part:
            case {"type": "text", "text": str(text)} if text:
                found.append(("text", text))
            case {"type": "thinking"}:
                thinking = cast("dict[str, object]", part).get("thinking")
                found += [("reasoning", text) for _, text in _parts(thinking)]
            case _:
                continue
    return found


def _object(value: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
