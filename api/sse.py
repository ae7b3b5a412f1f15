"""Server-sent events as bytes: writing frames, and reading them back whatever way they were cut.

Nothing here waits. A frame is `id`, `event` and one line of `data`, ended by an empty line. A line
break inside a name or an id would let text forge frames, so none ever gets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

HEARTBEAT = b":\n"
"""A comment that keeps proxies from closing a quiet connection.

It ends in a single line break: at least one client takes an empty line after a comment for an event
without data, once it has seen an id.
"""

RETRY = b"retry: 1000\n"
"""How long a browser waits before it connects again; becomes part of the frame that follows."""

MEDIA_TYPE = "text/event-stream"

BOM = b"\xef\xbb\xbf"
"""A mark that a stream may begin with, and that means nothing."""

_BREAKS = re.compile(r"[\r\n\0]")
_LINE_END = re.compile(rb"\r\n|\n|\r")


def frame(position: bytes, event: str, line: bytes) -> bytes:
    """Return one frame whose data is the line.

    Raises:
        ValueError: When the line is more than one, or the position is none.
    """
    if b"\n" in line or b"\r" in line or not _is_position(position):
        raise ValueError(f"a frame holds one line each of id and data, not {position!r}: {line!r}")
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (position, _name(event), line)


def position_only(position: bytes) -> bytes:
    """Return a frame that moves a reader's position on and shows it nothing."""
    if not _is_position(position):
        raise ValueError(f"a frame's id is digits and dots, not {position!r}")
    return b"id: %b\n\n" % position


def _is_position(position: bytes) -> bool:
    return position.replace(b".", b"").isdigit()


@lru_cache(maxsize=1024)
def _name(event: str) -> bytes:
    return _BREAKS.sub("\N{REPLACEMENT CHARACTER}", event).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Message:
    """One event as a reader gets it."""

    event: str
    """The event's name, `message` when the frame named none."""

    data: str
    last_id: str
    """The position after this event: what to send as `Last-Event-ID` to go on from here."""


class Reader:
    """An incremental reader of an event stream, by the rules that browsers follow.

    Bytes go in as they come, cut anywhere; an event comes out when its empty line was seen. What
    stands after the last empty line when the stream breaks off is no event.
    """

    def __init__(self) -> None:
        self.last_id = ""
        """The position to resume from."""

        self.retry: int | None = None
        """The server's wish for the pause before a new connection, in ms."""

        self._rest = b""
        self._is_first = True
        self._event = ""
        self._data: list[str] = []
        self._next_id = ""

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Take the next bytes, and yield the events that they complete."""
        self._rest += chunk
        if self._is_first and (len(self._rest) >= 3 or not BOM.startswith(self._rest)):
            self._rest = self._rest.removeprefix(BOM)
            self._is_first = False
        for line in self._lines():
            message = self._take(line.decode("utf-8", "replace"))
            if message is not None:
                yield message

    def _lines(self) -> Iterator[bytes]:
        start = 0
        for end in _LINE_END.finditer(self._rest):
            if end.group() == b"\r" and end.end() == len(self._rest):
                break  # its line feed may still be under way
            yield self._rest[start : end.start()]
            start = end.end()
        self._rest = self._rest[start:]

    def _take(self, line: str) -> Message | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._next_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value)
        return None

    def _dispatch(self) -> Message | None:
        self.last_id = self._next_id
        event, data = self._event or "message", self._data
        self._event, self._data = "", []
        return Message(event, "\n".join(data), self.last_id) if data else None
