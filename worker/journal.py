"""The journal's pure half: the keys of units, and how a turn is written and read.

A turn's key is a hash of what the provider sees, in canonical form, so that a resumed loop meets
its recorded turns by what it asks and not by when. Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, cast

import orjson

from loops.events import Event, ModelEvent, ToolEnd
from loops.jsonable import jsonable
from loops.messages import Message
from loops.model import ModelRequest
from loops.redact import hide
from loops.wire import decode, encode

_DIGITS = re.compile(r"\d+")
_IDS = frozenset({"id", "tool_use_id", "call", "result"})
"""What no provider sees, or what is not the same in each pass."""

_DELTAS = frozenset({"text.delta", "reasoning.delta", "call.delta", "builtin.delta"})


def digest(kind: str, data: Mapping[str, Any]) -> bytes:
    """Return the eight bytes by which a yield is known again: by type and data, not by turn."""
    if kind in _DELTAS:
        told = f"{kind}\0{data['block']}\0{data['text']}".encode()
    else:
        told = kind.encode() + b"\0" + orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
    return blake2b(told, digest_size=8).digest()


def short_hash(*parts: Any) -> str:
    """Return a hash of JSON-able parts, of ten hexadecimal digits."""
    told = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return blake2b(told, digest_size=5).hexdigest()


def canonical(messages: Sequence[Message]) -> list[Any]:
    """Return what a provider sees, without ids, times and usage; results stand by call."""
    places: dict[str, list[int]] = {}
    plain: list[Any] = []
    for message in messages:
        blocks = [block.raw() for block in message.content]
        if message.role == "assistant":
            places = _places(blocks)
        rows = [_without_ids(block, places) for block in blocks]
        if message.role == "tool":
            rows.sort(key=lambda row: row["call"])
        plain.append([message.role, rows])
    return plain


def _places(blocks: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return where each id is called; providers repeat ids, so an id may have several places."""
    places: dict[str, list[int]] = {}
    for index, block in enumerate(block for block in blocks if block["type"] == "tool_use"):
        places.setdefault(block["id"], []).append(index)
    return places


def _without_ids(block: Mapping[str, Any], places: dict[str, list[int]]) -> dict[str, Any]:
    row = {name: value for name, value in block.items() if name not in _IDS}
    if block["type"] == "tool_result":
        called = places.get(block["tool_use_id"], [])
        row["call"] = called.pop(0) if called else -1
    return row


def request_hashes(request: ModelRequest) -> tuple[str, str]:
    """Return the hash of the request with the digits of its system prompt masked, and its own."""
    seen = [
        request.model,
        [[tool.name, tool.description, dict(tool.schema)] for tool in request.tools],
        canonical(request.messages),
        request.max_tokens,
        dict(request.params),
    ]
    # The history may be long: it is written out once.
    told = short_hash(seen)
    return short_hash(told, _DIGITS.sub("#", request.system)), short_hash(told, request.system)


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A turn as the journal holds it."""

    number: int
    """Which turn of its pass it was: old records are taken oldest first."""
    events: tuple[ModelEvent, ...]
    """The very events that the loop was given, before any were put together."""
    is_complete: bool
    """False for a turn that was cut: a call of it was started, its end was never recorded."""
    error: dict[str, Any] | None = None
    """The provider's failure that reached the loop."""


def encode_message(message: Message) -> bytes:
    """Write a message as a session keeps it; what JSON cannot carry is replaced."""
    raw = message.stored()
    try:
        return orjson.dumps(raw)
    except TypeError:
        return orjson.dumps(jsonable(raw))


class GrowingTurn:
    """The record of a turn that is being given; written from its rows, however often.

    The deltas of a block that follow each other share one row.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._rows: list[list[Any]] = []
        self._length = 0
        self._ends: dict[int, tuple[int, int]] = {}

    def add(self, event: Event) -> None:
        """Let the turn grow by an event."""
        kind, data = encode(event)
        rows = self._rows
        self._length += 1
        if kind not in _DELTAS:
            rows.append([kind, data])
        elif rows and rows[-1][0] == kind and rows[-1][1] == data["block"]:
            rows[-1][2].append(data["text"])
        else:
            rows.append([kind, data["block"], [data["text"]]])
        if isinstance(event, ToolEnd):
            self._ends[event.block] = len(rows), self._length

    def up_to(self, block: int) -> tuple[int, bytes]:
        """Return the turn up to the end of a call's block: its length in events, and its record."""
        rows, length = self._ends.get(block, (len(self._rows), self._length))
        return length, self._dump(self._rows[:rows], None)

    def whole(self, error: Mapping[str, Any] | None = None) -> bytes:
        """Return the record of the turn, with the failure that ended it."""
        return self._dump(self._rows, error)

    def _dump(self, rows: list[list[Any]], error: Mapping[str, Any] | None) -> bytes:
        return orjson.dumps({"n": self._number, "events": rows, "error": error})


def encode_turn(
    number: int, events: Iterable[Event], error: Mapping[str, Any] | None = None
) -> bytes:
    """Write a turn."""
    turn = GrowingTurn(number)
    for event in events:
        turn.add(event)
    return turn.whole(error)


def decode_turn(raw: bytes, *, is_complete: bool) -> RecordedTurn:
    """Read a turn."""
    stored = orjson.loads(raw)
    events: list[ModelEvent] = []
    for row in stored["events"]:
        if row[0] in _DELTAS:
            told = [{"block": row[1], "text": text} for text in row[2]]
        else:
            told = [row[1]]
        events += [cast("ModelEvent", decode(row[0], data)) for data in told]
    return RecordedTurn(stored["n"], tuple(events), is_complete, stored["error"])


class Journal:
    """The answered units of a run as a pass finds them, and which of them the pass has met."""

    def __init__(self, stored: Mapping[str, bytes]) -> None:
        self._units = dict(stored)
        self._counts: Counter[str] = Counter()
        self._turns = _recorded_turns(stored)
        self._used: set[str] = set()

    def unit(self, key: str) -> bytes | None:
        """Return the recorded answer of a unit, if there is one."""
        return self._units.get(key)

    def numbered(self, name: str) -> str:
        """Return the key of the next unit of this name: equal names are counted in a pass."""
        number = self._counts[name]
        self._counts[name] += 1
        return f"{name}:{number}"

    def turn_key(self, request: ModelRequest) -> tuple[str, bool]:
        """Return the key of the turn that a request asks for, and whether it is an exact match.

        Without one the oldest unused turn is taken whose request differs in the digits of its
        system prompt alone: a clock stands there.
        """
        masked, own = request_hashes(request)
        name = f"turn:{masked}" if own == masked else f"turn:{masked}{own}"
        key = self.numbered(name)
        while key in self._used:
            key = self.numbered(name)
        if key not in self._turns:
            for recorded in self._turns:
                if recorded.startswith(f"turn:{masked}") and recorded not in self._used:
                    self._used.add(recorded)
                    return recorded, False
        self._used.add(key)
        return key, True

    def turn(self, key: str) -> RecordedTurn | None:
        """Return a recorded turn, complete or cut."""
        return self._turns.get(key)

    def unmet_call(self, calls: Mapping[str, Mapping[str, bytes]]) -> dict[str, Any] | None:
        """Return a call that this pass has not come to, and that must not happen twice."""
        unmet = set(self.unmet_turns())
        for key, call in calls.items():
            if key.rpartition(".")[0] in unmet and call.get("again") != b"1":
                told: dict[str, Any] = orjson.loads(call["call"])
                hides = orjson.loads(call.get("hides", b"false"))
                return {**told, "arguments": hide(told["name"], told["arguments"], hides)}
        return None

    def unmet_turns(self) -> list[str]:
        """Return the recorded turns that this pass has not asked for, oldest first."""
        return [key for key in self._turns if key not in self._used]


def _recorded_turns(stored: Mapping[str, bytes]) -> dict[str, RecordedTurn]:
    turns: dict[str, RecordedTurn] = {}
    for key, raw in stored.items():
        if key.startswith("turn:"):
            turns[key] = decode_turn(raw, is_complete=True)
        elif key.startswith("part:turn:"):
            # "<length in events> <turn>"
            turns[key.removeprefix("part:")] = decode_turn(
                raw.partition(b" ")[2], is_complete=False
            )
    return dict(sorted(turns.items(), key=lambda each: each[1].number))
