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

DIGESTS = 4096
"""How many yields may share an event."""

PIECE = EVENT_LIMIT // 8
"""How many characters of text an event takes, whatever their length: text is told in further
events, never cut. A character may take four bytes, or six when it is escaped."""

_GROWING = frozenset({"text.delta", "reasoning.delta", "call.delta", "builtin.delta"})


@dataclass(slots=True)
class _Pending:
    type: str
    data: dict[str, Any]
    turn: int | None
    digests: list[bytes] = field(default_factory=list[bytes])
    pieces: list[str] = field(default_factory=list[str])
    length: int = 0
    """About how long it is, in characters."""
    opens: str | None = None

    def takes(self, other: _Pending) -> bool:
        """Say whether the other one continues this block."""
        return (
            self.type == other.type
            and self.type in _GROWING
            and self.turn == other.turn
            and self.data["block"] == other.data["block"]
            and self.length + other.length <= PIECE
            and len(self.digests) < DIGESTS
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
        """About how much waits, in characters, an event counting 32 at least."""

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
        return self.put_once(kind, data, turn=event.turn)

    def put_once(self, kind: str, data: dict[str, Any], *, turn: int | None = None) -> bool:
        """Take an event, unless an equal one stands in the log that this pass has not met yet.

        Says whether there is something new to append.
        """
        mark = digest(kind, data)
        if self._published[mark] > 0:
            self._published[mark] -= 1
            return False
        pending = _Pending(kind, data, turn, [mark])
        if kind in _GROWING:
            self._put_text(pending, data["text"])
        else:
            pending.length = len(orjson.dumps(data))
            self._put(pending)
        return True

    def _put_text(self, pending: _Pending, text: str) -> None:
        pending.pieces, pending.length = [text[:PIECE]], min(len(text), PIECE)
        self._put(pending)
        for at in range(PIECE, len(text), PIECE):
            more = text[at : at + PIECE]
            self._put(_Pending(pending.type, pending.data, pending.turn, [], [more], len(more)))

    def put(
        self, kind: str, data: dict[str, Any], *, turn: int | None = None, opens: str | None = None
    ) -> None:
        """Take an event of the runtime's own; `opens` is the key of a turn that it opens."""
        self._put(_Pending(kind, data, turn, opens=opens))

    def _put(self, pending: _Pending) -> None:
        self.size += pending.length + 32
        last = self._pending[-1] if self._pending else None
        if last is not None and last.takes(pending):
            last.pieces += pending.pieces
            last.digests += pending.digests
            last.length += pending.length
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
        events = [bounded(one.encoded()) for one in pending]
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


def bounded(event: dict[str, Any]) -> bytes:
    """Return the event as JSON; what is too long is cut with a marker and its true length."""
    encoded = orjson.dumps(event)
    if len(encoded) <= EVENT_LIMIT:
        return encoded
    return bounded(_cut(event))


def _cut(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event with its longest part cut."""
    data = event["data"]
    longest = max(data, key=lambda name: len(orjson.dumps(data[name])))
    text = data[longest] if isinstance(data[longest], str) else orjson.dumps(data[longest]).decode()
    kept = text[:PIECE]
    cut = {**data, longest: f"{kept}… [cut: {len(text)} characters]", "cut": len(text)}
    return {**event, "data": cut}
