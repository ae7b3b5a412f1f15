"""The calls of a Chat Completions reply, put together from what servers send; pure.

The protocol marks a call by its index, and many servers get that wrong. A new id begins a new call,
whatever its index; else the index tells; else it is the call that grew last. Two calls are never
put into one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from .told import fields, word


@dataclass(slots=True)
class OpenCall:
    """A call that is being written."""

    block: int
    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)

    @property
    def arguments(self) -> str:
        """All of the arguments, as a JSON object where they are one in any disguise."""
        text = self.text.strip()
        if not text:
            return "{}"
        try:
            told = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
        if told is None:
            return "{}"
        # Some servers write the object as a string of JSON.
        return told if isinstance(told, str) and _is_object(told) else text


class Calls:
    """The calls of one reply, in the order in which they begin."""

    def __init__(self) -> None:
        self._calls: list[OpenCall] = []
        self._last: OpenCall | None = None

    def __iter__(self) -> Iterator[OpenCall]:
        return iter(self._calls)

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, delta: dict[str, Any], block: int) -> tuple[OpenCall, bool, str]:
        """Return the call that the delta is of, whether it is a new one, and its new text.

        `block` is the number that a new call gets.
        """
        function = fields(delta.get("function"))
        said = _Delta(
            word(delta.get("id")),
            _number(delta.get("index")),
            word(function.get("name")),
            _arguments(function.get("arguments")),
        )
        call = self._call_of(said)
        is_new = call is None
        if call is None:
            call = OpenCall(block, said.index, said.id)
            self._calls.append(call)
        self._last = call
        call.id = call.id or said.id
        if said.name and said.name != call.name and not (call.pieces and call.name):
            call.name += said.name
        if said.text:
            call.pieces.append(said.text)
        return call, is_new, said.text

    def cut(self) -> None:
        """Mark the last call as cut, if it has no argument that would show it."""
        if self._calls and not self._calls[-1].text.strip():
            self._calls[-1].pieces.append("{")

    def _call_of(self, delta: "_Delta") -> OpenCall | None:
        """Return the call that the delta is of; None for a new one."""
        if delta.id:
            for each in self._calls:
                if each.id == delta.id and delta.index in {None, each.index}:
                    return each
            # An id may come late.
            found = [each for each in self._calls if not each.id and each.index == delta.index]
        elif delta.index is not None:
            found = [each for each in self._calls if each.index == delta.index][-1:]
        else:
            found = [] if self._last is None else [self._last]
        return found[0] if found and not delta.begins_after(found[0]) else None


@dataclass(frozen=True, slots=True)
class _Delta:
    """What a delta of a call says."""

    id: str
    index: int | None
    name: str
    text: str

    def begins_after(self, call: OpenCall) -> bool:
        """Say whether it is the beginning of another call: that one is whole, and it has a name."""
        is_other = bool(self.text) or self.name != call.name
        return bool(self.name and call.name) and _is_object(call.text) and is_other


def _number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    return value if isinstance(value, int) else None


def _arguments(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # It is nested deeper than anybody reads: no call that could be carried out.
        return "{"


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
