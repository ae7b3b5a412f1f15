"""What a pass has still to append: its loop's yields, what the runtime says itself, hand-overs.

Yielding is publishing: what a loop yields is appended as yielded, in that order, once. A yield that
equals one which stands in the log, and which this pass has not met yet, is swallowed, once each; so
a loop that is called again from its beginning publishes nothing twice. Text deltas that follow each
other share an event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

from loops.events import Event, Ping
from loops.wire import RUNTIME_TYPES, encode, wire_type

from .journal import digest
from .wire import Part

EVENT_LIMIT = 256 * 1024
"""How long an event may be, in bytes; a longer one is cut, with its true length."""

_GROWING = frozenset({"text.delta", "reasoning.delta", "call.delta", "builtin.delta"})


@dataclass(slots=True)
class _Pending:
    type: str
    data: dict[str, Any]
    turn: int | None
    digests: list[bytes] = field(default_factory=list[bytes])
    pieces: list[str] = field(default_factory=list[str])
    opens: str | None = None

    def takes(self, other: _Pending) -> bool:
        """Say whether the other one continues this block."""
        return (
            self.type == other.type
            and self.type in _GROWING
            and self.turn == other.turn
            and self.data["block"] == other.data["block"]
        )

    def encoded(self) -> dict[str, Any]:
        data = {**self.data, "text": "".join(self.pieces)} if self.pieces else self.data
        event: dict[str, Any] = {"type": self.type}
        if self.turn is not None:
            event["turn"] = self.turn
        event["data"] = data
        return event


class Outbox:
    """What waits to be appended, in order."""

    def __init__(self, published: Counter[bytes]) -> None:
        self._published = published
        self._pending: list[_Pending] = []
        self._handed: list[str] = []
        self.size = 0
        """How much waits, in characters of text; enough to decide when to flush."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._pending and not self._handed

    def put_yield(self, event: Event) -> bool:
        """Take a loop's yield, and say whether there is something new to append.

        What the runtime publishes itself, and a ping, is not published.
        """
        if isinstance(event, Ping) or wire_type(event) in RUNTIME_TYPES:
            return False
        kind, data = encode(event)
        mark = digest(kind, data)
        if self._published[mark] > 0:
            self._published[mark] -= 1
            return False
        pending = _Pending(kind, data, event.turn, [mark])
        if kind in _GROWING:
            pending.pieces.append(data["text"])
        self._put(pending)
        return True

    def put(
        self, kind: str, data: dict[str, Any], *, turn: int | None = None, opens: str | None = None
    ) -> None:
        """Take an event of the runtime's own; `opens` is the key of a turn that it opens."""
        self._put(_Pending(kind, data, turn, opens=opens))

    def _put(self, pending: _Pending) -> None:
        self.size += len(pending.data.get("text", "")) + 32
        last = self._pending[-1] if self._pending else None
        if last is not None and last.pieces and last.takes(pending) and len(last.digests) < 4096:
            last.pieces += pending.pieces
            last.digests += pending.digests
        else:
            self._pending.append(pending)

    def put_handed(self, key: str) -> None:
        """Note that an answer from elsewhere was handed to the loop, after what it has yielded."""
        self._handed.append(key)

    def take(self, slot: int, messages: list[bytes]) -> list[Part]:
        """Return the arguments of a flush of all that waits, with the session's new messages."""
        pending, self._pending = self._pending, []
        handed, self._handed = self._handed, []
        self.size = 0
        opened = [f"{index} {one.opens}" for index, one in enumerate(pending) if one.opens]
        marks = [
            index.to_bytes(2) + mark for index, one in enumerate(pending) for mark in one.digests
        ]
        events = [_bounded(one.encoded()) for one in pending]
        return [
            len(events),
            b"[" + b",".join(events) + b"]",
            b"".join(marks),
            len(opened),
            *opened,
            len(handed),
            *handed,
            slot,
            len(messages),
            *messages,
        ]


def _bounded(event: dict[str, Any]) -> bytes:
    """Return the event as JSON; what is too long is cut with a marker and its true length."""
    encoded = orjson.dumps(event)
    if len(encoded) <= EVENT_LIMIT:
        return encoded
    data = event["data"]
    longest = max(data, key=lambda name: len(orjson.dumps(data[name])))
    text = data[longest] if isinstance(data[longest], str) else orjson.dumps(data[longest]).decode()
    # A quarter, since a character may take four bytes, or six when it is escaped.
    kept = text[: EVENT_LIMIT // 8]
    cut = {**data, longest: f"{kept}… [cut: {len(text)} characters]", "cut": len(text)}
    return orjson.dumps({**event, "data": cut})
