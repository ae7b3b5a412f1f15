"""Events as their readers get them: rendered once, shared by all who read the same run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import orjson

from worker.event_log import TERMINAL_EVENTS, LogEvent, render
from worker.keys import RunKeys

from . import sse

GAP = "stream.gap"
SNAPSHOT = "state.snapshot"
ERROR = "error"
NOTICES = frozenset({GAP, SNAPSHOT, ERROR})
"""Types that no log holds: what a stream says about itself. They have no `seq`."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event, or one notice of the stream, ready to be sent."""

    seq: int
    """The last event that it stands for."""

    position: bytes
    """What a reader shows to go on after it."""

    type: str
    line: bytes
    """Its JSON, on one line."""

    @property
    def is_final(self) -> bool:
        """Whether it is the run's last event."""
        return self.type in TERMINAL_EVENTS


@dataclass(frozen=True)
class Batch:
    """Frames that go out together; each of its forms is made once, however many read it."""

    frames: tuple[Frame, ...]

    @cached_property
    def sse(self) -> bytes:
        """The frames as server-sent events."""
        return b"".join([sse.frame(each.position, each.type, each.line) for each in self.frames])

    @cached_property
    def ndjson(self) -> bytes:
        """The frames as lines of JSON."""
        return b"".join([each.line + b"\n" for each in self.frames])

    @cached_property
    def size(self) -> int:
        """How many bytes of JSON it holds."""
        return sum(len(each.line) for each in self.frames)

    @property
    def first(self) -> int:
        """The seq of its first event."""
        return self.frames[0].seq

    @property
    def last(self) -> int:
        """The seq of its last event."""
        return self.frames[-1].seq

    @property
    def is_final(self) -> bool:
        """Whether the run's last event is in it."""
        return self.frames[-1].is_final

    def after(self, cursor: int) -> Batch:
        """Return what comes after the cursor: the batch itself when all of it does."""
        if self.first > cursor:
            return self
        return Batch(tuple(each for each in self.frames if each.seq > cursor))

    def only(self, types: frozenset[str] | None) -> Batch:
        """Return what a reader of these types sees: those, notices, and the run's end."""
        if types is None:
            return self
        shown = types | NOTICES | TERMINAL_EVENTS
        return Batch(tuple(each for each in self.frames if each.type in shown))

    def within_session(self, ordinal: int) -> Batch:
        """Return the batch with the positions of a session's stream."""
        return Batch(
            tuple(
                replace(each, position=b"%d.%b" % (ordinal, each.position)) for each in self.frames
            )
        )


@dataclass(frozen=True, slots=True)
class Source:
    """A run whose events are read: where its log is, and whose events they are."""

    keys: RunKeys
    run_id: str
    session_id: str

    def batch(self, events: Sequence[LogEvent]) -> Batch:
        """Render events that follow each other."""
        return Batch(tuple(self._frame(event) for event in events))

    def _frame(self, event: LogEvent) -> Frame:
        line = render(event, run_id=self.run_id, session_id=self.session_id)
        return Frame(event.seq, b"%d" % event.seq, event.type, line)

    def notices(self, seq: int, contents: Iterable[tuple[str, dict[str, Any]]]) -> Batch:
        """Render notices that stand for all events up to `seq`."""
        return Batch(tuple(self._notice(seq, kind, content) for kind, content in contents))

    def _notice(self, seq: int, kind: str, content: dict[str, Any]) -> Frame:
        fields = {"type": kind, "run": self.run_id, "session": self.session_id, "data": content}
        return Frame(seq, b"%d" % seq, kind, orjson.dumps(fields))
