"""The lines of a session's file, read from its end backwards, as far as somebody needs them.

A line is `{"i": index, "m": message}`, or `{"k": marker, "at": offset}` with the offset of the line
at which the marker's window begins. A line is what it says if it is whole, even where only the end
of the line is missing; anything else is damaged, and passed over. Going backwards the indexes fall:
an index that was seen already is damaged too.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from .stores import Entry, is_index

_FIRST_CHUNK = 1 << 13
"""How many bytes are read first; each chunk is twice as long as the one before."""

_LONGEST_CHUNK = 1 << 24


def message_lines(index: int, texts: Sequence[str]) -> bytes:
    """Return the lines of encoded messages, which take the places from `index` on."""
    lines = [f'{{"i":{place},"m":{text}}}\n' for place, text in enumerate(texts, index)]
    return "".join(lines).encode("ascii")


def marker_line(text: str, start: int) -> bytes:
    """Return the line of an encoded marker, whose window begins at the offset `start`."""
    return f'{{"k":{text},"at":{start}}}\n'.encode("ascii")


@dataclass(slots=True)
class Scan:
    """What was found on the way back from a file's end."""

    start: int
    """The offset of the earliest entry; without any, that of the file's end."""
    length: int = 0
    """How many messages the session has, for the last whole line says it."""
    marker: dict[str, Any] | None = None
    """The newest marker, if it was passed."""
    damaged: int = 0
    _backwards: list[Entry] = field(default_factory=list[Entry])
    _before: int | None = None

    @property
    def entries(self) -> list[Entry]:
        """The messages that were asked for, the earliest first."""
        return self._backwards[::-1]

    def take(self, entry: Entry, offset: int, first: int) -> bool:
        """Note an entry, and say whether it is the earliest that is needed."""
        if self._before is None:
            self.length = max(self.length, entry.index + 1)
        elif entry.index >= self._before:
            self.damaged += 1
            return False
        self._before = entry.index
        if entry.index >= first:
            self._backwards.append(entry)
            self.start = offset
        return entry.index <= first

    def pass_marker(self, marker: dict[str, Any]) -> bool:
        """Note a marker, and say whether it is the newest one."""
        first = marker["first_kept"]
        if self._before is None:
            # Messages may be damaged that it knew of: the next one must not come before its window.
            self.length = max(self.length, first)
        elif first > self._before:
            self.damaged += 1
            return False
        is_newest = self.marker is None
        if is_newest:
            self.marker = marker
        return is_newest


def scan(file: int, first: int | None = None) -> Scan:
    """Read back to the message `first`; by default, to the window of the newest marker.

    At least one message is read, if there is one, so that the length is known.
    """
    found, lines = Scan(os.fstat(file).st_size), _Lines(file)
    # Without a marker all is read: one may stand before the first message too.
    until = -1 if first is None else first
    for offset, text in lines:
        line = _parsed(text)
        if line is None:
            found.damaged += 1
        elif isinstance(line, Entry):
            if found.take(line, offset, until):
                break
        elif found.pass_marker(line.marker) and first is None:
            until = line.marker["first_kept"]
            lines.expect(line.at)
    return found


class _Lines:
    """The lines of a file that are not empty, with their offsets, the last one first."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._chunk = _FIRST_CHUNK
        self._unread = os.fstat(file).st_size

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        rest = b""
        while self._unread:
            size = min(self._chunk, _LONGEST_CHUNK, self._unread)
            self._chunk *= 2
            self._unread -= size
            read = os.pread(self._file, size, self._unread) + rest
            rest, *lines = read.split(b"\n")
            end = self._unread + len(read)
            for line in reversed(lines):
                end -= len(line)
                if line:
                    yield end, line
                end -= 1
        if rest:
            yield 0, rest

    def expect(self, start: object) -> None:
        """Read all from `start` on at once, when more is asked for; a wrong guess does no harm."""
        if is_index(start) and start < self._unread:
            self._chunk = self._unread - start


@dataclass(frozen=True, slots=True)
class _Marker:
    marker: dict[str, Any]
    at: object


def _parsed(text: bytes) -> Entry | _Marker | None:
    """Return what the line says; none if it is damaged."""
    try:
        line = json.loads(text.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict):
        return None
    said = cast("dict[str, Any]", line)
    index, message, marker = said.get("i"), said.get("m"), said.get("k")
    if is_index(index) and isinstance(message, dict):
        return Entry(index, cast("dict[str, Any]", message))
    if isinstance(marker, dict):
        kept = cast("dict[str, Any]", marker)
        return _Marker(kept, said.get("at")) if is_index(kept.get("first_kept")) else None
    return None
