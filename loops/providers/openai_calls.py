"""The calls of a Chat Completions reply, put together from what servers send; pure.

The protocol marks a call by its index, and many servers get that wrong. A new id begins a new call,
whatever its index; else the index tells; else it is the call that grew last. Two calls are never
put into one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import orjson


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
        told = delta.get("function")
        function: dict[str, Any] = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        call_id, index = _text(delta.get("id")), _number(delta.get("index"))
        name, text = _text(function.get("name")), _arguments(function.get("arguments"))
        call = self._call_of(call_id, index, name)
        is_new = call is None
        if call is None:
            call = OpenCall(block, index, call_id)
            self._calls.append(call)
        self._last = call
        call.id = call.id or call_id
        if name and name != call.name and not call.pieces:
            call.name += name
        if text:
            call.pieces.append(text)
        return call, is_new, text

    def _call_of(self, call_id: str, index: int | None, name: str) -> OpenCall | None:
        if call_id:
            known = next((each for each in self._calls if each.id == call_id), None)
            return known or self._unnamed(index)
        if index is not None:
            same = [each for each in self._calls if each.index == index]
            return same[-1] if same else None
        last = self._last
        is_next = last is not None and bool(name) and _is_object(last.text)
        return None if is_next else last

    def _unnamed(self, index: int | None) -> OpenCall | None:
        """Return a call that has waited for its id: ids may come late."""
        last = self._last
        is_it = last is not None and not last.id and last.index == index
        return last if is_it else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def _arguments(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
