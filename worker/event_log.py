"""The event log: one Redis stream a run, in which events are numbered 1, 2, 3 … without gaps.

An entry carries one flush. Its id is `<seq of its last event>-0`, its fields are `attempt`, `time`
(ms, by Redis' clock) and `events`, a JSON array of `{"type", "turn"?, "data"}`; so the first
event's seq is the id's number, less the count, plus 1. Each entry is published on the channel of
the stream's name as `<first> <last> <attempt> <time> <events>`, above 64 KB as `<first> <last>`.
Nothing in a log is ever rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import orjson

from .keys import Keys, RunKeys
from .link import Link
from .run_record import TERMINAL

TERMINAL_EVENTS = frozenset(f"run.{status}" for status in TERMINAL)
"""The types of which each log has exactly one, as its last event."""


class UnreadableLog(ValueError):  # noqa: N818 - named as those of the tree are
    """What stands in a log, or came on its channel, is no event."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event as it stands in the log."""

    seq: int
    type: str
    turn: int | None
    attempt: int
    time: int
    """Milliseconds since the epoch, by Redis' clock."""
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a log: one flush."""

    last: int
    """The seq of its last event."""
    events: tuple[LogEvent, ...]
    size: int
    """Its bytes."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fold of the events that were cut from a log's head."""

    seq: int
    """The last event that it stands for."""
    state: dict[str, Any]


class EventLog:
    """The reading side of the logs."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link = link
        self._keys = keys

    async def read(self, run: RunKeys, *, after: int = 0, limit: int = 1000) -> list[LogEvent]:
        """Return the events past `after`, in order, from at most `limit` entries.

        The first one's seq is above `after + 1` where the log's head was cut: the reader then owes
        its client the snapshot, never silence.

        Raises:
            UnreadableLog: When something else than events stands there.
        """
        entries = await self.entries(run, after=after, limit=limit)
        return [event for entry in entries for event in entry.events if event.seq > after]

    async def entries(self, run: RunKeys, *, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Return the entries that hold events past `after`, in order, whole.

        Raises:
            UnreadableLog: When something else than events stands there.
        """
        found: list[tuple[bytes, list[bytes]]] = await self._link.command(
            "XRANGE", run.log, f"({after}-0", "+", "COUNT", limit
        )
        return [_decode_entry(entry_id, fields) for entry_id, fields in found]

    async def last_seqs(self, runs: Sequence[RunKeys]) -> list[int | None]:
        """Return each run's newest seq, or None where there is no such run, in one round trip."""
        seqs = await self._link.all(("HGET", run.record, "last_seq") for run in runs)
        return [None if seq is None else int(seq) for seq in seqs]

    async def snapshot(self, run: RunKeys) -> Snapshot | None:
        """Return what stands for the events that were cut, if any were."""
        stored: bytes | None = await self._link.command("GET", run.snapshot)
        if stored is None:
            return None
        state = orjson.loads(stored)
        return Snapshot(state.pop("seq"), state)


def decode_message(raw: bytes) -> tuple[int, int, list[LogEvent] | None]:
    """Read a channel's message: first and last seq, and the events unless only those were sent.

    Raises:
        UnreadableLog: When it is no such message.
    """
    try:
        first, last, *rest = raw.split(b" ", 4)
        if not rest:
            return int(first), int(last), None
        attempt, time, events = rest
        numbered = _numbered(int(first), int(attempt), int(time), orjson.loads(events))
        return int(first), int(last), numbered
    except _WRONG as error:
        raise UnreadableLog(f"the message {raw[:100]!r} is not one of a log") from error


def render(event: LogEvent, *, run_id: str, session_id: str) -> bytes:
    """Return the event's public form: one line of JSON."""
    wire: dict[str, Any] = {
        "seq": event.seq,
        "type": event.type,
        "run": run_id,
        "session": session_id,
        "attempt": event.attempt,
    }
    if event.turn is not None:
        wire["turn"] = event.turn
    moment = datetime.fromtimestamp(event.time / 1000, UTC)
    wire["time"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    wire["data"] = event.data
    return orjson.dumps(wire)


_WRONG = (ValueError, KeyError, TypeError, AttributeError)
"""What comes of reading as events what is something else."""


def _decode_entry(entry_id: bytes, flat: Sequence[bytes]) -> Entry:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    last = int(entry_id.partition(b"-")[0])
    try:
        raw = orjson.loads(fields[b"events"])
        first = last - len(raw) + 1
        events = _numbered(first, int(fields[b"attempt"]), int(fields[b"time"]), raw)
    except _WRONG as error:
        raise UnreadableLog(f"the entry {entry_id!r} holds no events") from error
    return Entry(last, tuple(events), len(fields[b"events"]))


def _numbered(
    first: int, attempt: int, time: int, events: Sequence[dict[str, Any]]
) -> list[LogEvent]:
    return [_numbered_event(seq, attempt, time, event) for seq, event in enumerate(events, first)]


def _numbered_event(seq: int, attempt: int, time: int, event: dict[str, Any]) -> LogEvent:
    kind, content = event["type"], event["data"]
    if not isinstance(kind, str) or not isinstance(content, dict):
        raise TypeError(f"event {seq} has no type or no data")
    return LogEvent(seq, kind, event.get("turn"), attempt, time, cast(dict[str, Any], content))
