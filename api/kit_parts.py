"""The loop kit's dialect: what a client of the kit is told of a run's events, and as which dicts.

`_TOLD` says what becomes of which event; of what stands in no table here, nothing is told. A step
is named by the call's own key, which no provider repeats. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from loops.approval import card_key
from worker.event_log import TERMINAL_EVENTS

from .frames import ERROR, GAP, NOTICES, SNAPSHOT

Part = dict[str, Any]
"""One dict of the dialect: its `type`, and what belongs to that."""

_CUSTOM = "custom."


@dataclass(frozen=True, slots=True)
class Told:
    """An event, or a notice of the stream, as its line says it."""

    type: str
    data: Mapping[str, Any]
    run: str = ""
    turn: int | None = None
    is_notice: bool = False
    """Whether the stream says it, and no log holds it."""

    @classmethod
    def of(cls, line: bytes) -> Told:
        """Read a frame's line."""
        whole = orjson.loads(line)
        # A loop may name an event like a notice; only what is in a log has a number.
        is_notice = whole["type"] in NOTICES and "seq" not in whole
        return cls(whole["type"], whole["data"], whole["run"], whole.get("turn"), is_notice)

    @property
    def is_last(self) -> bool:
        """Whether the client is told nothing after it."""
        return self.type in TERMINAL_EVENTS or (self.is_notice and self.type == ERROR)

    @property
    def place(self) -> str:
        """Which block of which turn it belongs to."""
        return f"{self.turn}.{self.data.get('block')}"


@dataclass(slots=True)
class _Open:
    """A call that is being written."""

    id: str
    is_shown: bool = False
    """Whether a piece of its arguments was told."""


@dataclass(slots=True)
class Telling:
    """Turns the events of one stream into parts, in their order."""

    _open: dict[str, _Open] = field(default_factory=dict[str, _Open])
    _asked: set[str] = field(default_factory=set[str])
    """The labels of hooks for which the loop itself has shown a card."""
    _has_failed: bool = False
    """Whether the loop itself has said that it fails."""

    def told(self, event: Told) -> list[Part]:
        """Return what the client is told of the event."""
        if event.is_notice:
            return [_NOTICES[event.type](event)]
        if event.type.startswith(_CUSTOM):
            part = _custom(event)
            label = part.get("label")
            if part.get("action") == "confirm" and isinstance(label, str):
                self._asked.add(label)
            self._has_failed = self._has_failed or "error_id" in part
            return [part]
        if event.type == "run.failed" and self._has_failed:
            return []
        if event.type == "hook.opened" and str(event.data.get("label")) in self._asked:
            return []
        if event.type in _WRITING:
            return _WRITING[event.type](self, event)
        tell = _TOLD.get(event.type)
        return [] if tell is None else [tell(event)]

    def call_started(self, event: Told) -> list[Part]:
        """Return the step of a call that the model begins to write."""
        self._open[event.place] = _Open(_id(event.data))
        return [_step(event.data)]

    def call_delta(self, event: Told) -> list[Part]:
        """Return a piece of a call's arguments; none where this stream has not seen it begin."""
        call = self._open.get(event.place)
        if call is None:
            return []
        call.is_shown = True
        return [{"type": "step_arg", "id": call.id, "delta": event.data.get("text", "")}]

    def call_finished(self, event: Told) -> list[Part]:
        """Return a call's arguments, where not all pieces of them were told."""
        call = self._open.pop(event.place, None)
        if call is not None and call.is_shown:
            return []
        return [{**_step(event.data), "args": event.data.get("arguments", "")}]


def _id(data: Mapping[str, Any]) -> str:
    return data.get("call") or data.get("id") or ""


def _step(data: Mapping[str, Any]) -> Part:
    return {"type": "step", "step": "", "tool_name": data.get("name", ""), "id": _id(data)}


def _custom(event: Told) -> Part:
    """Return the dict that the loop yielded; anything else becomes the value of one."""
    match event.data.get("value"):
        case {"type": str()} as value:
            return cast("Part", value)
        case value:
            return {**event.data, "type": event.type.removeprefix(_CUSTOM), "value": value}


def _text(event: Told) -> Part:
    return {"type": "text", "text": event.data.get("text", "")}


def _thinking(event: Told) -> Part:
    return {"type": "thinking", "thinking": event.data.get("text", "")}


def _result(event: Told) -> Part:
    return {"type": "step", "id": _id(event.data), "ok": not event.data.get("is_error")}


def _builtin_result(event: Told) -> Part:
    match event.data.get("content"):
        case {"content": {"type": str(kind)}}:
            is_error = kind.endswith("_error")
        case _:
            is_error = False
    return {"type": "step", "id": _id(event.data), "ok": not is_error}


def _hook(event: Told) -> Part:
    data = event.data
    part: Part = {"type": "ui"}
    match data.get("metadata"):
        case {"tool": tool, "kwargs": arguments}:
            label = data.get("label")
            part |= {"action": "confirm", "tool": tool, "args": arguments, "label": label}
            if isinstance(tool, str) and isinstance(arguments, dict):
                shown = cast("dict[str, Any]", arguments)
                part["key"] = card_key(tool, shown, data.get("call"))
        case about:
            asked = {"payload": data.get("payload"), "metadata": about}
            part |= {"action": "ask", "key": data.get("label"), **_without_none(asked)}
    return part | _without_none({"id": data.get("call"), "run": data.get("run")})


def _file(event: Told) -> Part:
    data = event.data
    kind, source = str(data.get("media_type", "")), str(data.get("data", ""))
    about = _without_none({"media_type": kind, "name": data.get("filename")})
    if "cut" in data:
        # What is left of it is no file any more; the number says how long it was.
        return {"type": "file", "src": "", **about, "cut": data["cut"]}
    if not source.startswith(("http://", "https://")):
        source = f"data:{kind};base64,{source}"
    if kind.startswith("image/"):
        return {"type": "image", "src": source, "alt": data.get("filename") or ""}
    return {"type": "file", "src": source, **about}


def _without_none(fields: Mapping[str, Any]) -> Part:
    return {name: value for name, value in fields.items() if value is not None}


def _reset(event: Told) -> Part:
    return {"type": "reset", "after": event.data.get("after")}


def _failed(event: Told) -> Part:
    # What exactly went wrong may name things of the inside; the run's record holds it.
    return _error("Something went wrong.", event.run)


def _cancelled(_: Told) -> Part:
    return {"type": "callout", "callout": "The run was cancelled.", "style": "warning"}


def _expired(_: Told) -> Part:
    text = "The run could not be started in time."
    return {"type": "callout", "callout": text, "style": "warning"}


def _lost(event: Told) -> Part:
    return _error("What comes next in this run cannot be read any more.", event.run)


def _error(text: str, run_id: str) -> Part:
    told = f"{text} Reference: {run_id}"
    return {"type": "callout", "callout": told, "style": "error", "error_id": run_id}


def _gap(event: Told) -> Part:
    return {"type": "snapshot", "missing": dict(event.data)}


def _snapshot(event: Told) -> Part:
    state: Mapping[str, Any] = event.data.get("state", {})
    placed = [*_blocks(state), *_others(state)]
    placed.sort(key=lambda each: each[0])
    parts = [part for _, part in placed]
    return {"type": "snapshot", "last_seq": event.data.get("last_seq"), "parts": parts}


def _blocks(state: Mapping[str, Any]) -> Iterator[tuple[int, Part]]:
    for turn in state.get("turns", ()):
        for block in turn["blocks"].values():
            for part in _block(block, state.get("calls", {})):
                yield block["seq"], part


def _block(block: Mapping[str, Any], calls: Mapping[str, Any]) -> Iterator[Part]:
    name = _TEXTS.get(block["type"])
    if name is not None:
        yield {"type": name, name: block.get("text", ""), **_length(block)}
        return
    if "arguments" in block or "content" not in block:
        yield {**_step(block), "args": block.get("arguments", block.get("text", ""))}
    if "content" in block:
        yield _builtin_result(Told("builtin.result", block))
    answer = calls.get(block.get("call", ""), {})
    if answer.get("state") == "finished":
        yield _result(Told("tool.finished", {**answer, "call": block["call"]}))


def _length(block: Mapping[str, Any]) -> Part:
    """Return how long the text was, where only its beginning is left."""
    return {"length": block["length"]} if "length" in block else {}


def _others(state: Mapping[str, Any]) -> Iterator[tuple[int, Part]]:
    telling = Telling()
    for one in state.get("custom", ()):
        for part in telling.told(Told(one["type"], one["data"])):
            yield one["seq"], part


_TEXTS = {"text": "text", "reasoning": "thinking"}

_NOTICES: dict[str, Callable[[Told], Part]] = {GAP: _gap, SNAPSHOT: _snapshot, ERROR: _lost}

_WRITING: dict[str, Callable[[Telling, Told], list[Part]]] = {
    "call.started": Telling.call_started,
    "call.delta": Telling.call_delta,
    "call.finished": Telling.call_finished,
    "builtin.started": Telling.call_started,
    "builtin.delta": Telling.call_delta,
    "builtin.finished": Telling.call_finished,
}
"""Events whose meaning hangs on those before them."""

_TOLD: dict[str, Callable[[Told], Part]] = {
    "text.delta": _text,
    "reasoning.delta": _thinking,
    "tool.finished": _result,
    "builtin.result": _builtin_result,
    "hook.opened": _hook,
    "file": _file,
    "turn.reset": _reset,
    "run.failed": _failed,
    "run.cancelled": _cancelled,
    "run.expired": _expired,
}
